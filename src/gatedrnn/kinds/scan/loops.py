"""Time, masks, resets, chunks and directions around a generated function of rows, for every elementwise cell.

A work item is one sequence, one block of channels and one chunk of time. The loops know addresses alone: one compiled
form serves all cells and dtypes.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.functions import flush_denormals, restore_denormals
from gatedrnn.kernels.cpu.rows import (
    NOT_PREFETCHED,
    WRITTEN_SOON,
    address_of,
    call_row,
    clear_bytes,
    copy_bytes,
    prefetch_at,
)
from gatedrnn.kernels.cpu.threads import Kernel
from gatedrnn.kernels.cpu.views import borrowed, keep_alive, view

_PREFETCH_BYTES = 1024  # bytes of a row between the step at work and the one that is prefetched
_CACHE_LINE = 64
_SUMMED_ALONE = 64  # steps whose gradients of a bias are summed by themselves: a long sum would lose digits
NONE = -1
"""The place of a row that the function does not have."""


class Plan(NamedTuple):
    """How the work is divided, and in which direction time runs."""

    steps: int
    channels: int
    block: int
    """Channels of a work item."""
    chunks: int
    """Chunks of time that run at once."""
    reverse: bool
    first: int
    """The first sequence, of `sequences` ones."""
    sequences: int
    low: int
    """The first step, in the order of the run; `high` is the end."""
    high: int


class Rows(NamedTuple):
    """A function of rows, and where they lie."""

    function: int
    """Its address."""
    at_start: int
    """The address of the same function for a step whose state before it has the dtype of sums, where states do not."""
    sites: np.ndarray
    """One `Site` a row, in the function's order."""
    state: int
    """The first place of the rows that go from step to step, states or their gradients, one after another."""
    states: int
    """How many there are."""
    product: int
    """The place of the product of decays, where a chunk of time is composed."""
    written: int
    """The places from here to `end` are cleared at masked steps."""
    end: int


@numba.njit(**INLINED)
def _item(plan: Plan, item: int) -> tuple[int, int, int, int, int, int]:
    """Sequence, chunk, first channel, number of channels, first step and end in the order of the run."""
    blocks = (plan.channels + plan.block - 1) // plan.block
    chunk, low = item % plan.chunks, item // plan.chunks % blocks * plan.block
    b, n = plan.first + item // (plan.chunks * blocks), min(plan.block, plan.channels - low)
    length = plan.high - plan.low
    start, end = plan.low + length * chunk // plan.chunks, plan.low + length * (chunk + 1) // plan.chunks
    return b, chunk, low, n, start, end


@numba.njit(**INLINED)
def _row_address(sites: Any, place: int, b: int, chunk: int, t: int, low: int) -> int:
    """The address of a row at a step."""
    site = sites[place]
    return site.address + b * site.batch + chunk * site.chunk + t * site.time + low * site.size


@numba.njit(**INLINED)
def _prefetch_distances(sites: Any, ahead: Any, n: int) -> None:
    """Write how far ahead of a row of n numbers the one lies that is prefetched, in bytes; 0 for none."""
    for place in range(sites.size):
        site = sites[place]
        # Once an item: this division for each row at each step took a fifth of a scan over 64 channels.
        size = max(1, n * site.size)
        ahead[place] = 0 if site.prefetch == NOT_PREFETCHED else (_PREFETCH_BYTES + size - 1) // size * site.time


@numba.njit(**INLINED)
def _prefetch(sites: Any, ahead: Any, table: Any, places: int, n: int, forward: bool) -> None:
    """Ask for the rows of a later step, line by line in the order in which rows follow each other.

    The processor detects that order and continues by itself; it does not detect descending lines of ascending rows.
    """
    for i in range(places):
        place = i if forward else places - 1 - i
        if ahead[place] == 0:
            continue
        site = sites[place]
        size, to_write = n * site.size, site.prefetch == WRITTEN_SOON
        if forward:
            start = table[place] + ahead[place]
            for offset in range(0, size, _CACHE_LINE):
                prefetch_at(start + offset, to_write)
        else:
            start = table[place] - ahead[place] + size - 1
            for offset in range(0, size, _CACHE_LINE):
                prefetch_at(start - offset, to_write)


@numba.njit(**INLINED)
def _advance(sites: Any, table: Any, places: int, forward: bool) -> None:
    for place in range(places):
        step = sites[place].time
        table[place] += step if forward else -step


@compiled(**FAST)
def run(
    first: int, last: int, plan: Plan, rows: Rows, mask: Any, resets: Any, reset_state: int, hold: bool
) -> None:  # fmt: skip
    """Run each item's chunk from its state, and leave the last state there.

    A masked step leaves the state as it was; what it writes is 0, or with `hold` the state.
    """
    exactness = flush_denormals()
    sites, mask, resets = borrowed(rows.sites), borrowed(mask), borrowed(resets)
    places, size = sites.size, sites[rows.state].size
    memory = np.zeros(2 * places, np.int64)
    table, ahead = view(borrowed(memory), 0, places), view(borrowed(memory), places, places)
    addresses = address_of(table)
    forward = not plan.reverse
    for item in range(first, last):
        b, chunk, low, n, start, end = _item(plan, item)
        _prefetch_distances(sites, ahead, n)
        for place in range(places):
            table[place] = _row_address(sites, place, b, chunk, plan.steps - 1 - start if plan.reverse else start, low)
        for k in range(start, end):
            index = b * plan.steps + (plan.steps - 1 - k if plan.reverse else k)
            _prefetch(sites, ahead, table, places, n, forward)
            if resets.size and resets[index]:
                for s in range(rows.states):
                    copy_bytes(reset_state + (s * plan.channels + low) * size, table[rows.state + s], n * size)
                if rows.product != NONE:
                    clear_bytes(table[rows.product], n * size)
            if mask.size == 0 or mask[index]:
                call_row(rows.function, n, addresses)
            else:
                for place in range(rows.written, rows.end):
                    if hold:
                        copy_bytes(table[rows.state + place - rows.written], table[place], n * size)
                    else:
                        clear_bytes(table[place], n * sites[place].size)
            _advance(sites, table, places, forward)
    keep_alive(memory)
    restore_denormals(exactness)


class Sums(NamedTuple):
    """The places of sums over time; their rows are the last ones of the function."""

    rows: int
    add: int
    """The address of a function that adds one row to another and clears it."""
    resets: np.ndarray
    """The sites of the gradients of the states after a reset; empty where none is asked for."""


@compiled(**FAST)
def run_backward(
    first: int, last: int, plan: Plan, rows: Rows, sums: Sums, befores: Any, starts: Any, mask: Any, resets: Any,
    reset_state: int,
) -> None:  # fmt: skip
    """Run each item's chunk backward from the gradient of its last state, and leave there that of the state before it.

    Args:
        befores: the place of each state before a step, whose site is that of the states after each; NONE if no row
            reads it.
        starts: the sites of the states before the first step.
        reset_state: address of the states after a reset, one after another.
    """
    exactness = flush_denormals()
    sites, starts, of_reset = borrowed(rows.sites), borrowed(starts), borrowed(sums.resets)
    befores = borrowed(befores)
    mask, resets = borrowed(mask), borrowed(resets)
    places, size = sites.size, sites[rows.state].size
    summed = places - sums.rows
    row_bytes = plan.block * size
    memory, recent_memory = np.zeros(2 * places + 2 + rows.states, np.int64), np.zeros(sums.rows * row_bytes, np.uint8)
    table, recent = borrowed(memory), address_of(borrowed(recent_memory))
    addresses = address_of(table)
    pair = view(table, places, 2)
    pair_address = address_of(pair)
    saved, ahead = view(table, places + 2, rows.states), view(table, places + 2 + rows.states, places)
    forward = plan.reverse  # of addresses: the gradient runs against time
    for item in range(first, last):
        b, chunk, low, n, start, end = _item(plan, item)
        _prefetch_distances(sites, ahead, n)
        last_t = plan.steps - end if plan.reverse else end - 1
        for place in range(places):
            table[place] = _row_address(sites, place, b, chunk, last_t, low)
        for i in range(sums.rows):
            table[summed + i] = recent + i * row_bytes
        for k in range(end - 1, start - 1, -1):
            index = b * plan.steps + (plan.steps - 1 - k if plan.reverse else k)
            reset = resets.size > 0 and resets[index]
            _prefetch(sites, ahead, table, places, n, forward)
            if mask.size and not mask[index]:
                for place in range(rows.written, rows.end):
                    clear_bytes(table[place], n * sites[place].size)
            else:
                for s in range(rows.states):
                    before = befores[s]
                    if before == NONE:
                        continue
                    step = sites[before].time
                    # The row's address moves to the state before this step for one call, and back after it.
                    saved[s] = table[before]
                    if reset:
                        table[before] = reset_state + (s * plan.channels + low) * size
                    elif k == 0:
                        table[before] = _row_address(starts, s, b, chunk, 0, low)
                    else:
                        table[before] += step if forward else -step
                call_row(rows.at_start if reset or k == 0 else rows.function, n, addresses)
                for s in range(rows.states):
                    if befores[s] != NONE:
                        table[befores[s]] = saved[s]
            if sums.rows and ((end - k) % _SUMMED_ALONE == 0 or k == start):
                for i in range(sums.rows):
                    pair[0], pair[1] = table[summed + i], _row_address(sites, summed + i, b, chunk, 0, low)
                    call_row(sums.add, n, pair_address)
            if reset:
                for s in range(rows.states):
                    if of_reset.size:
                        pair[0], pair[1] = table[rows.state + s], _row_address(of_reset, s, b, chunk, 0, low)
                        call_row(sums.add, n, pair_address)
                    else:
                        clear_bytes(table[rows.state + s], n * size)
                if rows.product != NONE:
                    clear_bytes(table[rows.product], n * size)
            _advance(sites, table, summed, forward)
    keep_alive((memory, recent_memory))
    restore_denormals(exactness)


RUN = Kernel.of(run)
RUN_BACKWARD = Kernel.of(run_backward)
