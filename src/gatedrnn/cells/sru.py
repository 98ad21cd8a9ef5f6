"""Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, Diagonal, ElementwiseLoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class SRUEquations(ElementwiseLoopEquations):
    """Simple recurrent unit: a cell state that its gates read by channel, under a highway; f *keeps*."""

    name = "sru"
    projections = ("candidate", "forget", "highway", "skip")
    candidates = ("candidate", "skip")
    decay_gates = {"forget": 1}
    bias_init = "time-scales"
    states = ("h", "c")
    diagonals = {"vf": Diagonal("forget", 1), "vr": Diagonal("highway", 1)}

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """Uniform: W of variance 1 / features, half of that for f and r, three times it for the skip; v of variance
        1/2. Biases are 0."""
        for name, weight in weights.items():
            if name == "weight_ih":
                bound = math.sqrt(3 / weight.shape[1])
                for block, share in zip(weight.chunk(4), (1, 1 / 2, 1 / 2, 3), strict=True):
                    nn.init.uniform_(block, -bound * math.sqrt(share), bound * math.sqrt(share))
            elif name in ("weight_vf", "weight_vr"):
                nn.init.uniform_(weight, -math.sqrt(3 / 2), math.sqrt(3 / 2))
            elif name == "bias_ih":
                nn.init.zeros_(weight)

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (candidate, x_f, x_r, skip), (_, c) = projected, state
        read = recurrent.drop(c)
        f = torch.sigmoid(x_f + recurrent.diagonal("vf") * read)
        r = torch.sigmoid(x_r + recurrent.diagonal("vr") * read)
        c = f * c + (1 - f) * candidate
        return r * c + (1 - r) * skip, c

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (u, f, r, skip), (_, c) = gates, state
        f, r = sigmoid(f + weights["weight_vf"] * c), sigmoid(r + weights["weight_vr"] * c)
        # Another form of the same sum than in `step`: one slip is then not made twice.
        c = u + (c - u) * f
        h = skip + (c - skip) * r
        return h, (h, c)


class SRU(Layer[tuple[Tensor, Tensor]]):
    """Simple recurrent unit (Lei et al. 2018, arXiv:1709.02755): gates read the cell state by channel; f *keeps*.

    Equations:
        f = sigmoid(W_f x + v_f * c),  r = sigmoid(W_r x + v_r * c),  c' = f * c + (1 - f) * W_c x
        h' = r * c' + (1 - r) * W_s x

    Both gates see the state before the step. The skip W_s x is a projection of its own, as in the authors' code where
    input and state differ in size; where they do not, it has sqrt(1 + 2 exp(b_r)) x there, which W_s can be. With v_f =
    v_r = 0 it is a scan.

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
        state_dropout: rate at which a channel of c, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Weights:
        weight_ih_l0: (4 · hidden_size, input_size), rows of candidate, forget, highway, skip.
        bias_ih_l0: (4 · hidden_size,), unless `bias` is False.
        weight_vf_l0: (hidden_size,), v_f.
        weight_vr_l0: (hidden_size,), v_r.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (4 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), v uniform within 0.1; the biases of the forget gate
        spread its decay over 2 to 64 steps, others are 0 ("time-scales").
        "authors" is the scheme of the authors' code, which `gatedrnn describe` prints.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output, which nothing reads. L = num_layers · directions.
        c: (L, batch, hidden_size).

    Example:
        >>> layer = SRU(3, 8, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_vf_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        Lei et al. 2018, arXiv:1709.02755.
    """

    cell_class = SRUEquations


class SRUCell(Cell[tuple[Tensor, Tensor]]):
    """One step of `SRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `SRU`.

    Weights:
        weight_ih: (4 · hidden_size, input_size), rows of candidate, forget, highway, skip.
        bias_ih: (4 · hidden_size,), unless `bias` is False.
        weight_vf: (hidden_size,), v_f.
        weight_vr: (hidden_size,), v_r.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple (h, c), each (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = SRUCell(3, 8)
        >>> (h, c) = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = SRU


register(SRU, single_step=SRUCell)
