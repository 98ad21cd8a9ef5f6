"""Cells that mix their channels in small blocks."""
