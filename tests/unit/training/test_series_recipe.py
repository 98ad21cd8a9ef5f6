"""Parts beside the cells in the recipe of series: an average of weights has them; the path is a ridge."""

import numpy as np
import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at
from refusals import refused
from scipy.special import log_softmax
from sklearn.linear_model import Ridge, RidgeCV
from train_helpers import rising_and_falling

from gatedrnn.data import Examples, data_settings, load_task
from gatedrnn.models import GatedRNNConfig
from gatedrnn.models.random_convolutions import ConvolutionPath
from gatedrnn.tasks.series.chosen import series_recipe
from gatedrnn.tasks.series.parts import _SHARPEST, fit_convolution_path
from gatedrnn.training.loop import run
from gatedrnn.training.recipes import recipe_of
from gatedrnn.training.settings import RunSettings

SERIES = "series-classification"


def settings(file, **changes):
    small = {"hidden_size": 8, "convolution_size": 6, "random_convolutions": 500, "total_steps": 10}
    return RunSettings.from_flat(
        {
            "task": SERIES, "train_file": str(file), "cell": "mingru", "threads": 1, **recipe_of(SERIES, whole=True),
            **small, "checkpoint_every": 3, "log_every": 2, **changes,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    run(settings(rising_and_falling(folder / "train.csv", 40, wrong=9)), folder / "run")
    return folder


def test_an_average_of_weights_has_every_part(whole, tmp_path):
    averaged = settings(whole / "train.csv", average=0.5)
    run(averaged, tmp_path / "whole")
    with pytest.raises(Killed):
        run(averaged, tmp_path / "killed", killed_at(5))
    run(averaged, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def examples(rows=30, classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    steps = np.arange(20)
    values = [
        (np.sin(steps * (1 + label) / 3 + random.uniform(0, 6)) + random.normal(size=20) / 2)[:, None].astype("f4")
        for label in labels
    ]
    return Examples(values, labels)


def test_the_path_is_the_ridge_whose_answers_left_out_are_the_likeliest():
    """The path is compared with fits that leave out each row, over a grid of scales."""
    of = examples()
    config = GatedRNNConfig(input_size=1, num_labels=3, random_convolutions=400, longest_steps=20)
    path = ConvolutionPath(config)
    fit_convolution_path(path, of, seed=0)
    inputs = torch.from_numpy(np.stack(of.inputs))
    features = path.features(inputs, None).double().numpy()
    deviation = np.where(features.std(0) > 1e-4, features.std(0), np.inf)
    scaled, targets = (features - features.mean(0)) / deviation, np.where(np.eye(3)[of.labels] > 0, 1.0, -1.0)

    def left_out(penalty):
        every = range(len(of))
        rest = [np.array([n for n in every if n != row]) for row in every]
        return np.stack([Ridge(penalty).fit(scaled[r], targets[r]).predict(scaled[[n]])[0] for n, r in enumerate(rest)])

    answers = {penalty: left_out(penalty) for penalty in np.logspace(-3, 3, 10)}
    penalty = min(answers, key=lambda one: ((answers[one] - targets) ** 2).mean())
    losses = {
        factor: -log_softmax(factor * answers[penalty], axis=1)[np.arange(len(of)), of.labels].mean()
        for factor in np.geomspace(0.1, _SHARPEST, 400)
    }
    expected = min(losses, key=losses.get) * Ridge(penalty).fit(scaled, targets).predict(scaled)
    np.testing.assert_allclose(path(inputs, None).numpy(), expected, rtol=0.05, atol=0.05)
    new = examples(60, seed=1)
    right = path(torch.from_numpy(np.stack(new.inputs)), None).argmax(1).numpy() == new.labels
    assert right.mean() > 0.8
    again = ConvolutionPath(config)
    fit_convolution_path(again, of, seed=0)
    assert all(torch.equal(one, other) for one, other in zip(path.parameters(), again.parameters(), strict=True))


def test_the_path_of_numbers_is_the_ridge_whose_answers_left_out_have_the_smallest_error():
    of = examples()
    numbers = Examples(of.inputs, (of.labels + np.random.default_rng(0).normal(size=len(of))) * 30 + 100)
    config = GatedRNNConfig(
        input_size=1, num_labels=1, problem_type="regression", random_convolutions=400, longest_steps=20
    )  # fmt: skip
    path = ConvolutionPath(config)
    fit_convolution_path(path, numbers, seed=0)
    inputs = torch.from_numpy(np.stack(of.inputs))
    features = path.features(inputs, None).double().numpy()
    scaled = (features - features.mean(0)) / np.where(features.std(0) > 1e-4, features.std(0), np.inf)
    expected = RidgeCV(np.logspace(-3, 3, 10)).fit(scaled, numbers.labels).predict(scaled)
    np.testing.assert_allclose(path(inputs, None).numpy()[:, 0], expected, rtol=1e-3, atol=0.5)


def test_without_a_validation_part_all_series_are_learned_from_and_the_last_weights_are_taken(whole):
    data = load_task(data_settings(SERIES, train_file=whole / "train.csv", validation_fraction=0.0))
    assert len(data.train) == 32 and data.evaluation.keys() == {"test"}
    assert "Validation: no series are set apart; the last weights are taken." in data.notes
    assert not any("are in the training data too" in note for note in data.notes)
    assert len(load_task(data_settings(SERIES, train_file=whole / "train.csv")).train) == 28


def test_the_recipe_follows_the_sizes_and_compare_has_the_cells_alone():
    few, many = (
        {name: one.value for name, one in series_recipe(*sizes).items()}
        for sizes in ((36, 251, 1, 3), (20_000, 100, 4, 5))
    )
    assert few["validation_fraction"] == 0 < many["validation_fraction"]
    assert few["total_steps"] == 500 < many["total_steps"] == 5000
    assert series_recipe(500, 100_000, 1, 2)["convolution_size"].value == 0
    assert series_recipe(500, 100, 65, 2)["embedding_size"].value == 64
    assert series_recipe(5000, 100, 1, 4000)["random_convolutions"].value == 1000
    whole, cells = (recipe_of(SERIES, whole=flag) for flag in (True, False))
    assert {"random_convolutions", "convolution_size", "validation_fraction"} == whole.keys() - cells.keys() - {
        "label_smoothing"
    }
    assert few.items() <= whole.items(), "the recipe of most series is the fixed one"


def test_convolutions_are_for_series():
    refused(ValueError, "convolution-size belongs to series-", settings, "a.csv", task="text-classification")
