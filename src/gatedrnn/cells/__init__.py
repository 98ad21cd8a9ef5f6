"""The equations, one file a paper."""

from gatedrnn.cells.block_orthogonal import BlockOrthogonalEquations
from gatedrnn.cells.gru import GRUEquations
from gatedrnn.cells.gru_ladder import InputGatedGRUEquations, NoResetGateGRUEquations
from gatedrnn.cells.lstm import LSTMEquations
from gatedrnn.cells.lstm_ladder import InputGatedLSTMEquations, NoOutputGateLSTMEquations, NormalizedLSTMEquations
from gatedrnn.cells.mgu import MGUEquations
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.cells.minlstm import MinLSTMEquations
from gatedrnn.cells.peephole_lstm import PeepholeLSTMEquations
from gatedrnn.cells.signed_mingru import SignedMinGRUEquations

__all__ = [
    "BlockOrthogonalEquations", "GRUEquations", "InputGatedGRUEquations",
    "InputGatedLSTMEquations", "LSTMEquations", "MGUEquations", "MinGRUEquations", "MinLSTMEquations",
    "NoOutputGateLSTMEquations", "NoResetGateGRUEquations", "NormalizedLSTMEquations", "PeepholeLSTMEquations",
    "SignedMinGRUEquations", 
]  # fmt: skip
