"""The cells, one file each: equations, layer, single-step module, kernel record, registration."""

# isort: skip_file
# A cell is registered when its file is imported: this is the order in which commands list them.

from gatedrnn.cells.lstm import LSTM as LSTM, LSTMCell as LSTMCell, LSTMEquations as LSTMEquations
from gatedrnn.cells.peephole_lstm import (
    PeepholeLSTM as PeepholeLSTM,
    PeepholeLSTMCell as PeepholeLSTMCell,
    PeepholeLSTMEquations as PeepholeLSTMEquations,
)
from gatedrnn.cells.cifg import CIFG as CIFG, CIFGCell as CIFGCell, CIFGEquations as CIFGEquations
from gatedrnn.cells.janet import JANET as JANET, JANETCell as JANETCell, JANETEquations as JANETEquations
from gatedrnn.cells.lstm_no_output_gate import (
    NoOutputGateLSTM as NoOutputGateLSTM,
    NoOutputGateLSTMCell as NoOutputGateLSTMCell,
    NoOutputGateLSTMEquations as NoOutputGateLSTMEquations,
)
from gatedrnn.cells.lstm_input_gated import (
    InputGatedLSTM as InputGatedLSTM,
    InputGatedLSTMCell as InputGatedLSTMCell,
    InputGatedLSTMEquations as InputGatedLSTMEquations,
)
from gatedrnn.cells.lstm_normalized import (
    NormalizedLSTM as NormalizedLSTM,
    NormalizedLSTMCell as NormalizedLSTMCell,
    NormalizedLSTMEquations as NormalizedLSTMEquations,
)
from gatedrnn.cells.minlstm import MinLSTM as MinLSTM, MinLSTMCell as MinLSTMCell, MinLSTMEquations as MinLSTMEquations
from gatedrnn.cells.gru import GRU as GRU, GRUCell as GRUCell, GRUEquations as GRUEquations
from gatedrnn.cells.gru_d import GRUD as GRUD, GRUDCell as GRUDCell, GRUDEquations as GRUDEquations
from gatedrnn.cells.mgu import MGU as MGU, MGUCell as MGUCell, MGUEquations as MGUEquations
from gatedrnn.cells.gru_no_reset_gate import (
    NoResetGateGRU as NoResetGateGRU,
    NoResetGateGRUCell as NoResetGateGRUCell,
    NoResetGateGRUEquations as NoResetGateGRUEquations,
)
from gatedrnn.cells.gru_input_gated import (
    InputGatedGRU as InputGatedGRU,
    InputGatedGRUCell as InputGatedGRUCell,
    InputGatedGRUEquations as InputGatedGRUEquations,
)
from gatedrnn.cells.mingru import MinGRU as MinGRU, MinGRUCell as MinGRUCell, MinGRUEquations as MinGRUEquations
from gatedrnn.cells.signed_mingru import (
    SignedMinGRU as SignedMinGRU,
    SignedMinGRUCell as SignedMinGRUCell,
    SignedMinGRUEquations as SignedMinGRUEquations,
)
from gatedrnn.cells.hgrn import HGRN as HGRN, HGRNCell as HGRNCell, HGRNEquations as HGRNEquations
from gatedrnn.cells.rg_lru import RGLRU as RGLRU, RGLRUCell as RGLRUCell, RGLRUEquations as RGLRUEquations
from gatedrnn.cells.lru import LRU as LRU, LRUCell as LRUCell, LRUEquations as LRUEquations
from gatedrnn.cells.qrnn import QRNN as QRNN, QRNNCell as QRNNCell, QRNNEquations as QRNNEquations
from gatedrnn.cells.indrnn import IndRNN as IndRNN, IndRNNCell as IndRNNCell, IndRNNEquations as IndRNNEquations
from gatedrnn.cells.para_gru import ParaGRU as ParaGRU, ParaGRUCell as ParaGRUCell, ParaGRUEquations as ParaGRUEquations
from gatedrnn.cells.para_lstm import (
    ParaLSTM as ParaLSTM,
    ParaLSTMCell as ParaLSTMCell,
    ParaLSTMEquations as ParaLSTMEquations,
)
from gatedrnn.cells.sru import SRU as SRU, SRUCell as SRUCell, SRUEquations as SRUEquations
from gatedrnn.cells.slstm import SLSTM as SLSTM, SLSTMCell as SLSTMCell, SLSTMEquations as SLSTMEquations
from gatedrnn.cells.block_orthogonal import (
    BlockOrthogonalRNN as BlockOrthogonalRNN,
    BlockOrthogonalRNNCell as BlockOrthogonalRNNCell,
    BlockOrthogonalEquations as BlockOrthogonalEquations,
)
from gatedrnn.cells.interchange import from_min_gru_pytorch as from_min_gru_pytorch

PUBLIC = sorted(name for name, member in globals().items() if callable(member) and not name.endswith("Equations"))
"""Names of all layers and single steps, and of functions that read other libraries' weights."""
