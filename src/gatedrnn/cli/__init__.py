"""The commands: each parses its flags into settings, calls one function, and prints."""
