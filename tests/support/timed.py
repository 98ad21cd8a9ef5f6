"""The time of a call, whatever else falls into it."""

import time
from collections.abc import Callable

from gatedrnn.benchmarking.measure import threads


def seconds_of(work: Callable[[], object]) -> float:
    """The least processor time of three calls: a collection of garbage or an import falls into one of them. They run on
    one thread, since one that waits for another on a busy machine spends processor time too.
    """

    def timed() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    with threads(1):
        return min(timed() for _ in range(3))
