"""Texts with a tag for each word."""
