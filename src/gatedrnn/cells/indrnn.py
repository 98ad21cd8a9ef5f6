"""Independently recurrent network (Li et al. 2018, arXiv:1803.04831)."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, Diagonal, ElementwiseLoopEquations, NumpyStep, NumpyWeights, Recurrent
from gatedrnn.shapes import State, Step

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class IndRNNEquations(ElementwiseLoopEquations):
    """Independently recurrent network: no gate, and a state that each channel reads alone."""

    name = "indrnn"
    projections = ("candidate",)
    diagonals = {"u": Diagonal("candidate")}

    def __init__(self, activation: Literal["relu", "tanh"] = "relu") -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw u uniform from 0 to 1."""
        nn.init.uniform_(weights["u"])

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (candidate,), (h,) = projected, state
        u = recurrent.diagonal("u")
        return (ACTIVATIONS[self.activation](candidate + u * recurrent.drop(h)),)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (candidate,), (h,) = gates, state
        summed = candidate + weights["weight_u"] * h
        h = np.maximum(summed, 0) if self.activation == "relu" else np.tanh(summed)
        return h, (h,)


class IndRNN(Layer[Tensor]):
    """Independently recurrent network (Li et al. 2018, arXiv:1803.04831): each channel reads its own state alone.

    Equations:
        h = relu(W x + u * h)

    There is no gate.

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
        state_dropout: rate at which a channel of h, as u * h reads it, is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "zeros" if None.
        longest_time_scale: None, for no gate has a bias that sets a decay.

    Keyword Args:
        activation: "relu", or "tanh" in its place.

    Weights:
        weight_ih_l0: (hidden_size, input_size).
        bias_ih_l0: (hidden_size,), unless `bias` is False.
        weight_u_l0: (hidden_size,), u.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"), u from 0 to 1; biases are 0 ("zeros").

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
        >>> layer = IndRNN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_u_l0.shape)
        ((2, 5, 8), (8,))

    Source:
        Li et al. 2018, arXiv:1803.04831.
    """

    cell_class = IndRNNEquations


class IndRNNCell(Cell[Tensor]):
    """One step of `IndRNN`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `IndRNN`.
        activation: as in `IndRNN`.

    Weights:
        weight_ih: (hidden_size, input_size).
        bias_ih: (hidden_size,), unless `bias` is False.
        weight_u: (hidden_size,), u.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = IndRNNCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = IndRNN


register(IndRNN, single_step=IndRNNCell, variants=({"activation": "tanh"},))
