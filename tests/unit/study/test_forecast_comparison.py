"""Forecasts compared: scaled errors with intervals, and baselines that other libraries have too."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from statsforecast import StatsForecast
from statsforecast.models import Naive, SeasonalNaive

from gatedrnn.data import TaskData, Windows, data_settings
from gatedrnn.data.forecast.task import load_forecast
from gatedrnn.study.experiment import compare
from gatedrnn.study.forecast_baselines import forecast_baselines
from gatedrnn.study.report import write_report
from gatedrnn.study.settings import CompareSettings, ContenderSettings, SearchSettings
from gatedrnn.study.space import default_space
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.study.tables import forecast_rows, score_rows
from gatedrnn.study.verdict import headline
from gatedrnn.train.recipes import with_recipe
from gatedrnn.train.settings import ModelSettings, TrainSettings

STEPS, SEASON = 150, 6


def values_of(series: int = 24) -> np.ndarray:
    random = np.random.default_rng(0)
    waves = np.sin(2 * np.pi * np.arange(STEPS) / SEASON)
    return 10 + random.uniform(1, 3, (series, 1)) * waves + random.normal(size=(series, STEPS)) / 4


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("forecast") / "waves.csv"
    lines = [f"s{n:02d},{t},{value}" for n, row in enumerate(values_of()) for t, value in enumerate(row)]
    path.write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
    sizes = {"horizon": 6, "season": (SEASON,), "context": 18, "origins": 6, "test_steps": 6, "validation_steps": 6}
    return data_settings("forecast", train_file=path, **sizes)


@pytest.fixture(scope="module")
def data(settings: Any) -> TaskData:
    return load_forecast(settings)


@pytest.fixture(scope="module")
def finished(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("comparison")
    model = with_recipe("forecast", "model", ModelSettings(layers=1, embedding_size=8))
    train = with_recipe("forecast", "train", TrainSettings(total_steps=30, validate_every=15))
    contenders = ContenderSettings(cells=["gru", "mingru"], hidden_size=8, seeds=[0, 1], match=["layers"])
    search = SearchSettings(trials=2, space=default_space(model, train))
    asked = CompareSettings(contenders=contenders, search=search, threads=1, data=settings, model=model, train=train)
    results = compare(asked, folder / "comparison")
    return results, write_report(folder / "comparison")


@pytest.mark.slow
def test_naive_baselines_are_those_of_statsforecast_and_the_published_definition(data: TaskData) -> None:
    baselines = {one.name: one for one in forecast_baselines(data, threads=1)}
    assert list(baselines) == [
        "last value", "seasonal naive", "AutoETS", "AutoTheta", "DLinear", "gradient boosting on lags",
    ]  # fmt: skip
    values = values_of()
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


def test_the_lowest_scaled_error_is_the_best_and_series_are_the_examples(finished: Any) -> None:
    results, page = finished
    assert (results.metric.name, results.metric.higher_is_better, results.metric.score) == ("mase", False, "error")
    assert results.data.examples == {"validation": 24, "test": 24} and results.data.unit == "series"
    best = min(results.contenders, key=lambda row: row.scores["test"].mean)
    assert headline(results)[0].startswith(f"Test mase is lowest for {best.name}")
    assert "24 series" in page.read_text() and "All scores of the test forecasts" in page.read_text()
    assert [row["contender"] for row in forecast_rows(results)] == [row["contender"] for row in score_rows(results)]
    for pair in results.pairs:
        turned = pair.turned("error")
        assert turned.difference.mean == -pair.difference.mean
        low, high = pair.difference.low, pair.difference.high
        assert low < pair.difference.mean < high and (turned.difference.low, turned.difference.high) == (-high, -low)


def test_errors_are_compared_as_they_are() -> None:
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


@pytest.mark.slow
def test_a_baseline_that_is_fitted_to_each_window_is_left_out_where_there_are_too_many(settings: Any) -> None:
    windows = settings.model_copy(update={"stride": 1, "test_steps": 60})
    found = load_forecast(windows)
    assert len(cast(Windows, found.evaluation["test"])) == 24 * 55
    names = [one.name for one in forecast_baselines(found, threads=1)]
    assert "AutoETS" not in names and "DLinear" in names
