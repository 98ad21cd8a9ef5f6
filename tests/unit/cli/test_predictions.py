"""evaluate and predict for models of every task: files in three formats, scores held against scikit-learn's."""

import csv
import json
import warnings

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


def reviews():
    """Rows whose label follows from a word; one text is long, one empty, and one breaks its line."""
    rows = [
        {"id": f"{n:03}", "review": f"it was {words[n % 3]} {n % 7}", "mood": mood}
        for n in range(40) for mood, words in WORDS.items()
    ]  # fmt: skip
    rows[5]["review"], rows[7]["review"], rows[9]["review"] = "fine " * 50, "", 'a "quoted"\nline, two'
    return rows


def write(path, rows):
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


def read(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return Dataset.from_parquet(str(path)).to_list()


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    """A classifier of texts whose columns have unusual names."""
    folder = tmp_path_factory.mktemp("moods")
    columns = ["--text-column", "review", "--label-column", "mood", "--max-tokens", "20"]
    data = ["--task", "text-classification", "--train-file", write(folder / "train.csv", reviews()), *columns]
    call("train", *data, *SMALL, "6", "--output", folder / "run")
    return folder / "run"


def scores(capsys, *arguments):
    capsys.readouterr()
    call("evaluate", *arguments, "--threads", "1", "--json")
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)[0]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_predictions_keep_all_rows_and_columns_and_add_a_probability_for_each_class(ending, moods, tmp_path):
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


def test_predictions_are_those_of_transformers_for_each_text_alone(moods, tmp_path):
    from transformers import pipeline

    rows = [row for row in reviews()[:20] if row["review"]]  # the long one among them
    call("predict", moods, write(tmp_path / "in.jsonl", rows), "--output", tmp_path / "out.jsonl", "--threads", "1")
    classify = pipeline("text-classification", model=str(moods / "model"), top_k=None)
    for row in read(tmp_path / "out.jsonl"):
        found = {label["label"]: label["score"] for label in classify([row["review"]], truncation=True)[0]}
        ours = [row[f"probability_{mood}"] for mood in found]
        assert_equal_within(ours, list(found.values()), torch.float32, row["review"])


def test_an_evaluation_of_a_file_is_that_of_its_predictions(moods, tmp_path, capsys):
    file = write(tmp_path / "labelled.csv", reviews())
    found = scores(capsys, moods, "--file", file)
    call("predict", moods, file, "--output", tmp_path / "out.csv", "--threads", "1")
    rows = read(tmp_path / "out.csv")
    true, predicted = [row["mood"] for row in rows], [row["prediction"] for row in rows]
    assert found["labels"] == len(rows) and found["scores"]["accuracy"] == accuracy_score(true, predicted)
    assert found["confusion"] == confusion_matrix(true, predicted, labels=sorted(WORDS)).tolist()
    report = classification_report(true, predicted, output_dict=True, zero_division=0.0)
    for score in found["classes"]:
        ours = np.array([score[name] for name in ("precision", "recall", "f1", "support")])
        theirs = np.array([report[score["name"]][name] for name in ("precision", "recall", "f1-score", "support")])
        assert_equal_within(ours, theirs, torch.float64, score["name"])
    loss = np.mean([-np.log(float(row[f"probability_{row['mood']}"])) for row in rows])
    assert_equal_within(np.array(found["scores"]["loss"]), loss, torch.float64, "loss")


def test_an_evaluation_prints_classes_and_confusion_and_nothing_of_transformers(moods, capsys):
    capsys.readouterr()
    call("evaluate", moods, "--threads", "1")
    captured = capsys.readouterr()
    assert captured.err in ("", "tokenising 120 texts of text-classification by pieces\n")
    result = json.loads((moods / "result.json").read_text())
    for said in ("test: 24 rows", f"{result['test_accuracy']:.4f}", "precision", "confusion", "so, so"):
        assert said in captured.out, captured.out


LENGTHS = {"digits": {}, "parity": {"length": 8}, "adding": {"length": 10}}
"""A label for a sequence, one for every step, and a number."""


@pytest.fixture(scope="module", params=LENGTHS)
def trained(request, tmp_path_factory):
    """A run of a task without texts, and the task."""
    task, folder = request.param, tmp_path_factory.mktemp(request.param) / "run"
    if task == "digits":
        return request.getfixturevalue("digits_run"), task
    flags = ["--length", LENGTHS[task]["length"], "--curriculum", 0, "--total-steps", 2]
    call("train", "--task", task, *flags, *SMALL, 1, "--output", folder)
    return folder, task


def test_every_kind_of_label_is_evaluated_as_in_training_and_read_in_lists_from_a_file(trained, tmp_path, capsys):
    run, task = trained
    result = json.loads((run / "result.json").read_text())
    for split in ("validation", "test"):
        found = scores(capsys, run, "--split", split)["scores"]
        loss = found["rmse"] ** 2 if task == "adding" else found["loss"]
        assert_equal_within(loss, result[f"{split}_loss"], torch.float32, "loss")
        assert task == "adding" or found["accuracy"] == result[f"{split}_accuracy"]
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
            assert found["labels"] == int((examples.labels[:30] != -100).sum())
        else:
            float(first)
            assert ("probability_3" in predicted[0]) == (task == "digits")


def test_a_command_for_another_kind_of_model_says_which_is_for_it(text_run, book, moods, refused):
    refused("is a language model", "predict", text_run, book, "--output", "out.csv")
    refused("gatedrnn generate", "predict", text_run, book, "--output", "out.csv")
    refused("name them apart", "evaluate", text_run, moods)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in (["generate", moods], ["diagnose", moods, "--file", "no.txt"]):
            refused("`gatedrnn evaluate` scores it", *command)


BAD = {
    "evaluate {run} --file other.csv": "no column 'review', which the model reads; name another with --text-column",
    "evaluate {run} --file strange.csv": "row 2: the label 'odd' is not one that the model was trained on: bad, good",
    "evaluate {run} --file unlabelled.csv": "row 2 has no label in column 'mood'",
    "evaluate {run} --file other.csv --text-column id": "no column 'mood', which the model reads",
    "evaluate {run} --split nowhere": "has no split 'nowhere'; there are test, train",
    "evaluate {run}/model": "is no run's folder",
    "evaluate {run} --file text.txt": "the ending must be one of",
    "predict {run} other.csv --output new.csv": "no column 'review'",
    "predict {run} other.csv --output new.csv --text-column nothing": "no column 'nothing'",
    "predict {run} strange.csv --output new.xlsx": "must end in one of .csv, .tsv, .jsonl, .parquet, got '.xlsx'",
    "predict {run} strange.csv --output strange.csv": "is the file that is read",
    "predict {run} strange.csv --output new/out.csv": "there is no folder",
    "predict {run} predicted.csv --output new.csv": "has a column 'prediction' already",
    "predict {run} ./none.csv --output new.csv": "no such file",
    "predict . strange.csv --output new.csv": "holds no run",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_files_get_one_line_that_names_row_and_value(command, moods, tmp_path, capsys):
    row = {"id": "1", "review": "it was fine", "mood": "good"}
    for name, rows in (
        ("other", [{"id": "1", "words": "it"}]), ("strange", [row, {**row, "mood": "odd"}]),
        ("unlabelled", [row, {**row, "mood": ""}]), ("predicted", [{**row, "prediction": "good"}]),
    ):  # fmt: skip
        write(tmp_path / f"{name}.csv", rows)
    (tmp_path / "text.txt").write_text("it was")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, error = outcome(capsys, *command.format(run=moods).split())
    assert code == 2 and BAD[command] in error, error
    assert sum(said.startswith("gatedrnn: ") for said in error.splitlines()) == 1 and "Traceback" not in error
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
