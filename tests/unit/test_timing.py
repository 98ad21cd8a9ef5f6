"""Timing in turn: what is called when, and what becomes of the seconds, by a clock that only the actions move."""

import gc
from itertools import chain, repeat
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import few

from gatedrnn import timing
from gatedrnn.timing import _MEASURABLE, MAX_RUNS, MIN_RUNS, Samples, interleave, ratio_of, runs_for, spread_of

SECONDS = st.floats(1e-6, 1e3)


class Clock:
    """Time that passes when an action says so, and what was called; garbage, which takes long, is not collected."""

    def __init__(self, monkeypatch):
        self.now, self.called = 0.0, []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(gc, "collect", lambda: self.called.append("collect"))

    def action(self, name, *seconds):
        """Takes so long in its calls, the last for ever."""
        left = chain(seconds, repeat(seconds[-1]))

        def act():
            self.called.append(name)
            self.now += next(left)

        return act


def test_a_spread_is_the_median_between_the_quartiles_and_a_ratio_that_of_the_rounds_in_which_both_ran():
    assert spread_of([5.0, 1.0, 4.0, 2.0, 3.0]) == (3.0, 2.0, 4.0)
    assert spread_of([7.0]) == (7.0, 7.0, 7.0)
    assert Samples({0: 2.0, 1: 3.0}, 1).times(8).seconds == {0: 16.0, 1: 24.0}
    slow, fast = Samples({0: 8.0, 4: 6.0}, 1), Samples({0: 2.0, 1: 9.0, 2: 1.0, 3: 3.0, 4: 4.0}, 1)
    assert ratio_of(slow, fast) == (2.75, 1.5 + 0.25 * 2.5, 4.0 - 0.25 * 2.5, 2)  # of 4 and 1.5


@few(max_examples=30)
@given(rounds=st.dictionaries(st.integers(0, 63), st.tuples(SECONDS, SECONDS), min_size=1))
def test_a_ratio_lies_between_its_quartiles(rounds):
    """One of medians does not: the machine may be slow in other rounds than in the middle one of each."""
    found = ratio_of(*(Samples({number: both[who] for number, both in rounds.items()}, 1) for who in (0, 1)))
    assert found.low <= found.ratio <= found.high
    assert found.ratio == median(above / below for above, below in rounds.values())


def test_what_is_cheap_runs_more_often_in_the_time_unless_one_run_of_each_takes_more():
    assert runs_for([0.1, 0.4, 0.8], 30.0) == [MAX_RUNS, 32, 8]  # 6.4 + 12.8 + 6.4 seconds; 8 more would be too many
    assert runs_for([0.5, 0.5], 4.0) == [4, 4]
    assert runs_for([1.0, 0.5, 0.25, 0.001], 4.0) == [1, 2, MIN_RUNS, MAX_RUNS]
    assert runs_for([], 1.0) == []
    for estimates in ([0.03, 0.07, 0.11, 0.9], [0.2] * 9, [1.9, 0.01]):
        runs = runs_for(estimates, 7.7)
        assert all(count & (count - 1) == 0 for count in runs)
        assert sum(count * estimate for count, estimate in zip(runs, estimates, strict=True)) <= 7.7
    assert runs_for([3.0, 5.0], 4.0) == [1, 1]


def test_each_call_gives_its_seconds_and_what_is_too_short_to_measure_is_called_more_often(monkeypatch):
    clock = Clock(monkeypatch)
    found = interleave({"steady": clock.action("steady", 0.01), "falling": clock.action("falling", 9, 0.04)}, 2.0)
    assert found["steady"].spread == pytest.approx((0.01, 0.01, 0.01))
    assert found["falling"].seconds == {0: pytest.approx(0.04)}  # its first call said it was slow, and is no sample
    short = interleave({"short": clock.action("short", 1e-5)}, 0.5)["short"]
    assert short.calls * 1e-5 >= _MEASURABLE
    assert short.spread.median == pytest.approx(1e-5) and len(short.seconds) == MAX_RUNS


def test_rounds_of_a_slow_one_are_rounds_of_the_fast_ones_and_the_order_turns(monkeypatch):
    clock = Clock(monkeypatch)
    found = interleave({"fast": clock.action("fast", 0.01), "slow": clock.action("slow", 0.1)}, 1.6)
    assert list(found["fast"].seconds) == list(range(64)) and list(found["slow"].seconds) == list(range(0, 64, 8))
    clock.called.clear()
    interleave({"a": clock.action("a", 0.2), "b": clock.action("b", 0.2)}, 1.6)
    assert clock.called == ["a", "b", *["collect", "a", "b", "collect", "b", "a"] * 2]


def test_the_clock_is_read_only_when_the_device_has_finished(monkeypatch):
    clock, pending = Clock(monkeypatch), []

    def finish():
        clock.now += sum(pending)
        pending.clear()

    found = interleave({"kernel": lambda: pending.append(0.2)}, 2.0, synchronize=finish)
    assert found["kernel"].spread.median == pytest.approx(0.2)


def test_garbage_collection_is_off_inside_and_as_it_was_afterwards(monkeypatch):
    clock, seen = Clock(monkeypatch), []
    act = clock.action("act", 0.2)
    assert gc.isenabled()
    interleave({"act": lambda: (seen.append(gc.isenabled()), act())}, 1.0)
    assert gc.isenabled() and seen and not any(seen)
    with pytest.raises(ZeroDivisionError):
        interleave({"act": lambda: 1 // 0}, 1.0)
    assert gc.isenabled()
