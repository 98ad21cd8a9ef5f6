"""The law that every execution mode of a cell gives the same values, as a command."""
