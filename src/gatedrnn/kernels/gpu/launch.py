"""How a kernel is started: the sizes to try, how time is divided into chunks, and on which device."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
import triton
from torch import Tensor

from gatedrnn.shapes import Flags

Grid: TypeAlias = Callable[[dict[str, int]], tuple[int]]
_INTERPRETED: bool = triton.knobs.runtime.interpret
"""Whether kernels run as Python on the CPU (TRITON_INTERPRET=1, read once, before triton is first imported)."""
CHUNK_MULTIPLE = 64
"""A chunk is a multiple of it, so that every TIME below divides a chunk."""
_MIN_CHUNK = 256
"""Steps below which cutting costs more launches than it saves waiting."""
_ASSUMED_CHANNELS = 64
"""Channels a program is taken to have when programs are counted before their sizes are chosen."""


def _configurations(*sizes: tuple[int, int, int, int]) -> list[Any]:
    return [
        triton.Config({"TIME": time, "CHANNELS": channels, "STAGES": stages}, num_warps=warps)
        for time, channels, stages, warps in sizes
    ]


# Few warps: what a warp holds of time is scanned without leaving it. The first of each is taken where none may be
# timed: in the interpreter, and where torch is to be deterministic.
LIGHT = _configurations((32, 32, 2, 1), (32, 64, 1, 1), (16, 128, 2, 1), (32, 64, 1, 2), (64, 64, 1, 4))
HEAVY = _configurations((16, 32, 1, 1), (16, 32, 2, 1), (16, 64, 1, 2), (32, 64, 1, 4))
"""Tiles of a kernel that holds so many at once that larger ones do not fit into its registers."""


def _candidates(configurations: list[Any], *_: Any, **__: Any) -> list[Any]:
    # Which size is fastest differs from run to run, and with the size the order of additions.
    return configurations[:1] if torch.are_deterministic_algorithms_enabled() else configurations


def tuned(configurations: list[Any]) -> Callable[[Any], Any]:
    """Have TIME, CHANNELS and STAGES of a kernel chosen by timing, once per dtype, channels, `crowd` and equation."""
    return triton.autotune(
        configs=configurations[:1] if _INTERPRETED else configurations,
        key=["channels", "crowd", "CELL"],
        prune_configs_by={"early_config_prune": _candidates},
    )


class Division(NamedTuple):
    """How a run over time is divided among programs."""

    chunk: int
    """Steps of one program."""
    chunks: int
    """Programs one behind the other in time; with more than one, two passes are needed."""
    crowd: int
    """Programs by processor, as a power of two: what is fastest depends on it."""


def divide_time(batch: int, steps: int, channels: int, device: torch.device, chunk: int | None = None) -> Division:
    """One piece where sequences and channels alone fill half of the device, else as many chunks as fill it twice.

    Args:
        chunk: steps of a chunk, a multiple of CHUNK_MULTIPLE, instead of the choice made here.
    """
    processors = _processors(device)
    rows = batch * triton.cdiv(channels, _ASSUMED_CHANNELS)
    if chunk is None:
        target = 1 if 2 * rows >= processors else triton.cdiv(2 * processors, rows)
        chunk = steps if target == 1 else max(_MIN_CHUNK, CHUNK_MULTIPLE * triton.cdiv(steps, target * CHUNK_MULTIPLE))
    elif chunk < 1 or chunk % CHUNK_MULTIPLE:
        raise ValueError(f"chunk must be a positive multiple of {CHUNK_MULTIPLE}, got {chunk}")
    chunks = triton.cdiv(steps, chunk)
    # Powers of two up to 16: each value of `crowd` is a key of the autotuner, which times all tiles for it.
    return Division(chunk, chunks, min(rows * chunks // processors, 16).bit_length())


@lru_cache
def _processors(device: torch.device) -> int:
    return 1 if device.type == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count


def programs(batch: int, division: Division, channels: int) -> Grid:
    """The grid: one program per sequence, chunk and block of channels, the block fastest."""
    return lambda sizes: (batch * division.chunks * triton.cdiv(channels, sizes["CHANNELS"]),)


def launch(kernel: Any, grid: Grid, like: Tensor, *arguments: Any, **names: Any) -> None:
    """Start `kernel` on the device of `like`, which need not be the current one."""
    # Triton launches on the current device, wherever the pointers lie.
    with torch.cuda.device(like.device) if like.is_cuda else nullcontext():
        kernel[grid](*arguments, **names)


def strided(*tensors: Tensor) -> Sequence[Any]:
    """Each tensor followed by its three strides, as the kernels take them."""
    return [value for tensor in tensors for value in (tensor, *tensor.stride())]


def flags(values: Flags | None) -> Tensor | None:
    """Bool as bytes, one row a sequence: a pointer to bool is not the same to the compiler and to the interpreter."""
    return None if values is None else values.contiguous().view(torch.uint8)
