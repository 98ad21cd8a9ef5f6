"""The check that every execution mode of a cell gives the same values."""
