"""Comparisons by other scores: scaled errors of forecasts with intervals, and baselines that other libraries have too;
perplexity over seeds and over documents.
"""

import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from finished_comparison import small_comparison
from statsforecast import StatsForecast
from statsforecast.models import Naive, RandomWalkWithDrift, SeasonalNaive
from train_helpers import small_text, text_settings

from gatedrnn.data import data_settings
from gatedrnn.errors import DataError
from gatedrnn.study.experiment import compare
from gatedrnn.study.plain import plain_baselines
from gatedrnn.study.report import write_report
from gatedrnn.study.results import Confusion, Curves, beside, run_name
from gatedrnn.study.settings import CompareSettings, ContenderSettings
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.study.tables import forecast_rows, score_rows
from gatedrnn.study.verdict import headline
from gatedrnn.tasks.forecast import baselines as forecast_baselines
from gatedrnn.tasks.forecast.read import load_forecast
from gatedrnn.training.outcomes import read_outcomes
from gatedrnn.training.settings import ModelSettings

STEPS, SEASON = 150, 6
NAMES = [
    "last value", "drift", "seasonal naive", "season + level", "AutoETS", "AutoTheta", "DLinear",
    "gradient boosting on lags",
]  # fmt: skip


def values_of(series):
    random = np.random.default_rng(0)
    waves = np.sin(2 * np.pi * np.arange(STEPS) / SEASON)
    return 10 + random.uniform(1, 3, (series, 1)) * waves + random.normal(size=(series, STEPS)) / 4


def waves(folder, series):
    path = folder / "waves.csv"
    lines = [f"s{n:02d},{t},{value}" for n, row in enumerate(values_of(series)) for t, value in enumerate(row)]
    path.write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
    sizes = {"horizon": 6, "season": (SEASON,), "context": 18, "origins": 6, "test_steps": 6, "validation_steps": 6}
    return data_settings("forecast", train_file=path, **sizes)


@contextmanager
def hardly_fitted(refits):
    """Fit DLinear in a part of its steps, and others to few windows: that is enough to be shown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast_baselines, "STEPS", 50)
        patch.setattr(forecast_baselines, "MAX_REFITS", refits)
        yield


@pytest.fixture(scope="module")
def finished(speed_in_a_moment, tmp_path_factory):
    folder, train = tmp_path_factory.mktemp("comparison"), {"total_steps": 6, "validate_every": 3}
    asked = small_comparison(waves(folder, 20), train, cells=["gru", "mingru"], hidden_size=8, match=["layers"])
    with hardly_fitted(refits=0):
        results = compare(asked.model_copy(update={"model": ModelSettings(embedding_size=8)}), folder / "comparison")
    return results, write_report(folder / "comparison")


@pytest.mark.parametrize("steps", [8, 60])
def test_methods_of_one_short_series_learn_from_every_origin_that_the_network_sees(steps, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("ds,y\n" + "".join(f"{t},{value}\n" for t, value in enumerate(values_of(1)[0, :steps])))
    data = load_forecast(data_settings("forecast", train_file=path))
    train = data.train
    assert len(train.training_places) == 1 and train.stop[0] <= train.context
    single = replace(train, origins=1, earlier=train.origins - 1)
    last = int(train.stop[0]) - 1
    assert single.training_places[:, 1].tolist() == [*range(max(1, last - train.origins + 1), last + 1)]
    with hardly_fitted(refits=0):
        scores = [one.scores["test"].mase for one in plain_baselines(data, threads=1)]
    assert len(scores) == (4 if steps == 8 else 6) and np.isfinite(scores).all()


@pytest.mark.slow
def test_naive_baselines_are_those_of_statsforecast_and_the_published_definition(tmp_path):
    data = load_forecast(waves(tmp_path, 24))
    baselines = {one.name: one for one in plain_baselines(data, threads=1)}
    assert list(baselines) == NAMES
    values = values_of(24)
    table = pd.DataFrame(
        {"unique_id": np.repeat(np.arange(24), STEPS - 6), "ds": np.tile(np.arange(STEPS - 6), 24),
         "y": values[:, :-6].ravel()}
    )  # fmt: skip
    theirs = StatsForecast([Naive(), SeasonalNaive(SEASON), RandomWalkWithDrift()], freq=1).forecast(df=table, h=6)
    unit = np.abs(values[:, SEASON:-6] - values[:, : -SEASON - 6]).mean(1, keepdims=True)
    last, before = values[:, -SEASON - 6 : -6], values[:, -2 * SEASON - 6 : -SEASON - 6]
    theirs["level"] = (last + (last.mean(1) - before.mean(1))[:, None]).ravel()
    for ours, name in (
        ("last value", "Naive"), ("seasonal naive", "SeasonalNaive"), ("drift", "RWD"), ("season + level", "level")
    ):  # fmt: skip
        error = np.abs(theirs[name].to_numpy().reshape(24, 6) - values[:, -6:])
        assert baselines[ours].scores["test"].mae == pytest.approx(error.mean())
        assert baselines[ours].scores["test"].mase == pytest.approx((error / unit).mean())
    assert 0.6 < (baselines["seasonal naive"].scores["test"].coverage or 0) < 0.95
    assert 0.5 < (baselines["DLinear"].scores["test"].coverage or 0) < 0.99
    for name in ("AutoTheta", "DLinear", "gradient boosting on lags"):
        assert (baselines[name].scores["test"].mase or 9) < 1 < (baselines["last value"].scores["test"].mase or 0)


def test_the_lowest_scaled_error_is_the_best_and_baselines_of_too_many_windows_are_left_out(finished, tmp_path):
    results, page = finished
    assert (results.metric.name, results.metric.higher_is_better, results.metric.score) == ("mase", False, "error")
    assert results.data.examples == {"validation": 20, "test": 20} and results.data.unit == "series"
    best, *others = results.ranked()
    assert best.scores["test"].mean < min(row.scores["test"].mean for row in others)
    assert f"{best.name} (MASE {best.scores['test'].mean:.3g})" in headline(results)[0]
    assert "20 series" in page.read_text() and "All scores of the test forecasts" in page.read_text()
    assert {row["method"] for row in forecast_rows(results)} == {row["method"] for row in score_rows(results)}
    for pair in results.pairs:
        own, turned = pair.difference, pair.turned("error").difference
        assert (turned.mean, turned.low, turned.high) == (-own.mean, -own.high, -own.low)
        assert own.low < own.mean < own.high
    others = [name for name in NAMES if not name.startswith("Auto")]
    assert [one.name for one in finished[0].baseline.plain] == others
    data = load_forecast(waves(tmp_path, 2))
    with hardly_fitted(refits=4):  # windows of validation and test
        assert [one.name for one in plain_baselines(data, threads=1)] == NAMES


def test_errors_are_compared_as_they_are():
    random = np.random.default_rng(0)
    hard, ones = random.uniform(0.5, 1.5, 400), np.ones(400, int)
    samples = [Sample(k * hard + random.normal(size=(3, 400)) / 20, ones, "error") for k in (1.0, 0.9, 1.001)]
    found = {(int(pair.contender), int(pair.other)): pair for pair in Table(samples).pairs()}
    assert (found[0, 1].verdict, found[0, 2].verdict) == ("worse", "equivalent")
    assert found[0, 1].difference.mean == pytest.approx(0.1 * hard.mean(), abs=0.01)
    estimate = Table(samples).estimates()[0]
    assert estimate.low < estimate.mean < estimate.high and estimate.mean == pytest.approx(samples[0].rates.mean())


def settings_of(text, **changes):
    sizes = {"layers": 1, "length": 32, "batch_size": 16, "total_steps": 10, "checkpoint_every": 100, **changes}
    run = text_settings(text, "lstm", document_start=r"the \d*[05] ", **sizes)
    contenders = ContenderSettings(cells=["lstm", "mingru"], hidden_size=16, match=["layers"], seeds=[0, 1])
    return CompareSettings(contenders=contenders, threads=1, data=run.data, model=run.model, train=run.train)


@pytest.fixture(scope="module")
def of_texts(speed_in_a_moment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    results = compare(settings_of(small_text(folder / "text.txt")), folder / "comparison")
    return results, write_report(folder / "comparison")


def test_the_lowest_perplexity_is_the_best_and_shown_without_a_path_a_text_or_a_confusion(of_texts):
    results, page = of_texts
    assert (results.metric.name, results.metric.higher_is_better) == ("perplexity", False)
    curves, outcomes = beside(page.parent, Curves), read_outcomes(page.parent / "outcomes.npz")
    assert beside(page.parent, Confusion) is None
    for row in results.contenders:
        for run in row.runs:
            score, name = run.scores["test"], run_name(row.name, run.seed)
            assert score.perplexity == pytest.approx(math.exp(score.loss)) and curves.runs[name].score[-1] > 1
            assert outcomes[f"{name}/test"].rate == pytest.approx(score.loss)
        losses = [run.scores["test"].loss for run in row.runs]
        assert row.scores["test"].mean == pytest.approx(math.exp(np.mean(losses)))
    means = [row.scores["validation"].mean for row in results.contenders]
    assert results.best_on_validation().scores["validation"].mean == min(means)
    best = min(results.ranked(), key=lambda row: row.scores["test"].mean)
    assert f"{best.name} (perplexity {best.scores['test'].mean:.3g})" in headline(results)[0]
    results, page = of_texts
    assert str(page.parent) not in results.text() and "cat sat" not in results.text()
    report, shown = (page.with_suffix(ending).read_text(encoding="utf-8") for ending in (".md", ".html"))
    assert "accuracy" not in report and "Test perplexity, every seed</h2>" in shown and "Confusion" not in report


def test_a_difference_is_the_ratio_of_perplexities_over_seeds_and_pieces_of_text(of_texts):
    results, _ = of_texts
    lstm, mingru = results.contenders[:2]
    losses = [np.mean([run.scores["test"].loss for run in row.runs]) for row in (mingru, lstm)]
    found, back = (results.pair(*names).difference for names in ((mingru.name, lstm.name), (lstm.name, mingru.name)))
    assert found.mean == pytest.approx(math.expm1(losses[0] - losses[1])) and found.low < found.mean < found.high
    assert (1 + back.low) * (1 + found.high) == pytest.approx(1) == (1 + back.mean) * (1 + found.mean)
    best, *others = results.ranked()
    shown = {row["method"]: row["to the best"] for row in score_rows(results)}
    for row in others:
        assert shown[row.name].startswith(f"{results.pair(row.name, best.name).difference.mean:+.1%} [")
    assert results.data.unit in ("document", "block of 100 tokens") and results.data.examples["test"] > 1


def test_a_comparison_without_a_test_split_is_refused(tmp_path):
    with pytest.raises(DataError, match="ends on a test split"):
        compare(settings_of(small_text(tmp_path / "text.txt"), test_fraction=0.0), tmp_path / "comparison")
    assert not (tmp_path / "comparison").exists()
