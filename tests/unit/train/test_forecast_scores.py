"""Scores of forecasts: by hand, and as another library has them."""

import numpy as np
import pandas as pd
import pytest
import utilsforecast.losses as theirs

from gatedrnn.data import Windows
from gatedrnn.data.windows import OneSeries
from gatedrnn.train.forecast_scores import ForecastTally
from gatedrnn.train.outcomes import of_windows

LEVELS = [0.1, 0.5, 0.9]


def windows_of(values: np.ndarray, horizon: int, season: int) -> Windows:
    """Each row a series, of which the last `horizon` steps are forecast once."""
    rows, time = values.shape
    nothing = np.empty((time, 0), np.float32)
    series = [
        OneSeries(str(n), np.arange(time), row, nothing, nothing, np.empty(0, np.float32))
        for n, row in enumerate(values)
    ]
    first = np.full(rows, time - horizon)
    before = values[:, : time - horizon]
    naive = np.nanmean(np.abs(before[:, season:] - before[:, :-season]), axis=1)
    naive = np.where(naive > 0, naive, np.nan)
    return Windows(series, first, np.full(rows, time), naive, np.nanstd(before, axis=1), time - horizon, horizon)


def test_scores_by_hand() -> None:
    windows = windows_of(np.array([[1.0, 2.0, 4.0, 5.0, 7.0]]), horizon=2, season=1)  # naive error (1 + 2) / 2
    tally = ForecastTally(windows, LEVELS)
    tally.add(0, np.array([[[3.0, 4.0, 6.0], [4.0, 8.0, 9.0]]]), np.array([[5.0, 7.0]]))
    scores, deviation = tally.scores(0.0), np.std([1.0, 2.0, 4.0])
    assert scores.mae == 1.0 and scores.mase == pytest.approx(1 / 1.5) and scores.coverage == 1.0
    assert scores.scaled_mse == pytest.approx(1 / deviation**2) and scores.scaled_mae == pytest.approx(1 / deviation)
    assert scores.smape == pytest.approx(100 * (1 / 9 + 1 / 15))
    losses = {0.1: 0.1 * 2 + 0.1 * 3, 0.5: 0.5 + 0.5, 0.9: 0.1 * 1 + 0.1 * 2}
    assert scores.weighted_quantile_loss == pytest.approx(np.mean([2 * loss / 12 for loss in losses.values()]))
    assert tally.error_by_step() == pytest.approx([1 / 1.5, 1 / 1.5])


def test_scores_are_those_of_another_library() -> None:
    random, horizon, season = np.random.default_rng(0), 12, 6
    values = random.normal(size=(5, 60)).cumsum(1) + 50
    windows = windows_of(values, horizon, season)
    quantiles = np.sort(values[:, -horizon:, None] + random.normal(size=(5, horizon, 3)), axis=2)
    tally = ForecastTally(windows, LEVELS)
    tally.add(0, quantiles, values[:, -horizon:])
    scores = tally.scores(0.0)
    ids, times = np.repeat(np.arange(5), horizon), np.tile(np.arange(48, 60), 5)
    columns = {f"q{n}": quantiles[..., n].ravel() for n in range(3)}
    table = pd.DataFrame({"unique_id": ids, "ds": times, "y": values[:, -horizon:].ravel(), **columns})
    before = pd.DataFrame(
        {"unique_id": np.repeat(np.arange(5), 48), "ds": np.tile(np.arange(48), 5), "y": values[:, :48].ravel()}
    )
    assert scores.mae == pytest.approx(theirs.mae(table, ["q1"])["q1"].mean())
    assert scores.smape == pytest.approx(200 * theirs.smape(table, ["q1"])["q1"].mean())
    assert scores.mase == pytest.approx(theirs.mase(table, ["q1"], season, before)["q1"].mean())
    losses = [theirs.quantile_loss(table, {"m": f"q{n}"}, q=level)["m"].mean() for n, level in enumerate(LEVELS)]
    assert scores.weighted_quantile_loss == pytest.approx(2 * np.mean(losses) / table["y"].abs().mean())
    inside = theirs.coverage(table.rename(columns={"q0": "m-lo-80", "q2": "m-hi-80"}), ["m"], 80)["m"].mean()
    assert scores.coverage == pytest.approx(inside)


def test_missing_labels_and_series_without_a_scale_are_left_out() -> None:
    values = np.array([[1.0, 2.0, 4.0, np.nan, 7.0], [3.0, 3.0, 3.0, 3.0, 4.0]])
    tally = ForecastTally(windows_of(values, 2, 1), LEVELS)
    tally.add(0, np.broadcast_to(np.array([4.0, 5.0, 6.0]), (2, 2, 3)), values[:, -2:])
    scores = tally.scores(0.0)
    assert tally.labels.tolist() == [1, 2] and scores.mae == pytest.approx((2 + 2 + 1) / 3)
    assert scores.mase == pytest.approx(2 / 1.5) and scores.scaled_mae == pytest.approx(2 / np.std([1, 2, 4]))


def test_many_series_are_examples_and_few_are_cut_into_blocks_of_time() -> None:
    places = np.stack([np.repeat(np.arange(25), 2), np.tile([10, 14], 25)], axis=1)
    many = of_windows(np.ones(50), np.full(50, 4), places, 4)
    assert many.unit == "series" and many.counts.tolist() == [8] * 25 and many.rate == 0.25
    few = of_windows(np.ones(50), np.full(50, 4), np.stack([np.zeros(50, int), np.arange(50)], axis=1), 12)
    assert few.unit == "block of 12 steps" and few.counts.tolist() == [48, 48, 48, 48, 8]
