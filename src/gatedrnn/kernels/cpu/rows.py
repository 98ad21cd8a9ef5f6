"""Rows of channels, as the loops of the scan find them in memory: whose they are, where they lie, what comes next."""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu.memory import Memory
from gatedrnn.kernels.cpu.numbers import INLINED, borrowed, part, prefetch, prefetch_to_write, shifted

AHEAD = 256  # numbers of a series between what is at work and what memory is asked for
LINE = 16  # numbers that memory gives at once


class Reading(NamedTuple):
    """What is read in either direction: projections or, of the bare scan, decay and drive; flags are empty if none."""

    kind: int
    x: Memory
    y: Memory
    z: Memory
    bias: np.ndarray
    mask: np.ndarray
    resets: np.ndarray
    reset_state: np.ndarray


class Plan(NamedTuple):
    """How the work is cut, and which way time is walked."""

    steps: int
    channels: int
    block: int
    stretches: int
    backwards: bool
    first: int
    """The first sequence, of `sequences` ones."""
    sequences: int
    low: int
    """The first step, in the order of the walk; `high` is the end."""
    high: int

    @property
    def items(self) -> int:
        """Parts of the work that do not wait for each other."""
        return self.sequences * -(-self.channels // self.block) * self.stretches


@numba.njit(**INLINED)
def item_of(plan: Plan, item: int) -> tuple[int, int, int, int, int, int]:
    """Sequence, first channel, channels, first and last step (in the order of the walk) and place of its state."""
    blocks = (plan.channels + plan.block - 1) // plan.block
    stretch, low = item % plan.stretches, item // plan.stretches % blocks * plan.block
    b, n = plan.first + item // (plan.stretches * blocks), min(plan.block, plan.channels - low)
    length = plan.high - plan.low
    start, end = plan.low + length * stretch // plan.stretches, plan.low + length * (stretch + 1) // plan.stretches
    return b, low, n, start, end, (b * plan.stretches + stretch) * plan.channels + low


@numba.njit(**INLINED)
def lent(series: Memory) -> Memory:
    return Memory(borrowed(series.numbers), series.batch, series.time, series.offset)


@numba.njit(**INLINED)
def all_lent(given: Reading) -> Reading:
    return Reading(
        given.kind, lent(given.x), lent(given.y), lent(given.z), borrowed(given.bias), borrowed(given.mask),
        borrowed(given.resets), borrowed(given.reset_state),
    )  # fmt: skip


@numba.njit(**INLINED)
def row_of(series: Memory, b: int, t: int, low: int, n: int) -> Any:
    start = series.offset + b * series.batch + t * series.time + low
    return part(series.numbers, start, n if series.numbers.size else 0)


@numba.njit(**INLINED)
def coming(plan: Plan, t: int, n: int, upwards: bool) -> int:
    """A step that is soon at work, where time goes upwards or downwards."""
    ahead = (AHEAD + n - 1) // n
    return min(t + ahead, plan.steps - 1) if upwards else max(t - ahead, 0)


@numba.njit(**INLINED)
def ask(series: Memory, b: int, t: int, low: int, n: int, upwards: bool) -> None:
    """Ask memory for a row that is soon to be read, in the order in which all rows come.

    The processor sees that order and goes on by itself; one that falls within a row while rows rise it takes for none.
    """
    start = series.offset + b * series.batch + t * series.time + low
    end = min(start + n, series.numbers.size)
    for i in range(0, end - start, LINE):
        prefetch(series.numbers, start + i if upwards else end - 1 - i)


@numba.njit(**INLINED)
def ask_to_write(series: Memory, b: int, t: int, low: int, n: int, upwards: bool) -> None:
    start = series.offset + b * series.batch + t * series.time + low
    end = min(start + n, series.numbers.size)
    for i in range(0, end - start, LINE):
        prefetch_to_write(series.numbers, start + i if upwards else end - 1 - i)


@numba.njit(**INLINED)
def ask_for_gates(x: Memory, y: Memory, z: Memory, b: int, t: int, low: int, n: int, upwards: bool) -> None:
    """The gates of a step lie one after another."""
    gates = (x, y, z)
    for i in range(3):
        ask(gates[i if upwards else 2 - i], b, t, low, n, upwards)


@numba.njit(**INLINED)
def ask_to_write_gates(x: Memory, y: Memory, z: Memory, b: int, t: int, low: int, n: int, upwards: bool) -> None:
    gates = (x, y, z)
    for i in range(3):
        ask_to_write(gates[i if upwards else 2 - i], b, t, low, n, upwards)


@numba.njit(**INLINED)
def gate_of(series: Memory, bias: Any, gate: int, plan: Plan, b: int, t: int, low: int, n: int, room: Any) -> Any:
    """A row of projections, with the bias of its gate."""
    start = gate * plan.channels + low
    return shifted(row_of(series, b, t, low, n), part(bias, start, n if bias.size else 0), room)
