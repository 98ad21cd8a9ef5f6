"""Gated recurrent networks, from the LSTM of 1997 to the minLSTM and minGRU of 2024, shaped like `torch.nn.LSTM`."""

from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers import (
    GRU,
    LSTM,
    MGU,
    BlockOrthogonalRNN,
    BlockOrthogonalRNNCell,
    GRUCell,
    InputGatedGRU,
    InputGatedGRUCell,
    InputGatedLSTM,
    InputGatedLSTMCell,
    LoopLayer,
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
    PeepholeLSTM,
    PeepholeLSTMCell,
    ScanLayer,
    SignedMinGRU,
    SignedMinGRUCell,
    from_min_gru_pytorch,
)
from gatedrnn.ops import choose_backend, linear_scan
from gatedrnn.registry import register

__version__ = "0.1.0"

__all__ = [
    "GRU", "LSTM", "MGU", "BackendUnavailable", "BlockOrthogonalRNN", "BlockOrthogonalRNNCell", "GRUCell",
    "InputGatedGRU", "InputGatedGRUCell", "InputGatedLSTM", "InputGatedLSTMCell", "LSTMCell", "LoopLayer", "MGUCell",
    "MinGRU", "MinGRUCell", "MinLSTM", "MinLSTMCell", "NoOutputGateLSTM", "NoOutputGateLSTMCell", "NoResetGateGRU",
    "NoResetGateGRUCell", "NormalizedLSTM", "NormalizedLSTMCell", "PeepholeLSTM", "PeepholeLSTMCell", "ScanLayer",
    "SignedMinGRU", "SignedMinGRUCell", "choose_backend", "from_min_gru_pytorch", "linear_scan", "register",
]  # fmt: skip

register(LSTM, single_step=LSTMCell)
register(PeepholeLSTM, single_step=PeepholeLSTMCell)
register(NoOutputGateLSTM, single_step=NoOutputGateLSTMCell)
register(InputGatedLSTM, single_step=InputGatedLSTMCell)
register(NormalizedLSTM, single_step=NormalizedLSTMCell)
register(MinLSTM, single_step=MinLSTMCell)
register(GRU, single_step=GRUCell)
register(MGU, single_step=MGUCell)
register(NoResetGateGRU, single_step=NoResetGateGRUCell)
register(InputGatedGRU, single_step=InputGatedGRUCell)
register(MinGRU, single_step=MinGRUCell)
register(SignedMinGRU, single_step=SignedMinGRUCell)
register(BlockOrthogonalRNN, single_step=BlockOrthogonalRNNCell)
