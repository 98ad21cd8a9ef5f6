"""A cell over time and one step of it, with the signatures of `torch.nn.LSTM` and `torch.nn.LSTMCell`."""

from gatedrnn.layers.documentation import documented
from gatedrnn.layers.dropout import DropoutMasks
from gatedrnn.layers.layer import RecurrentLayer
from gatedrnn.layers.runners import Path
from gatedrnn.layers.single_step import SingleStep

__all__ = ["DropoutMasks", "Path", "RecurrentLayer", "SingleStep", "documented"]
