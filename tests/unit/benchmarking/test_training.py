"""Training steps of standard models are right, and so are the products and parts that they are held against."""

import pytest
from small_bench import SIZES, assert_every_weight_is_trained_by, found_by

from gatedrnn.benchmarking import standards, training
from gatedrnn.benchmarking.layers import over_floor, products_of, step_of
from gatedrnn.benchmarking.measure import disagreement
from gatedrnn.benchmarking.run import TRAINING

STANDARDS = {one.title: one for one in standards.standards(SIZES)}


@pytest.mark.parametrize("title", STANDARDS)
def test_a_model_has_the_loss_and_gradients_of_its_plain_loop(title):
    for cell in ("mingru", "lstm"):
        step = training._step(STANDARDS[title], cell, narrow=False)
        assert disagreement(step, forward=False) is None
        step.optimizer.param_groups[0]["lr"] = 1.0
        assert_every_weight_is_trained_by(step)


def test_the_products_of_a_step_are_those_of_its_matrices():
    """Counts for an LSTM over embedded texts: two matrices of the layer, and a classifier that reads a state each.

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


def test_bytes_of_floors_are_those_of_commit_91f6518_for_each_model_and_cell_of_the_bars():
    """Counted anew they would rise with what a step does."""
    titles = [*TRAINING, *(f"{title}{training.BFLOAT16}" for title in training.IN_BFLOAT16)]
    assert {title for title, _ in standards.MOVED} == set(titles)
    assert all((title, cell) in standards.MOVED for title in TRAINING for cell in ("mingru", "lstm"))
    rest = training.Rest({("AG News", "mingru"): 3_000}, 1e6)
    step = training._step(STANDARDS["AG News"], "mingru", narrow=False)
    assert rest.milliseconds("AG News", "mingru", step) == 3.0
    step.train_step()  # the first also writes the optimizer's moments
    counted = training.bytes_beside_products(step.model, step.train_step)
    assert rest.milliseconds("MNIST", "mingru", step) == pytest.approx(counted / 1e3)


@pytest.mark.slow
def test_ratios_floors_and_parts_of_all_models_are_found():
    found = found_by(training.training, SIZES, ("mingru", "lstm"), 0.5)
    titles = [*TRAINING, *(f"{title}{training.BFLOAT16}" for title in training.IN_BFLOAT16)]
    wanted = {(step_of(title), "mingru") for title in titles} | {(step_of(title), "lstm") for title in TRAINING}
    assert not found.wrong and {(row.mode, row.numerator) for row in found.ratios} == wanted
    for title in titles:
        parts = {row.contender: row.value for row in found.counts if row.mode.startswith(f"{title}, where")}
        products = found.median("training", step_of(title), products_of("mingru"))
        floor = parts.pop(f"mingru: {training.FLOOR}")
        assert floor > products
        assert found.count("training", over_floor(title), "mingru", None) == pytest.approx(
            found.median("training", step_of(title), "mingru") / floor
        )
        assert parts["mingru: matrix products"] > 0 and parts["mingru: gates and scan, or loop"] > 0
