"""The cells, one file each: equations, layer, single-step module, kernel record, registration."""

# isort: skip_file
# A cell is registered when its file is imported: this is the order in which commands list them.

from gatedrnn.cells.lstm import LSTM, LSTMCell, LSTMEquations
from gatedrnn.cells.peephole_lstm import PeepholeLSTM, PeepholeLSTMCell, PeepholeLSTMEquations
from gatedrnn.cells.cifg import CIFG, CIFGCell, CIFGEquations
from gatedrnn.cells.janet import JANET, JANETCell, JANETEquations
from gatedrnn.cells.lstm_no_output_gate import NoOutputGateLSTM, NoOutputGateLSTMCell, NoOutputGateLSTMEquations
from gatedrnn.cells.lstm_input_gated import InputGatedLSTM, InputGatedLSTMCell, InputGatedLSTMEquations
from gatedrnn.cells.lstm_normalized import NormalizedLSTM, NormalizedLSTMCell, NormalizedLSTMEquations
from gatedrnn.cells.minlstm import MinLSTM, MinLSTMCell, MinLSTMEquations
from gatedrnn.cells.gru import GRU, GRUCell, GRUEquations
from gatedrnn.cells.gru_d import GRUD, GRUDCell, GRUDEquations
from gatedrnn.cells.mgu import MGU, MGUCell, MGUEquations
from gatedrnn.cells.gru_no_reset_gate import NoResetGateGRU, NoResetGateGRUCell, NoResetGateGRUEquations
from gatedrnn.cells.gru_input_gated import InputGatedGRU, InputGatedGRUCell, InputGatedGRUEquations
from gatedrnn.cells.mingru import MinGRU, MinGRUCell, MinGRUEquations
from gatedrnn.cells.signed_mingru import SignedMinGRU, SignedMinGRUCell, SignedMinGRUEquations
from gatedrnn.cells.hgrn import HGRN, HGRNCell, HGRNEquations
from gatedrnn.cells.rg_lru import RGLRU, RGLRUCell, RGLRUEquations
from gatedrnn.cells.lru import LRU, LRUCell, LRUEquations
from gatedrnn.cells.qrnn import QRNN, QRNNCell, QRNNEquations
from gatedrnn.cells.indrnn import IndRNN, IndRNNCell, IndRNNEquations
from gatedrnn.cells.para_gru import ParaGRU, ParaGRUCell, ParaGRUEquations
from gatedrnn.cells.para_lstm import ParaLSTM, ParaLSTMCell, ParaLSTMEquations
from gatedrnn.cells.sru import SRU, SRUCell, SRUEquations
from gatedrnn.cells.slstm import SLSTM, SLSTMCell, SLSTMEquations
from gatedrnn.cells.block_orthogonal import BlockOrthogonalRNN, BlockOrthogonalRNNCell, BlockOrthogonalEquations
from gatedrnn.cells.interchange import from_min_gru_pytorch

__all__ = [
    "CIFG", "GRU", "GRUD", "HGRN", "JANET", "LRU", "LSTM", "MGU", "QRNN", "RGLRU", "SLSTM", "SRU",
    "BlockOrthogonalEquations", "BlockOrthogonalRNN", "BlockOrthogonalRNNCell", "CIFGCell", "CIFGEquations",
    "GRUCell", "GRUDCell", "GRUDEquations", "GRUEquations", "HGRNCell", "HGRNEquations", "IndRNN", "IndRNNCell",
    "IndRNNEquations", "InputGatedGRU", "InputGatedGRUCell", "InputGatedGRUEquations", "InputGatedLSTM",
    "InputGatedLSTMCell", "InputGatedLSTMEquations", "JANETCell", "JANETEquations", "LRUCell", "LRUEquations",
    "LSTMCell", "LSTMEquations", "MGUCell", "MGUEquations", "MinGRU", "MinGRUCell", "MinGRUEquations", "MinLSTM",
    "MinLSTMCell", "MinLSTMEquations", "NoOutputGateLSTM", "NoOutputGateLSTMCell", "NoOutputGateLSTMEquations",
    "NoResetGateGRU", "NoResetGateGRUCell", "NoResetGateGRUEquations", "NormalizedLSTM", "NormalizedLSTMCell",
    "NormalizedLSTMEquations", "ParaGRU", "ParaGRUCell", "ParaGRUEquations", "ParaLSTM", "ParaLSTMCell",
    "ParaLSTMEquations", "PeepholeLSTM", "PeepholeLSTMCell", "PeepholeLSTMEquations", "QRNNCell", "QRNNEquations",
    "RGLRUCell", "RGLRUEquations", "SLSTMCell", "SLSTMEquations", "SRUCell", "SRUEquations", "SignedMinGRU",
    "SignedMinGRUCell", "SignedMinGRUEquations", "from_min_gru_pytorch",
]  # fmt: skip
