"""The time of a call, whatever else falls into it."""

import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """The least processor time of three calls: a collection of garbage or an import falls into one of them."""

    def timed() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return min(timed() for _ in range(3))
