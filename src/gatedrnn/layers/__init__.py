"""A cell over time and one step of it, with the signatures of `torch.nn.LSTM` and `torch.nn.LSTMCell`."""

from gatedrnn.kinds.kind import Path
from gatedrnn.layers.dropout import DropoutMasks
from gatedrnn.layers.layer import RecurrentLayer
from gatedrnn.layers.single import SingleStep
from gatedrnn.layers.wrappers import Wrapper

__all__ = ["DropoutMasks", "Path", "RecurrentLayer", "SingleStep", "Wrapper"]
