"""Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420)."""

import numpy as np
import torch
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, LoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step


class MGUEquations(LoopEquations):
    """Minimal gated unit: one gate for update and reset; f *replaces* (with keep=True it keeps)."""

    name = "mgu"
    projections = ("forget", "candidate")

    def __init__(self, keep: bool = False) -> None:
        self.keep = keep
        # The paper's forget gate replaces at 1: initialisation and diagnosis need its sign.
        self.decay_gates = {"forget": 1 if keep else -1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_f, x_n = projected
        (h_f,) = recurrent(h, "forget")
        f = torch.sigmoid(x_f + h_f)
        (h_n,) = recurrent(f * h, "candidate")
        n = torch.tanh(x_n + h_n)
        return (f * h + (1 - f) * n,) if self.keep else ((1 - f) * h + f * n,)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (x_f, x_n), (h,) = gates, state
        U_f, U_n = np.split(weights["weight_hh"], 2)
        f = sigmoid(x_f + h @ U_f.T)
        n = np.tanh(x_n + (f * h) @ U_n.T)
        h = f * h + (1 - f) * n if self.keep else (1 - f) * h + f * n
        return h, (h,)


class MGU(Layer[Tensor]):
    """Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420); f *replaces*.

    Equations:
        f = sigmoid(W_f x + U_f h),  n = tanh(W_n x + U_n (f * h)),  h = (1 - f) * h + f * n

    One gate updates and resets. `keep=True` is another cell, h = f * h + (1 - f) * n: as f gates the candidate too, no
    change of sign turns one into the other.

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
        state_dropout: rate at which a channel of h, as gates read it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: rate at which an element of `weight_hh_l0` is zeroed for a whole batch, 0 to below 1.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "zeros" if None.
        longest_time_scale: for bias_init "time-scales" alone: the longest one, 2 steps or more; 64 steps if None.

    Keyword Args:
        keep: True is the other cell of this name, in which f *keeps*.

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of forget, candidate.
        weight_hh_l0: (2 · hidden_size, hidden_size).
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); biases are 0 ("zeros").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = MGU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Zhou et al. 2016, arXiv:1603.09420.
    """

    cell_class = MGUEquations


class MGUCell(Cell[Tensor]):
    """One step of `MGU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `MGU`.
        keep: as in `MGU`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of forget, candidate.
        weight_hh: (2 · hidden_size, hidden_size).
        bias_ih: (2 · hidden_size,), unless `bias` is False.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = MGUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = MGU


register(MGU, single_step=MGUCell, variants=({"keep": True},))
