"""Processes, threads and signals: how many may be asked for, what ends a step."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from gatedrnn.errors import TooLarge, UsageError
from gatedrnn.machine import cores

STACK = 8 * 2**20
"""Bytes of a thread's stack where the system sets no other size."""
_EACH_CORE = 4
"""Processes or threads for each core, at most: a machine that runs a thousand answers nobody."""
_allowed = False  # in this process, to ask for more


@contextmanager
def oversubscribing(allowed: bool) -> Iterator[None]:
    """Allow any number of processes within this context, if `allowed`."""
    global _allowed
    before, _allowed = _allowed, _allowed or allowed
    try:
        yield
    finally:
        _allowed = before


def may_oversubscribe() -> bool:
    """Whether more processes than cores may run here; a worker is sent it."""
    return _allowed


def check_cores(count: int, asked: str) -> None:
    """Check that the machine can run so many processes or threads.

    Args:
        count: of them.
        asked: the words that ask for them.

    Raises:
        UsageError: they are more than `_EACH_CORE` for each core.
    """
    if count > _EACH_CORE * cores() and not _allowed:
        raise UsageError(
            f"{asked}: this machine has {cores()} cores, and more than {_EACH_CORE} for each of them only take "
            f"turns; give {_EACH_CORE * cores()} or fewer, or --oversubscribe if you want them all the same"
        )


def threads_for(jobs: int = 1) -> int:
    """Threads of each of `jobs` processes so that every core runs one; no more than OMP_NUM_THREADS, where that is
    set."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdigit() and int(asked) else cores()
    return max(1, min(cores() // jobs, most))


def check_threads(threads: int) -> None:
    """Check that the stacks of so many threads fit into the memory that is available now.

    Raises:
        UsageError: they are far more than there are cores.
        TooLarge: they do not.
    """
    check_cores(threads, f"--threads {threads:,}")
    available = available_memory()
    if threads * STACK > available:
        raise TooLarge(
            f"--threads {threads}: their stacks take {readable(threads * STACK)}, and {readable(available)} are "
            f"available; this machine runs {cores()} at the same time"
        )


def use_threads(threads: int | None) -> None:
    """Have torch use so many threads; all cores if None.

    Raises:
        TooLarge: there is no memory for them.
    """
    import torch

    check_threads(threads or 1)
    torch.set_num_threads(threads or threads_for())


def available_memory() -> int:
    """Bytes of the machine's memory that are free; a container's limit counts."""
    import psutil

    available = int(psutil.virtual_memory().available)
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            return min(available, int(limit.read()) - int(used.read()))
    except (OSError, ValueError):  # no container, or one without a limit
        return available


def readable(size: float) -> str:
    """Bytes in the largest unit of which there is at least one: 1.5 GiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while size >= 1024 and power < len(units) - 1:
        size, power = size / 1024, power + 1
    return f"{size:,.1f} {units[power]}" if power else f"{size:.0f} bytes"


SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class StopFlag(Protocol):
    """An event of threading or multiprocessing."""

    def is_set(self) -> bool:
        """Whether the run shall end after the step under way."""
        ...


class Ended(KeyboardInterrupt):
    """A signal that asks the process to end, where there is no step to finish first."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal_number = number


class SignalFlag:
    """Set by a signal, or where another flag is."""

    def __init__(self, other: StopFlag | None = None) -> None:
        self.other = other
        self.signal_number: int | None = None
        """The signal that came first."""

    def is_set(self) -> bool:
        """Whether the run shall end after the step under way."""
        return self.signal_number is not None or (self.other is not None and self.other.is_set())

    def set(self, number: int, _: FrameType | None) -> None:
        """A handler of signals."""
        self.signal_number = self.signal_number or number


@contextmanager
def set_by_signals(other: StopFlag | None = None) -> Iterator[SignalFlag]:
    """A flag that `SIGNALS` set: the loop then ends its step and saves, instead of stopping in the middle."""
    flag = SignalFlag(other)
    with _handled_by(flag.set):
        yield flag


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let `SIGNALS` raise `Ended`, as Ctrl-C raises KeyboardInterrupt, so that what is open is closed in order."""
    received = list[int]()

    def end(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise Ended(number)

    with _handled_by(end):
        try:
            yield
        except Exception as error:
            # In the middle of a class statement Python 3.11 turns whatever is raised into a RuntimeError.
            if not received:
                raise
            raise Ended(received[0]) from error


@contextmanager
def _handled_by(handler: "signal._HANDLER") -> Iterator[None]:
    """Signals that the process was started to ignore (nohup, a shell's background) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
