"""The outcomes that a run's scores are means of: written small, read back the same, a text in documents or in
blocks.
"""

import json
import math

import numpy as np
import pytest
from train_helpers import digits_settings

from gatedrnn.data import load_task
from gatedrnn.errors import Damaged
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.outcomes import of_rows, of_text, read_outcomes, write_outcomes
from gatedrnn.training.result import Scores, read_record


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
