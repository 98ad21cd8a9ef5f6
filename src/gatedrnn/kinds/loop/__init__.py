"""Cells whose gates read the state through a matrix."""
