"""Means and intervals."""

import pytest
from scipy import stats

from gatedrnn.compare.statistics import estimate, excludes_zero, paired_difference


def test_the_interval_is_students() -> None:
    values = [0.91, 0.93, 0.92, 0.95]
    ours = estimate(values)
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    assert (ours["low"], ours["high"]) == pytest.approx((low, high))


def test_one_run_gives_no_interval_and_no_claim() -> None:
    ours = estimate([0.9])
    assert (ours["low"], ours["high"]) == (None, None)
    assert not excludes_zero(ours)


def test_runs_that_agree_to_the_last_example_are_no_evidence() -> None:
    baseline, others = [350 / 360, 345 / 360], [352 / 360, 347 / 360]
    assert not excludes_zero(paired_difference(others, baseline))


def test_half_of_all_examples_are_a_difference_however_alike_the_runs() -> None:
    assert excludes_zero(paired_difference([0.498, 0.498], [1.0, 1.0]))


def test_pairs_take_out_what_seeds_have_in_common() -> None:
    baseline = [0.80, 0.90, 0.70]
    better = [0.8100, 0.9102, 0.7098]
    difference = paired_difference(better, baseline)
    assert difference["mean"] == pytest.approx(0.01)
    assert excludes_zero(difference)
    assert not excludes_zero(paired_difference([0.9, 0.8, 0.7], baseline))
