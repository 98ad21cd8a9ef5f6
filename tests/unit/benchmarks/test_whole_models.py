"""Whole models are held against one with an LSTM, or against their products."""

import dataclasses

import pytest
from small_bench import SIZES, found_by

from benchmarks import models
from benchmarks.record import Request
from benchmarks.suite import bench


def test_only_a_model_that_is_wrong_on_every_batch_is_wrong(monkeypatch, timed_once):
    """Rounding may choose another side on one: another follows."""
    right, tried, wrong = models.training_step, [], range(99)

    def step(standard, cell, draw, **options):
        tried.append(draw)
        contender = right(standard, cell, draw, **options)
        return dataclasses.replace(contender, run=lambda: 1.1 * contender.run()) if draw in wrong else contender

    monkeypatch.setattr(models, "training_step", step)
    found = found_by(models.model, SIZES, ("mingru",), 0.05)
    assert [row.what for row in found.wrong] == ["output 0"] and not found.timings
    tried, wrong = [], [0]
    assert not found_by(models.model, SIZES, ("mingru",), 0.05).wrong and tried == [0, 1]


def test_models_are_held_against_the_one_with_an_lstm_in_tokens_a_second(timed_once):
    found, (batch, time, _) = found_by(models.model, SIZES, ("lstm", "mingru"), 0.1), SIZES.model
    assert [(row.numerator, row.denominator) for row in found.ratios] == [("lstm", "mingru")]
    for row in found.timings:
        assert row.unit == "tokens/s" and row.rate == pytest.approx(batch * time / (row.median_ms / 1000))


def test_a_vocabulary_and_a_stream_of_tokens_are_held_against_their_products(timed_once):
    found = found_by(models.language, SIZES, ("mingru",), 0.1)
    streams = {("mingru", "products of mingru"), ("mingru by generate", "products of mingru")}
    assert not found.wrong
    assert {(row.numerator, row.denominator) for row in found.ratios} == {
        (models.VOCABULARY, models.PRODUCTS),
        *streams,
    }


def test_a_stream_of_forecasts_is_held_against_its_products(timed_once, small):
    found, cells = bench(Request(only=("forecast",))), ("gru", "mingru")
    ratios = {(row.numerator, row.denominator) for row in found.ratios}
    assert not found.wrong and ratios == {(cell, f"products of {cell}") for cell in cells}
    assert {(row.contender, row.shape) for row in found.timings if row.unit} == {(c, SIZES.series) for c in cells}
