"""Serial kernels over shared work: they release the interpreter lock, and several threads run them at once.

On torch's own OpenMP threads where they can be reached: those wait for the next product by spinning, and any other
thread would have to share a core with one of them. Elsewhere, and after a fork, on a small pool of our own. Safe from
several Python threads; no threading library of the kernels' own is involved.
"""

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gatedrnn.kernels.cpu.compiling import CompiledFunction
from gatedrnn.kernels.cpu.team import SharedForm

WORTH_A_THREAD = 1 << 15  # numbers below which handing work to a thread costs more than it saves


class Kernel(NamedTuple):
    """A compiled function in two forms; `KERNELS` has all of them."""

    alone: Any
    """Called with (first, last, *arguments): items of the work."""
    shared: Any
    """Called with (begin, items, parts, *arguments): all items, on an OpenMP team, see `on_team`."""

    @classmethod
    def of(cls, kernel: CompiledFunction) -> "Kernel":
        """Both forms of a function of (first, last, *arguments)."""
        found = KERNELS[kernel.name] = cls(kernel, SharedForm(kernel))
        return found

    @property
    def name(self) -> str:
        return str(self.alone.name)


KERNELS: dict[str, Kernel] = {}


class Call(NamedTuple):
    """Of a kernel, that would have been run over items 0 to the last."""

    kernel: Kernel
    threads: int
    arguments: tuple[Any, ...]


_calls: ContextVar[list[Call] | None] = ContextVar("calls", default=None)


@contextmanager
def noting() -> Iterator[list[Call]]:
    """Inside, `share_out` notes what it is asked for and runs nothing: results are whatever memory holds."""
    calls: list[Call] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def threads_for(numbers: int) -> int:
    """How many threads are worth it for so many numbers of work."""
    return torch.get_num_threads() if numbers >= WORTH_A_THREAD else 1


def share_out(kernel: Kernel, items: int, threads: int, *arguments: Any) -> None:
    """Run a kernel over all items, in up to `threads` parts at once."""
    threads = min(threads, items)
    if (calls := _calls.get()) is not None:
        calls.append(Call(kernel, threads, arguments))
    elif threads <= 1:
        kernel.alone(0, items, *arguments)
    elif (begin := team(os.getpid())) is not None:
        kernel.shared(begin, items, threads, *arguments)
    else:
        _in_pool(kernel.alone, items, threads, arguments)


@cache
def team(process: int) -> int | None:
    """Where the function lies that begins work on torch's OpenMP threads; None where there is none, and after a fork,
    which those threads do not survive."""
    if process != _FIRST_PROCESS:
        return None
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        begin = getattr(ctypes.CDLL(str(library)), "GOMP_parallel", None)
        if begin is not None:
            return ctypes.cast(begin, ctypes.c_void_p).value
    return None


_FIRST_PROCESS = os.getpid()


def _in_pool(alone: Any, items: int, threads: int, arguments: tuple[Any, ...]) -> None:
    edges = [items * i // threads for i in range(threads + 1)]
    # The first part is this thread's own: it would only wait.
    (first, until), *others = pairwise(edges)
    pool = _pool(os.getpid(), threads - 1)
    parts = [pool.submit(alone, low, high, *arguments) for low, high in others]
    alone(first, until, *arguments)
    for part in parts:
        part.result()


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process and size: after a fork the parent's threads do not exist in the child."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gatedrnn")
