"""The layers that users name: one short class a cell."""

from typing import Any

from gatedrnn.cells import (
    BlockOrthogonalEquations,
    GRUEquations,
    InputGatedGRUEquations,
    InputGatedLSTMEquations,
    LSTMEquations,
    MGUEquations,
    MinGRUEquations,
    MinLSTMEquations,
    NoOutputGateLSTMEquations,
    NoResetGateGRUEquations,
    NormalizedLSTMEquations,
    PeepholeLSTMEquations,
    SignedMinGRUEquations,
)
from gatedrnn.layers.block_layer import BlockScanLayer
from gatedrnn.layers.loop_layer import LoopLayer
from gatedrnn.layers.scan_layer import PositiveScanLayer, ScanLayer
from gatedrnn.layers.torch_fused import FusedLayer


class LSTM(FusedLayer):
    """`torch.nn.LSTM` with masks, resets, regularisers and streaming: same parameters, state dict, numbers, kernels.

    The equations stand in `gatedrnn.cells.lstm`, the arguments in `RecurrentModule`. With `proj_size`, which must be
    below hidden_size, the projected output is also what the gates read (LSTMP, Sak et al. 2014, arXiv:1402.1128).
    """

    cell_class = LSTMEquations
    torch_mode = "LSTM"
    hold = {"input": -1.0, "forget": 1.0}  # c = 1 * c + 0 * g

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")


class GRU(FusedLayer):
    """`torch.nn.GRU` with masks, resets, regularisers and streaming: same parameters, state dict, numbers, kernels.

    The equations stand in `gatedrnn.cells.gru` (z keeps), the arguments in `RecurrentModule`; there is no `proj_size`,
    as in torch. `reset_after=False` applies the reset gate before the product (Cho et al. 2014, arXiv:1406.1078): one
    bias a gate, and the step loop, since torch has no kernel for it.
    """

    cell_class = GRUEquations
    torch_mode = "GRU"
    options = ("reset_after",)
    takes_proj_size = False
    faster_than_torch = True  # on a CPU, where torch's GRU is a loop of small calls


class PeepholeLSTM(LoopLayer):
    """LSTM whose gates see the cell state (Gers et al. 2002). Equations in `gatedrnn.cells.peephole_lstm`.

    With `proj_size` the projected output is also what the gates read: the LSTMP of Sak et al. 2014 (arXiv:1402.1128).
    """

    cell_class = PeepholeLSTMEquations
    bias_init = "forget-one"


class NoOutputGateLSTM(LoopLayer):
    """Step 1 from LSTM to minLSTM: no output gate. Equations in `gatedrnn.cells.lstm_ladder`; the state is c."""

    cell_class = NoOutputGateLSTMEquations
    bias_init = "forget-one"


class InputGatedLSTM(ScanLayer):
    """Step 2: gates read the input alone, so a scan runs it. Equations in `gatedrnn.cells.lstm_ladder`; state c."""

    cell_class = InputGatedLSTMEquations


class NormalizedLSTM(ScanLayer):
    """Step 3: input and forget gate sum to one. Equations in `gatedrnn.cells.lstm_ladder`; the state is c."""

    cell_class = NormalizedLSTMEquations


class MinLSTM(PositiveScanLayer):
    """minLSTM (Feng et al. 2024, arXiv:2410.01201), run by a scan. Equations in `gatedrnn.cells.minlstm`.

    `activation`: "g" (appendix B.3, a positive state) or "identity" (appendix A).
    """

    cell_class = MinLSTMEquations
    options = ("activation",)


class MGU(LoopLayer):
    """Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420). Equations in `gatedrnn.cells.mgu`.

    f replaces; `keep=True` is the other cell that goes by this name, in which it keeps.
    """

    cell_class = MGUEquations
    options = ("keep",)


class NoResetGateGRU(LoopLayer):
    """Step 1 from GRU to minGRU: no reset gate. Equations in `gatedrnn.cells.gru_ladder`; z keeps."""

    cell_class = NoResetGateGRUEquations


class InputGatedGRU(ScanLayer):
    """Step 2: gates read the input alone, so a scan runs it. Equations in `gatedrnn.cells.gru_ladder`; z keeps."""

    cell_class = InputGatedGRUEquations


class MinGRU(PositiveScanLayer):
    """minGRU (Feng et al. 2024, arXiv:2410.01201), run by a scan. Equations in `gatedrnn.cells.mingru`; z replaces.

    `activation`: "g" (appendix B.3, a positive state) or "identity" (appendix A).
    """

    cell_class = MinGRUEquations
    options = ("activation",)


class SignedMinGRU(ScanLayer):
    """minGRU with a decay from -1 to 1, for state tracking; run by a scan. Equations in `gatedrnn.cells.signed_mingru`.

    The state before the first step, and after a reset, is a parameter (`initial_state_l0`).
    """

    cell_class = SignedMinGRUEquations


class BlockOrthogonalRNN(BlockScanLayer):
    """Small blocks turned and mirrored by the input, for state tracking; `gatedrnn.cells.block_orthogonal` says how.

    `block_size`: 2 (a rotation and a mirror), 3 or 4 (as many reflections); hidden_size must be a multiple of it. The
    state before the first step, and after a reset, is a parameter (`initial_state_l0`).
    """

    cell_class = BlockOrthogonalEquations
    options = ("block_size",)
