"""The law that every way of running a cell gives the same numbers, as a command."""
