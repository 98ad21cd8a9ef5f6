"""One step of a cell of small blocks, for streams: its gates and its state in one call, from the projections."""

import math
from typing import Any

import numba
import numpy as np

from gatedrnn.equations import BlockKernel
from gatedrnn.kernels.cpu.compiling import compiled
from gatedrnn.kernels.cpu.numbers import FAST, INLINED, ONE, TWO, ZERO
from gatedrnn.kernels.cpu.stepping import LIKE, at_address
from gatedrnn.shapes import State, Step

ROTATION, REFLECTIONS = range(2)
_CODES = {"rotation": ROTATION, "reflections": REFLECTIONS}
SHORTEST = 1e-12  # of an axis: torch's normalize divides by no smaller length


def block_step(record: BlockKernel, size: int, projected: Step, before: State, after: State, output: Step) -> None:
    """The next state from the projections of one step, written to `after` and to `output`.

    Args:
        size: channels of a block.
        projected: (batch, gates · channels), float32 or float64; it and the others are contiguous and of one dtype.
        before, after, output: (batch, channels).
    """
    batch, channels = after.shape
    places = [tensor.data_ptr() for tensor in (projected, before, after, output)]
    like, width = LIKE[after.dtype], projected.shape[1]
    _blocks(_CODES[record.form], size, batch, channels, width, like, np.array(places, np.int64))


@compiled(**FAST)
def _blocks(kind: int, size: int, batch: int, channels: int, width: int, like: Any, places: Any) -> None:
    projected = at_address(like, places[0], batch * width)
    before, after = at_address(like, places[1], batch * channels), at_address(like, places[2], batch * channels)
    output = at_address(like, places[3], batch * channels)
    blocks = channels // size
    h = np.empty(size, like.dtype)
    for row in range(batch):
        start = row * width
        for n in range(blocks):
            for i in range(size):
                h[i] = before[row * channels + i * blocks + n]
            turns = start + 2 * channels + n
            if kind == ROTATION:
                _rotate(projected[turns], projected[turns + blocks], h)
            else:
                for i in range(size - 1, -1, -1):
                    _reflect(projected, turns + i * blocks, turns + (i + 1) * channels, blocks, h)
            for i in range(size):
                channel = i * blocks + n
                d = _share(projected[start + channels + channel])
                place = row * channels + channel
                after[place] = d * h[i] + (ONE - d) * projected[start + channel]
                output[place] = after[place]


@numba.njit(**INLINED)
def _rotate(angle: Any, mirror: Any, h: Any) -> None:
    """h turned by the angle, its second component mirrored first where the sign says so."""
    second = h[1] if mirror > ZERO else mirror if mirror != mirror else -h[1]
    cos, sin = math.cos(angle), math.sin(angle)
    h[0], h[1] = cos * h[0] - sin * second, sin * h[0] + cos * second


@numba.njit(**INLINED)
def _reflect(projected: Any, whether: int, axis: int, apart: int, h: Any) -> None:
    """h reflected along an axis, or left alone, by a sign; components of the axis lie `apart`."""
    sign = projected[whether]
    squares = along = ZERO * h[0]
    for i in range(h.size):
        u = projected[axis + i * apart]
        squares += u * u
        along += u * h[i]
    length = max(math.sqrt(squares), h.dtype.type(SHORTEST))
    factor = (TWO * along / (length * length)) if sign > ZERO else sign if sign != sign else ZERO * squares
    for i in range(h.size):
        h[i] -= factor * projected[axis + i * apart]


@numba.njit(**INLINED)
def _share(x: Any) -> Any:
    """Between 0 and 1; comparisons, for min and max lose a NaN."""
    return ZERO if x < ZERO else ONE if x > ONE else x
