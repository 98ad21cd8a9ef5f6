"""Series with a class or a number each, end to end: evaluated and predicted from files, beside plain baselines."""

import csv
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import call, outcome, printed
from finished import SERIES_FLAGS
from scipy.io import wavfile
from train_helpers import rising_and_falling

from gatedrnn.data import data_settings, load_task
from gatedrnn.models import GatedRNNConfig
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.folder import read_metrics
from gatedrnn.train.loop import run
from gatedrnn.train.objective import objective_of
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings

BASELINES = ["ridge on summary features", "gradient boosting on summary features", "MiniRocket + ridge"]


def predicted(run: Path, new: Path) -> list[dict[str, str]]:
    out = new.with_name("predictions.csv")
    call("predict", run, new, "--output", out)
    return list(csv.DictReader(out.read_text().splitlines()))


def test_a_run_predicts_a_file_without_labels_in_units_of_its_training_data(series_run: Path, tmp_path: Path) -> None:
    rows = predicted(series_run, rising_and_falling(tmp_path / "new.csv", 10, labelled=False, seed=1))
    assert [row["unique_id"] for row in rows] == [f"s{n}" for n in range(10)]
    assert [row["prediction"] for row in rows] == ["down", "up"] * 5
    assert all(float(row["probability_up"]) + float(row["probability_down"]) == pytest.approx(1) for row in rows)


def test_a_run_is_evaluated_on_a_labelled_file_that_fits_it(series_run: Path, tmp_path: Path, capsys) -> None:
    more = rising_and_falling(tmp_path / "more.csv", 10, seed=2)
    said = printed(capsys, "evaluate", series_run, "--file", more)
    assert "1.0000" in said and "more.csv: 10 rows" in said
    whole = more.read_text()
    for old, new, why in (
        ("heat", "cold", "has the channels load, cold; training had load, heat"),
        (",up", ",sideways", "the label 'sideways' is not one that the model was trained on: down, up"),
    ):
        more.write_text(whole.replace(old, new))
        code, error = outcome(capsys, "evaluate", series_run, "--file", more)
        assert code == 2 and error.count("\n") == 1 and why in error


def tones(folder: Path, name: str, pitches: list[int], *, labelled: bool = True) -> Path:
    """A CSV that names WAV files of 8 kHz, low ones and high ones."""
    folder.mkdir(exist_ok=True)
    lines = ["file,label" if labelled else "file"]
    for number, pitch in enumerate(pitches):
        file = f"{Path(name).stem}-{number}.wav"
        samples = 20_000 * np.sin(2 * np.pi * pitch * np.arange(1500 + 50 * number) / 8000)
        wavfile.write(folder / file, 8000, samples.astype(np.int16))
        lines.append(f"{file},{'low' if pitch < 500 else 'high'}" if labelled else file)
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_recordings_are_learned_and_predicted(tmp_path: Path) -> None:
    heard = tones(tmp_path / "heard", "train.csv", [pitch + 7 * n for n in range(12) for pitch in (200, 900)])
    flags = [*SERIES_FLAGS, "--total-steps", 40, "--learning-rate", 0.02, "--output", tmp_path / "run"]
    call("train", "--task", "series-classification", "--train-file", heard, *flags)
    rows = predicted(tmp_path / "run", tones(tmp_path / "new", "new.csv", [215, 930], labelled=False))
    assert [row["prediction"] for row in rows] == ["low", "high"]


def numbered(path: Path, series: int, seed: int = 0) -> Path:
    """The label is ten times the slope."""
    random, lines = np.random.default_rng(seed), ["unique_id,ds,load,label"]
    for number in range(series):
        slope = random.uniform(-1, 1)
        for step in range(int(random.integers(10, 14))):
            lines.append(f"s{number},{step},{slope * step + random.normal() / 20:.4f},{1000 + 10 * slope:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_series_with_a_number_each_are_learned_predicted_and_evaluated(tmp_path: Path, capsys) -> None:
    train, new = numbered(tmp_path / "train.csv", 120), numbered(tmp_path / "new.csv", 20, seed=1)
    flags = [*SERIES_FLAGS, "--total-steps", 60, "--learning-rate", 0.03, "--output", tmp_path / "run"]
    said = printed(capsys, "train", "--task", "series-regression", "--train-file", train, *flags)
    assert "test scaled mae: 0." in said and "accuracy" not in said
    found = [float(row["prediction"]) for row in predicted(tmp_path / "run", new)]
    true = {row["unique_id"]: float(row["label"]) for row in csv.DictReader(new.read_text().splitlines())}
    assert np.abs(np.array(found) - np.array(list(true.values()))).mean() < 2
    assert "mean absolute error" in printed(capsys, "evaluate", tmp_path / "run", "--file", new)
    new.write_text(new.read_text().replace(f"{true['s3']:.4f}", "much"))
    code, error = outcome(capsys, "evaluate", tmp_path / "run", "--file", new)
    assert code == 2 and "unique_id s3: the label must be a finite number, got 'much'" in error


class LastValues:
    """In MiniRocket's place, whose programs take 25 s to compile: of each series the last value of each channel."""

    def __init__(self, random_state: int, n_jobs: int, pad_value_short_series: float) -> None:
        assert (random_state, n_jobs, pad_value_short_series) == (0, 1, 0.0)

    def fit(self, nested: pd.DataFrame) -> None:
        self.columns = list(nested)

    def transform(self, nested: pd.DataFrame) -> np.ndarray:
        assert list(nested) == self.columns and not nested.map(lambda series: series.isna().any()).to_numpy().any()
        assert nested.map(len).to_numpy().min() >= 9
        return nested.map(lambda series: series.to_numpy()[series.to_numpy().nonzero()[0][-1]]).to_numpy()


def rates_of_baselines(task: str, path: Path) -> dict[str, float]:
    data = load_task(data_settings(task, train_file=path, test_fraction=0.3))
    return {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}


@pytest.mark.parametrize("rocket", ["stand-in", pytest.param("own", marks=pytest.mark.slow)])
def test_plain_baselines_read_summaries_of_unequal_series_with_missing_values(rocket, tmp_path, monkeypatch) -> None:
    """Classes are scored by their accuracy, numbers by their error in units of the labels."""
    if rocket == "stand-in":
        rocket_module = import_module("sktime.transformations.panel.rocket")
        monkeypatch.setattr(rocket_module, "MiniRocketMultivariateVariable", LastValues)
    found = rates_of_baselines("series-classification", rising_and_falling(tmp_path / "a.csv", 120))
    assert list(found) == BASELINES and all(rate > 0.95 for rate in found.values())
    found = rates_of_baselines("series-regression", numbered(tmp_path / "b.csv", 120))
    assert list(found) == BASELINES and all(0 < error < 0.3 for error in found.values())


def test_weights_are_chosen_where_there_are_examples_enough_to_choose_by(rising: Path) -> None:
    for examples in (49, 50):
        data = load_task(data_settings("series-classification", train_file=rising, validation_fraction=examples / 64))
        assert len(data.evaluation["validation"]) == examples
        assert objective_of(data, GatedRNNConfig(), 0.0).metric.takes_last == (examples < 50)


def test_the_last_weights_are_taken_where_there_are_few(tmp_path: Path) -> None:
    """With labels that cannot all be learned, so that some validation is better than the last."""
    path = rising_and_falling(tmp_path / "train.csv", 80, wrong=3)
    result = run(
        RunSettings(
            cell="mingru", hidden_size=8, threads=1, data=data_settings("series-classification", train_file=path),
            model=ModelSettings(embedding_size=8, layers=1),
            train=TrainSettings(total_steps=30, validate_every=3, learning_rate=0.1),
        ),
        tmp_path / "run",
    )  # fmt: skip
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation_loss" in line]
    best = max(lines, key=lambda line: (line["validation_accuracy"], -line["validation_loss"]))
    assert best["step"] < result.best_step == 30
