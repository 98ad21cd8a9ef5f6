"""Cells over time, with the signature of `torch.nn.LSTM`."""

from gatedrnn.layers.block_layer import BlockScanLayer
from gatedrnn.layers.interchange import from_min_gru_pytorch
from gatedrnn.layers.loop_layer import LoopLayer
from gatedrnn.layers.public import (
    GRU,
    LSTM,
    MGU,
    BlockOrthogonalRNN,
    InputGatedGRU,
    InputGatedLSTM,
    MinGRU,
    MinLSTM,
    NoOutputGateLSTM,
    NoResetGateGRU,
    NormalizedLSTM,
    PeepholeLSTM,
    SignedMinGRU,
)
from gatedrnn.layers.regularise import Noise
from gatedrnn.layers.scan_layer import PositiveScanLayer, ScanLayer
from gatedrnn.layers.single_step import (
    BlockOrthogonalRNNCell,
    GRUCell,
    InputGatedGRUCell,
    InputGatedLSTMCell,
    LSTMCell,
    MGUCell,
    MinGRUCell,
    MinLSTMCell,
    NoOutputGateLSTMCell,
    NoResetGateGRUCell,
    NormalizedLSTMCell,
    PeepholeLSTMCell,
    SignedMinGRUCell,
    SingleStep,
)
from gatedrnn.layers.stack import Path, RecurrentLayer

__all__ = [
    "GRU", "LSTM", "MGU", "BlockOrthogonalRNN", "BlockOrthogonalRNNCell", "BlockScanLayer",
    "GRUCell", "InputGatedGRU", "InputGatedGRUCell", "InputGatedLSTM", "InputGatedLSTMCell", "LSTMCell", "LoopLayer",
    "MGUCell", "MinGRU", "MinGRUCell", "MinLSTM", "MinLSTMCell", "NoOutputGateLSTM", "NoOutputGateLSTMCell",
    "NoResetGateGRU", "NoResetGateGRUCell", "Noise", "NormalizedLSTM", "NormalizedLSTMCell", "Path", "PeepholeLSTM",
    "PeepholeLSTMCell", "PositiveScanLayer", "RecurrentLayer", "ScanLayer", "SignedMinGRU", "SignedMinGRUCell",
    "SingleStep", "from_min_gru_pytorch",
]  # fmt: skip
