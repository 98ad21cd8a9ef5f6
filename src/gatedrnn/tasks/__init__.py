"""A package for each task: how its data are read, its model, its loss, its scores, and what it shows."""
