"""The layers that users name: one short class a cell."""

from typing import Any

from torch import _VF

from gatedrnn.cells import GRUEquations, LSTMEquations, MinGRUEquations, MinLSTMEquations
from gatedrnn.layers.stack import RecurrentLayer, ScanLayer
from gatedrnn.layers.torch_fused import SHUT, FusedLayer


class LSTM(FusedLayer):
    """`torch.nn.LSTM` with masks and streaming: same parameters, state dict, numbers and kernels.

    The equations stand in `gatedrnn.cells.lstm`, the arguments in `RecurrentLayer`. With `proj_size`, which must be
    below hidden_size, the projected output is also what the gates read (LSTMP, Sak et al. 2014, arXiv:1402.1128).
    """

    kernel = staticmethod(_VF.lstm)
    hold = {"input": -SHUT, "forget": SHUT}  # c = 1 * c + 0 * g

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(LSTMEquations(), *args, **kwargs)
        if self.proj_size >= self.hidden_size:
            raise ValueError(f"proj_size has to be smaller than hidden_size, got {self.proj_size}")

    def state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)


class GRU(FusedLayer):
    """`torch.nn.GRU` with masks and streaming: same parameters, state dict, numbers and kernels.

    The equations stand in `gatedrnn.cells.gru` (the reset gate after the product, z keeps), the arguments in
    `RecurrentLayer`; there is no `proj_size`, as in torch.
    """

    kernel = staticmethod(_VF.gru)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(GRUEquations(), *args, **kwargs)
        if self.proj_size:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class MinLSTM(ScanLayer):
    """minLSTM (Feng et al. 2024, arXiv:2410.01201), run by a scan. Equations in `gatedrnn.cells.minlstm`.

    Arguments as in `RecurrentLayer`; `activation`: "g" (appendix B.3, a positive state) or "identity" (appendix A).
    """

    options = ("activation",)

    def __init__(self, *args: Any, activation: str = "g", **kwargs: Any) -> None:
        super().__init__(MinLSTMEquations(activation), *args, **kwargs)


class MinGRU(ScanLayer):
    """minGRU (Feng et al. 2024, arXiv:2410.01201), run by a scan. Equations in `gatedrnn.cells.mingru`.

    Arguments as in `RecurrentLayer`; `activation`: "g" (appendix B.3, a positive state) or "identity" (appendix A).
    """

    options = ("activation",)

    def __init__(self, *args: Any, activation: str = "g", **kwargs: Any) -> None:
        super().__init__(MinGRUEquations(activation), *args, **kwargs)


LAYERS: dict[str, type[RecurrentLayer]] = {"lstm": LSTM, "gru": GRU, "minlstm": MinLSTM, "mingru": MinGRU}
"""Every cell by its name on the command line."""
