"""Hierarchically gated recurrent network (Qin et al. 2023, arXiv:2311.04823)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.cells.functions import sigmoid
from gatedrnn.equations import Arrays, GappedScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

MIN_BOUND, MAX_BOUND = 0.001, 0.95
"""The range of the bounds at initialisation."""


class HGRNEquations(GappedScanEquations):
    """Hierarchically gated recurrent network: a decay that never falls below a bound of its channel; f *keeps*."""

    name = "hgrn"
    projections = ("candidate", "forget")
    decay_gates = {"forget": 1}
    diagonals = {"bound": None}

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw bounds uniform from 0 to 0.95."""
        # The parameter is the bound's logit, so that no step of the optimiser leads out of (0, 1).
        nn.init.uniform_(weights["bound"], MIN_BOUND, MAX_BOUND).logit_()

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        candidate, forget, bound = projected
        # Factors of 1 - decay follow below as sigmoids of the negative: no cancellation where the decay is near 1.
        decay = torch.sigmoid(bound) + torch.sigmoid(-bound) * torch.sigmoid(forget)
        return decay, torch.sigmoid(-bound) * torch.sigmoid(-forget) * silu(candidate)

    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        candidate, forget, bound = projected
        # The same sum by logarithms: a decay that underflows to 0 has no finite gradient of its power.
        log_decay = gaps * torch.logaddexp(logsigmoid(bound), logsigmoid(-bound) + logsigmoid(forget))
        return torch.exp(log_decay), -torch.expm1(log_decay) * silu(candidate)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, f), (h,), bound = gates, state, sigmoid(weights["weight_bound"])
        f = bound + (1 - bound) * sigmoid(f)
        h = f * h + (1 - f) * v * sigmoid(v)
        return h, (h,)


class HGRN(Layer[Tensor]):
    """HGRN (Qin et al. 2023, arXiv:2311.04823), run by a scan: a decay above a learned bound; f *keeps*.

    Equations:
        f = l + (1 - l) * sigmoid(W_f x),  h = f * h + (1 - f) * silu(W_v x),  l = sigmoid(bound)

    Real, as in its authors' later code; the paper's first form turns a complex state. There the bounds of all layers
    come from one softmax, summed up over the layers, and begin at l / L in layer l of L; here each layer has its own.
    The output gate is a block's matter. A gap raises f to it.

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

    Weights:
        weight_ih_l0: (2 · hidden_size, input_size), rows of candidate, forget.
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        weight_bound_l0: (hidden_size,), bound, whose sigmoid is l.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), l from 0.001 to 0.95; the biases of the forget gate
        spread sigmoid(W_f x) over 2 to 64 steps, which a bound of l makes 1 / (1 - l) times as long, others are 0
        ("time-scales").

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, gaps, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = HGRN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_bound_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        Qin et al. 2023, arXiv:2311.04823.
    """

    cell_class = HGRNEquations


class HGRNCell(Cell[Tensor]):
    """One step of `HGRN`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `HGRN`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of candidate, forget.
        bias_ih: (2 · hidden_size,), unless `bias` is False.
        weight_bound: (hidden_size,), bound, whose sigmoid is l.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = HGRNCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = HGRN


register(HGRN, single_step=HGRNCell)
