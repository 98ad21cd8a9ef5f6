"""Gated recurrent networks, from the LSTM of 1997 to the minLSTM and minGRU of 2024, shaped like `torch.nn.LSTM`."""

from gatedrnn.layers import GRU, LSTM, MinGRU, MinLSTM, ScanLayer
from gatedrnn.scan import BackendUnavailable, choose_backend, linear_scan

__version__ = "0.1.0"

__all__ = ["GRU", "LSTM", "BackendUnavailable", "MinGRU", "MinLSTM", "ScanLayer", "choose_backend", "linear_scan"]
