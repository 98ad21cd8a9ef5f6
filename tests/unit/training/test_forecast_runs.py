"""Forecasts end to end: from a table to the table of the forecast, its scores and its pictures; and no look-ahead."""

import csv
import json
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch
import utilsforecast.losses as theirs
from commands import call, outcome, printed
from finished import FORECAST_FLAGS, ROLES, copy_of
from train_helpers import seasons

from gatedrnn.data import Windows, data_settings, load_task
from gatedrnn.data.windows import OneSeries
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.tasks.forecast.baselines import _lags
from gatedrnn.tasks.forecast.forecasts import Forecasts, _by_step, _unused, forecast_of_file, write_forecasts
from gatedrnn.tasks.forecast.scores import ForecastTally
from gatedrnn.training.finished import data_of, open_finished, open_tested
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import run
from gatedrnn.training.outcomes import of_windows
from gatedrnn.training.result import Plain, Standing
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_forecast_is_written_with_two_decimals_more_than_the_table(forecast_run, tmp_path):
    table = pd.read_csv(forecast_run / "forecast.csv", dtype=str)
    assert table["heat"].str.partition(".")[2].str.len().max() <= 6


def test_the_score_on_a_file_is_that_of_predictions_of_its_last_steps(forecast_run, heat, tmp_path, capsys):
    table = pd.read_csv(heat).dropna(subset="heat")
    table.sample(frac=1, random_state=0)[[*reversed(table.columns)]].to_csv(tmp_path / "whole.csv", index=False)
    found = json.loads(printed(capsys, "evaluate", forecast_run, "--file", tmp_path / "whole.csv", "--json"))[0]
    last = table.groupby("place").tail(6).index
    table.assign(heat=table["heat"].where(~table.index.isin(last))).to_csv(tmp_path / "short.csv", index=False)
    call("predict", forecast_run, tmp_path / "short.csv", "--output", tmp_path / "out.csv")
    forecast = pd.read_csv(tmp_path / "out.csv")
    errors = (forecast["heat"].to_numpy() - table.loc[last, "heat"].to_numpy()).__abs__()
    assert found["source"] == "whole.csv" and found["rows"] == 2
    assert found["scores"]["mae"] == pytest.approx(errors.mean(), rel=1e-5)
    code, said = outcome(capsys, "evaluate", forecast_run, "--file", tmp_path / "out.csv")
    assert code == 2 and "no column" in said


def test_a_forecast_has_the_names_of_its_table_follows_it_and_is_the_same_again(forecast_run, heat, tmp_path, capsys):
    rows = rows_of(forecast_run / "forecast.csv")
    assert list(rows[0]) == ["place", "when", "heat", "heat_0.1", "heat_0.9"] and len(rows) == 12
    assert [row["place"] for row in rows] == ["north"] * 6 + ["south"] * 6
    assert rows[0]["when"] == rows[6]["when"] == "2024-01-11 00:00:00"
    assert all(float(row["heat_0.1"]) < float(row["heat"]) < float(row["heat_0.9"]) for row in rows)
    page = (forecast_run / "report.html").read_text()
    assert "north: the next steps" in page and "Error against horizon" in page and "Coverage of the test" in page
    out, short = tmp_path / "again.csv", seasons(tmp_path / "short.csv", future=2)
    call("predict", forecast_run, heat, "--output", out)
    assert rows_of(out) == rows_of(forecast_run / "forecast.csv")
    for command in (["predict", forecast_run, short], ["forecast", short, *ROLES, *FORECAST_FLAGS]):
        code, error = outcome(capsys, *command, "--output", tmp_path / "nothing.csv")
        assert code == 2 and error.count("\n") == 1 and "column 'price' has no value at 2024-01-11 02:00" in error
        assert not (tmp_path / "nothing.csv").exists(), "something was trained or written"


def test_a_run_is_evaluated_with_the_scale_of_each_window_or_one_and_diagnosed(forecast_run, heat, tmp_path, capsys):
    found = json.loads(printed(capsys, "evaluate", forecast_run, "--json"))[0]
    own = json.loads((forecast_run / "result.json").read_text())
    assert abs(found["scores"]["mase"] / own["test_mase"] - 1) < 1e-5
    assert found["streamed"]["mase"] != found["scores"]["mase"] and found["streamed"]["mase"] < 2
    assert "in a stream" in printed(capsys, "evaluate", forecast_run)
    code, error = outcome(capsys, "evaluate", forecast_run, "--text-column", "place")
    assert code == 2 and "scored on a split of their own data or on a table; give --file" in error
    assert "layer 0" in printed(capsys, "diagnose", forecast_run, "--output", tmp_path / "diagnosis")


def test_parts_without_values_are_refused_before_training_and_flat_ones_are_scored(tmp_path):
    def settings_of(last):
        """Waves up to step 44, then what is given."""
        values = [*(f"{step % 4 + step / 99:.3f}" for step in range(44)), *last]
        (tmp_path / "a.csv").write_text("t,y\n" + "".join(f"{step},{value}\n" for step, value in enumerate(values)))
        given = {"horizon": 2, "season": (1,), "context": 4, "test_steps": 6, "validation_steps": 6}
        return RunSettings(
            cell="mingru", hidden_size=4, threads=1, model=ModelSettings(embedding_size=4, layers=1),
            data=data_settings("forecast", train_file=tmp_path / "a.csv", **given), train=TrainSettings(total_steps=1),
        )  # fmt: skip

    for last, split in ((["1"] * 4 + [""] * 6 + ["1"] * 6, "validation"), (["1", "2"] * 3 + [""] * 9 + ["1"], "test")):
        with pytest.raises(DataError, match=rf"a\.csv: no value of the {split} part can be scored"):
            load_task(settings_of(last).data)
    for level in ("1", "0"):
        result = run(settings_of([level] * 16), tmp_path / level)
        assert (result.scores["test"].weighted_quantile_loss is None) == (level == "0")
        assert "Infinity" not in (tmp_path / level / "result.json").read_text()
        found = write_forecasts(tmp_path / level, open_finished(tmp_path / level).model)
        assert found.sentence().endswith("last value makes no error there")


def looks_ahead(model, data):
    """Whether a forecast of the test changes when all values from its origin on do."""
    windows = cast(Windows, data.evaluation["test"])
    for number, origin in windows.places[::7]:
        one, place = windows.series[number], np.array([[number, origin]])
        values = one.values.copy()
        forecasts = []
        for later in (values[origin:], 1e3):
            one.values[origin:] = later
            batch = windows.collate(place)
            del batch["labels"]
            forecasts.append(model.predict(**batch))
        one.values[:] = values
        if not torch.equal(*forecasts):
            return True
    return False


def test_no_forecast_looks_ahead_and_a_planted_leak_is_found(forecast_run, monkeypatch):
    data = load_task(RunFolder(forecast_run).settings().data)
    model = cast(GatedRNNForForecasting, open_finished(forecast_run).model)
    assert not looks_ahead(model, data)
    collate = Windows.collate

    def leaking(self, places):
        """One step further: the value that is to be forecast first."""
        return collate(self, places + np.array([0, 1]))

    monkeypatch.setattr(Windows, "collate", leaking)
    assert looks_ahead(model, data)


def test_the_test_part_does_not_change_the_trained_weights(forecast_run, tmp_path):
    """Two tables that differ in their test part alone give the same model."""
    first, *rows = seasons(tmp_path / "one.csv", future=0).read_text().splitlines()
    later = [row if row.split(",")[1] < "2024-01-09" else ",".join([*row.split(",")[:2], "7", "0"]) for row in rows]
    (tmp_path / "two.csv").write_text("\n".join([first, *later]) + "\n")
    settings, weights = RunFolder(forecast_run).settings().flat(), []
    for name in ("one", "two"):
        given = settings | {"train_file": tmp_path / f"{name}.csv", "total_steps": 5}
        run(RunFolder(forecast_run).settings().from_flat(given), tmp_path / name)
        weights.append(open_tested(tmp_path / name).model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


LEVELS = [0.1, 0.5, 0.9]


def windows_of(values, horizon, season):
    """Each row a series, of which the last `horizon` steps are forecast once."""
    rows, time = values.shape
    nothing, none = np.empty((time, 0), np.float32), np.empty(0, np.float32)
    series = [OneSeries(str(n), np.arange(time), row, nothing, nothing, none) for n, row in enumerate(values)]
    before = values[:, : time - horizon]
    naive = np.nanmean(np.abs(before[:, season:] - before[:, :-season]), axis=1)
    naive, first = np.where(naive > 0, naive, np.nan), np.full(rows, time - horizon)
    return Windows(series, first, np.full(rows, time), naive, np.nanstd(before, axis=1), time - horizon, horizon)


def test_scores_by_hand_without_missing_labels_and_series_that_have_no_scale():
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
    values = np.array([[1.0, 2.0, 4.0, np.nan, 7.0], [3.0, 3.0, 3.0, 3.0, 4.0]])
    tally = ForecastTally(windows_of(values, 2, 1), LEVELS)
    tally.add(0, np.broadcast_to(np.array([4.0, 5.0, 6.0]), (2, 2, 3)), values[:, -2:])
    scores = tally.scores(0.0)
    assert tally.labels.tolist() == [1, 2] and scores.mae == pytest.approx((2 + 2 + 1) / 3)
    assert scores.mase == pytest.approx(2 / 1.5) and scores.scaled_mae == pytest.approx(2 / np.std([1, 2, 4]))
    lacking = np.full((2, 2, 3), [[[4.0]], [[np.nan]]])
    for may_lack, mae in ((True, 3), (False, np.nan)):
        tally = ForecastTally(windows_of(values, 2, 1), LEVELS)
        tally.add(0, lacking, values[:, -2:], may_lack)
        assert tally.scores(0.0).mae == pytest.approx(mae, nan_ok=True)


def test_scores_are_those_of_another_library_over_series_or_where_they_are_few_blocks_of_time():
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
    places = np.stack([np.repeat(np.arange(25), 2), np.tile([10, 14], 25)], axis=1)
    many = of_windows(np.ones(50), np.full(50, 4), places, 4)
    assert many.unit == "series" and many.counts.tolist() == [8] * 25 and many.rate == 0.25
    few = of_windows(np.ones(50), np.full(50, 4), np.stack([np.zeros(50, int), np.arange(50)], axis=1), 12)
    assert few.unit == "block of 12 steps" and few.counts.tolist() == [48, 48, 48, 48, 8]


def test_intervals_bias_and_the_furthest_forecasts_are_those_of_the_test(forecast_run, tmp_path):
    run = copy_of(forecast_run, tmp_path)
    found, windows = write_forecasts(run, open_finished(run).model), data_of(RunFolder(run)).evaluation["test"]
    assert isinstance(windows, Windows)
    batch = windows.collate(windows.places)
    labels = batch.pop("labels").numpy()
    quantiles = open_tested(run).model.predict(**batch).numpy()
    off = (quantiles[..., 1] - labels) / windows.naive_error[windows.places[:, 0], None]
    assert found.bias == pytest.approx(np.nanmean(off), rel=1e-5)
    inside = ((labels > quantiles[..., 0]) & (labels <= quantiles[..., 2])).sum() / (~np.isnan(labels)).sum()
    _, said, leaning = found.sentences()
    assert said == f"{inside:.0%} of the test values lie in the 80% interval"
    assert leaning.startswith(f"in the mean, forecasts are too {'high' if np.nanmean(off) > 0 else 'low'} by ")
    number, origin = windows.places[np.nanmean(np.abs(off), 1).argmax()]
    one = windows.series[number]
    assert (found.hardest[0].series, found.hardest[0].times[-windows.horizon]) == (
        one.name, one.form.written(one.times[origin : origin + 1])[0],
    )  # fmt: skip


class Quantiles:
    """A forecaster whose quantiles are the same at every step."""

    def __init__(self, *quantiles):
        self.quantiles, self.config = torch.tensor(quantiles, dtype=torch.float64), SimpleNamespace(levels=LEVELS)

    def predict(self, past_values, **_):
        return self.quantiles.expand(len(past_values), 2, 3)


def test_values_on_a_bound_are_inside_the_interval_on_every_screen():
    """Demand that is 0 on most days, as the lowest quantile is."""
    values = np.array([[0, 1, 0, 2, 0, 0, 0, 0], [0, 3, 0, 0, 1, 0, 9, 1], [1, 0, 0, 2, 0, 0, 0, 0]], dtype=float)
    windows = windows_of(values, 2, 1)
    scored = _by_step(Quantiles(0.0, 0.0, 1.0), windows, SimpleNamespace(model_inputs={"seasons": [1]}))
    forecasts = Forecasts(levels=LEVELS, test=[], future=[], **scored)
    assert forecasts.within == 5 / 6 and "83% of the test values lie in the 80% interval" in forecasts.sentences()
    tally = ForecastTally(windows, LEVELS)
    tally.add(0, np.tile([0.0, 0.0, 1.0], (3, 2, 1)), values[:, -2:])
    assert (tally.scores(0.0).coverage, tally.scores(0.0).mase) == (forecasts.within, forecasts.mase["model"])


def test_a_score_has_one_value_in_a_run_and_the_last_weights_are_called_so(forecast_run):
    result = RunFolder(forecast_run).finished()
    assert result is not None and result.plain_part is not None and result.plain_part.split == "validation"
    assert result.scores["validation"].mase == pytest.approx(result.plain_part.score)
    forecasts = json.loads((forecast_run / "forecasts.json").read_text())
    assert forecasts["mase"]["model"] == pytest.approx(result.scores["test"].mase)
    assert forecasts["within"] == pytest.approx(result.scores["test"].coverage)
    assert result.weights == "last"
    for page in (forecast_run / "report.html", forecast_run / "model" / "README.md"):
        assert "best on validation" not in page.read_text()


def test_columns_without_a_part_in_the_forecast_are_said_first():
    table = {"known": ["price"], "calendar": ["hour-of-day"], "past": ["wind"], "fixed": []}
    curves = {"relative": True, "knots": [[0.0]], "weights": [[1.0]], "centres": [0.0], "limits": [-1.0, 1.0]}
    for shrinkage, regression, expected in (
        (1.0, None, ["price", "hour-of-day", "wind"]), (1.0, curves, ["wind"]), (0.75, None, []),
    ):  # fmt: skip
        config = SimpleNamespace(shrinkage=shrinkage, known_regression=regression, table=table)
        unused = _unused(SimpleNamespace(config=config))
        assert unused == expected
        said = Forecasts(levels=LEVELS, test=[], future=[], unused=unused).on_unused()
        assert len(said) == bool(unused) and all(repr(name) in said[0] for name in unused)


def test_a_price_that_moves_a_table_moves_its_forecast_where_the_network_is_shrunk_away(forecast_run, heat, tmp_path):
    model = cast(GatedRNNForForecasting, open_finished(forecast_run).model)
    assert model.config.known_regression is not None
    model.config.shrinkage = 1.0
    columns, _, _ = forecast_of_file(model, heat)
    lines = [line.split(",") for line in heat.read_text().splitlines()]
    dearer = [[*line[:3], "1"] if line[2] == "" and line[1] >= "2024-01-11" else line for line in lines]
    (tmp_path / "dearer.csv").write_text("\n".join(map(",".join, dearer)) + "\n")
    others, _, _ = forecast_of_file(model, tmp_path / "dearer.csv")
    price = np.array([float(line[3]) for line in lines if line[2] == "" and line[1] >= "2024-01-11"])
    change = np.array(others["heat"]) - np.array(columns["heat"])
    assert np.allclose(change[price == 1], 0) and (np.abs(change[price == 0] - 2) < 0.3).all()


def test_a_plain_method_that_does_better_forecasts_by_the_command_that_is_named(forecast_run, heat, tmp_path, capsys):
    standing = Standing(
        metric="mase", higher_is_better=False, score=2.0, left_out=[], advice=[],
        plain=[Plain(name="last value", score=1.0, seconds=0.0, against="better")],
    )  # fmt: skip
    assert "gatedrnn predict RUN FILE --baseline 'last value' --output NAME" in standing.sentences()[1]
    out = tmp_path / "plain.csv"
    call("predict", forecast_run, heat, "--baseline", "last value", "--output", out)
    last = pd.read_csv(heat).dropna().groupby("place")["heat"].last()
    rows = pd.read_csv(out)
    assert np.allclose(rows["heat"], rows["place"].map(last)) and (rows["heat_0.1"] < rows["heat"]).all()
    call("predict", forecast_run, heat, "--baseline", "plain-part", "--output", out)
    model = cast(GatedRNNForForecasting, open_finished(forecast_run).model)
    before, model.config.shrinkage = model.config.shrinkage, 1.0
    assert np.allclose(pd.read_csv(out)["heat"], forecast_of_file(model, heat)[0]["heat"])
    model.config.shrinkage = before
    code, error = outcome(capsys, "predict", forecast_run, heat, "--baseline", "lastvalue", "--output", out)
    assert code == 2 and "there is no baseline 'lastvalue'" in error and "last value" in error


def test_boosted_trees_read_covariates(forecast_run):
    windows = load_task(RunFolder(forecast_run).settings().data).evaluation["test"]
    batch = windows.collate(windows.places[:2])
    _, features, _ = _lags(batch, 12, windows.horizon)
    plain = {name: tensor for name, tensor in batch.items() if "covariates" not in name}
    assert features.shape[2] == _lags(plain, 12, windows.horizon)[1].shape[2] + 2 * windows.series[0].known.shape[1]
    known = batch["known_covariates"].numpy()
    assert (features[..., -2 * known.shape[2] : -known.shape[2]] == known[:, -windows.horizon :].astype("f4")).all()
