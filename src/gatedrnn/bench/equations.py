"""Cells iterated over time by plain torch operations, from a mapping of weights: what the accuracy check expects."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import linear

from gatedrnn.equations import Recurrent, ScanEquations, output_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.shapes import Series, State

Weights = Mapping[str, Tensor]


class PlainScan(Function):
    """All states of h_t = a_t * h_(t-1) + b_t and their gradients, one plain loop each; all axes as in `Series`."""

    @staticmethod
    def forward(ctx: Any, decay: Series, drive: Series, h0: State) -> Series:
        states = iterated(decay, drive, h0)
        ctx.save_for_backward(decay, states, h0)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Series) -> tuple[Series, Series, State]:
        decay, states, h0 = ctx.saved_tensors
        # delta_t = grad_t + a_(t+1) delta_(t+1), from the last step to the first.
        later = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], dim=1)
        delta = iterated(later.flip(1), grad.flip(1), torch.zeros_like(h0)).flip(1)
        before = torch.cat([h0.unsqueeze(1), states[:, :-1]], dim=1)
        return delta * before, delta, decay[:, 0] * delta[:, 0]


def iterated(decay: Series, drive: Series, h0: State) -> Series:
    """The states, a step at a time."""
    states, state = torch.empty_like(drive, memory_format=torch.contiguous_format), h0
    for a, b, into in zip(decay.unbind(1), drive.unbind(1), states.unbind(1), strict=True):
        state = torch.addcmul(b, a, state, out=into)
    return states


def run_equations(
    layer: RecurrentLayer, weights: Weights, x: Series, state: tuple[State, ...] | None = None
) -> list[Tensor]:
    """Output and last states of a layer (one, in one direction) by its cell's equations alone. Differentiable.

    Args:
        layer: says which cell, and its sizes; its own parameters are not read.
        weights: parameters by the layer's names; more are left alone.
        state: before the first step, each (batch, size); the initial one if None.
    """
    cell = layer.cell
    named = {name.removesuffix("_l0"): weight for name, weight in weights.items()}
    projected = linear(x, named["weight_ih"], named.get("bias_ih")).chunk(len(cell.projections), dim=-1)
    if state is None:
        state = tuple(x.new_zeros(x.shape[0], size) for size in layer.state_sizes())
        if "initial_state" in named:
            state = (named["initial_state"].expand_as(state[0]),)
    if isinstance(cell, ScanEquations):
        states = PlainScan.apply(*cell.coefficients(*projected), state[0])
        return [output_of(cell, (states,), projected), states[:, -1]]
    recurrent, outputs = Recurrent(cell.projections, named), []
    for step in zip(*(gate.unbind(1) for gate in projected), strict=True):
        state = cell.step(step, state, recurrent)
        outputs.append(output_of(cell, state, step))
    return [torch.stack(outputs, dim=1), *state]
