"""Cells that read their states through diagonal weights: all steps one after another, in one call."""

from collections.abc import Sequence

import torch

from gatedrnn.codegen.elementwise import CellProgram
from gatedrnn.kernels.cpu._rows import at_steps
from gatedrnn.kernels.cpu.scan import Backward, Forward, all_states, inputs_of, written
from gatedrnn.shapes import Channels, Flags, Series, State, StateTuple


def elementwise_loop(
    program: CellProgram, projected: Series, bias: Channels | None, starts: Sequence[State | None],
    mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """A cell's outputs and last states from its input projections (batch, time, gates · channels).

    Args:
        bias: added to the projections, and the diagonal weights after it, in the dtype of accumulation.
        starts: the states before the first step, in the dtype of accumulation.
        mask: where False the states stay as they were and the output is 0.
        resets: where True the states before the step are zeros.
    """
    channels = projected.shape[2] // program.gates
    inputs = inputs_of(program, projected.split(channels, 2), bias, mask, resets, None)
    output = torch.empty(*projected.shape[:2], channels, dtype=written(projected.dtype))
    forward = Forward(inputs, output, starts, reverse)
    forward.run()
    return output.to(projected.dtype), forward.last


def elementwise_loop_gradient(
    program: CellProgram, grad_output: Series, grad_last: Sequence[State], projected: Series, bias: Channels | None,
    output: Series | None, starts: Sequence[State | None], mask: Flags | None, resets: Flags | None, reverse: bool,
) -> tuple[Series, Channels, StateTuple]:  # fmt: skip
    """Gradients of projections, bias and the first states; the states are computed again where `output` is None."""
    channels = projected.shape[2] // program.gates
    inputs = inputs_of(program, projected.split(channels, 2), bias, mask, resets, None)
    states = [output] if output is not None else all_states(inputs, grad_output, starts, reverse)
    gradient = torch.empty(projected.shape, dtype=written(projected.dtype))
    backward = Backward(inputs, grad_output, grad_last, states, starts, reverse)
    backward.run(backward.plan, [at_steps(part, written=True) for part in gradient.split(channels, 2)])
    return gradient.to(projected.dtype), backward.grad_bias, backward.grad_starts
