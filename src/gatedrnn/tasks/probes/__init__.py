"""Small tasks that are drawn at random, and each ask one thing of a cell."""
