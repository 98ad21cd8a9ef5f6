"""Tables of users: files and frames as one Arrow table, what its columns mean, and the grid of its times."""
