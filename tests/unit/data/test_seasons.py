"""Seasons: those of the calendar where they fit, longer ones where the values show them, and clear ones without any."""

import numpy as np
import pytest

from gatedrnn.tasks.forecast.seasons import autocorrelations, seasons_of

SIX_WEEKS = 24 * 7 * 6
HOURS = np.arange(SIX_WEEKS)


def drawn(seed, count=SIX_WEEKS):
    return np.random.default_rng(seed).normal(size=count)


def daily(seed):
    return 3 * np.sin(2 * np.pi * HOURS / 24) + drawn(seed)


def wandering(seed, count=SIX_WEEKS):
    return drawn(seed, count).cumsum()


WEEKEND = 4.0 * (HOURS // 24 % 7 >= 5)


@pytest.mark.parametrize(
    ("series", "usual", "expected"),
    [
        ([daily(n) + WEEKEND for n in range(3)], (24, 168), (24, 168)),
        ([daily(n) for n in range(3)], (24, 168), (24,)),
        ([daily(n) + wandering(n) for n in range(3)], (24, 168), (24,)),
        ([daily(0) + WEEKEND, daily(1), daily(2)], (24, 168), (24,)),  # one of three
        ([daily(n) + (n < 2) * WEEKEND for n in range(5)], (24, 168), (24, 168)),  # two of five
        ([(daily(0) + WEEKEND)[:400]], (24, 168), (24,)),  # not three weeks
        ([3 * daily(n) + WEEKEND for n in range(3)], (1,), (24, 168)),  # numbers of hours
        ([3 * daily(n) for n in range(3)], (1,), (24,)),
        ([drawn(0, 40)], (52,), (1,)),  # not three years, but as long
        ([drawn(0, 60)], (52,), (52,)),
        ([np.sin(2 * np.pi * np.arange(120) / 11) + 0.2 * drawn(0, 120)], (1,), (11,)),
        ([wandering(n, 200) for n in range(9)], (1,), (1,)),
        ([drawn(n, 200) for n in range(9)], (1,), (1,)),
        ([np.full(50, 3.0)], (1,), (1,)),
        ([np.tile([1.0, 2.0, 5.0], 30)], (1,), (3,)),  # repeats itself exactly
    ],
)
def test_seasons_are_those_that_the_values_show(series, usual, expected):
    assert seasons_of(series, usual) == expected


def test_missing_values_change_no_season():
    values = daily(0) + WEEKEND
    values[::7] = values[100:130] = np.nan
    assert seasons_of([values], (24, 168)) == (24, 168)


def test_autocorrelations_are_means_over_pairs():
    values = drawn(3, 50)
    values[[4, 20, 21]] = np.nan
    centred, found = values - np.nanmean(values), autocorrelations(values, 60)
    for lag in (1, 7, 40):
        expected = np.nanmean(centred[lag:] * centred[:-lag]) / np.nanmean(centred**2)
        assert found[lag] == pytest.approx(expected)
    assert not found[50:].any()
