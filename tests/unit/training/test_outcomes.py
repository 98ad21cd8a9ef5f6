"""The outcomes that a run's scores are means of: written small, read back the same, a text in documents or in
blocks.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from train_helpers import digits_settings

from gatedrnn.data import load_task
from gatedrnn.errors import Damaged
from gatedrnn.study.assembly import statistics_of
from gatedrnn.study.plain import constant
from gatedrnn.training.chosen import default_run
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.outcomes import difference_of, of_rows, of_text, read_outcomes, write_outcomes
from gatedrnn.training.result import Metric, Scores, read_record

ACCURACY = Metric(name="accuracy", higher_is_better=True)


def test_outcomes_are_read_as_they_were_written_take_some_kilobytes_and_are_refused_by_name_where_damaged(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "outcomes.npz"
    written = {
        "validation": of_rows(random.random(50) > 0.5, np.ones(50)),
        "run/seed-0/test": of_text(random.random(5000), np.array([1])),
    }
    write_outcomes(path, written)
    found = read_outcomes(path)
    assert list(found) == list(written)
    for name, own in written.items():
        assert np.array_equal(found[name].values, own.values) and np.array_equal(found[name].counts, own.counts)
        assert (found[name].unit, found[name].rate) == (own.unit, own.rate)
    write_outcomes(path, {"test": of_rows(np.arange(10_000) % 10 > 0, np.ones(10_000))})
    assert path.stat().st_size < 3000
    for content in (b"", b"nothing of the kind", None):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(Damaged, match=r"outcomes\.npz: is (damaged|missing)"):
            read_outcomes(path)


@pytest.mark.parametrize("tokens, documents, pieces, unit", [
    (1000, 20, 20, "document"), (1000, 19, 10, "block of 100 tokens"), (100_000, 1, 200, "block of 500 tokens"),
    (9000, 3000, 2000, "group of documents"),
])  # fmt: skip
def test_a_text_falls_into_documents_where_there_are_enough_and_into_blocks_elsewhere(tokens, documents, pieces, unit):
    losses = np.random.default_rng(0).random(tokens)
    found = of_text(losses, 1 + np.arange(documents) * (tokens // documents))
    assert (len(found.counts), found.unit) == (pieces, unit)
    assert found.counts.sum() == tokens and found.values.sum() == pytest.approx(losses.sum())


def test_rows_are_in_the_order_of_the_split_and_their_rate_is_the_score(digits_run):
    result, found = RunFolder(digits_run).finished(), read_outcomes(digits_run / "outcomes.npz")
    for split, own in load_task(digits_settings().data).evaluation.items():
        assert len(found[split].counts) == len(own)
        assert found[split].rate == result.scores[split].accuracy
        right = np.array(result.confusion[split]).diagonal()
        by_class = np.bincount(own.labels[found[split].values == 1], minlength=10)
        assert by_class.tolist() == right.tolist()


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def test_a_loss_beyond_all_numbers_is_kept_in_plain_json(tmp_path):
    """Such is the loss of a rectifier's state, which has no bound, at a length far beyond that of training."""
    for loss in (math.inf, -math.inf, 1.5):
        Scores(loss=loss, accuracy=math.nan).write(tmp_path / "scores.json")
        json.loads((tmp_path / "scores.json").read_text(), parse_constant=no_constant)
        found = read_record(tmp_path / "scores.json", Scores)
        assert found.loss == loss and math.isnan(found.accuracy) and found.mase is None


def test_intervals_draw_whole_groups_and_a_file_keeps_them(tmp_path):
    random, groups = np.random.default_rng(0), np.repeat(np.arange(10), 30)
    one = np.repeat(random.normal(size=10), 30)  # the rows of a group are all alike
    rows = of_rows(one, np.ones(300))
    grouped, other = replace(rows, groups=groups), of_rows(np.zeros(300), np.ones(300))
    low, high = difference_of(grouped, replace(other, groups=groups))
    expected = stats.ttest_1samp(one[::30], 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high))
    narrow = difference_of(rows, other)
    assert high - low > 4 * (narrow[1] - narrow[0]), "300 rows are no 300 independent ones"
    assert (grouped.independent.unit, len(grouped.independent.counts), grouped.rate) == ("group", 10, rows.rate)
    write_outcomes(tmp_path / "outcomes.npz", {"test": grouped})
    assert np.array_equal(read_outcomes(tmp_path / "outcomes.npz")["test"].groups, groups)


def test_a_verdict_on_grouped_rows_counts_groups():
    groups, ones = np.repeat(np.arange(4), 25), np.ones(100)
    outcomes = {
        name: {"test": replace(of_rows(np.arange(100) % 4 >= least, ones), groups=groups)}
        for name, least in (("a", 1), ("b", 2))
    }
    judged = statistics_of({"a": ["a"], "b": ["b"]}, [], outcomes, ACCURACY, 0.005)
    assert judged.scores["a"]["test"].mean == 0.75
    assert outcomes["a"]["test"].independent.counts.tolist() == [25] * 4


def test_the_group_of_each_row_goes_from_the_table_to_the_outcomes(tmp_path):
    lines = [f"{'fine' if n % 2 else 'poor'} film {n},{'good' if n % 2 else 'bad'},{n // 4}" for n in range(80)]
    (tmp_path / "texts.csv").write_text("text,label,person\n" + "\n".join(lines) + "\n")
    settings = default_run("text-classification", train_file=str(tmp_path / "texts.csv"), group="person")
    data = load_task(settings.data)
    test = data.evaluation["test"]
    assert len(np.unique(test.groups)) * 4 == len(test)
    assert constant(data).outcomes["test"].independent.unit == "group"
