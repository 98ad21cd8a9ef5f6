"""Training steps of standard models are right, and so are the products and parts that they are held against."""

from functools import partial

import pytest
from covering import Axis, over
from layer_laws import CELL
from small_bench import SIZES, assert_every_weight_is_trained_by, found_by

from benchmarks import standards, training
from benchmarks.bars import TRAINING
from benchmarks.layers import over_floor, products_of, step_of
from benchmarks.measure import disagreement, first_right
from benchmarks.models import classifier
from benchmarks.steps import CLIP, bytes_beside_products, products_in, training_step
from gatedrnn.registry import CELLS
from gatedrnn.training.settings import TrainSettings
from gatedrnn.training.task import task_named

STANDARDS = {one.title: one for one in (*standards.standards(SIZES), classifier(SIZES))}
TRAINED = [(title, cell) for title in STANDARDS for cell in ("mingru", "lstm")]
FAST, EVERY = ([*TRAINED, *(("classifier", cell) for cell in cells)] for cells in (CELL.fast, CELLS))


@over(model=Axis(fast=[case for case in EVERY if case in FAST], every=EVERY))
def test_a_model_has_the_loss_and_gradients_of_its_plain_loop(model):
    title, cell = model
    step = first_right(partial(training_step, STANDARDS[title], cell))
    assert step.name == cell and disagreement(step, forward=False) is None
    assert_every_weight_is_trained_by(step)


def test_a_step_clips_as_the_training_loop_does_and_pixels_are_read_as_its_recipe_has_it():
    assert TrainSettings().clip == CLIP and standards.OF_PIXELS == task_named("mnist").recipe.options


def test_the_products_of_a_step_are_those_of_its_matrices():
    """Counts for an LSTM over embedded texts: two matrices of the layer, and a classifier that reads a state each.

    The map of numbers needs no gradient of its input, and scores belong to the products.
    """
    standard = STANDARDS["AG News"]
    (batch, steps, width), hidden = standard.shape, standard.widths["lstm"]
    found = products_in(training_step(standard, "lstm", 0))
    layer = {(batch * steps, 4 * hidden, width, 1, True), (batch, 4 * hidden, hidden, steps, True)}
    named = {(one.rows, *one.weight.shape, one.times, one.of_input) for one in found}
    assert named == {*layer, (batch, 4, hidden, 1, True)}
    images = products_in(training_step(STANDARDS["MNIST"], "mingru", 0))
    assert [one.of_input for one in images if one.weight.shape[1] == 1] == [False]
    words = training_step(STANDARDS["WikiText-2"], "mingru", 0)
    scores = [one for one in products_in(words) if one.weight is words.model.lm_head.weight]
    assert [(one.rows, one.times) for one in scores] == [(words.setting.shape[0] * words.setting.shape[1], 1)]


def test_bytes_of_floors_are_those_of_commit_91f6518_for_each_model_and_cell_of_the_bars():
    """Counted anew they would rise with what a step does."""
    titles = [*TRAINING, *(f"{title}{standards.BFLOAT16}" for title in standards.IN_BFLOAT16)]
    assert {title for title, _ in standards.MOVED} == set(titles)
    assert all((title, cell) in standards.MOVED for title in TRAINING for cell in ("mingru", "lstm"))
    rest = training.Rest({("AG News", "mingru"): 3_000}, 1e6)
    step = training_step(STANDARDS["AG News"], "mingru", 0)
    assert rest.milliseconds("AG News", "mingru", step) == 3.0
    step.train_step()  # the first also writes the optimizer's moments
    counted = bytes_beside_products(step.model, step.train_step)
    assert rest.milliseconds("MNIST", "mingru", step) == pytest.approx(counted / 1e3)


@pytest.mark.slow
def test_ratios_floors_and_parts_of_all_models_are_found():
    found = found_by(training.training, SIZES, ("mingru", "lstm"), 0.5)
    titles = [*TRAINING, *(f"{title}{standards.BFLOAT16}" for title in standards.IN_BFLOAT16)]
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
