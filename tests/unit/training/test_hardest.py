"""Examples that a run's page shows because its model is furthest off on them."""

import html
from dataclasses import replace

import numpy as np
import pytest
from finished import copy_of

from gatedrnn.data import Examples
from gatedrnn.training import report
from gatedrnn.training.finished import data_of, open_finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.predict import outputs_of
from gatedrnn.training.report import SHOWN, write_hardest, write_report
from gatedrnn.training.score import outcomes_of


def test_the_surest_of_the_wrong_answers_come_first_and_are_drawn(digits_run, tmp_path):
    run = copy_of(digits_run, tmp_path)
    data = data_of(RunFolder(run))
    test = data.evaluation["test"]
    assert isinstance(test, Examples)
    outputs = np.stack(outputs_of(open_finished(run), test.inputs))
    shares = np.exp(outputs - np.logaddexp.reduce(outputs, axis=1, keepdims=True))
    wrong = np.flatnonzero(shares.argmax(1) != test.labels)
    expected = wrong[np.argsort(-shares[wrong].max(1), kind="stable")][:SHOWN]
    found = write_hardest(run).examples
    assert [one.row for one in found] == (expected + 1).tolist()
    assert [one.probability for one in found] == pytest.approx(shares[expected].max(1).tolist(), rel=1e-5)
    assert [one.true for one in found] == [data.label_names[label] for label in test.labels[expected]]
    assert np.allclose(np.array(found[0].values).T, test.inputs[expected[0]])
    assert f"row {found[0].row}: {found[0].true}, predicted {found[0].predicted}" in write_report(run).read_text()


def test_texts_are_shown_as_such(comparison, tmp_path, monkeypatch):
    run = copy_of(comparison.folder / "mingru-params" / "seed-1", tmp_path)
    monkeypatch.setattr(report, "outcomes_of", all_wrong)
    found = write_hardest(run).examples
    page = html.unescape(write_report(run).read_text())
    texts = data_of(RunFolder(run)).texts["test"].texts
    assert len(found) == SHOWN and "Hardest of the test</h2>" in page
    assert all(one.words == texts[one.row - 1] and one.words in page and one.values == [] for one in found)


def all_wrong(path, data):
    found = outcomes_of(path, data)["test"]
    return {"test": replace(found, values=np.zeros_like(found.values))}


def test_a_model_without_such_examples_has_none(forecast_run, tmp_path):
    run = copy_of(forecast_run, tmp_path)
    assert write_hardest(run) is None and not (run / "hardest.json").exists()
