"""Means and intervals: over seeds and over what the test split happens to hold."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from properties import few
from scipy import stats

from gatedrnn.study.statistics import Sample, difference_of, estimate, excludes_zero, score_of


def score(*values, rows=360):
    return score_of(Sample(values, rows))


def difference(values, baseline, rows=360):
    return difference_of(Sample(values, rows), Sample(baseline, rows))


def test_the_interval_over_seeds_is_students() -> None:
    values = [0.91, 0.93, 0.92, 0.95]
    ours = estimate(values)
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    assert (ours.low, ours.high) == pytest.approx((low, high))


def test_one_run_gives_no_interval_and_no_claim() -> None:
    ours = score(0.9)
    assert (ours.low, ours.high) == (None, None)
    assert not excludes_zero(difference([0.9], [0.1]))


@pytest.mark.parametrize("right", [0, 1, 180, 359, 360])
def test_runs_that_agree_have_wilsons_interval(right: int) -> None:
    ours = score(*[right / 360] * 4)
    expected = stats.binomtest(right, 360).proportion_ci(method="wilson")
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))


def test_differences_that_agree_have_newcombes_interval() -> None:
    ours = difference([1.0] * 3, [0.0] * 3, rows=10)
    assert (ours.low, ours.high) == pytest.approx((0.6075, 1.0), abs=5e-5)  # his table II, example h


shares = st.integers(0, 360).map(lambda right: right / 360)
some_seeds = st.lists(st.tuples(shares, shares), min_size=2, max_size=6)


@few()
@given(some_seeds)
def test_no_interval_leaves_what_is_possible_or_is_narrower_than_the_sampling_error(pairs) -> None:
    ours, theirs = zip(*pairs, strict=True)
    for found, lowest, mean, variance in (
        (score(*ours), 0.0, np.mean(ours), np.mean(ours) * (1 - np.mean(ours))),
        (
            difference(ours, theirs), -1.0, np.mean(ours) - np.mean(theirs),
            sum(np.mean(own) * (1 - np.mean(own)) for own in (ours, theirs)),
        ),
    ):  # fmt: skip
        low, high = found.low, found.high
        assert lowest <= low <= found.mean <= high <= 1.0 and low < high
        assert found.mean == pytest.approx(mean)
        students = estimate(list(ours) if lowest == 0 else [a - b for a, b in pairs])
        assert low <= max(lowest, students.low) + 1e-12 and high >= min(1.0, students.high) - 1e-12
        normal = 1.96 * math.sqrt(variance / 360)  # Wilson's moves towards the middle by at most Z**2 / rows
        cut = (found.mean - lowest < normal) + (1.0 - found.mean < normal)
        assert cut or high - low >= 2 * normal - 2 * 1.96**2 / 360


def test_two_seeds_that_differ_alike_say_nothing() -> None:
    baseline, others = [350 / 360, 345 / 360], [339 / 360, 334 / 360]
    found = difference(others, baseline)
    assert found.mean == pytest.approx(-11 / 360) and found.high - found.low > 0.04
    assert not excludes_zero(found)


def test_half_of_all_examples_are_a_difference() -> None:
    assert excludes_zero(difference([0.498] * 3, [1.0] * 3))


def test_pairs_take_out_what_seeds_have_in_common() -> None:
    baseline = [0.80, 0.90, 0.70]
    better = [0.8100, 0.9102, 0.7098]
    found = difference(better, baseline, rows=10**6)
    assert found.mean == pytest.approx(0.01)
    assert excludes_zero(found)
    assert not excludes_zero(difference([0.9, 0.8, 0.7], baseline, rows=10**6))


def perplexities(*documents):
    """Three runs with the same losses by document: (tokens, nats)."""
    tokens, nats = (list(column) for column in zip(*documents, strict=True))
    return Sample([math.exp(sum(nats) / sum(tokens))] * 3, None, tokens, [nats] * 3)


def test_a_perplexity_is_no_surer_than_its_documents() -> None:
    alike = perplexities(*[(100, 400.0)] * 8)
    varied = perplexities(*[(100, 300.0 + 30 * number) for number in range(8)])
    few_documents = perplexities((100, 300.0), (100, 500.0))
    found = [score_of(sample) for sample in (alike, varied, few_documents)]
    widths = [one.high - one.low for one in found]
    assert widths[0] == pytest.approx(0.0) and widths[2] == pytest.approx(0.0)
    error = np.std([3.0 + 0.3 * number for number in range(8)]) / math.sqrt(8)  # of the mean loss
    assert widths[1] == pytest.approx(2 * 1.96 * error * found[1].mean, rel=0.25)
    apart = difference_of(varied, alike)
    assert apart.low < 0 < apart.high and not excludes_zero(apart)
    same = difference_of(varied, varied)
    assert same.low == same.high == 0.0, "documents are the same for both"
