"""Intervals and verdicts: over seeds and over what the test split happens to hold, which all contenders share."""

import importlib.util
import json
import math
from itertools import product
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from covering import over
from hypothesis import given
from properties import few
from scipy import stats

from gatedrnn.study.statistics import Sample, Table

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("simulate_coverage", ROOT / "tools" / "simulate_coverage.py")
simulation = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(simulation)
SIZES = {"contenders": simulation.CONTENDERS, "seeds": simulation.SEEDS, "examples": simulation.EXAMPLES}


def shares(right, fixed=False):
    """A contender from what it got right, (runs, examples)."""
    right = np.array(right, dtype=float)
    return Sample(right, np.ones(right.shape[1]), "accuracy", fixed)


def texts(nats, counts, fixed=False):
    return Sample(np.array(nats, dtype=float), np.array(counts), "perplexity", fixed)


def drawn(seed, runs=3, examples=400, share=0.9):
    return np.random.default_rng(seed).random((runs, examples)) < share


def test_one_seed_gives_no_interval_and_no_verdict_and_the_order_of_contenders_changes_nothing():
    table = Table([shares(drawn(0, 1)), shares(drawn(1, 1, share=0.2))])
    assert [estimate.low for estimate in table.estimates()] == [None, None]
    (pair,) = table.pairs()
    assert (pair.verdict, pair.better, pair.difference.low, pair.more_seeds) == ("cannot tell", None, None, None)
    samples = [shares(drawn(seed, share=share)) for seed, share in enumerate((0.9, 0.8, 0.85))]
    forward, backward = Table(samples), Table(samples[::-1])
    assert forward.estimates() == backward.estimates()[::-1]
    words = {"better": "worse", "worse": "better"}
    turned = {(2 - int(p.other), 2 - int(p.contender)): words.get(p.verdict, p.verdict) for p in backward.pairs()}
    assert {(int(p.contender), int(p.other)): p.verdict for p in forward.pairs()} == turned


def test_an_interval_is_wilsons_where_seeds_change_nothing_students_where_examples_do_not_else_over_pieces():
    right = drawn(0, 1, 4000)
    (found,) = Table([shares(right, fixed=True)]).estimates()
    wilson = stats.binomtest(int(right.sum()), 4000).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=2e-4)
    losses = np.array([2.0, 2.1, 2.4])
    (found,) = Table([texts(losses[:, None] * np.full(500, 10.0), np.full(500, 10))]).estimates()
    low, high = stats.t.interval(0.95, 2, loc=losses.mean(), scale=stats.sem(losses))
    assert (found.low, found.mean, found.high) == pytest.approx(np.exp([low, losses.mean(), high]))
    random = np.random.default_rng(1)
    counts, base = random.integers(50, 150, 400), random.normal(0, 1, 400)
    gaps = 0.1 + random.normal(0, 0.3, 400)
    twice = [[(5 + own) * counts] * 2 for own in (base + gaps, base)]  # no seed changes anything
    (pair,) = Table([texts(values, counts) for values in twice]).pairs()
    difference = pair.difference
    assert difference.mean == pytest.approx(math.expm1((gaps * counts).sum() / counts.sum()))
    half = (math.log1p(difference.high) - math.log1p(difference.low)) / 2
    assert half == pytest.approx(1.96 * 0.3 / math.sqrt(400), rel=0.15), "what both share does not count"
    assert pair.verdict == "worse"


def test_intervals_are_as_wide_as_those_of_a_hierarchical_bootstrap():
    """A bootstrap can be trusted with many seeds and many examples; both are drawn anew, the same for both."""
    random = np.random.default_rng(3)
    hard, seeds = random.normal(0, 1, 2000), random.normal(0, 0.1, (2, 20))
    right = (np.array([[1.2], [1.3]]) + seeds)[:, :, None] + hard + random.normal(0, 1, (2, 20, 2000)) > 0
    table = Table([shares(own) for own in right])
    means = []
    for _ in range(2000):
        examples = random.integers(0, 2000, 2000)
        means.append([own[random.integers(0, 20, 20)].mean(0)[examples].mean() for own in right])
    means = np.array(means)
    for found, drawn_anew in zip(table.estimates(), means.T, strict=True):
        low, high = np.quantile(drawn_anew, [0.025, 0.975])
        assert found.high - found.low == pytest.approx(high - low, rel=0.15)
    low, high = np.quantile(means[:, 0] - means[:, 1], [0.025, 0.975])
    difference = table.pairs()[0].difference
    assert difference.high - difference.low == pytest.approx(high - low, rel=0.2)


def test_fixed_models_differ_by_what_other_examples_would_change_and_sooner_where_they_err_on_the_same():
    generator, tokens = np.random.default_rng(0), np.ones(200)
    common, own = generator.normal(5, 1, 200), generator.normal(0.1, 0.2, 200)
    table = Table([texts([common + own], tokens, fixed=True), texts([common], tokens, fixed=True)])
    found, half = table.pairs()[0].difference, stats.t.ppf(0.975, 199) * own.std(ddof=1) / math.sqrt(200)
    expected = [math.expm1(own.mean() + side * half) for side in (0, -1, 1)]
    assert np.allclose([found.mean, found.low, found.high], expected)
    hard = np.random.default_rng(2).random(2000)
    paired = Table([shares([hard < 0.90] * 3), shares([hard < 0.91] * 3)])
    apart = Table([shares([hard < 0.90] * 3), shares([hard[::-1] < 0.91] * 3)])
    widths = [table.pairs()[0].difference for table in (paired, apart)]
    assert widths[0].high - widths[0].low < 0.5 * (widths[1].high - widths[1].low)
    assert paired.pairs()[0].verdict == "worse" and apart.pairs()[0].verdict == "cannot tell"


outcomes = st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=2, max_size=4)


@few(max_examples=40)
@given(st.lists(outcomes, min_size=1, max_size=4))
@pytest.mark.slow
def test_no_interval_leaves_what_is_possible_has_no_width_or_leaves_out_its_mean(found):
    table = Table([shares(own) for own in found])
    for estimate in table.estimates():
        assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1 and estimate.low < estimate.high
    for pair in table.pairs():
        difference = pair.difference
        assert -1 <= difference.low <= difference.mean <= difference.high <= 1 and difference.low < difference.high
        assert pair.better + pair.equivalent + pair.worse == pytest.approx(1, abs=1e-6)
        assert min(pair.better, pair.equivalent, pair.worse) >= 0


def test_where_all_agree_half_a_success_gives_the_width_and_one_bad_seed_is_no_surer_for_others_steadiness():
    table = Table([shares(np.ones((3, 2000)))] * 2)
    assert all(0.99 < estimate.low < 1 == estimate.high for estimate in table.estimates())
    (pair,) = table.pairs()
    assert -0.003 < pair.difference.low < 0 < pair.difference.high < 0.003 and pair.verdict == "equivalent"
    (few_examples,) = Table([shares(np.ones((3, 50)))] * 2).pairs()
    assert few_examples.verdict == "cannot tell", "fifty examples cannot show half a point"
    steady, shaky = np.ones((2, 3, 2000))
    shaky[0, :1000] = 0
    both = Table([*[shares(steady)] * 3, shares(shaky)])
    assert both.estimates()[3].low < 0.7
    assert {pair.verdict for pair in both.pairs() if int(pair.other) == 3} == {"cannot tell"}


def test_verdicts_are_corrected_for_the_pairs_of_a_table_and_the_margin_is_a_region_of_practical_equivalence():
    hard = np.random.default_rng(3).random(1000)
    for others, expected in ((0, "better"), (8, "cannot tell")):
        equal = [shares([np.random.default_rng(number).random(1000) < 0.92] * 3) for number in range(others)]
        table = Table([shares([hard < 0.928] * 3), shares([hard < 0.920] * 3), *equal])
        assert table.pairs(margin=0.0)[0].verdict == expected
    hard = np.random.default_rng(4).random(20_000)
    table = Table([shares([hard < 0.902] * 3), shares([hard < 0.900] * 3)])
    none, some = (table.pairs(margin)[0] for margin in (0.0, 0.005))
    assert (none.verdict, some.verdict) == ("better", "equivalent") and none.better > 0.99 > 0.01 > some.better


def test_what_would_help_helps():
    """More seeds of the same spread; or more examples of the same kind, where the split is what is too small."""
    random = np.random.default_rng(5)
    losses, pieces = np.array([[2.00, 2.06], [2.03, 2.09]]), random.normal(0, 0.02, 300)

    def judged(losses):
        return Table([texts([(loss + pieces) * 100 for loss in own], np.full(300, 100)) for own in losses]).pairs()[0]

    pair = judged(losses)
    assert pair.verdict == "cannot tell" and pair.more_seeds is not None and pair.more_examples is None
    assert judged(np.repeat(losses, (2 + pair.more_seeds) // 2 + 1, axis=1)).verdict in ("worse", "better")
    (pair,) = Table([shares([random.random(200) < share] * 3) for share in (0.90, 0.92)]).pairs()
    assert pair.verdict == "cannot tell" and pair.more_seeds is None and pair.more_examples > 200


@pytest.mark.parametrize("gap", [0.03, 0.0])  # the second is equivalent within a margin of 0.02
def test_the_seeds_that_are_asked_for_decide_four_times_in_five(gap):
    random, pieces = np.random.default_rng(6), np.full(50, 100)

    def judged(losses):
        return Table([texts(np.repeat(own[:, None] * 100, 50, 1), pieces) for own in losses]).pairs(0.02)[0]

    seen = 2 + np.array([[0], [gap]]) + 0.02 * np.array([-1.0, 0.0, 1.0])  # of standard deviation 0.02
    more = judged(seen).more_seeds
    new = 2 + np.array([[0], [gap]]) + 0.02 * random.normal(size=(30, 2, 3 + more))
    assert 0.65 < np.mean([judged(one).verdict != "cannot tell" for one in new]) < 1, more


def test_seeds_are_asked_of_the_contender_that_has_some():
    """A plain method has one run whatever the seed."""
    random, pieces = np.random.default_rng(7), np.full(50, 100)

    def judged(losses):
        plain = texts(np.full((1, 50), 200.0), pieces, fixed=True)
        return Table([texts(np.repeat(losses[:, None] * 100, 50, 1), pieces), plain]).pairs(0.001)[0]

    more = judged(2.012 + 0.02 * np.array([-1.0, 0.0, 1.0])).more_seeds
    found = [judged(2.012 + 0.02 * random.normal(size=3 + more)).verdict for _ in range(30)]
    assert 0.65 < np.mean([verdict != "cannot tell" for verdict in found]) < 1, more


@pytest.mark.parametrize("contenders", [4, 14])
def test_all_intervals_hold_together_with_as_few_examples_as_contenders(contenders):
    """Four windows of a forecast do not say how contenders depend on each other."""
    random, held = np.random.default_rng(8), []
    for _ in range(50):
        common = random.normal(size=4)
        samples = [
            Sample(5 + common + random.normal(0, spread, (1, 4)), np.ones(4), "error", fixed=True)
            for spread in np.exp(random.normal(0, 0.5, contenders))
        ]
        held.append(all(pair.difference.low <= 0 <= pair.difference.high for pair in Table(samples).pairs()))
    assert np.mean(held) > 0.95 - 4 * (0.95 * 0.05 / 50) ** 0.5


@pytest.mark.slow
@pytest.mark.timeout(3600)
@over(**SIZES)
def test_intervals_hold_the_truth_as_often_as_they_say(contenders, seeds, examples):
    """There are fewer replicates than in the kept table, since every pair costs as much: the bounds are four standard
    errors wider.
    """
    replicates = {1: 400, 4: 200, 20: 80}[contenders]
    found = simulation.simulate(contenders, seeds, examples, replicates)
    error = 4 * (0.95 * 0.05 / (replicates * min(contenders, 4))) ** 0.5
    assert found.covered > 0.93 - error
    if contenders > 1:
        assert found.differences_covered > 0.93 - error
        assert max(found.false_tables, found.falsely_taken) < 0.05 + 4 * (0.05 * 0.95 / replicates) ** 0.5
        assert found.tables_covered > 0.93 - 4 * (0.95 * 0.05 / replicates) ** 0.5


def test_intervals_of_one_contender_hold_the_truth_as_often_as_they_say():
    test_intervals_hold_the_truth_as_often_as_they_say(1, 3, 2000)


def test_the_kept_table_covers_every_size_as_it_should():
    kept = json.loads((ROOT / "results" / "coverage" / "coverage.json").read_text())
    assert [(row["contenders"], row["seeds"], row["examples"]) for row in kept] == list(product(*SIZES.values()))
    shares = [share for row in kept for share in (row["covered"], row["tables_covered"]) if share is not None]
    assert min(shares) >= 0.93 and 0.94 <= sum(shares) / len(shares) <= 0.97
    several = [row for row in kept if row["contenders"] > 1]
    assert max(max(row["false_tables"], row["falsely_taken"]) for row in several) <= 0.05
    assert min(row["tables_covered"] for row in several) >= 0.94
    assert all(row["replicates"] == simulation.REPLICATES for row in kept)
