"""Quasi-recurrent network (Bradbury et al. 2017, arXiv:1611.01576)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, ConvexScanEquations, NumpyStep, NumpyWeights
from gatedrnn.layers import Wrapper
from gatedrnn.shapes import Series


class QRNNEquations(ConvexScanEquations):
    """Quasi-recurrent network with fo-pooling: gates read the input alone, of this step and the one before; f *keeps*.

    z = tanh(W_z [x, x']),  f = sigmoid(W_f [x, x']),  o = sigmoid(W_o [x, x']),  x' the input of the step before
    c = f * c + (1 - f) * z,  h = o * c

    State c, output h; with a window of 2 the state is (c, x'). One bias a gate. Bradbury et al. 2017,
    arXiv:1611.01576, section 2, where f keeps; in the authors' code f is what lets in.
    """

    name = "qrnn"
    projections = ("candidate", "forget", "output")
    decay_gates = {"forget": 1}

    def __init__(self, window: int = 2) -> None:
        if window not in (1, 2):
            raise ValueError(f"window is the number of inputs that a gate reads, 1 or 2, got {window}")
        self.window = window

    def logit(self, *projected: Series) -> Series:
        _, forget, _ = projected
        return forget

    def value(self, *projected: Series) -> Series:
        candidate, _, _ = projected
        return torch.tanh(candidate)

    def output(self, state: tuple[Series, ...], projected: tuple[Series, ...]) -> Series:
        _, _, output = projected
        return torch.sigmoid(output) * state[0]

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (z, f, o), (c,) = gates, state
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(z)
        return sigmoid(o) * c, (c,)


class QRNN(Layer[tuple[Tensor, Tensor]]):
    """Quasi-recurrent network (Bradbury et al. 2017, arXiv:1611.01576), run by a scan; the forget gate *keeps*.

    Each gate reads the input of a step and that of the real step before it: the columns of `weight_ih_l0` are those of
    the step's own input, then those of the one before. A pass over a sequence in chunks, and a stream, carry it: `hx`
    and `h_n` are (c, x'), with x' as wide as the widest input of a layer, 0 at the beginning and after a reset.

    Keyword Args:
        window: inputs that a gate reads: 2, or 1 for the step's own alone; `hx` and `h_n` are then c (type checkers are
            told of the pair).

    Example:
        >>> layer = QRNN(3, 8, batch_first=True)
        >>> output, (c_n, x_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(c_n.shape), tuple(x_n.shape), tuple(layer.weight_ih_l0.shape)
        ((2, 5, 8), (1, 2, 8), (1, 2, 3), (24, 6))
    """

    cell_class = QRNNEquations
    wrapper = staticmethod(lambda cell: Wrapper(inputs=cell.window))


class QRNNCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `QRNN`, whose state is (c, x'); `window` as there. `output` needs the input and the state before."""

    layer_class = QRNN


register(QRNN, single_step=QRNNCell, variants=({"window": 1},))
