"""Whole models have the outputs and gradients of their plain loop, and are held against an LSTM or their products."""

import dataclasses

import pytest
from covering import Axis, over
from layer_laws import CELL
from small_bench import assert_every_weight_is_trained_by, found_by
from small_benchmarks import SIZES, SMALL_SUITE

from benchmarks import models
from gatedrnn.benchmarking.measure import Setting, disagreement
from gatedrnn.benchmarking.run import Request, bench
from gatedrnn.registry import CELLS


@over(cell=Axis(fast=[name for name in CELLS if name in CELL.fast], every=list(CELLS)))
def test_every_model_has_the_logits_and_gradients_of_its_plain_loop_and_trains(cell):
    contender = models._model(cell, Setting(SIZES.model), SIZES, None)
    assert contender.name == cell and disagreement(contender, forward=False) is None
    assert "model.embeddings.map.weight" in contender.leaves and "classifier.weight" in contender.leaves
    assert_every_weight_is_trained_by(contender)


def test_only_a_model_that_is_wrong_on_every_batch_is_wrong(monkeypatch, timed_once):
    """Rounding may choose another side on one: another follows."""
    right, tried, wrong = models._on_batch, [], range(99)

    def on_batch(cell, setting, sizes, compiled_as, number):
        tried.append(number)
        contender = right(cell, setting, sizes, compiled_as, number)
        return dataclasses.replace(contender, run=lambda: 1.1 * contender.run()) if number in wrong else contender

    monkeypatch.setattr(models, "_on_batch", on_batch)
    found = found_by(models.model, SIZES, ("mingru",), 0.05)
    assert [row.what for row in found.wrong] == ["output 0"] and not found.timings
    tried, wrong = [], [0]
    assert disagreement(models._model("mingru", Setting(SIZES.model), SIZES, None), forward=False) is None
    assert tried == [0, 1]


def test_models_are_held_against_the_one_with_an_lstm_in_tokens_a_second(timed_once):
    found, (batch, time, _) = found_by(models.model, SIZES, ("lstm", "mingru"), 0.1), SIZES.model
    assert [(row.numerator, row.denominator) for row in found.ratios] == [("lstm", "mingru")]
    for row in found.timings:
        assert row.unit == "tokens/s" and row.rate == pytest.approx(batch * time / (row.median_ms / 1000))


def test_a_stream_of_forecasts_is_held_against_its_products(timed_once):
    found, cells = bench(Request(only=("forecast",)), SMALL_SUITE), ("gru", "mingru")
    ratios = {(row.numerator, row.denominator) for row in found.ratios}
    assert not found.wrong and ratios == {(cell, f"products of {cell}") for cell in cells}
    assert {(row.contender, row.shape) for row in found.timings if row.unit} == {(c, SIZES.series) for c in cells}
