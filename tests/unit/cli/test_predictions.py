"""evaluate and predict for models of every task: files in three formats, scores held against scikit-learn's."""

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import call, outcome
from datasets import Dataset
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix
from tolerances import assert_equal_within

import gatedrnn.models  # noqa: F401  registers the Auto classes
from gatedrnn.data import data_settings, load_task

SMALL = "--cell mingru --hidden-size 8 --embedding-size 8 --threads 1 --epochs".split()
WORDS = {"good": ("fine", "great", "kind"), "bad": ("poor", "sad", "cruel"), "so, so": ("plain", "usual", "grey")}


def reviews() -> list[dict[str, str]]:
    """Rows whose label follows from a word; one text is long, one empty, and one breaks its line."""
    rows = [
        {"id": f"{n:03}", "review": f"it was {words[n % 3]} {n % 7}", "mood": mood}
        for n in range(40) for mood, words in WORDS.items()
    ]  # fmt: skip
    rows[5]["review"], rows[7]["review"], rows[9]["review"] = "fine " * 50, "", 'a "quoted"\nline, two'
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows in the format of the ending."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        Dataset.from_list(rows).to_parquet(path)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return Dataset.from_parquet(str(path)).to_list()


@pytest.fixture(scope="module")
def moods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of texts whose columns have unusual names."""
    folder = tmp_path_factory.mktemp("moods")
    file = write(folder / "train.csv", reviews())
    columns = ["--text-column", "review", "--label-column", "mood", "--max-tokens", "20"]
    flags = ["--task", "text-classification", "--train-file", file, *columns, *SMALL, "6"]
    call("train", *flags, "--output", folder / "run")
    return folder / "run"


def scores(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    call("evaluate", *arguments, "--threads", "1", "--json")
    captured = capsys.readouterr()
    assert captured.err == ""
    (found,) = json.loads(captured.out)
    return found


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_predictions_keep_all_rows_and_columns_and_add_a_probability_for_each_class(ending, moods, tmp_path) -> None:
    rows = reviews()
    file, output = write(tmp_path / f"unlabelled.{ending}", rows), tmp_path / f"out.{ending}"
    call("predict", moods / "model", file, "--output", output, "--threads", "1")
    found = read(output)
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    names = [f"probability_{mood}" for mood in sorted(WORDS)]
    assert list(found[0]) == [*rows[0], "prediction", *names]
    for row in found:
        probabilities = np.array([float(row[name]) for name in names])
        assert_equal_within(probabilities.sum(), 1.0, torch.float64, "sum")
        assert names[probabilities.argmax()].endswith(f"_{row['prediction']}")
    assert list(tmp_path.glob("*.writing")) == []


def test_predictions_are_those_of_transformers_for_each_text_alone(moods: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    rows = [row for row in reviews()[:20] if row["review"]]  # the long one among them
    call("predict", moods, write(tmp_path / "in.jsonl", rows), "--output", tmp_path / "out.jsonl", "--threads", "1")
    classify = pipeline("text-classification", model=str(moods / "model"), top_k=None)
    for row in read(tmp_path / "out.jsonl"):
        found = {label["label"]: label["score"] for label in classify([row["review"]], truncation=True)[0]}
        ours = [row[f"probability_{mood}"] for mood in found]
        assert_equal_within(ours, list(found.values()), torch.float32, row["review"])


def test_an_evaluation_of_a_file_is_that_of_its_predictions(
    moods: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "labelled.csv", reviews())
    found = scores(capsys, moods, "--file", file)["scores"]
    call("predict", moods, file, "--output", tmp_path / "out.csv", "--threads", "1")
    rows = read(tmp_path / "out.csv")
    true, predicted = [row["mood"] for row in rows], [row["prediction"] for row in rows]
    assert found["labels"] == len(rows) and found["accuracy"] == accuracy_score(true, predicted)
    assert found["confusion"] == confusion_matrix(true, predicted, labels=sorted(WORDS)).tolist()
    report = classification_report(true, predicted, output_dict=True, zero_division=0.0)
    for score in found["classes"]:
        expected = report[score["name"]]
        assert_equal_within(
            np.array([score["precision"], score["recall"], score["f1"], score["support"]]),
            np.array([expected["precision"], expected["recall"], expected["f1-score"], expected["support"]]),
            torch.float64,
            score["name"],
        )
    loss = np.mean([-np.log(float(row[f"probability_{row['mood']}"])) for row in rows])
    assert_equal_within(np.array(found["loss"]), loss, torch.float64, "loss")


def test_an_evaluation_prints_classes_and_confusion_and_nothing_of_transformers(
    moods: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    call("evaluate", moods, "--threads", "1")
    captured = capsys.readouterr()
    assert captured.err in ("", "tokenising 120 texts of text-classification by bpe\n")
    result = json.loads((moods / "result.json").read_text())
    for said in ("test: 24 rows", f"{result['test_accuracy']:.4f}", "precision", "confusion", "so, so"):
        assert said in captured.out, captured.out


LENGTHS = {"digits": {}, "parity": {"length": 8}, "adding": {"length": 10}}
"""A label for a sequence, one for every step, and a number."""


@pytest.fixture(scope="module", params=LENGTHS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of a task without texts, and the task."""
    task = request.param
    if task == "digits":
        return request.getfixturevalue("digits_run"), task
    folder = tmp_path_factory.mktemp(task) / "run"
    flags = ["--length", LENGTHS[task]["length"], "--curriculum", 0, "--total-steps", 2]
    call("train", "--task", task, *flags, *SMALL, 1, "--output", folder)
    return folder, task


def test_evaluating_a_run_gives_what_its_training_found_for_every_kind_of_label(trained, capsys) -> None:
    run, task = trained
    result = json.loads((run / "result.json").read_text())
    for split in ("validation", "test"):
        found = scores(capsys, run, "--split", split)["scores"]
        if task == "adding":
            error = found["root_mean_squared_error"] ** 2
            assert_equal_within(error, result[f"{split}_loss"], torch.float32, "squared error")
        else:
            assert found["accuracy"] == result[f"{split}_accuracy"]
            assert_equal_within(found["loss"], result[f"{split}_loss"], torch.float32, "loss")


def test_a_model_of_numbers_reads_lists_from_a_file(trained, tmp_path: Path, capsys) -> None:
    run, task = trained
    examples = load_task(data_settings(task=task, **LENGTHS[task])).evaluation["test"]
    name = "input_ids" if task == "parity" else "input_values"
    rows = [{"row": n, name: examples.inputs[n].tolist(), "labels": examples.labels[n].tolist()} for n in range(30)]
    for ending in ("csv", "jsonl", "parquet"):
        file, output = write(tmp_path / f"rows.{ending}", rows), tmp_path / f"out.{ending}"
        found = scores(capsys, run, "--file", file)
        call("predict", run, file, "--output", output, "--threads", "1")
        predicted = read(output)
        assert [int(row["row"]) for row in predicted] == list(range(30)) and found["rows"] == 30
        first = predicted[0]["prediction"]
        if task == "parity":
            steps = json.loads(first) if ending == "csv" else first
            assert len(steps) == 8 and set(steps) <= {"0", "1"}
            assert found["scores"]["labels"] == int((examples.labels[:30] != -100).sum())
        else:
            float(first)
            assert ("probability_3" in predicted[0]) == (task == "digits")


def test_a_language_model_predicts_no_labels_and_says_what_does(
    text_run: Path, book: Path, moods: Path, tmp_path: Path, capsys: Any
) -> None:
    code, error = outcome(capsys, "predict", text_run, book, "--output", tmp_path / "out.csv")
    assert code == 2 and "is a language model" in error and "gatedrnn generate" in error
    code, error = outcome(capsys, "evaluate", text_run, moods)
    assert code == 2 and "name them apart" in error


def test_commands_for_text_refuse_a_classifier_in_one_line(moods: Path, tmp_path: Path, capsys: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in (["generate", moods], ["export", moods], ["diagnose", moods, "--file", tmp_path / "no.txt"]):
            code, error = outcome(capsys, *map(str, command))
            assert code == 2 and error.count("\n") == 1 and "`gatedrnn evaluate` scores it" in error, error


BAD = {
    "evaluate {run} --file {other}": "no column 'review', which the model reads; name another with --text-column",
    "evaluate {run} --file {strange}": "row 2: the label 'odd' is not one that the model was trained on: bad, good",
    "evaluate {run} --file {unlabelled}": "row 2 has no label in column 'mood'",
    "evaluate {run} --file {other} --text-column id": "no column 'mood', which the model reads",
    "evaluate {run} --split nowhere": "has no split 'nowhere'; there are test, validation, train",
    "evaluate {run}/model": "is no run's folder",
    "evaluate {run} --file {text}": "the ending must be one of",
    "predict {run} {other} --output {new}.csv": "no column 'review'",
    "predict {run} {other} --output {new}.csv --text-column nothing": "no column 'nothing'",
    "predict {run} {strange} --output {new}.xlsx": "must end in one of .csv, .tsv, .jsonl, .parquet, got '.xlsx'",
    "predict {run} {strange} --output {strange}": "is the file that is read",
    "predict {run} {strange} --output {new}/out.csv": "there is no folder",
    "predict {run} {predicted} --output {new}.csv": "has a column 'prediction' already",
    "predict {run} {folder}/none.csv --output {new}.csv": "no such file",
    "predict {folder} {strange} --output {new}.csv": "holds no model",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_files_get_one_line_that_names_row_and_value(
    command: str, moods: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "1", "review": "it was fine", "mood": "good"}
    files = {
        "other": [{"id": "1", "words": "it"}], "strange": [row, {**row, "mood": "odd"}],
        "unlabelled": [row, {**row, "mood": ""}], "predicted": [{**row, "prediction": "good"}],
    }  # fmt: skip
    places = {name: write(tmp_path / f"{name}.csv", rows) for name, rows in files.items()}
    (tmp_path / "text.txt").write_text("it was")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    line = command.format(run=moods, text=tmp_path / "text.txt", folder=tmp_path, new=tmp_path / "new", **places)
    capsys.readouterr()
    code, error = outcome(capsys, *line.split())
    assert code == 2 and BAD[command] in error, error
    assert sum(said.startswith("gatedrnn: ") for said in error.splitlines()) == 1 and "Traceback" not in error
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_prediction_is_the_same_beside_any_other_row(moods: Path, tmp_path: Path) -> None:
    rows = reviews()
    for name, chosen in (("all", rows), ("few", rows[::-7])):
        file = write(tmp_path / f"{name}.jsonl", chosen)
        call("predict", moods, file, "--output", tmp_path / f"{name}-out.jsonl", "--threads", "1")
    whole = {(row["id"], row["mood"]): row for row in read(tmp_path / "all-out.jsonl")}
    for row in read(tmp_path / "few-out.jsonl"):
        expected = whole[row["id"], row["mood"]]
        ours, theirs = ([found[f"probability_{mood}"] for mood in WORDS] for found in (row, expected))
        assert_equal_within(ours, theirs, torch.float32, row["review"])
