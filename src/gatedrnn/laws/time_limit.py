"""A limit on the time that a call may take."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gatedrnn.laws.errors import TimeLimitExceeded

_GRACE = 10
"""Seconds after which a process ends that does not come back from a call beyond Python's reach."""


@contextmanager
def time_limit(seconds: float, *, what: str = "", ends_process: bool = False) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in this thread after so many seconds.

    Args:
        what: what runs, for the message of a process that ends.
        ends_process: end the process with exit code 1 where the exception cannot be raised, because a call outside
            Python does not return.
    """
    thread, done, lock = threading.get_ident(), threading.Event(), threading.Lock()

    def watch() -> None:
        if done.wait(seconds):
            return
        # The exception must not arrive after the block: its end waits until this is decided.
        with lock:
            if done.is_set():
                return
            # CPython raises it between two bytecodes: a call outside Python ends first, if it does.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeLimitExceeded))
        if not done.wait(_GRACE) and ends_process:
            print(f"gatedrnn: {what} does not return", file=sys.stderr, flush=True)
            os._exit(1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            done.set()
        watcher.join()
