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
    """Quasi-recurrent network with fo-pooling: gates read the input of this step and of the one before; f *keeps*."""

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

    Equations:
        z = tanh(W_z [x, x']),  f = sigmoid(W_f [x, x']),  o = sigmoid(W_o [x, x']),  x' the input of the step before
        c = f * c + (1 - f) * z,  h = o * c

    x' is the input of the real step before, 0 at the beginning and after a reset; a pass over a sequence in chunks, and
    a stream, carry it. A gap raises f to it.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of what a step adds is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Keyword Args:
        window: inputs that a gate reads: 2, or 1 for the step's own alone; the state is then c (type checkers are told
            of the pair).

    Weights:
        weight_ih_l0: (3 · hidden_size, window · input_size), rows of candidate, forget, output; columns of x, then of
            x'.
        bias_ih_l0: (3 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (3 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of the forget gate spread its decay over 2 to
        64 steps, others are 0 ("time-scales").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, gaps, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        c: (L, batch, hidden_size); the output is o * c. L = num_layers · directions.
        x: (L, batch, input_size), x'; with several layers as wide as the widest input of a layer.

    Example:
        >>> layer = QRNN(3, 8, batch_first=True)
        >>> output, (c_n, x_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(c_n.shape), tuple(x_n.shape), tuple(layer.weight_ih_l0.shape)
        ((2, 5, 8), (1, 2, 8), (1, 2, 3), (24, 6))

    Source:
        Bradbury et al. 2017, arXiv:1611.01576, section 2 (fo-pooling), where f keeps; in the authors' code f is what
        lets in.
    """

    cell_class = QRNNEquations
    # A convolution of width 2 is a product with two inputs side by side: kernels stay those of a window of 1.
    wrapper = staticmethod(lambda cell: Wrapper(inputs=cell.window))


class QRNNCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `QRNN`, with the same equations and weights; `output` needs the input and the state before.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `QRNN`.
        window: as in `QRNN`.

    Weights:
        weight_ih: (3 · hidden_size, window · input_size), rows of candidate, forget, output; columns of x, then of x'.
        bias_ih: (3 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (c, x), (batch, hidden_size) and (batch, input_size), without batch for one input;
            None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = QRNNCell(3, 8)
        >>> (c, x) = cell(torch.randn(2, 3))
        >>> tuple(c.shape)
        (2, 8)
    """

    layer_class = QRNN


register(QRNN, single_step=QRNNCell, variants=({"window": 1},))
