"""Cells whose gates read the input alone, and cells that read their states through diagonal weights."""
