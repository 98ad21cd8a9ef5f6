"""Cells that torch has a fused kernel for: its LSTM and GRU."""
