"""A kind of cell of your own, a delay line: `python examples/own_kind.py verify delay-line`, or describe, train, …"""

from abc import abstractmethod
from typing import final

import torch

from gatedrnn import RecurrentLayer, kinds, register
from gatedrnn.cli.app import main
from gatedrnn.equations import Equations
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds.kind import CellFacts, Insides, Kernel, Kind, MethodCall, Path, Tracking
from gatedrnn.kinds.loop.path import in_torch_steps


class DelayEquations(Equations):
    """The state moves on by one channel at a step, round a ring: h_t[c] = h_(t-1)[c - 1] + drive_t[c]."""

    @abstractmethod
    def drive(self, *projected):
        """Return what enters at each step, from the input projections; elementwise, any leading axes."""

    @final  # a cell defines `drive` alone, which both execution paths read
    def step(self, projected, state, recurrent):
        return (state[0].roll(1, -1) + recurrent.drop(self.drive(*projected)),)


def all_steps_at_once(layer, direction):
    """Count channels from where a value entered: nothing moves any more, and the state is a cumulative sum."""
    projected = layer.project(direction.x, direction.weights)
    wide = projected.to(accumulation_dtype(projected.dtype))  # sums of bfloat16 are taken in float32
    drive = layer.cell.drive(*wide.chunk(len(layer.cell.projections), dim=-1))
    if direction.dropped is not None:
        drive = drive * direction.dropped.unsqueeze(1)
    _, steps, size = drive.shape
    moved = torch.arange(1, steps + 1, device=drive.device).unsqueeze(1)
    if direction.reverse:
        moved = moved.flip(0)
    here, there = ((torch.arange(size, device=drive.device) + sign * moved) % size for sign in (1, -1))
    entered = drive.gather(2, here.expand_as(drive))
    total = entered.flip(1).cumsum(1).flip(1) if direction.reverse else entered.cumsum(1)
    h = (direction.state[0].unsqueeze(1) + total).gather(2, there.expand_as(drive))
    last = h[:, 0 if direction.reverse else -1]
    return layer.project_output(h.to(projected.dtype), direction.weights), (last,)


class DelayKind(Kind[DelayEquations]):
    def claims(self, cell):
        return issubclass(cell if isinstance(cell, type) else type(cell), DelayEquations)

    def facts(self, cell):
        return CellFacts({"weight_dropout": "drops recurrent weights, and {names} has none; leave it at 0"})

    def shapes(self, cell, hidden_size, width, bias):
        return {}  # no weights beside those of the input

    def method_calls(self, cell, inputs):
        return [MethodCall("drive", inputs.projected, "one tensor", [inputs.state[0].shape], in_tuple=False)]

    def insides(self, cell, sums, diagonals):
        gates = {name: torch.sigmoid(total) for name, total in sums.items() if name not in cell.candidates}
        return Insides(gates, decay=None, adds=False)

    def tracking(self, cell):
        return Tracking(
            "delaying", "channels move round a ring, whatever the input", "positions modulo the size of the state",
            "whatever an input must change in the state beside adding to it", "this page",
        )  # fmt: skip

    def kernel(self, cell, device, dtype):
        return Kernel(device, dtype, missing="its steps are sums, which torch computes")

    def backends(self, layer):
        return ("reference", "torch")

    def path(self, layer, query):
        direction, backend = query.direction, layer.configuration.backend
        if backend == "reference":
            return Path("the step loop in torch", "backend='reference' asks for it", in_torch_steps)
        if query.zones_out or (direction is not None and (direction.mask is not None or direction.resets is not None)):
            return Path("the step loop in torch", "masks, resets and zoneout act between steps", in_torch_steps)
        return Path("one cumulative sum, backend torch", "the ring turns the same way at every step", all_steps_at_once)

    def stream(self, layer, x, hx):
        return None  # a single step runs by the equations


kinds.KINDS = (DelayKind(), *kinds.KINDS)


class DelayLineEquations(DelayEquations):
    """r = sigmoid(W_r x),  h = moved(h) + r * tanh(W_v x); r *lets in*."""

    name = "delay-line"
    projections = ("candidate", "rate")

    def drive(self, candidate, rate):
        return torch.sigmoid(rate) * torch.tanh(candidate)


@register
class DelayLine(RecurrentLayer):
    cell_class = DelayLineEquations


if __name__ == "__main__":
    main()
