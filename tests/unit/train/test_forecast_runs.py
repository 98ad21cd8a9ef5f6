"""Forecasts end to end: from a table to the table of the forecast, its scores and its pictures; and no look-ahead."""

import csv
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from commands import outcome, printed

from gatedrnn.cli.app import main
from gatedrnn.data import TaskData, Windows, data_settings
from gatedrnn.data.forecast.task import load_forecast
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.train.finished import open_finished

FLAGS = (
    "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --total-steps 40 --validate-every 20 --threads 1 "
    "--horizon 6 --season 12 --context 24"
)


def table(folder: Path, name: str = "heat.csv", steps: int = 240, future: int = 6) -> Path:
    """Two series with a season of 12 hours and a price that moves them, known for some hours more."""
    random, lines = np.random.default_rng(0), ["place,when,heat,price"]
    times = [str(moment) for moment in pd.date_range("2024-01-01", periods=steps + future, freq="h")]
    for number, place in enumerate(("north", "south")):
        prices = random.integers(0, 2, steps + future)
        for step, moment in enumerate(times):
            heat = 10 * number + 3 * np.sin(np.pi * step / 6) + 2 * prices[step] + random.normal() / 10
            lines.append(f"{place},{moment},{f'{heat:.4f}' if step < steps and step % 50 else ''},{prices[step]}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


ROLES = "--target heat --series-column place --time-column when --known price --calendar hour-of-day"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("forecast")
    flags = [str(table(found)), *ROLES.split(), *FLAGS.split(), "--output", str(found / "run")]
    with pytest.raises(SystemExit) as stop:
        main(["forecast", *flags])
    assert not stop.value.code
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_forecast_has_the_names_of_the_table_and_follows_it(folder: Path) -> None:
    rows = rows_of(folder / "run" / "forecast.csv")
    assert list(rows[0]) == ["place", "when", "heat", "heat_0.1", "heat_0.9"] and len(rows) == 12
    assert [row["place"] for row in rows] == ["north"] * 6 + ["south"] * 6
    assert rows[0]["when"] == rows[6]["when"] == "2024-01-11 00:00:00"
    assert all(float(row["heat_0.1"]) < float(row["heat"]) < float(row["heat_0.9"]) for row in rows)
    page = (folder / "run" / "report.html").read_text()
    assert "north: the next steps" in page and "Error against horizon" in page and "Coverage of the test" in page


def test_a_finished_run_forecasts_another_file_and_the_same_file_alike(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "again.csv"
    printed(capsys, "predict", str(folder / "run"), str(folder / "heat.csv"), "--output", str(out))
    assert rows_of(out) == rows_of(folder / "run" / "forecast.csv")
    code, error = outcome(
        capsys, "predict", str(folder / "run"), str(table(folder, "short.csv", future=2)), "--output", str(out)
    )
    assert code == 2 and error.count("\n") == 1 and "column 'price' has no value at 2024-01-11 02:00" in error
    assert rows_of(out) == rows_of(folder / "run" / "forecast.csv")


def test_covariates_that_are_missing_ahead_are_named_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*ROLES.split(), *FLAGS.split(), "--output", str(tmp_path / "run")]
    code, error = outcome(capsys, "forecast", str(table(tmp_path, "short.csv", future=2)), *flags)
    assert code == 2 and error.count("\n") == 1 and "column 'price' has no value at 2024-01-11 02:00" in error
    assert not (tmp_path / "run").exists()


def test_a_run_is_evaluated_with_the_scale_of_each_window_and_with_one_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(printed(capsys, "evaluate", str(folder / "run"), "--json"))[0]
    own = json.loads((folder / "run" / "result.json").read_text())
    assert found["fresh"]["mase"] == pytest.approx(own["test_mase"], rel=1e-5)
    assert found["streamed"]["mase"] != found["fresh"]["mase"] and found["streamed"]["mase"] < 2
    assert "in a stream" in printed(capsys, "evaluate", str(folder / "run"))
    code, error = outcome(capsys, "evaluate", str(folder / "run"), "--file", str(folder / "heat.csv"))
    assert code == 2 and "give --split alone" in error


def test_a_run_is_diagnosed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "layer 0" in printed(capsys, "diagnose", str(folder / "run"), "--output", str(folder / "diagnosis"))


def data_of(path: Path, **given: Any) -> TaskData:
    roles = {"target": ("heat",), "series_column": "place", "time_column": "when", "known": ("price",)}
    sizes = {"horizon": 6, "season": (12,), "context": 24, "stride": 1, "calendar": ("hour-of-day",)}
    return load_forecast(data_settings("forecast", train_file=path, **roles, **sizes, **given))


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


def test_no_forecast_looks_ahead_and_a_planted_leak_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(folder / "heat.csv")
    model = cast(GatedRNNForForecasting, open_finished(folder / "run").model)
    assert not looks_ahead(model, data)
    collate = Windows.collate

    def leaking(self: Windows, places: np.ndarray) -> dict[str, torch.Tensor]:
        """One step further: the value that is to be forecast first."""
        return collate(self, places + np.array([0, 1]))

    monkeypatch.setattr(Windows, "collate", leaking)
    assert looks_ahead(model, data)


def test_the_test_part_does_not_change_the_trained_weights(tmp_path: Path) -> None:
    """Two tables that differ in their test part alone give the same model."""
    path = table(tmp_path, "one.csv", future=0)
    rows = path.read_text().splitlines()
    later = [row if row.split(",")[1] < "2024-01-09" else ",".join([*row.split(",")[:2], "7", "0"]) for row in rows]
    (tmp_path / "two.csv").write_text("\n".join([rows[0], *later[1:]]) + "\n")
    weights = []
    for name in ("one", "two"):
        flags = [*ROLES.split(), *FLAGS.replace("40", "5").split(), "--output", str(tmp_path / name)]
        with pytest.raises(SystemExit) as stop:
            main(["train", "--task", "forecast", "--train-file", str(tmp_path / f"{name}.csv"), *flags])
        assert not stop.value.code
        weights.append(open_finished(tmp_path / name).model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
