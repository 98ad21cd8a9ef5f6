"""Durations beside each other: timed in turn, round by round, so that a slow moment meets all alike."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Action = Callable[[], object]

_MEASURABLE = 2e-3
"""Seconds that one timing lasts at least; an action that is done sooner is called several times in it."""
_MAX_CALLS = 2**16
"""Calls in one timing at most."""
LONG = 0.1
"""Seconds of a first call after which there is no second one only to warm up."""
MIN_RUNS, MAX_RUNS = 4, 64
_MAX_SHARE = 1 / 8
"""The part of all the time that the least runs of one action may take; a slower one runs as often as fits in it."""


class Spread(NamedTuple):
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float


class Ratio(NamedTuple):
    """The median of the ratios of the rounds in which both ran, and the quartiles around it."""

    ratio: float
    low: float
    high: float
    rounds: int


class Samples(NamedTuple):
    """The seconds that one call took, by the number of the round."""

    seconds: Mapping[int, float]
    calls: int
    """Calls in one timing, whose mean it is."""

    @property
    def spread(self) -> Spread:
        return spread_of(list(self.seconds.values()))

    def times(self, factor: float) -> "Samples":
        """Samples that are so many times as long."""
        return self._replace(seconds={number: factor * seconds for number, seconds in self.seconds.items()})


def interleave(
    actions: Mapping[Key, Action], seconds: float, synchronize: Action | None = None
) -> dict[Key, Samples]:  # fmt: skip
    """Time the actions in turn, in rounds, for about `seconds` in all.

    Each is called first to warm up and to see how long it takes; one that compiles in its first call should have been
    called before. `runs_for` then says how often each runs. It is a power of two, so that the rounds of a slow one are
    rounds of the faster ones too; from one round to the next the order turns around.

    Args:
        actions: what to call, by name.
        seconds: for all of it together; more are taken only where one run of each takes more.
        synchronize: waits until a device has finished what it was given; None where a call returns finished.
    """
    stopwatch = Stopwatch(synchronize)
    with gc_paused() as tidy:
        gauged = {key: stopwatch.gauge(action) for key, action in actions.items()}
        runs = dict(zip(actions, runs_for([taken for _, taken in gauged.values()], seconds), strict=True))
        rounds = max(runs.values(), default=0)
        samples: dict[Key, dict[int, float]] = {key: {} for key in actions}
        for number in range(rounds):
            tidy()
            for key in actions if number % 2 == 0 else reversed(list(actions)):
                if number % (rounds // runs[key]) == 0:
                    samples[key][number] = stopwatch.time(actions[key], gauged[key][0])
    return {key: Samples(samples[key], gauged[key][0]) for key in actions}


class Stopwatch:
    """Times calls of an action, waiting for the device before and after."""

    def __init__(self, synchronize: Action | None = None) -> None:
        self.synchronize: Action = synchronize or (lambda: None)

    def time(self, action: Action, calls: int = 1) -> float:
        """Seconds a call, as a mean over so many."""
        self.synchronize()
        started = time.perf_counter()
        for _ in range(calls):
            action()
        self.synchronize()
        return (time.perf_counter() - started) / calls

    def gauge(self, action: Action) -> tuple[int, float]:
        """Calls that together last long enough to be measured, and the seconds that they take."""
        calls, taken = 1, self.time(action)
        if taken >= LONG:
            return calls, taken
        while (taken := self.time(action, calls) * calls) < _MEASURABLE and calls < _MAX_CALLS:
            calls = max(2 * calls, math.ceil(calls * _MEASURABLE / max(taken, _MEASURABLE / 100)))
        return calls, taken


def runs_for(estimates: Sequence[float], seconds: float) -> list[int]:
    """The number of times to run each action, from what a run of it takes.

    First each gets MIN_RUNS, or as many as MAX_SHARE allows, and one in any case; then whichever costs least to
    run twice as often is, as long as the time lasts: many runs where they are cheap.
    """
    runs = [min(MIN_RUNS, 2 ** int(math.log2(max(1.0, _MAX_SHARE * seconds / estimate)))) for estimate in estimates]
    left = seconds - sum(count * estimate for count, estimate in zip(runs, estimates, strict=True))
    while growing := [n for n, count in enumerate(runs) if count < MAX_RUNS]:
        cheapest = min(growing, key=lambda n: runs[n] * estimates[n])
        left -= runs[cheapest] * estimates[cheapest]
        if left < 0:
            break
        runs[cheapest] *= 2
    return runs


def spread_of(values: Sequence[float]) -> Spread:
    """Median and quartiles; of one value that value."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def ratio_of(numerator: Samples, denominator: Samples) -> Ratio:
    """The ratio of the numerator's seconds to the denominator's."""
    shared = [number for number in numerator.seconds if number in denominator.seconds]
    each = spread_of([numerator.seconds[number] / denominator.seconds[number] for number in shared])
    return Ratio(*each, rounds=len(shared))


@contextmanager
def gc_paused() -> Iterator[Action]:
    """No garbage collection inside: it would fall on whoever is at work when it comes. What it hands out collects."""
    was_on = gc.isenabled()
    gc.freeze()  # what is there already, garbage too, need not be looked through
    gc.disable()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
