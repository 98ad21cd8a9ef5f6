"""Handwritten digits, row by row or pixel by pixel."""
