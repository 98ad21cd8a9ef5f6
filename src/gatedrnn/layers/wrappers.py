"""Wrappers between a layer and its equations: the previous step's input beside the present one, recurrent weights in
blocks."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatedrnn.kernels.backends import exporting_to_onnx
from gatedrnn.kinds.definition import over_time, reversed_resets
from gatedrnn.kinds.kind import Weights
from gatedrnn.shapes import Flags, Series, StateTuple, Step


@dataclass(frozen=True)
class Wrapper:
    """The inputs and weights that a layer reads and stores differently from its cell's equations.

    Args:
        inputs: inputs that a projection reads: 1, or 2 with that of the real step before, whose weights are the second
            half of `weight_ih`. It is then also a state, the last of `hx`: 0 at the beginning and after a reset.
        blocks: blocks on the diagonal of each gate's recurrent matrix, all else of which is 0 and not stored:
            `weight_hh` has hidden_size / blocks columns.
    """

    inputs: int = 1
    blocks: int = 1

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states beside the cell's, as wide as the widest input of a layer."""
        return ("x",) * (self.inputs - 1)

    def stored(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters, from those that the equations read."""
        rows, features = shapes["weight_ih"]
        shapes = shapes | {"weight_ih": (rows, features * self.inputs)}
        if "weight_hh" in shapes:
            rows, width = shapes["weight_hh"]
            shapes |= {"weight_hh": (rows, width // self.blocks)}
        return shapes

    def read(self, weights: Weights, gates: int) -> Weights:
        """Return the weights that the equations read, from those that are stored."""
        return weights if self.blocks == 1 else weights | {"weight_hh": self.whole(weights["weight_hh"], gates)}

    def whole(self, weight: Tensor, gates: int) -> Tensor:
        """Return a recurrent matrix, gate by gate, from its blocks (gates · blocks · size, size)."""
        size = weight.shape[1]
        # Built at each use: the parameter holds the blocks alone, so that no gradient fills the zeros.
        return torch.cat([torch.block_diag(*gate) for gate in weight.view(gates, -1, size, size)])

    def concat_previous_input(
        self, x: Series, state: StateTuple, mask: Flags | None = None, resets: Flags | None = None,
        reverse: bool = False,
    ) -> tuple[Series, StateTuple, StateTuple]:  # fmt: skip
        """Return the series that projections read, the equations' states, and other last states: none or the last
        input. Arguments as in `concat_previous_input`."""
        if self.inputs == 1:
            return x, state, ()
        *states, before = state
        series, last = concat_previous_input(x, before, mask, resets, reverse)
        return series, tuple(states), (last,)


PLAIN = Wrapper()
"""The wrapper that changes nothing."""


def concat_previous_input(
    x: Series, before: Step, mask: Flags | None, resets: Flags | None, reverse: bool
) -> tuple[Series, Step]:
    """Return each step's input and, in the features after it, that of the real step before it (after it, if reversed).

    Args:
        x: (batch, time, features).
        before: (batch, features or more): the last real input before the first step; further features are not read.
        mask: True for real steps.
        resets: True at t for a cut between t-1 and t, in both directions: nothing of before it is read after it.

    Returns:
        (batch, time, 2 · features), and the last real input of all, 0 where a cut came after it, in the shape and dtype
        of `before`.
    """
    if reverse:
        flags = None if resets is None else reversed_resets(resets).flip(1)
        real = None if mask is None else mask.flip(1)
        pairs, last = concat_previous_input(x.flip(1), before, real, flags, reverse=False)
        return pairs.flip(1), last
    steps, features = x.shape[1], x.shape[2]
    inputs = torch.cat([before[:, None, :features].to(x.dtype), x], dim=1)
    if mask is not None or resets is not None:
        inputs = _of_the_last_real_step(inputs, mask, resets)
    last = pad(inputs[:, steps].to(before.dtype), (0, before.shape[1] - features))
    return torch.cat([x, inputs[:, :steps]], dim=2), last


def _of_the_last_real_step(inputs: Series, mask: Flags | None, resets: Flags | None) -> Series:
    """Return at each position the last input that is real and after the last cut; 0 if there is none.

    Args:
        inputs: (batch, 1 + time, features), one before the first step.
        mask, resets: flags of the steps, (batch, time); a cut at t acts on the position before it too.
    """
    batch, positions, _ = inputs.shape
    here = torch.arange(positions, device=inputs.device).expand(batch, positions)
    last_real = here
    if mask is not None:
        last_real = _largest_up_to(torch.where(pad(mask, (1, 0), value=True), here, 0))
        # `expand`, not `take_along_dim`: that fixes the sizes of an example in an exported graph.
        inputs = inputs.gather(1, last_real.unsqueeze(2).expand_as(inputs))
    if resets is not None:
        # Position t holds what step t may read: a cut at t leaves nothing of the positions up to t.
        cut = _largest_up_to(torch.where(pad(resets, (0, 1)), here, -1))
        inputs = torch.where((last_real > cut).unsqueeze(2), inputs, 0)
    return inputs


def _largest_up_to(positions: Tensor) -> Tensor:
    """Return the running maximum, (batch, positions)."""
    if not exporting_to_onnx():
        return positions.cummax(1).values

    def step(state: tuple[Tensor, ...], here: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        largest = torch.maximum(state[0], here)  # ONNX has no operator of running maxima
        return largest, (largest,)

    return over_time(step, (positions[:, 0],), (positions,))[0]
