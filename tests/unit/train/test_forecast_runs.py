"""Forecasts end to end: from a table to the table of the forecast, its scores and its pictures; and no look-ahead."""

import csv
import json
from pathlib import Path
from typing import cast

import numpy as np
import torch
from commands import call, outcome, printed
from finished import FORECAST_FLAGS, ROLES
from train_helpers import seasons

from gatedrnn.data import TaskData, Windows, load_task
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.train.finished import open_finished
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.loop import run


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_forecast_has_the_names_of_the_table_and_follows_it(forecast_run: Path) -> None:
    rows = rows_of(forecast_run / "forecast.csv")
    assert list(rows[0]) == ["place", "when", "heat", "heat_0.1", "heat_0.9"] and len(rows) == 12
    assert [row["place"] for row in rows] == ["north"] * 6 + ["south"] * 6
    assert rows[0]["when"] == rows[6]["when"] == "2024-01-11 00:00:00"
    assert all(float(row["heat_0.1"]) < float(row["heat"]) < float(row["heat_0.9"]) for row in rows)
    page = (forecast_run / "report.html").read_text()
    assert "north: the next steps" in page and "Error against horizon" in page and "Coverage of the test" in page


def test_a_finished_run_forecasts_another_file_and_the_same_file_alike(forecast_run, heat, tmp_path, capsys) -> None:
    out, short = tmp_path / "again.csv", seasons(tmp_path / "short.csv", future=2)
    call("predict", forecast_run, heat, "--output", out)
    assert rows_of(out) == rows_of(forecast_run / "forecast.csv")
    for command in (["predict", forecast_run, short], ["forecast", short, *ROLES, *FORECAST_FLAGS]):
        code, error = outcome(capsys, *command, "--output", tmp_path / "nothing.csv")
        assert code == 2 and error.count("\n") == 1 and "column 'price' has no value at 2024-01-11 02:00" in error
        assert not (tmp_path / "nothing.csv").exists(), "something was trained or written"


def test_a_run_is_evaluated_with_the_scale_of_each_window_and_with_one_kept(forecast_run, heat, capsys) -> None:
    found = json.loads(printed(capsys, "evaluate", forecast_run, "--json"))[0]
    own = json.loads((forecast_run / "result.json").read_text())
    assert abs(found["fresh"]["mase"] / own["test_mase"] - 1) < 1e-5
    assert found["streamed"]["mase"] != found["fresh"]["mase"] and found["streamed"]["mase"] < 2
    assert "in a stream" in printed(capsys, "evaluate", forecast_run)
    code, error = outcome(capsys, "evaluate", forecast_run, "--file", heat)
    assert code == 2 and "give --split alone" in error


def test_a_run_is_diagnosed(forecast_run: Path, tmp_path: Path, capsys) -> None:
    assert "layer 0" in printed(capsys, "diagnose", forecast_run, "--output", tmp_path / "diagnosis")


def looks_ahead(model: GatedRNNForForecasting, data: TaskData) -> bool:
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


def test_no_forecast_looks_ahead_and_a_planted_leak_is_found(forecast_run: Path, monkeypatch) -> None:
    data = load_task(RunFolder(forecast_run).settings().data)
    model = cast(GatedRNNForForecasting, open_finished(forecast_run).model)
    assert not looks_ahead(model, data)
    collate = Windows.collate

    def leaking(self: Windows, places: np.ndarray) -> dict[str, torch.Tensor]:
        """One step further: the value that is to be forecast first."""
        return collate(self, places + np.array([0, 1]))

    monkeypatch.setattr(Windows, "collate", leaking)
    assert looks_ahead(model, data)


def test_the_test_part_does_not_change_the_trained_weights(forecast_run: Path, tmp_path: Path) -> None:
    """Two tables that differ in their test part alone give the same model."""
    first, *rows = seasons(tmp_path / "one.csv", future=0).read_text().splitlines()
    later = [row if row.split(",")[1] < "2024-01-09" else ",".join([*row.split(",")[:2], "7", "0"]) for row in rows]
    (tmp_path / "two.csv").write_text("\n".join([first, *later]) + "\n")
    settings, weights = RunFolder(forecast_run).settings().flat(), []
    for name in ("one", "two"):
        given = settings | {"train_file": tmp_path / f"{name}.csv", "total_steps": 5}
        run(RunFolder(forecast_run).settings().from_flat(given), tmp_path / name)
        weights.append(open_finished(tmp_path / name).model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
