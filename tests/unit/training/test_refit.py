"""A forecaster that is trained again: on what, to which bits, and killed at any point of it; and its calibration."""

import threading

import numpy as np
import pandas as pd
import pytest
import torch
from commands import call
from scipy.stats import norm
from train_helpers import seasons

from gatedrnn.data import Windows, data_settings, load_task
from gatedrnn.data.windows import OneSeries
from gatedrnn.errors import DataError, Interrupted
from gatedrnn.models import GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.tasks.forecast import ending, refit
from gatedrnn.tasks.forecast.answering import score_forecasts
from gatedrnn.tasks.forecast.refit import Errors, bands_of, best_shrinkage, errors_of
from gatedrnn.training.finished import open_finished, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import run
from gatedrnn.training.plain_part import SHRINKAGES
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

LEVELS = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return seasons(tmp_path_factory.mktemp("refit") / "heat.csv", future=0)


def settings_of(table, train_on="train", **train):
    data = data_settings(
        "forecast", train_file=table, target=("heat",), series_column="place", time_column="when", horizon=6,
        season=(24,), context=48, train_on=train_on,
    )  # fmt: skip
    return RunSettings(
        cell="mingru", hidden_size=4, threads=1, model=ModelSettings(embedding_size=4), data=data,
        train=TrainSettings(**{"total_steps": 6, "batch_size": 8, "learning_rate": 1e-2} | train),
    )  # fmt: skip


def weights_in(finished):
    return finished.model.state_dict()


def equal(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.fixture(autouse=True, scope="module")
def trusted():
    """Trust the network fully: so few steps would count for nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refit, "best_shrinkage", lambda errors, windows: 1)
        yield


@pytest.fixture(scope="module")
def refitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refit") / "run"
    run(settings_of(table, refit=True, calibrate=True), folder)
    return folder


def test_the_model_that_is_tested_has_seen_all_before_the_test_and_the_last_one_everything(refitted, table, tmp_path):
    for opened, train_on in ((open_tested, "train+validation"), (open_finished, "all")):
        run(settings_of(table, train_on), tmp_path / train_on)
        assert equal(weights_in(opened(refitted)), weights_in(open_finished(tmp_path / train_on)))
    assert not (refitted / "refit").exists() and not (refitted / "checkpoint").exists()
    with pytest.raises(DataError, match=r"trained on the validation part in the end.*--no-refit"):
        score_forecasts(refitted, "validation")
    scores = RunFolder(refitted).finished().scores
    assert score_forecasts(refitted, "test").scores.mase == pytest.approx(scores["test"].mase, rel=1e-6)


@pytest.mark.parametrize("stops", [3, 8, 14])
def test_a_run_that_is_stopped_in_any_of_its_trainings_ends_with_the_same_bits(refitted, table, tmp_path, stops):
    flag, steps, settings = threading.Event(), [], settings_of(table, refit=True, calibrate=True)

    def count(progress):
        steps.append(progress.step)
        if len([step for step in steps if step]) == stops:
            flag.set()

    with pytest.raises(Interrupted, match=rf"{tmp_path / 'run'}: stopped .*; kept$"):
        run(settings, tmp_path / "run", count, flag)
    run(settings, tmp_path / "run")
    for opened in (open_tested, open_finished):
        assert equal(weights_in(opened(tmp_path / "run")), weights_in(opened(refitted)))
        assert opened(tmp_path / "run").model.config.bands == opened(refitted).model.config.bands
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 2


def test_a_run_whose_training_counts_for_nothing_is_not_trained_further(table, tmp_path, monkeypatch):
    monkeypatch.setattr(refit, "best_shrinkage", lambda errors, windows: len(SHRINKAGES) - 1)
    steps = []
    run(settings_of(table, refit=True, calibrate=True), tmp_path / "run", lambda at: steps.append((at.doing, at.steps)))
    further = {doing: taken for doing, taken in steps if doing in ending.DESCRIPTIONS.values()}
    assert further == dict.fromkeys(ending.DESCRIPTIONS.values(), 1)
    values = torch.from_numpy(load_task(settings_of(table).data).train.series[0].values[None, -60:])
    model = open_finished(tmp_path / "run").model
    start = GatedRNNForForecasting(model.config).eval()
    torch.testing.assert_close(model.predict(values), start.predict(values))


def test_a_table_without_parts_to_score_is_forecast(tmp_path, capsys):
    (tmp_path / "short.csv").write_text("year,y\n" + "".join(f"{2000 + n},{n * n % 7 + 1}\n" for n in range(4)))
    folder, small = tmp_path / "run", ["--hidden-size", 4, "--total-steps", 2]
    call("forecast", tmp_path / "short.csv", "--horizon", 6, "--output", folder, *small)
    assert len((folder / "forecast.csv").read_text().splitlines()) == 7
    assert "no test: the series are too short" in " ".join(capsys.readouterr().out.split())
    assert open_finished(folder).model.config.shrinkage == 0.75


def test_a_table_of_counts_has_no_forecast_below_0(tmp_path):
    demand = np.random.default_rng(0).poisson(0.5, 120)
    table = pd.DataFrame({"month": np.arange(120), "sold": demand})
    table.to_csv(tmp_path / "demand.csv", index=False)
    small = ["--hidden-size", 4, "--total-steps", 2, "--season", 1, "--horizon", 6]
    call("forecast", tmp_path / "demand.csv", "--target", "sold", *small, "--output", tmp_path / "run")
    forecast = pd.read_csv(tmp_path / "run" / "forecast.csv")[["sold_0.1", "sold", "sold_0.9"]].to_numpy()
    assert (forecast >= 0).all() and (np.diff(forecast, axis=1) >= 0).all() and forecast.max() > 0
    model = open_finished(tmp_path / "run").model
    model.config.non_negative = False
    assert model.predict(torch.from_numpy(demand[None]).double()).min() < 0


def model_of(**options):
    torch.manual_seed(0)
    config = GatedRNNForecastConfig(cell="mingru", hidden_size=4, embedding_size=4, horizon=3, context=20, **options)
    model = GatedRNNForForecasting(config).eval()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.normal_(std=0.3)
    return model


def test_shrinkage_goes_from_the_training_to_the_start():
    model, values = model_of(), torch.randn(2, 20).cumsum(1)
    trained = model.predict(values)
    model.config.shrinkage = 1.0
    start, new = model.predict(values), GatedRNNForForecasting(model.config)
    new.config.shrinkage = 0.0
    torch.testing.assert_close(start, new.eval().predict(values))
    assert (trained - start).abs().max() > 0.1


def test_bands_scale_the_distances_between_quantiles():
    model, values = model_of(), torch.randn(2, 20)
    before = model.predict(values)
    model.config.bands = [[2.0, 9.0, 3.0]] * 3
    after = model.predict(values)
    torch.testing.assert_close(after[..., 1], before[..., 1])
    distances = before.diff(dim=2) * torch.tensor([2.0, 3.0])
    torch.testing.assert_close(after.diff(dim=2).float(), distances.float())  # the precision of the network


def test_intervals_of_any_width_hold_once_they_are_calibrated():
    random, levels = np.random.default_rng(0), [0.05, 0.25, 0.5, 0.9]
    count, horizon, unit = 4000, 2, np.array([1.0, 3.0])
    error = random.normal(size=(count, horizon)) * unit
    distances = np.ones((count, 1, 4)) * 0.4 * unit[:, None]
    bands = np.array(bands_of([Errors(abs(error), error, distances)], levels))
    reached = 0.4 * np.stack([-bands[:, 0] - bands[:, 1], -bands[:, 1], 0 * bands[:, 0], bands[:, 3]], 1)
    np.testing.assert_allclose(reached, [norm.ppf(levels)] * 2, atol=0.08)
    assert bands_of([Errors(*(np.full(size, np.nan) for size in ((3, 2), (3, 2), (3, 2, 4))))], levels) is None


def test_a_single_error_moves_no_interval():
    error = np.array([[9.0]])
    assert bands_of([Errors(error, error, np.ones((1, 1, 3)))], LEVELS) == [[1.0, 1.0, 1.0]]


def test_training_is_trusted_as_far_as_held_back_values_are_forecast_better():
    def errors(*means):
        return [Errors(np.full((2, 1), mean), *[np.zeros((2, 1, 1))] * 2) for mean in means]

    level = (1.0, 1.0, 1.0, 1.0, 1.0)
    for means, few, many in (
        ((1.0, 1.1, 1.2, 1.3, 1.4), 0.0, 0.0), ((1.4, 1.3, 1.2, 1.1, 1.0), 1.0, 1.0),
        ((1.0, 0.9, 0.8, 0.9, 1.0), 0.5, 0.5), (level, 1.0, 0.25), ((0.98, *level[1:]), 1.0, 0.0),
        ((0.99, *level[1:]), 1.0, 0.25),
        ((*level[:4], 0.97), 1.0, 0.25), ((np.nan,) * 5, 0.0, 0.0),
    ):  # fmt: skip
        assert SHRINKAGES[best_shrinkage(errors(*means), 1)] == few
        assert SHRINKAGES[best_shrinkage(errors(*means), 500)] == many


def test_errors_of_many_forecasts_are_those_that_are_scored(monkeypatch):
    values, nothing, none = np.random.default_rng(1).normal(size=40), np.empty((40, 0)), np.empty(0)
    windows = Windows(
        [OneSeries("a", np.arange(40), values, nothing, nothing, none)], np.array([30]), np.array([36]),
        np.array([2.0]), np.array([1.0]), context=20, horizon=3, stride=3,
    )  # fmt: skip
    monkeypatch.setattr(refit, "ENOUGH_EXAMPLES", 2)
    (found,) = errors_of(model_of(), windows, (0.5,))
    assert len(windows) == len(found.scaled) == 2 and np.isfinite(found.scaled).all()


@pytest.mark.parametrize("members", [1, 2])
def test_errors_of_few_are_of_every_origin_of_the_part_and_use_no_later_value(members):
    values, nothing, none = np.random.default_rng(1).normal(size=40), np.empty((40, 0)), np.empty(0)
    windows = Windows(
        [OneSeries("a", np.arange(40), values, nothing, nothing, none)], np.array([30]), np.array([36]),
        np.array([2.0]), np.array([1.0]), context=20, horizon=3, stride=3,
    )  # fmt: skip
    model = model_of(members=members)
    (found,) = errors_of(model, windows, (0.5,))
    assert np.isnan(found.scaled).sum(0).tolist() == [0, 1, 2] and len(found.scaled) == 6
    model.config.shrinkage = 0.5
    expected = model.predict(torch.from_numpy(values[None, 11:31]))[0, :, 1].numpy()
    np.testing.assert_allclose(found.scaled[1], abs(expected - values[31:34]) / 2, rtol=1e-4)


def test_without_refit_one_model_is_trained(table, tmp_path):
    small = "--target heat --horizon 6 --total-steps 2 --hidden-size 4".split()
    call("forecast", table, "--no-refit", "--no-calibrate", *small, "--output", tmp_path / "run")
    config = open_finished(tmp_path / "run").model.config
    assert not (tmp_path / "run" / "tested").exists() and config.bands is None and not config.shrinkage
    assert load_task(RunFolder(tmp_path / "run").settings().data).evaluation.keys() == {"validation", "test"}
