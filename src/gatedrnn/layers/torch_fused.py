"""LSTM and GRU run by torch's own fused kernels (oneDNN on a CPU, cuDNN on a GPU)."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatedrnn.cells import LoopCell
from gatedrnn.layers.ragged import left_aligned, reorder, zero_masked_steps
from gatedrnn.layers.stack import RecurrentLayer, StateTuple, Weights
from gatedrnn.shapes import Flags, Series, State, States, Step

SHUT = 1000.0
"""A pre-activation at which a sigmoid is exactly 0 or 1, and its gradient exactly 0, in every floating dtype."""


class FusedLayer(RecurrentLayer):
    """A loop cell for which torch has a kernel. Without a mask the whole stack is one call of it.

    With a mask each layer and direction is one call over the padded rectangle, real steps first. The output at the
    last real step is the final h. A state that is no output (an LSTM's c) is held over the padding by one more input
    feature, 1 where a step is not real, whose weights shut the gates there: it stays exactly as it was. torch's own
    way, packing, takes a CPU out of the fused kernel and walks time step by step.
    """

    cell: LoopCell
    kernel: ClassVar[Callable[..., Any]]
    hold: ClassVar[dict[str, float]] = {}
    """The weight of the extra feature for each gate that it must open or shut; empty where h is the whole state."""

    def forward(
        self, input: Series, hx: States | StateTuple | None = None, *, mask: Flags | None = None
    ) -> tuple[Series, Any]:
        """The whole sequence at once.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size).
            hx: the state before the first step, as torch has it; zeros if None.
            mask: bool, the input's first axes; True = real step. A masked step leaves the state as it was, outputs 0.

        Returns:
            The output, and the state after the last valid step.
        """
        return self._forward(input, hx, mask, None)

    def _shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        rows, recurrent = len(self.cell.projections) * self.hidden_size, self.proj_size or self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, recurrent)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Everything uniform within 1/sqrt(hidden_size), as `torch.nn` does it, in the same order."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        return x.dtype  # torch's own

    def _run(self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None) -> tuple[Series, StateTuple]:
        if mask is None:
            weights = [
                weight
                for layer in range(self.num_layers)
                for suffix in self._directions
                for weight in self._weights(layer, suffix).values()
            ]
            output, *last = self._call(x, state, weights, self.num_layers, self.dropout, self.bidirectional)
            return output, tuple(last)
        return self._walk(x, state, mask, resets)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, mask: Flags | None, resets: Flags | None, reverse: bool
    ) -> tuple[Series, StateTuple]:
        assert mask is not None, "without a mask the whole stack is one call"
        if reverse:
            output, last = self._direction(x.flip(1), state, weights, mask.flip(1), resets, reverse=False)
            return output.flip(1), last
        order = left_aligned(mask)
        if order is not None:
            # Over padding before the first real step h would move: o * tanh(c) is not the h it came from.
            aligned = torch.take_along_dim(mask, order, dim=1)
            output, last = self._direction(reorder(x, order), state, weights, aligned, resets, reverse=False)
            return reorder(output, torch.argsort(order, dim=1)), last
        x, used = zero_masked_steps(x, mask), list(weights.values())
        if self.hold:
            x = torch.cat([x, (~mask).unsqueeze(2).to(x.dtype)], dim=2)
            gates = [self.hold.get(gate, 0.0) for gate in self.cell.projections]
            column = x.new_tensor(gates).repeat_interleave(self.hidden_size).unsqueeze(1)
            used[0] = torch.cat([used[0], column], dim=1)
        output, *last_states = self._call(x, tuple(s.unsqueeze(0) for s in state), used, 1, 0.0, False)
        h = _last_valid(output, state[0], mask)
        return zero_masked_steps(output, mask), (h, *(s.squeeze(0) for s in last_states[1:]))

    def _cell_step(self, x: Step, state: StateTuple, weights: Weights) -> tuple[Step, StateTuple]:
        linear, gates = nn.functional.linear, len(self.cell.projections)
        projected = linear(x, weights["weight_ih"], weights.get("bias_ih")).chunk(gates, dim=1)
        x, last = self.cell.step(
            projected, state, lambda h: linear(h, weights["weight_hh"], weights.get("bias_hh")).chunk(gates, dim=1)
        )
        if "weight_hr" in weights:
            x = linear(x, weights["weight_hr"])
            last = (x, *last[1:])  # the projected output is what the gates read next
        return x, last

    def _call(
        self, x: Series, state: StateTuple, weights: list[Tensor], layers: int, dropout: float, bidirectional: bool
    ) -> tuple[Tensor, ...]:
        hx = state if len(state) > 1 else state[0]
        return type(self).kernel(x, hx, weights, self.bias, layers, dropout, self.training, bidirectional, True)


def _last_valid(output: Series, h0: State, mask: Flags) -> State:
    """The output at each left-aligned row's last real step; h0 where a row has none."""
    lengths = mask.sum(1)
    rows = torch.arange(len(lengths), device=output.device)
    return torch.where((lengths > 0).unsqueeze(1), output[rows, (lengths - 1).clamp(min=0)], h0)
