"""Ctrl-C that ends the step under way instead of tearing it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class StopFlag(Protocol):
    """An event of threading or multiprocessing."""

    def is_set(self) -> bool:
        """Whether the run shall end after the step under way."""
        ...


@contextmanager
def set_by_interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets: the loop then ends its step and saves, instead of stopping in the middle."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
