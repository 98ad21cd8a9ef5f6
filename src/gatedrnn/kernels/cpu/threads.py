"""Serial kernels over shared work: they release the interpreter lock, and several threads run them at once.

On torch's own OpenMP threads where they can be reached: those wait for the next product by spinning, and any other
thread would have to share a core with one of them. Elsewhere, and after a fork, on a small pool of our own. Safe from
several Python threads; no threading library of the kernels' own is involved.
"""

import ctypes
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

WORTH_A_THREAD = 1 << 15  # numbers below which handing work to a thread costs more than it saves
WORTH_SAYING = 1.0  # seconds of compiling
LOG = logging.getLogger("gatedrnn")

Part = Callable[[], object]


def threads_for(numbers: int) -> int:
    """How many threads are worth it for so many numbers of work."""
    return torch.get_num_threads() if numbers >= WORTH_A_THREAD else 1


def share_out(kernel: Any, items: int, threads: int, *arguments: Any) -> None:
    """Run kernel(first, last, *arguments), a compiled function, over all items, in up to `threads` parts at once."""
    misses, began = _compilations(kernel), time.perf_counter()
    threads = min(threads, items)
    if threads <= 1:
        kernel(0, items, *arguments)
    else:
        edges = [items * i // threads for i in range(threads + 1)]
        parts: list[Part] = [partial(kernel, low, high, *arguments) for low, high in pairwise(edges)]
        (_in_pool if (team := _team(os.getpid())) is None else team)(parts)
    took = time.perf_counter() - began
    if took > WORTH_SAYING and _compilations(kernel) > misses:
        LOG.warning(
            "compiled %s for this machine in %.0f s; from now on it is read from the disk", kernel.__name__, took
        )


def _compilations(kernel: Any) -> int:
    return sum(kernel.stats.cache_misses.values())


@cache
def _team(process: int) -> Callable[[list[Part]], None] | None:
    """What runs parts on torch's OpenMP threads; None where they cannot be reached, and after a fork, which they do
    not survive."""
    if process != _FIRST_PROCESS:
        return None
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        begin = getattr(ctypes.CDLL(str(library)), "GOMP_parallel", None)
        if begin is not None:
            begin.argtypes, begin.restype = [_CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return lambda parts: _on_team(begin, parts)
    return None


_FIRST_PROCESS = os.getpid()
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _on_team(begin: Any, parts: list[Part]) -> None:
    waiting, errors = parts[::-1], []

    def work(_: Any) -> None:
        # Every thread of the team comes here; there may be fewer of them than parts.
        while waiting:
            try:
                part = waiting.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                part()
            except BaseException as error:  # nothing may leave through C
                errors.append(error)

    begin(_CALLBACK(work), None, len(parts), 0)
    if errors:
        raise errors[0]


def _in_pool(parts: list[Part]) -> None:
    # The first part is this thread's own: it would only wait.
    others = [_pool(os.getpid(), len(parts) - 1).submit(part) for part in parts[1:]]
    parts[0]()
    for part in others:
        part.result()


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process and size: after a fork the parent's threads do not exist in the child."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gatedrnn")
