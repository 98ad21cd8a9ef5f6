"""Minimal GRU with a decay that may change the state's sign (after Grazzi et al. 2025, arXiv:2411.12537)."""

import numpy as np
from torch import Tensor

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, NumpyStep, NumpyWeights, ScanEquations
from gatedrnn.shapes import Series


class SignedMinGRUEquations(ScanEquations):
    """Minimal GRU with a decay of either sign, from the input only: a *keeps*, and at -1 and 1 it keeps all."""

    name = "signed-mingru"
    projections = ("candidate", "decay")
    decay_gates = {"decay": 1}
    clamped_decay = True
    learns_initial_state = True

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, decay = projected
        # A clamp reaches -1 and 1 exactly, as parity over any length needs; tanh only comes near.
        a = decay.clamp(-1, 1)
        # By |a|: at -1 as at 1 the whole state is kept, and nothing is added.
        return a, (1 - a.abs()) * v

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, a), (h,) = gates, state
        a = np.minimum(np.maximum(a, -1), 1)
        h = a * h + (1 - np.abs(a)) * v
        return h, (h,)


class SignedMinGRU(Layer[Tensor]):
    """minGRU with a decay from -1 to 1, for state tracking, run by a scan; a *keeps*.

    Equations:
        a = clamp(W_a x, -1, 1),  h = a * h + (1 - |a|) * W_v x

    Nothing enters a channel that keeps all of itself, so a state that counts (-1, 1, -1 ...) does not drift, and only a
    state that is not 0 can. The clamp has its ordinary derivative, 0 outside.

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
        weight_ih_l0: (2 · hidden_size, input_size), rows of candidate, decay.
        bias_ih_l0: (2 · hidden_size,), unless `bias` is False.
        initial_state_l0: (hidden_size,), h before the first step and after a reset.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (2 · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); the biases of a spread it over time scales of 2 to 64
        steps, others are 0 ("time-scales"). The initial state is normal with a standard deviation of 0.5.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for `initial_state_l0`.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = SignedMinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        After Grazzi et al. 2025 (arXiv:2411.12537), who show that a decay within (0, 1) cannot tell an even count from
        an odd one, and one within [-1, 1] can.
    """

    cell_class = SignedMinGRUEquations


class SignedMinGRUCell(Cell[Tensor]):
    """One step of `SignedMinGRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `SignedMinGRU`.

    Weights:
        weight_ih: (2 · hidden_size, input_size), rows of candidate, decay.
        bias_ih: (2 · hidden_size,), unless `bias` is False.
        initial_state: (hidden_size,), h before the first step and after a reset.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for `initial_state_l0`.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = SignedMinGRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = SignedMinGRU


register(SignedMinGRU, single_step=SignedMinGRUCell)
