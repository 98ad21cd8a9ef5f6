"""One step of a scan cell from its projections, for streams: a scan of length one, set up without the interpreter."""

from typing import Any

import numba
import numpy as np

from gatedrnn.kernels.cpu.gates import GATES, KINDS, SQUASHED
from gatedrnn.kernels.cpu.loops import walk
from gatedrnn.kernels.cpu.memory import Memory, flat
from gatedrnn.kernels.cpu.numbers import FAST
from gatedrnn.kernels.cpu.rows import Plan, Reading
from gatedrnn.shapes import Channels, State, Step


def gated_step(kind: str, projected: Step, bias: Channels | None, before: State, after: State, layer: int) -> Step:
    """A scan cell's output, in the dtype of `projected`, from the projections of one step (batch, gates · channels).

    Args:
        projected: float64, float32 or bfloat16.
        bias: added to them, in the dtype of accumulation.
        before: states of all layers (layers, batch, channels), contiguous, in the dtype of accumulation.
        after: where the next state of `layer` goes; the same of that.
    """
    _, batch, channels = after.shape
    added = after.new_empty(0) if bias is None else bias
    output, code = projected.new_empty(batch, channels), KINDS[kind]
    _step(
        code, GATES[kind], batch, channels, layer, flat(projected.contiguous()), flat(added), code in SQUASHED,
        flat(before), flat(after), flat(output),
    )  # fmt: skip
    return output


@numba.njit(**FAST)
def _step(
    kind: int, gates: int, batch: int, channels: int, layer: int, projected: Any, bias: Any, squashed: bool,
    before: Any, after: Any, output: Any,
) -> None:  # fmt: skip
    none, nothing, width = np.empty(0, np.bool_), np.zeros(0, after.dtype), gates * channels
    third = Memory(projected, width, width, 2 * channels) if gates == 3 else Memory(projected[:0], 0, 0, 0)
    given = Reading(
        kind, Memory(projected, width, width, 0), Memory(projected, width, width, channels), third, bias, none, none,
        nothing,
    )  # fmt: skip
    state = after[layer * batch * channels : (layer + 1) * batch * channels]
    state[:] = before[layer * batch * channels : (layer + 1) * batch * channels]
    plan = Plan(1, channels, channels, 1, False, 0, batch, 0, 1)
    walk(0, batch, plan, given, state, squashed, False, Memory(output, channels, channels, 0))
