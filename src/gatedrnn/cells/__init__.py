"""The equations, one file a paper."""

from gatedrnn.cells.base import Cell, LoopCell, ScanCell
from gatedrnn.cells.gru import GRUEquations
from gatedrnn.cells.lstm import LSTMEquations
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.cells.minlstm import MinLSTMEquations

__all__ = ["Cell", "GRUEquations", "LSTMEquations", "LoopCell", "MinGRUEquations", "MinLSTMEquations", "ScanCell"]
