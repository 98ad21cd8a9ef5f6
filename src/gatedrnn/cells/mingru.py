"""Minimal GRU (Feng et al. 2024, arXiv:2410.01201)."""

from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import ACTIVATIONS, Activation, check_activation, log_g, numpy_g, sigmoid
from gatedrnn.equations import Arrays, NumpyStep, NumpyWeights, PositiveScanEquations
from gatedrnn.shapes import Series


class MinGRUEquations(PositiveScanEquations):
    """Minimal GRU: one gate, which sees the input only; z *replaces* (in `gru` it keeps).

    z = sigmoid(W_z x),  h = (1 - z) * h + z * g(W_v x)

    State h, which is the output; one bias a gate. Feng et al. 2024, arXiv:2410.01201: g of appendix B.3 (a positive
    state), or identity (appendix A).
    """

    name = "mingru"
    projections = ("candidate", "update")
    decay_gates = {"update": -1}

    def __init__(self, activation: Activation = "g", log_space: bool = False) -> None:
        check_activation(activation, log_space)
        self.activation, self.log_space = activation, log_space

    def logit(self, *projected: Series) -> Series:
        _, update = projected
        return -update

    def value(self, *projected: Series) -> Series:
        v, _ = projected
        return ACTIVATIONS[self.activation](v)

    def log_value(self, *projected: Series) -> Series:
        v, _ = projected
        return log_g(v)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, z), (h,) = gates, state
        h = (1 - sigmoid(z)) * h + sigmoid(z) * (numpy_g(v) if self.activation == "g" else v)
        return h, (h,)


class MinGRU(Layer[Tensor]):
    """minGRU (Feng et al. 2024, arXiv:2410.01201), run by a scan; z *replaces* (in `GRU` it keeps).

    Keyword Args:
        activation: of the candidate: "g" (appendix B.3 of the paper, a positive state) or "identity" (appendix A).
        log_space: run whole sequences by the paper's scan over logarithms, for fidelity: slower, and its error grows
            with the length; needs the activation g; no resets, no gaps, no zoneout, no state_dropout.

    Example:
        >>> layer = MinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape)
        ((2, 5, 8), (1, 2, 8))
    """

    cell_class = MinGRUEquations


class MinGRUCell(Cell[Tensor]):
    """One step of `MinGRU`; `activation` as there."""

    layer_class = MinGRU


register(MinGRU, single_step=MinGRUCell, variants=({"activation": "identity"},))
