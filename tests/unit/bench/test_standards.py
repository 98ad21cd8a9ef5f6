"""Training steps of the standard models are right, and so are the products and the parts that they are held against."""

import pytest
import torch
from small_bench import SIZES

from gatedrnn.bench import family as of_family
from gatedrnn.bench import standards, training
from gatedrnn.bench.bars import TRAINING
from gatedrnn.bench.layers import TORCHS_LSTM, products_of, step_of
from gatedrnn.bench.measure import Bench, disagreement
from gatedrnn.bench.sizes import Sizes
from gatedrnn.registry import CELLS

STANDARDS = {one.title: one for one in standards.standards(SIZES)}


@pytest.mark.parametrize("title", STANDARDS)
def test_a_model_has_the_loss_and_gradients_of_its_plain_loop(title):
    for cell in ("mingru", "lstm"):
        step = training._step(STANDARDS[title], cell, narrow=False)
        assert disagreement(step, forward=False) is None
        before = [weight.detach().clone() for weight in step.leaves.values()]
        step.optimizer.param_groups[0]["lr"] = 1.0
        step.train_step()
        moved = [not torch.equal(old, new) for old, new in zip(before, step.leaves.values(), strict=True)]
        assert all(moved) and all(weight.grad is None for weight in step.leaves.values())


def test_the_products_of_a_step_are_those_of_its_matrices():
    """By hand, for an LSTM over embedded texts: two matrices of the layer, and a classifier that reads a state each."""
    standard = STANDARDS["AG News"]
    batch, steps, width = standard.shape
    hidden = standard.widths["lstm"]
    found = training._products_in(training._step(standard, "lstm", narrow=False))
    named = {(one.rows, *one.weight.shape, one.times, one.of_input) for one in found}
    assert named == {
        (batch * steps, 4 * hidden, width, 1, True),
        (batch, 4 * hidden, hidden, steps, True),
        (batch, 4, hidden, 1, True),
    }  # fmt: skip


def test_the_map_of_numbers_needs_no_gradient_of_its_input_and_scores_belong_to_the_products():
    images = training._products_in(training._step(STANDARDS["MNIST"], "mingru", narrow=False))
    assert [one.of_input for one in images if one.weight.shape[1] == 1] == [False]
    words = training._step(STANDARDS["WikiText-2"], "mingru", narrow=False)
    scores = [one for one in training._products_in(words) if one.weight is words.model.lm_head.weight]
    assert [(one.rows, one.times) for one in scores] == [(words.setting.shape[0] * words.setting.shape[1], 1)]


@pytest.mark.slow
def test_ratios_floors_and_parts_of_all_models_are_found():
    bench = Bench()
    training.training(bench, SIZES, ("mingru", "lstm"), 0.5)
    assert not bench.findings.wrong
    titles = [*TRAINING, *(f"{title}{training.BFLOAT16}" for title in training.IN_BFLOAT16)]
    found = {(row.mode, row.numerator) for row in bench.findings.ratios}
    wanted = {(step_of(title), "mingru") for title in titles}
    assert found == wanted | {(step_of(title), "lstm") for title in TRAINING}
    for title in titles:
        parts = {row.contender: row.value for row in bench.findings.counts if row.mode.startswith(f"{title}, where")}
        floor = parts.pop("mingru: floor: products, and one pass over the rest")
        products = bench.findings.median("training", step_of(title), products_of("mingru"))
        assert floor > products
        assert parts["mingru: matrix products"] > 0 and parts["mingru: gates and scan, or loop"] > 0


@pytest.mark.parametrize(
    "cells", [("mingru", "slstm", "block-orthogonal"), pytest.param(CELLS, marks=pytest.mark.slow)]
)
def test_every_cell_of_the_family_stands_beside_its_projection_and_torchs_lstm(cells, monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHERS", ())
    bench = Bench()
    of_family.family(bench, SIZES, tuple(cells), 0.5)
    assert not bench.findings.wrong
    names = {*cells, *of_family.FURTHER}
    found = {(row.numerator, row.denominator) for row in bench.findings.ratios}
    assert found == {(name, other) for name in names for other in (products_of(name), TORCHS_LSTM)}
    counted = {row.contender: row.value for row in bench.findings.counts}
    assert counted.keys() == names and counted["mingru"] == 2 * 4 * (4 + 1)


def test_a_layer_of_another_library_is_held_to_itself_and_runs_a_part(monkeypatch, timed_once):
    monkeypatch.setattr(of_family, "OTHER_STEPS", 2)
    kept = of_family.Other("mingru", "theirs", of_family.TRANSFORMERS, lambda width: torch.nn.Linear(width, width))
    monkeypatch.setattr(of_family, "OTHERS", (kept,))
    bench = Bench()
    of_family.family(bench, SIZES, ("mingru",), 0.1)
    (row,) = [row for row in bench.findings.timings if row.contender == "theirs"]
    assert row.times == 3.0 and not bench.findings.wrong
    assert ("theirs", "mingru") in {(row.numerator, row.denominator) for row in bench.findings.ratios}


def test_default_sizes_are_those_of_the_recipes():
    assert [one.shape for one in standards.standards(Sizes())] == [
        (64, 35, 128), (32, 128, 128), (20, 35, 256), (16, 784, 64), (32, 119, 64)
    ]  # fmt: skip
