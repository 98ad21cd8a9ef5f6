"""Forecasts compared: scaled errors with intervals, and baselines that other libraries have too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from finished_comparison import small_comparison
from statsforecast import StatsForecast
from statsforecast.models import Naive, SeasonalNaive

from gatedrnn.data import DataSettings, data_settings
from gatedrnn.data.forecast.task import load_forecast
from gatedrnn.study import forecast_baselines
from gatedrnn.study.experiment import compare
from gatedrnn.study.report import write_report
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.study.tables import forecast_rows, score_rows
from gatedrnn.study.verdict import headline
from gatedrnn.train.settings import ModelSettings

STEPS, SEASON = 150, 6
NAMES = ["last value", "seasonal naive", "AutoETS", "AutoTheta", "DLinear", "gradient boosting on lags"]


def values_of(series: int) -> np.ndarray:
    random = np.random.default_rng(0)
    waves = np.sin(2 * np.pi * np.arange(STEPS) / SEASON)
    return 10 + random.uniform(1, 3, (series, 1)) * waves + random.normal(size=(series, STEPS)) / 4


def waves(folder: Path, series: int) -> DataSettings:
    path = folder / "waves.csv"
    lines = [f"s{n:02d},{t},{value}" for n, row in enumerate(values_of(series)) for t, value in enumerate(row)]
    path.write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
    sizes = {"horizon": 6, "season": (SEASON,), "context": 18, "origins": 6, "test_steps": 6, "validation_steps": 6}
    return data_settings("forecast", train_file=path, **sizes)


@contextmanager
def hardly_fitted(refits: int) -> Iterator[None]:
    """What DLinear learns in a part of its steps, and what is fitted to so many windows, is enough to be shown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast_baselines, "STEPS", 50)
        patch.setattr(forecast_baselines, "MOST_REFITS", refits)
        yield


@pytest.fixture(scope="module")
def finished(speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    train = {"total_steps": 6, "validate_every": 3}
    asked = small_comparison(waves(folder, 20), train, cells=["gru", "mingru"], hidden_size=8, match=["layers"])
    with hardly_fitted(refits=0):
        results = compare(asked.model_copy(update={"model": ModelSettings(embedding_size=8)}), folder / "comparison")
    return results, write_report(folder / "comparison")


@pytest.mark.slow
def test_naive_baselines_are_those_of_statsforecast_and_the_published_definition(tmp_path):
    data = load_forecast(waves(tmp_path, 24))
    baselines = {one.name: one for one in forecast_baselines.forecast_baselines(data, threads=1)}
    assert list(baselines) == NAMES
    values = values_of(24)
    table = pd.DataFrame(
        {"unique_id": np.repeat(np.arange(24), STEPS - 6), "ds": np.tile(np.arange(STEPS - 6), 24),
         "y": values[:, :-6].ravel()}
    )  # fmt: skip
    theirs = StatsForecast([Naive(), SeasonalNaive(SEASON)], freq=1).forecast(df=table, h=6)
    unit = np.abs(values[:, SEASON:-6] - values[:, : -SEASON - 6]).mean(1, keepdims=True)
    for ours, name in (("last value", "Naive"), ("seasonal naive", "SeasonalNaive")):
        error = np.abs(theirs[name].to_numpy().reshape(24, 6) - values[:, -6:])
        assert baselines[ours].scores["test"].mae == pytest.approx(error.mean())
        assert baselines[ours].scores["test"].mase == pytest.approx((error / unit).mean())
    assert 0.6 < (baselines["seasonal naive"].scores["test"].coverage or 0) < 0.95
    assert 0.5 < (baselines["DLinear"].scores["test"].coverage or 0) < 0.99
    for name in ("AutoTheta", "DLinear", "gradient boosting on lags"):
        assert (baselines[name].scores["test"].mase or 9) < 1 < (baselines["last value"].scores["test"].mase or 0)


def test_the_lowest_scaled_error_is_the_best_and_series_are_the_examples(
    finished,
):
    results, page = finished
    assert (results.metric.name, results.metric.higher_is_better, results.metric.score) == ("mase", False, "error")
    assert results.data.examples == {"validation": 20, "test": 20} and results.data.unit == "series"
    best = min(results.contenders, key=lambda row: row.scores["test"].mean)
    assert headline(results)[0].startswith(f"Test mase is lowest for {best.name}")
    assert "20 series" in page.read_text() and "All scores of the test forecasts" in page.read_text()
    assert [row["contender"] for row in forecast_rows(results)] == [row["contender"] for row in score_rows(results)]
    for pair in results.pairs:
        turned = pair.turned("error")
        assert turned.difference.mean == -pair.difference.mean
        low, high = pair.difference.low, pair.difference.high
        assert low < pair.difference.mean < high and (turned.difference.low, turned.difference.high) == (-high, -low)


def test_errors_are_compared_as_they_are():
    random = np.random.default_rng(0)
    hard = random.uniform(0.5, 1.5, 400)
    samples = [
        Sample(shift * hard + random.normal(size=(3, 400)) / 20, np.ones(400, int), "error")
        for shift in (1.0, 0.9, 1.001)
    ]
    found = {(pair.first, pair.second): pair for pair in Table(samples).pairs()}
    assert (found[0, 1].verdict, found[0, 2].verdict) == ("worse", "equivalent")
    assert found[0, 1].difference.mean == pytest.approx(0.1 * hard.mean(), abs=0.01)
    estimate = Table(samples).estimates()[0]
    assert estimate.low < estimate.mean < estimate.high and estimate.mean == pytest.approx(samples[0].rates.mean())


def test_a_baseline_that_is_fitted_to_each_window_is_left_out_where_there_are_too_many(finished, tmp_path):
    others = [name for name in NAMES if not name.startswith("Auto")]
    assert [one.name for one in finished[0].baseline.plain] == others
    data = load_forecast(waves(tmp_path, 2))
    with hardly_fitted(refits=4):  # windows of validation and test
        assert [one.name for one in forecast_baselines.forecast_baselines(data, threads=1)] == NAMES
