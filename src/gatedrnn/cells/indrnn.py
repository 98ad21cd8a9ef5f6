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
    """Independently recurrent network: no gate, and a state that each channel reads alone.

    h = relu(W x + u * h)

    u is a weight a channel. State h, which is the output, one bias. The activation may be tanh instead.
    Li et al. 2018, arXiv:1803.04831.
    """

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

    The weight of the state, `weight_u_l0` of shape (hidden_size,), begins uniform from 0 to 1.

    Keyword Args:
        activation: "relu" or "tanh".

    Example:
        >>> layer = IndRNN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(layer.weight_u_l0.shape)
        ((2, 5, 8), (8,))
    """

    cell_class = IndRNNEquations


class IndRNNCell(Cell[Tensor]):
    """One step of `IndRNN`; `activation` as there."""

    layer_class = IndRNN


register(IndRNN, single_step=IndRNNCell, variants=({"activation": "tanh"},))
