"""Signals that end the step under way instead of tearing it: Ctrl-C, SIGTERM, and SIGHUP of a terminal that closes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

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
