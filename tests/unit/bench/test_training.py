"""Whole models go through the gate too, and a training step is one."""

import dataclasses

import pytest
import torch
from covering import Axis, over
from layer_laws import CELL
from small_bench import SIZES

from gatedrnn.bench import models
from gatedrnn.bench.contenders import Setting
from gatedrnn.bench.measure import Bench, disagreement
from gatedrnn.registry import CELLS

SETTING = Setting(SIZES.model)


@over(cell=Axis(fast=[name for name in CELLS if name in CELL.fast], every=list(CELLS)))
def test_every_model_has_the_logits_and_gradients_of_its_plain_loop(cell):
    contender = models._model(cell, SETTING, SIZES, None)
    assert contender.name == cell and disagreement(contender, forward=False) is None
    assert "model.embeddings.map.weight" in contender.leaves and "classifier.weight" in contender.leaves


def test_a_training_step_changes_every_weight_and_leaves_no_gradient():
    contender = models._on_batch("mingru", SETTING, SIZES, None, 0)
    before = {name: weight.detach().clone() for name, weight in contender.leaves.items()}
    contender.train_step()
    assert all(not torch.equal(before[name], weight) for name, weight in contender.leaves.items())
    assert all(weight.grad is None for weight in contender.leaves.values())


def test_a_model_that_is_wrong_on_every_batch_is_wrong(monkeypatch, timed_once):
    right = models._on_batch

    def wrong(*arguments):
        contender = right(*arguments)
        return dataclasses.replace(contender, run=lambda: 1.1 * contender.run())

    monkeypatch.setattr(models, "_on_batch", wrong)
    bench = Bench()
    models.model(bench, SIZES, ("mingru",), False, 0.05)
    assert [row.what for row in bench.findings.wrong] == ["output 0"] and not bench.findings.timings


def test_a_batch_on_which_rounding_chose_another_side_is_followed_by_another(monkeypatch):
    right, tried = models._on_batch, []

    def unlucky_at_first(cell, setting, sizes, compiled_as, number):
        tried.append(number)
        contender = right(cell, setting, sizes, compiled_as, number)
        return contender if number else dataclasses.replace(contender, run=lambda: 1.1 * contender.run())

    monkeypatch.setattr(models, "_on_batch", unlucky_at_first)
    assert disagreement(models._model("mingru", SETTING, SIZES, None), forward=False) is None
    assert tried == [0, 1]


def test_models_are_held_against_the_one_with_an_lstm_in_tokens_a_second(timed_once):
    bench = Bench()
    models.model(bench, SIZES, ("lstm", "mingru"), False, 0.1)
    batch, time, _ = SIZES.model
    assert [(row.numerator, row.denominator) for row in bench.findings.ratios] == [("lstm", "mingru")]
    for row in bench.findings.timings:
        assert row.unit == "tokens/s" and row.rate == pytest.approx(batch * time / (row.median_ms / 1000))
