"""Gated recurrent networks, from the LSTM of 1997 to the minLSTM and minGRU of 2024, shaped like `torch.nn.LSTM`."""

from gatedrnn.cells import (
    CIFG,
    GRU,
    GRUD,
    HGRN,
    JANET,
    LSTM,
    MGU,
    RGLRU,
    SLSTM,
    SRU,
    BlockOrthogonalRNN,
    BlockOrthogonalRNNCell,
    CIFGCell,
    GRUCell,
    GRUDCell,
    HGRNCell,
    IndRNN,
    IndRNNCell,
    InputGatedGRU,
    InputGatedGRUCell,
    InputGatedLSTM,
    InputGatedLSTMCell,
    JANETCell,
    LSTMCell,
    MGUCell,
    MinGRU,
    MinGRUCell,
    MinLSTM,
    MinLSTMCell,
    NoOutputGateLSTM,
    NoOutputGateLSTMCell,
    NoResetGateGRU,
    NoResetGateGRUCell,
    NormalizedLSTM,
    NormalizedLSTMCell,
    ParaGRU,
    ParaGRUCell,
    ParaLSTM,
    ParaLSTMCell,
    PeepholeLSTM,
    PeepholeLSTMCell,
    RGLRUCell,
    SignedMinGRU,
    SignedMinGRUCell,
    SLSTMCell,
    SRUCell,
    from_min_gru_pytorch,
)
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers import RecurrentLayer
from gatedrnn.ops import choose_backend, linear_scan
from gatedrnn.registry import register

__version__ = "0.1.0"

__all__ = [
    "CIFG", "GRU", "GRUD", "HGRN", "JANET", "LSTM", "MGU", "RGLRU", "SLSTM", "SRU", "BackendUnavailable",
    "BlockOrthogonalRNN", "BlockOrthogonalRNNCell", "CIFGCell", "GRUCell", "GRUDCell", "HGRNCell", "IndRNN",
    "IndRNNCell", "InputGatedGRU", "InputGatedGRUCell", "InputGatedLSTM", "InputGatedLSTMCell", "JANETCell",
    "LSTMCell", "MGUCell", "MinGRU", "MinGRUCell", "MinLSTM", "MinLSTMCell", "NoOutputGateLSTM",
    "NoOutputGateLSTMCell", "NoResetGateGRU", "NoResetGateGRUCell", "NormalizedLSTM", "NormalizedLSTMCell",
    "ParaGRU", "ParaGRUCell", "ParaLSTM", "ParaLSTMCell", "PeepholeLSTM", "PeepholeLSTMCell", "RGLRUCell",
    "RecurrentLayer", "SLSTMCell", "SRUCell", "SignedMinGRU", "SignedMinGRUCell", "choose_backend",
    "from_min_gru_pytorch", "linear_scan", "register",
]  # fmt: skip
