"""A forecaster's start knows how each smoother has done over the training part, and nothing of what comes after it."""

import numpy as np
import pytest
import torch

from gatedrnn.data import data_settings, load_task
from gatedrnn.models import GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.models.smoothing import _LEVEL_WEIGHTS, MIN_CHANGE, SMOOTHERS
from gatedrnn.tasks.forecast.configuration import FARTHEST, LEAST, PRIOR, typical_errors

LAST = _LEVEL_WEIGHTS.index(1.0)
"""The smoother that is the last value."""


def table(path, values):
    path.write_text("time,y\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)))
    return path


def task(path, **given):
    return load_task(data_settings("forecast", train_file=path, horizon=4, season=(5,), context=20, **given))


@pytest.fixture
def series():
    """A series with values on both sides of 0, so that windows are read in a unit of their own, not in logarithms."""
    random = np.random.default_rng(0)
    return np.tile([-5.0, 3.0, 9.0, 4.0, 1.0], 16) + random.normal(size=80)


def test_they_are_the_mean_errors_by_step_from_every_origin_of_training(series, tmp_path):
    """Each origin by itself, from the part of its window that is before it, in the window's unit."""
    data = task(table(tmp_path / "a.csv", series))
    train, stop = data.train, int(data.train.stop[0])
    model = GatedRNNForForecasting(GatedRNNForecastConfig(horizon=4, seasons=[5], hidden_size=4, embedding_size=4))
    errors = [[[] for _ in range(SMOOTHERS + 1)] for _ in range(4)]
    for _, end in train.training_places:
        start = end - train.context
        scale = model.scale_of(torch.from_numpy(series[None, max(0, start) : end]))
        for origin in range(max(1, end - train.origins + 1), end + 1):
            window = np.full(origin - start, np.nan)
            window[max(0, -start) :] = series[max(0, start) : origin]
            with torch.no_grad():
                read = model.read(torch.from_numpy(window[None]), scale=scale)
                ahead = read.scale.denormalise(read.smoothed.ahead()[:, 0].double())[0].numpy()
            unit = float(read.smoothed.change[0, -1] * read.scale.deviation[0, 0])
            if read.smoothed.change[0, -1] <= MIN_CHANGE:  # there was none yet
                continue
            for step in range(min(4, stop - origin)):
                for kind in range(SMOOTHERS + 1):
                    errors[step][kind].append(min(FARTHEST, abs(ahead[step, kind] - series[origin + step]) / unit))
    means = np.array([[np.mean(kind) for kind in step] for step in errors])
    counts = np.array([[len(kind) for kind in step] for step in errors])
    usual = means.mean(1, keepdims=True)
    expected = np.maximum(LEAST, (means * counts + PRIOR * usual) / (counts + PRIOR) / usual)
    np.testing.assert_allclose(np.exp(typical_errors(data)), expected, rtol=2e-3)
    assert (means[:, 0] < means[:, LAST]).all(), "a level that moves slowly is better here than the last value"


def test_what_comes_after_training_is_not_read(series, tmp_path):
    before = typical_errors(task(table(tmp_path / "a.csv", series)))
    stop = int(task(tmp_path / "a.csv").train.stop[0])
    other = np.concatenate([series[:stop], 1000 * np.arange(80 - stop)])
    assert typical_errors(task(table(tmp_path / "b.csv", other))) == before
    assert typical_errors(task(tmp_path / "b.csv", train_on="all")) != before


def test_few_forecasts_move_them_little_and_missing_values_count_for_nothing(tmp_path):
    few = np.exp(typical_errors(task(table(tmp_path / "few.csv", [1.0, 5.0, 2.0, 8.0, *[3.0] * 10]))))
    assert few.max() < FARTHEST / PRIOR and few.min() > LEAST
    gaps = np.where(np.arange(80) % 3 == 1, np.nan, np.arange(80.0))
    path = table(tmp_path / "gaps.csv", ["" if np.isnan(value) else value for value in gaps])
    assert np.isfinite(typical_errors(task(path))).all()


def test_a_new_model_follows_the_smoother_that_has_done_best():
    config = GatedRNNForecastConfig(cell="mingru", horizon=2, embedding_size=4, hidden_size=4)
    kinds = SMOOTHERS + len(config.periods)
    values = torch.tensor([[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]])
    for best in (LAST, 0):
        config.typical_errors = [[-5.0 if kind == best else 0.0 for kind in range(kinds)]] * 2
        model = GatedRNNForForecasting(config).eval()
        read = model.read(values.double())
        expected = read.scale.denormalise(read.smoothed.ahead()[..., best].double().unsqueeze(-1))[0, 0, :, 0]
        torch.testing.assert_close(model.predict(values)[0, :, 1], expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(Exception, match="typical_errors must be 2 lists of"):
        GatedRNNForecastConfig(horizon=2, typical_errors=[[0.0]])
