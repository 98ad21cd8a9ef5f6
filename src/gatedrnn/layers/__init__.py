"""Cells over time, with the signature of `torch.nn.LSTM`."""

from gatedrnn.layers.public import GRU, LAYERS, LSTM, MinGRU, MinLSTM
from gatedrnn.layers.stack import RecurrentLayer, ScanLayer

__all__ = ["GRU", "LAYERS", "LSTM", "MinGRU", "MinLSTM", "RecurrentLayer", "ScanLayer"]
