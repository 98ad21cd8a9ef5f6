"""Whole models and their training steps are right, and so are the products and parts that they are held against."""

import dataclasses

import pytest
import torch
from covering import Axis, over
from layer_laws import CELL
from small_bench import SIZES

from gatedrnn.bench import family as of_family
from gatedrnn.bench import models, standards, training
from gatedrnn.bench.bars import TRAINING
from gatedrnn.bench.contenders import Setting
from gatedrnn.bench.layers import TORCHS_LSTM, products_of, step_of
from gatedrnn.bench.measure import Bench, disagreement
from gatedrnn.registry import CELLS

STANDARDS = {one.title: one for one in standards.standards(SIZES)}
SOME = ("mingru", "slstm", "block-orthogonal")


def found_by(section, *arguments):
    bench = Bench()
    section(bench, SIZES, *arguments)
    return bench.findings


def assert_every_weight_is_trained_by(step):
    before = [weight.detach().clone() for weight in step.leaves.values()]
    step.train_step()
    assert not any(map(torch.equal, before, step.leaves.values()))
    assert all(weight.grad is None for weight in step.leaves.values())


@pytest.mark.parametrize("title", STANDARDS)
def test_a_model_has_the_loss_and_gradients_of_its_plain_loop(title):
    for cell in ("mingru", "lstm"):
        step = training._step(STANDARDS[title], cell, narrow=False)
        assert disagreement(step, forward=False) is None
        step.optimizer.param_groups[0]["lr"] = 1.0
        assert_every_weight_is_trained_by(step)


def test_the_products_of_a_step_are_those_of_its_matrices():
    """By hand, for an LSTM over embedded texts: two matrices of the layer, and a classifier that reads a state each.

    The map of numbers needs no gradient of its input, and scores belong to the products.
    """
    standard = STANDARDS["AG News"]
    (batch, steps, width), hidden = standard.shape, standard.widths["lstm"]
    found = training._products_in(training._step(standard, "lstm", narrow=False))
    layer = {(batch * steps, 4 * hidden, width, 1, True), (batch, 4 * hidden, hidden, steps, True)}
    named = {(one.rows, *one.weight.shape, one.times, one.of_input) for one in found}
    assert named == {*layer, (batch, 4, hidden, 1, True)}
    images = training._products_in(training._step(STANDARDS["MNIST"], "mingru", narrow=False))
    assert [one.of_input for one in images if one.weight.shape[1] == 1] == [False]
    words = training._step(STANDARDS["WikiText-2"], "mingru", narrow=False)
    scores = [one for one in training._products_in(words) if one.weight is words.model.lm_head.weight]
    assert [(one.rows, one.times) for one in scores] == [(words.setting.shape[0] * words.setting.shape[1], 1)]


@pytest.mark.slow
def test_ratios_floors_and_parts_of_all_models_are_found():
    found = found_by(training.training, ("mingru", "lstm"), 0.5)
    titles = [*TRAINING, *(f"{title}{training.BFLOAT16}" for title in training.IN_BFLOAT16)]
    wanted = {(step_of(title), "mingru") for title in titles} | {(step_of(title), "lstm") for title in TRAINING}
    assert not found.wrong and {(row.mode, row.numerator) for row in found.ratios} == wanted
    for title in titles:
        parts = {row.contender: row.value for row in found.counts if row.mode.startswith(f"{title}, where")}
        products = found.median("training", step_of(title), products_of("mingru"))
        assert parts.pop("mingru: floor: products, and one pass over the rest") > products
        assert parts["mingru: matrix products"] > 0 and parts["mingru: gates and scan, or loop"] > 0


@pytest.mark.parametrize("cells", [SOME, pytest.param(CELLS, marks=pytest.mark.slow)])
def test_every_cell_of_the_family_stands_beside_its_projection_and_torchs_lstm(cells, monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHERS", ())
    found, names = found_by(of_family.family, tuple(cells), 0.5), {*cells, *of_family.FURTHER}
    wanted = {(name, other) for name in names for other in (products_of(name), TORCHS_LSTM)}
    assert not found.wrong and {(row.numerator, row.denominator) for row in found.ratios} == wanted
    counted = {row.contender: row.value for row in found.counts}
    assert counted.keys() == names and counted["mingru"] == 2 * 4 * (4 + 1)


def test_a_layer_of_another_library_is_held_to_itself_and_runs_a_part(monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHER_STEPS", 2)
    kept = of_family.Other("mingru", "theirs", of_family.TRANSFORMERS, lambda width: torch.nn.Linear(width, width))
    monkeypatch.setattr(of_family, "OTHERS", (kept,))
    found = found_by(of_family.family, ("mingru",), 0.1)
    (row,) = [row for row in found.timings if row.contender == "theirs"]
    assert row.times == 3.0 and not found.wrong
    assert ("theirs", "mingru") in {(row.numerator, row.denominator) for row in found.ratios}


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
    found = found_by(models.model, ("mingru",), False, 0.05)
    assert [row.what for row in found.wrong] == ["output 0"] and not found.timings
    tried, wrong = [], [0]
    assert disagreement(models._model("mingru", Setting(SIZES.model), SIZES, None), forward=False) is None
    assert tried == [0, 1]


def test_models_are_held_against_the_one_with_an_lstm_in_tokens_a_second(timed_once):
    found, (batch, time, _) = found_by(models.model, ("lstm", "mingru"), False, 0.1), SIZES.model
    assert [(row.numerator, row.denominator) for row in found.ratios] == [("lstm", "mingru")]
    for row in found.timings:
        assert row.unit == "tokens/s" and row.rate == pytest.approx(batch * time / (row.median_ms / 1000))
