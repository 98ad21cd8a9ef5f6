"""The verdict of a comparison: which of all methods to take, what may be as good and is cheaper, what is worse, what
would help; on made-up answers of two cells and a plain method.
"""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from gatedrnn.study.assembly import statistics_of, still_improving
from gatedrnn.study.figures import DIFFERENCES, figures
from gatedrnn.study.results import ComparisonResults, Curve, Curves, run_name
from gatedrnn.study.statistics import MARGINS, Sample, Table
from gatedrnn.study.tables import forecast_rows, ladder_rows, print_comparison, score_rows
from gatedrnn.study.verdict import difference_in_words, verdict
from gatedrnn.terminal import Console
from gatedrnn.training.outcomes import of_rows
from gatedrnn.training.result import read_record

KEPT = Path(__file__).parents[3] / "results"
DIGITS = read_record(KEPT / "digits" / ComparisonResults.FILE, ComparisonResults)
SEEDS, PLAIN = (0, 1, 2), "logistic regression"


def compared(lstm, gru, plain, examples=4000, seeds=SEEDS, **changes):
    """A comparison in which these shares of the examples are right; what is hard for one is hard for all."""
    random = np.random.default_rng(0)
    hard = random.random(examples)

    def answers(share):
        right = (hard + 0.1 * random.standard_normal(examples)) < share
        return {split: of_rows(right, np.ones(examples)) for split in ("validation", "test")}

    names = {"lstm": lstm, "gru-layers": gru}
    runs = {name: [run_name(name, seed) for seed in seeds] for name in names}
    outcomes = {run: answers(share) for name, share in names.items() for run in runs[name]} | {PLAIN: answers(plain)}
    found = statistics_of(runs, [PLAIN], outcomes, DIGITS.metric, DIGITS.margin)
    rows = [
        row.model_copy(update={"scores": found.scores[row.name], "runs": row.runs[: len(seeds)], **changes})
        for row in DIGITS.contenders
        if row.name in names
    ]
    fixed = [
        one.model_copy(update={"scores": found.scores[PLAIN]}) for one in DIGITS.baseline.plain if one.name == PLAIN
    ]
    baseline = DIGITS.baseline.model_copy(update={"plain": fixed})
    update = {"contenders": rows, "baseline": baseline, "pairs": found.pairs, "rivals": found.rivals}
    return DIGITS.model_copy(update=update)


def percent(results, name):
    (row,) = (row for row in results.ranked() if row.name == name)
    return f"{name} ({100 * row.scores['test'].mean:.1f} %)"


def test_a_plain_method_that_wins_is_the_one_to_take():
    results = compared(lstm=0.80, gru=0.82, plain=0.95)
    first, second, *_ = verdict(results)
    assert first == f"Take {percent(results, PLAIN)}, a plain method: no cell is better."
    assert second.startswith("Worse, by ") and second.endswith("points: gru-layers and lstm.")


def test_a_plain_method_that_may_be_as_good_and_is_cheaper_is_named_with_its_price():
    results = compared(lstm=0.80, gru=0.95, plain=0.93, examples=1000)
    first, second, third, *_ = verdict(results)
    less, more = (f"{results.seconds(name):.2g} s" for name in (PLAIN, "gru-layers"))
    assert first == f"Take {percent(results, 'gru-layers')}."
    assert second == (
        f"{percent(results, PLAIN)} may be as good: the test is too small to say. "
        f"{PLAIN} is cheaper: {less} of training, gru-layers {more}."
    )
    assert third.startswith("Worse, by 1") and third.endswith(" points: lstm.")


def test_a_plain_method_that_loses_is_among_what_is_worse():
    first, second, *_ = verdict(results := compared(lstm=0.95, gru=0.90, plain=0.70))
    assert first == f"Take {percent(results, 'lstm')}." and second.endswith(
        " points: gru-layers and logistic regression."
    )


def test_what_is_within_the_margin_is_as_good():
    results = compared(lstm=0.9, gru=0.9, plain=0.5, examples=100_000)
    first, second, *_ = verdict(results)
    best, other, _ = (row.name for row in results.ranked())
    assert first == f"Take {percent(results, best)}."
    assert second.startswith(f"{percent(results, other)} is as good, within 0.5 points. ")


def test_none_is_taken_while_another_may_be_better_by_more_than_the_margin():
    first, second, *_ = verdict(results := compared(lstm=0.80, gru=0.80, plain=0.805, examples=200))
    best, *rivals = results.ranked()
    assert set(results.rivals) == {row.name for row in rivals}
    named = " and ".join(percent(results, row.name) for row in rivals)
    ahead = f"Not decided: {percent(results, best.name)} is ahead"
    assert first == f"{ahead}, but {named} may be better: the test is too small to say."
    assert "cheape" in second or best.name == PLAIN


def test_one_seed_shows_nothing_of_cells_and_says_what_to_do():
    first, *_ = verdict(results := compared(lstm=0.80, gru=0.95, plain=0.5, seeds=(0,)))
    ahead = percent(results, "gru-layers")
    assert (
        first
        == f"Not decided: {ahead} is ahead, but one seed does not say what others give: give 2 or more with --seeds."
    )


def test_one_example_shows_nothing_and_cells_of_one_seed_hide_no_plain_method_that_may_be_better():
    random = np.random.default_rng(2)
    one = [Sample(np.array([[float(right)]]), np.ones(1), "accuracy", fixed=True) for right in (0, 1)]
    assert Table(one).rivals() == ("1", ["0"])
    hard = random.random(300)
    answers = [
        (hard + 0.1 * random.standard_normal(300) < share)[None].astype(float) for share in (0.80, 0.805, 0.5, 0.4)
    ]
    table = Table([Sample(own, np.ones(300), "accuracy", fixed=n < 3) for n, own in enumerate(answers)])
    best, rivals = table.rivals()
    assert {best, *rivals} == {*"013"}


def test_too_short_a_training_comes_before_more_seeds():
    said = verdict(compared(lstm=0.80, gru=0.80, plain=0.805, examples=200))
    assert said[-1].startswith("At 80 % power")
    said = verdict(compared(lstm=0.80, gru=0.80, plain=0.805, examples=200, still_improving=2))
    short = "Training was too short for all: validation was still improving."
    assert said[-1] == f"{short} --epochs 80 comes before more seeds."


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.1, 0.5, 0.8, 0.9, 0.95], 1),
        ([0.1, 0.9, 0.95, 0.95, 0.953], 0),
        ([0.1, 0.9, 0.95, 0.95, 0.80], 0),
        ([0.9], 0),
    ],
)
def test_a_run_still_improves_where_its_last_fifth_gained_more_than_the_margin(scores, expected):
    curve = Curve(step=list(range(20, 20 * len(scores) + 1, 20)), loss=scores, score=scores)
    assert still_improving(["a"], Curves(runs={"a": curve}), DIGITS.metric, 0.005) == expected


def first_figure(results):
    (title, figure), *_ = figures(results, None, None).items()
    assert title == DIFFERENCES
    rows = results.ranked()
    drawn = [trace for trace in figure.data if trace.name]
    assert [trace.name for trace in drawn] == list(figure.layout.yaxis.ticktext) == [row.name for row in rows]
    assert [list(trace.y) for trace in drawn] == [[place] for place in range(len(rows))]
    (low, high) = sorted((figure.layout.shapes[0].x0, figure.layout.shapes[0].x1))  # the band of the margin
    assert low < 0 < high == results.margin
    return figure, list(zip(rows, drawn, strict=True))


@pytest.mark.parametrize("name", ["digits", "m4-hourly", "tiny-shakespeare-family"])
def test_the_first_figure_has_the_intervals_on_which_the_verdict_rests(name):
    results = read_record(KEPT / name / ComparisonResults.FILE, ComparisonResults)
    figure, ((best, at_best), *others) = first_figure(results)
    assert at_best.x == (0,) and at_best.error_x.array is None
    within = 0
    for row, trace in others:
        difference, found = results.pair(row.name, best.name).difference, trace.x[0]
        assert trace.hovertemplate.startswith(difference_in_words(difference, results))
        if trace.marker.symbol.startswith("triangle-") and trace.marker.symbol[9:] in ("left", "right"):
            side = 1 if trace.marker.symbol.endswith("right") else -1
            assert 0 < side * found < side * difference.mean and trace.error_x.array is None
            continue
        within += 1
        assert found == difference.mean
        assert found + trace.error_x.array[0] == pytest.approx(difference.high)
        assert found - trace.error_x.arrayminus[0] == pytest.approx(difference.low)
        assert (found < 0) == results.metric.higher_is_better
    assert within >= 2 and at_best.name == results.ranked()[0].name
    scores = list(figure.layout.yaxis2.ticktext)
    assert scores[0] == {"digits": "98.9 %", "m4-hourly": "0.749", "tiny-shakespeare-family": "5.63"}[name]
    assert figure.layout.yaxis2.tickvals == figure.layout.yaxis.tickvals
    assert ("lower is better" in figure.layout.xaxis.title.text) == (not results.metric.higher_is_better)


def test_the_first_figure_of_one_seed_has_no_interval_of_a_cell():
    _, ((best, _), *others) = first_figure(compared(lstm=0.80, gru=0.95, plain=0.5, seeds=(0,)))
    assert best.name == "gru-layers" and [trace.error_x.array for _, trace in others] == [None, None]


def test_the_first_figure_names_each_of_many_contenders_and_puts_what_is_far_at_the_edge():
    results = compared(lstm=0.949, gru=0.95, plain=0.2)
    lstm = results.contender("lstm")
    more = [lstm.model_copy(update={"name": f"lstm-{number}"}) for number in range(18)]
    others = ("gru-layers", PLAIN)
    pairs = [replace(results.pair("lstm", other), contender=one.name) for one in more for other in others]
    pairs += results.pairs
    seconds = results.measured.plain_seconds | {one.name: 1.0 for one in more}
    measured = results.measured.model_copy(update={"plain_seconds": seconds})
    update = {"contenders": [*results.contenders, *more], "pairs": pairs, "measured": measured}
    results = results.model_copy(update=update)
    figure, drawn = first_figure(results)
    assert len(drawn) == 21 and figure.layout.height > 21 * 30
    (far,) = [trace for _, trace in drawn if trace.marker.symbol == "triangle-left"]
    assert far.name == PLAIN and figure.layout.xaxis.range[0] < far.x[0] < -results.margin


def test_a_plain_method_is_drawn_and_lies_on_the_front_where_no_cheaper_one_is_better():
    results = compared(lstm=0.90, gru=0.95, plain=0.92)
    drawn = figures(results, None, None)["Score against price"].data
    assert [trace.name for trace in drawn if trace.visible] == ["Pareto front", "lstm", "gru-layers", PLAIN]
    assert all(trace.error_y.array is None for trace in drawn)  # intervals of scores do not say which is better
    front = drawn[0]
    assert front.x == (results.seconds(PLAIN), results.seconds("gru-layers"))


def test_who_may_be_better_is_found_whatever_the_others_are():
    """A law of multiple comparisons with the best: with two contenders it is the one-sided test of their difference."""
    random = np.random.default_rng(1)
    hard = random.normal(size=300)
    for gap in (0.0, 0.1, 0.3):
        samples = [
            Sample((5 + hard + shift + random.normal(0, 0.5, (1, 300))), np.ones(300), "error", fixed=True)
            for shift in (0, gap)
        ]
        table = Table(samples)
        own = samples[1].values[0] - samples[0].values[0]
        best, rivals = table.rivals()
        reach = abs(own.mean()) - 1.6499 * own.std(ddof=1) / np.sqrt(
            300
        )  # Student's t, one side, 299 degrees of freedom
        assert best == ("0" if own.mean() > 0 else "1") and bool(rivals) == (reach < -MARGINS["error"])


@pytest.mark.parametrize("name", ["digits", "m4-hourly", "ladder/gru", "tiny-shakespeare-family"])
def test_a_terminal_of_80_columns_breaks_no_number(name):
    results = read_record(KEPT / name / ComparisonResults.FILE, ComparisonResults)
    console = Console(file=StringIO(), width=80)
    print_comparison(results, console)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    rows = [*score_rows(results), *forecast_rows(results)] if results.metric.name == "mase" else score_rows(results)
    for row in rows:
        for column in ("test", "seconds", "mase", "mae", "coverage"):
            assert row.get(column, "") in shown
    for match in results.settings.contenders.match if results.settings.contenders.ladder else ():
        for row in ladder_rows(results, match):
            assert row["core to step above"] in shown and row["score to step above"] in shown
