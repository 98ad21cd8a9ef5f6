"""train, evaluate and predict of texts with several labels, a number, or a tag for each word, against scikit-learn."""

import json

import numpy as np
import pytest
from commands import call, outcome, printed
from sklearn import metrics
from text_targets import GENRES, films, sentences, write_lines

import gatedrnn.models  # noqa: F401  registers the Auto classes
from gatedrnn.data import data_settings, load_task
from gatedrnn.training.objective import balancing
from gatedrnn.training.predict import label_of

SMALL = "--cell mingru --hidden-size 16 --embedding-size 16 --threads 1 --batch-size 16 --learning-rate 0.02".split()
SMALL += ["--epochs", "12"]
FLAGS = {
    "several": (
        "--metric macro-f1 --tokenizer words --token-dropout 0 --embedding-dropout 0.1 --validation-fraction 0.1 "
        "--weights best"
    ).split(),
    "number": "--metric spearman --tokenizer words --validation-fraction 0.1 --weights best".split(),
    "tags": [],
}


def rows_of(kind, count, seed):
    rows = sentences(count, seed) if kind == "tags" else films(count, seed)
    left_out = {"several": "score", "number": "genres"}.get(kind)
    return [{name: value for name, value in row.items() if name != left_out} for row in rows]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module", params=FLAGS)
def trained(request, tmp_path_factory):
    """The kind of the texts' labels, the folder of a run, a file that it was not trained on, and its predictions."""
    kind, folder = request.param, tmp_path_factory.mktemp(request.param)
    train = write_lines(folder / "train.jsonl", rows_of(kind, 240, seed=0))
    call("train", "--train-file", train, *SMALL, *FLAGS[kind], "--output", folder / "run")
    new = write_lines(folder / "new.jsonl", rows_of(kind, 60, seed=1))
    call("predict", folder / "run", new, "--output", folder / "found.jsonl", "--threads", "1")
    return kind, folder / "run", new, read_lines(folder / "found.jsonl")


def evaluated(capsys, *arguments):
    scored = json.loads(printed(capsys, "evaluate", *arguments, "--threads", "1", "--json"))[0]
    return {**scored, **scored["scores"]}


def test_what_was_learned_is_predicted_of_new_texts_and_scored_as_scikit_learn_does(trained, capsys):
    kind, run, new, rows = trained
    scores = evaluated(capsys, run, "--file", new)
    if kind == "several":
        names = sorted(GENRES)
        true, found = (
            np.array([[name in own for name in names] for own in column])
            for column in ([row["genres"] for row in rows], [row["prediction"].split("|") for row in rows])
        )
        shares = np.array([[row[f"probability_{name}"] for name in names] for row in rows])
        assert (found == (shares > 0.5)).all()
        expected = {
            "accuracy": metrics.accuracy_score(true, found),
            "micro_f1": metrics.f1_score(true, found, average="micro"),
            "macro_f1": metrics.f1_score(true, found, average="macro"),
            "auroc": metrics.roc_auc_score(true, shares),
            "average_precision": metrics.average_precision_score(true, shares),
            "loss": metrics.log_loss(true.ravel(), shares.ravel()),
        }
        assert scores["each_label"] == metrics.multilabel_confusion_matrix(true, found).tolist()
        assert expected["auroc"] > 0.9
    elif kind == "number":
        true, found = np.array([row["score"] for row in rows]), np.array([row["prediction"] for row in rows])
        expected = {
            "mae": metrics.mean_absolute_error(true, found), "r2": metrics.r2_score(true, found),
        }  # fmt: skip
        assert expected["r2"] > 0.6
    else:
        assert all(len(row["prediction"]) == len(row["probability_N"]) == len(row["tokens"]) for row in rows)
        true, found = ([tag for row in rows for tag in row[name]] for name in ("tags", "prediction"))
        expected = {
            "accuracy": metrics.accuracy_score(true, found),
            "macro_f1": metrics.f1_score(true, found, average="macro"),
            "balanced_accuracy": metrics.balanced_accuracy_score(true, found),
        }
        assert scores["confusion"] == metrics.confusion_matrix(true, found).tolist()
        assert expected["accuracy"] > 0.9
    for name, value in expected.items():
        assert scores[name] == pytest.approx(value, rel=1e-6), name


def test_the_metric_of_a_result_is_what_chose_its_weights(trained, capsys):
    kind, run, _, _ = trained
    result, scores = json.loads((run / "result.json").read_text()), evaluated(capsys, run)
    assert result["metric"] == {"several": "macro_f1", "number": "spearman", "tags": "accuracy"}[kind]
    name = result["metric"]
    assert scores[name] == pytest.approx(result[f"test_{name}"], rel=1e-5)
    lines = [line for line in read_lines(run / "metrics.jsonl") if f"validation_{name}" in line]
    if kind != "number":  # whose network and linear path are weighed by validation afterwards
        assert result[f"validation_{name}"] == max(line[f"validation_{name}"] for line in lines)
    validated = evaluated(capsys, run, "--split", "validation")
    assert validated[name] == pytest.approx(result[f"validation_{name}"], rel=1e-5)


def test_each_class_and_the_confusion_are_in_the_report(trained):
    kind, run, _, _ = trained
    page = (run / "report.html").read_text()
    assert ("Each class of the test" in page) == (kind != "number")
    assert ("Confusion, true classes in rows" in page) == (kind == "tags")


def test_columns_of_zeros_and_ones_are_named_once_and_read_again_where_they_are(tmp_path, capsys):
    rows = [
        {"text": row["text"], **{name: int(name in row["genres"]) for name in GENRES}} for row in films(120)
    ]  # fmt: skip
    file = write_lines(tmp_path / "a.jsonl", rows)
    flags = ["--task", "text-classification", "--train-file", file, "--label-column", "comic", "long", *SMALL[:-1], 2]
    said = printed(capsys, "train", *flags, "--class-weight", "balanced", "--output", tmp_path / "run")
    assert "test micro f1: " in said and "test: each class" in said and "comic" in said
    scores = evaluated(capsys, tmp_path / "run", "--file", file)
    assert [one["name"] for one in scores["classes"]] == ["comic", "long"]
    assert [one["support"] for one in scores["classes"]] == [
        sum(row[name] for row in rows) for name in ("comic", "long")
    ]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("balanced-accuracy", "auroc", "average-precision")]


@pytest.mark.parametrize("metric", ["macro-f1", "log-loss", *SLOW])
def test_the_metric_that_is_asked_for_chooses_the_weights_and_comes_first(metric, tmp_path, capsys):
    rows = "".join(f"{'fine' if n % 4 else 'poor'} film {n % 9},{'good' if n % 4 else 'bad'}\n" for n in range(80))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    folder, name = tmp_path / metric, metric.replace("-", "_")
    chooses = ["--validation-fraction", 0.1, "--weights", "best"]
    flags = ["--train-file", tmp_path / "a.csv", *SMALL[:-1], 2, "--metric", metric, *chooses, "--output", folder]
    said = [line for line in printed(capsys, "train", *flags).splitlines() if line.startswith("test ")]
    assert said[0].startswith(f"test {metric.replace('-', ' ')}: "), said
    result = json.loads((folder / "result.json").read_text())
    lines = [line for line in read_lines(folder / "metrics.jsonl") if "validation_loss" in line]
    values = [line[f"validation_{name}"] for line in lines]
    assert result["metric"] == name and result[f"validation_{name}"] == (min if metric == "log-loss" else max)(values)


def test_texts_are_cut_by_predict_where_they_were_in_training_and_both_say_so(tmp_path, capsys):
    rows = [{"text": " ".join(f"word{n % 7}" for n in range(5 + row % 30)), "score": row / 7} for row in range(40)]
    file = write_lines(tmp_path / "a.jsonl", rows)
    long = sum(len(row["text"].split()) > 10 for row in rows)
    for limit, cut in ((10, True), (0, False)):
        run = tmp_path / f"run-{limit}"
        flags = [*SMALL[:-1], 1, "--tokenizer", "tokens", "--min-count", 1, "--max-tokens", limit, "--output", run]
        call("train", "--task", "text-regression", "--train-file", file, *flags)
        noted = (run / "model" / "README.md").read_text()
        assert ("of more than 10 tokens, truncated to them" in noted) == cut
        said = printed(capsys, "predict", run, file, "--output", tmp_path / f"{limit}.jsonl", "--threads", "1")
        assert (f"of more than 10 tokens, truncated to them: {long}" in said) == cut
        cropped = [{"text": " ".join(row["text"].split()[:10])} for row in rows]
        short = write_lines(tmp_path / "short.jsonl", cropped)
        call("predict", run, short, "--output", tmp_path / "short-found.jsonl", "--threads", "1")
        found, of_short = (read_lines(tmp_path / name) for name in (f"{limit}.jsonl", "short-found.jsonl"))
        same = [one["prediction"] == other["prediction"] for one, other in zip(found, of_short, strict=True)]
        assert all(same) == cut


def test_labels_that_are_likelier_than_not_are_written_with_a_bar_between_them():
    names = ["comic", "long", "war"]
    assert label_of(np.array([0.1, -0.1, 3.0]), names) == "comic|war"
    assert label_of(np.array([-1.0, -0.1, -3.0]), names) == ""


BAD = {
    "evaluate {run} --file {new}/strange.jsonl": {
        "several": "row 2: the label 'opera' is not one that the model was trained on: comic, long, war",
        "number": "row 2: the label must be a finite number, got 'many'",
        "tags": "row 2: the label 'XYZ' is not one that the model was trained on",
    },
    "predict {run} {new}/other.jsonl --output {new}/x.jsonl": {
        "several": "no column 'text'", "number": "no column 'text'", "tags": "no column 'tokens'",
    },
}  # fmt: skip
STRANGE = {
    "several": [{"text": "a", "genres": ["war"]}, {"text": "b", "genres": ["opera"]}],
    "number": [{"text": "a", "score": 1}, {"text": "b", "score": "many"}],
    "tags": [{"tokens": ["a"], "tags": ["DET"]}, {"tokens": ["b"], "tags": ["XYZ"]}],
}


@pytest.mark.parametrize("command", BAD)
def test_a_file_that_does_not_fit_the_model_is_refused_in_a_line(command, trained, tmp_path, capsys):
    kind, run, _, _ = trained
    write_lines(tmp_path / "strange.jsonl", STRANGE[kind])
    write_lines(tmp_path / "other.jsonl", [{"words": "a"}])
    parts = [part if part.startswith("-") else part.format(run=run, new=tmp_path) for part in command.split()]
    code, said = outcome(capsys, *parts)
    assert code == 2 and said.count("\n") == 1 and BAD[command][kind] in said, said


def test_a_setting_of_another_kind_of_label_is_refused(tmp_path, capsys):
    file = write_lines(tmp_path / "a.jsonl", [{"text": f"film {n}", "score": n / 7} for n in range(60)])
    for flags, said in (
        (["--metric", "accuracy"], "--metric"),
        (["--class-weight", "balanced"], "text-regression has no classes"),
        (["--label-smoothing", "0.1"], "the loss of text-regression has none"),
    ):
        code, found = outcome(capsys, "train", "--train-file", file, "--output", tmp_path / "run", *flags)
        assert code == 2 and said in found, found


def test_weights_of_labels_make_rare_ones_weigh_as_much_as_common_ones(tmp_path):
    """Balanced: in the first step a row that has a rare label moves the head's bias as all rows without it do."""
    data = load_task(data_settings("text-classification", train_file=write_lines(tmp_path / "a.jsonl", films(90))))
    labels = data.train.labels
    having = labels.sum(0)
    assert (balancing(data).numpy() * having).tolist() == pytest.approx((len(labels) - having).tolist())
