"""Series with a class each, end to end: trained, evaluated and predicted from files, compared with plain baselines."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from commands import outcome, printed
from scipy.io import wavfile

from gatedrnn.cli.app import main
from gatedrnn.data import data_settings
from gatedrnn.data.series.task import load_series_task
from gatedrnn.models import GatedRNNConfig
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.objective import objective_of

FLAGS = "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --total-steps 100 --validate-every 20 --threads 1"


def table(folder: Path, name: str, series: int, *, labelled: bool = True, seed: int = 0, wrong: int = 10_000) -> Path:
    """Rising and falling series of unequal lengths, one channel with holes; a label in so many is wrong."""
    random, lines = np.random.default_rng(seed), [f"unique_id,ds,load,heat{',label' if labelled else ''}"]
    for number in range(series):
        slope, length = 1 if number % 2 else -1, int(random.integers(6, 12))
        for step in range(length):
            heat = "" if step % 4 == 1 else f"{100 + random.normal():.3f}"
            line = f"s{number},{step},{slope * step + random.normal() / 5:.3f},{heat}"
            lines.append(line + (f",{'up' if (slope > 0) != (number % wrong == 1) else 'down'}" if labelled else ""))
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("series")
    train = table(found, "train.csv", 80)
    flags = ["--train-file", str(train), *FLAGS.split(), "--output", str(found / "run")]
    with pytest.raises(SystemExit) as stop:
        main(["train", "--task", "series-classification", *flags])
    assert not stop.value.code
    return found


def test_a_run_predicts_a_file_without_labels_in_units_of_its_training_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, out = table(folder, "new.csv", 10, labelled=False, seed=1), folder / "predictions.csv"
    printed(capsys, "predict", str(folder / "run"), str(new), "--output", str(out))
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["unique_id"] for row in rows] == [f"s{n}" for n in range(10)]
    assert [row["prediction"] for row in rows] == ["down", "up"] * 5
    assert all(float(row["probability_up"]) + float(row["probability_down"]) == pytest.approx(1) for row in rows)


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


def test_recordings_are_learned_and_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heard = tones(tmp_path / "heard", "train.csv", [pitch + 7 * n for n in range(12) for pitch in (200, 900)])
    flags = ["--train-file", str(heard), *FLAGS.split(), "--output", str(tmp_path / "run")]
    printed(capsys, "train", "--task", "series-classification", *flags)
    new, out = tones(tmp_path / "new", "new.csv", [215, 930], labelled=False), tmp_path / "found.csv"
    printed(capsys, "predict", str(tmp_path / "run"), str(new), "--output", str(out))
    assert [row["prediction"] for row in csv.DictReader(out.read_text().splitlines())] == ["low", "high"]


def test_a_run_is_evaluated_on_a_labelled_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "evaluate", str(folder / "run"), "--file", str(table(folder, "more.csv", 10, seed=2)))
    assert "1.0000" in said and "more.csv: 10 rows" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("heat", "cold", "has the channels load, cold; training had load, heat"),
        (",up", ",sideways", "the label 'sideways' is not one that the model was trained on: down, up"),
    ],
)
def test_a_file_that_does_not_fit_the_model_is_refused(
    old: str, new: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(folder, "wrong.csv", 4)
    path.write_text(path.read_text().replace(old, new))
    code, error = outcome(capsys, "evaluate", str(folder / "run"), "--file", str(path))
    assert code == 2 and error.count("\n") == 1 and said in error


def test_plain_baselines_read_summaries_of_unequal_series_with_missing_values(tmp_path: Path) -> None:
    data = load_series_task(
        data_settings("series-classification", train_file=table(tmp_path, "a.csv", 120), test_fraction=0.3)
    )
    found = {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}
    assert list(found) == ["ridge on summary features", "gradient boosting on summary features", "MiniRocket + ridge"]
    assert all(rate > 0.95 for rate in found.values())


def numbered(folder: Path, name: str, series: int, seed: int = 0) -> Path:
    """The label is ten times the slope."""
    random, lines = np.random.default_rng(seed), ["unique_id,ds,load,label"]
    for number in range(series):
        slope = random.uniform(-1, 1)
        for step in range(int(random.integers(10, 14))):
            lines.append(f"s{number},{step},{slope * step + random.normal() / 20:.4f},{1000 + 10 * slope:.4f}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_series_with_a_number_each_are_learned_predicted_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, new = numbered(tmp_path, "train.csv", 120), numbered(tmp_path, "new.csv", 20, seed=1)
    flags = [*FLAGS.replace("100", "200").split(), "--output", str(tmp_path / "run")]
    said = printed(capsys, "train", "--task", "series-regression", "--train-file", str(train), *flags)
    assert "test scaled mae: 0." in said and "accuracy" not in said
    out = tmp_path / "predictions.csv"
    printed(capsys, "predict", str(tmp_path / "run"), str(new), "--output", str(out))
    found = [float(row["prediction"]) for row in csv.DictReader(out.read_text().splitlines())]
    true = {row["unique_id"]: float(row["label"]) for row in csv.DictReader(new.read_text().splitlines())}
    assert np.abs(np.array(found) - np.array(list(true.values()))).mean() < 2
    assert "mean absolute error" in printed(capsys, "evaluate", str(tmp_path / "run"), "--file", str(new))
    new.write_text(new.read_text().replace(f"{true['s3']:.4f}", "much"))
    code, error = outcome(capsys, "evaluate", str(tmp_path / "run"), "--file", str(new))
    assert code == 2 and "unique_id s3: the label must be a finite number, got 'much'" in error


def test_baselines_of_numbers_are_scored_by_their_error_in_units_of_the_labels(tmp_path: Path) -> None:
    data = load_series_task(
        data_settings("series-regression", train_file=numbered(tmp_path, "a.csv", 120), test_fraction=0.3)
    )
    found = {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}
    assert list(found) == ["ridge on summary features", "gradient boosting on summary features", "MiniRocket + ridge"]
    assert all(0 < error < 0.3 for error in found.values())


@pytest.mark.parametrize(("series", "last"), [(80, True), (700, False)])
def test_weights_are_chosen_where_there_are_examples_enough_to_choose_by(
    series: int, last: bool, tmp_path: Path
) -> None:  # fmt: skip
    path = table(tmp_path, "train.csv", series)
    data = load_series_task(data_settings("series-classification", train_file=path))
    assert objective_of(data, GatedRNNConfig(), 0.0).metric.takes_last == last


def test_the_last_weights_are_taken_where_there_are_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With labels that cannot all be learned, so that some validation is better than the last."""
    flags = ["--train-file", str(table(tmp_path, "train.csv", 80, wrong=3)), *FLAGS.split(), "--learning-rate", "0.1"]
    printed(capsys, "train", "--task", "series-classification", *flags, "--output", str(tmp_path / "run"))
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    ranks = {(x["validation_accuracy"], -x["validation_loss"]): x["step"] for x in lines if "validation_loss" in x}
    assert ranks[max(ranks)] < 100
    assert json.loads((tmp_path / "run" / "result.json").read_text())["best_step"] == 100
