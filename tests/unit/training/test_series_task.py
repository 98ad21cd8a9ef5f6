"""Series with a class or a number each, end to end: evaluated and predicted from files, beside plain baselines."""

import csv
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import call, outcome, printed
from finished import SERIES_FLAGS
from pydantic import ValidationError
from scipy.io import wavfile
from sklearn.metrics import roc_auc_score
from train_helpers import measurements, numbered, rising_and_falling

from gatedrnn.data import data_settings, load_task
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification
from gatedrnn.study.plain import plain_baselines
from gatedrnn.training.folder import read_metrics
from gatedrnn.training.loop import run
from gatedrnn.training.outcomes import of_ranks
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings
from gatedrnn.training.task import task_named

BASELINES = ["ridge on summary features", "gradient boosting on summary features", "MiniRocket + ridge"]


def predicted(run, new):
    out = new.with_name("predictions.csv")
    call("predict", run, new, "--output", out)
    return list(csv.DictReader(out.read_text().splitlines()))


def test_a_run_predicts_a_file_without_labels_and_is_evaluated_on_one_that_fits_it(series_run, tmp_path, capsys):
    rows = predicted(series_run, rising_and_falling(tmp_path / "new.csv", 10, labelled=False, seed=1))
    assert [row["unique_id"] for row in rows] == [f"s{n}" for n in range(10)]
    assert [row["prediction"] for row in rows] == ["down", "up"] * 5
    assert all(float(row["probability_up"]) + float(row["probability_down"]) == pytest.approx(1) for row in rows)
    more = rising_and_falling(tmp_path / "more.csv", 10, seed=2)
    said, whole = printed(capsys, "evaluate", series_run, "--file", more), more.read_text()
    assert "1.0000" in said and "more.csv: 10 rows" in said
    for old, new, why in (
        ("heat", "cold", "has the channels load, cold; training had load, heat"),
        (",up", ",sideways", "the label 'sideways' is not one that the model was trained on: down, up"),
    ):
        more.write_text(whole.replace(old, new))
        code, error = outcome(capsys, "evaluate", series_run, "--file", more)
        assert code == 2 and error.count("\n") == 1 and why in error


def tones(folder, name, pitches, *, labelled=True):
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


def test_recordings_are_learned_and_predicted(tmp_path):
    heard = tones(tmp_path / "heard", "train.csv", [pitch + 7 * n for n in range(12) for pitch in (200, 900)])
    flags = [*SERIES_FLAGS, "--total-steps", 40, "--learning-rate", 0.02, "--output", tmp_path / "run"]
    call("train", "--task", "series-classification", "--train-file", heard, *flags)
    rows = predicted(tmp_path / "run", tones(tmp_path / "new", "new.csv", [215, 930], labelled=False))
    assert [row["prediction"] for row in rows] == ["low", "high"]


def test_series_with_a_number_each_are_learned_predicted_and_evaluated(tmp_path, capsys):
    train, new = numbered(tmp_path / "train.csv", 120), numbered(tmp_path / "new.csv", 20, seed=1)
    flags = [*SERIES_FLAGS, "--total-steps", 60, "--learning-rate", 0.03, "--output", tmp_path / "run"]
    said = printed(capsys, "train", "--task", "series-regression", "--train-file", train, *flags)
    assert "test scaled mae: 0." in said and "accuracy" not in said
    found = [float(row["prediction"]) for row in predicted(tmp_path / "run", new)]
    true = {row["unique_id"]: float(row["label"]) for row in csv.DictReader(new.read_text().splitlines())}
    assert np.abs(np.array(found) - np.array(list(true.values()))).mean() < 2
    said = printed(capsys, "evaluate", tmp_path / "run", "--file", new)
    assert all(word in said for word in ("mae", "rmse", "spearman")), said
    rows = new.read_text()
    for label, said in (
        ("much", "must be a finite number, got 'much'"),
        ("1e308", "1e308 is too large; numbers up to"),
    ):
        new.write_text(rows.replace(f"{true['s3']:.4f}", label))
        code, error = outcome(capsys, "evaluate", tmp_path / "run", "--file", new)
        assert code == 2 and f"unique_id s3: the label {said}" in error


class LastValues:
    """A replacement of MiniRocket, whose programs take 25 s to compile: the last value of each channel of each
    series.
    """

    def __init__(self, random_state, n_jobs, pad_value_short_series):
        assert (random_state, n_jobs, pad_value_short_series) == (0, 1, 0.0)

    def fit(self, nested):
        self.columns = list(nested)

    def transform(self, nested):
        assert list(nested) == self.columns and not nested.map(lambda series: series.isna().any()).to_numpy().any()
        assert nested.map(len).to_numpy().min() >= 9
        return nested.map(lambda series: series.to_numpy()[series.to_numpy().nonzero()[0][-1]]).to_numpy()


def rates_of_baselines(task, path):
    data = load_task(data_settings(task, train_file=path, test_fraction=0.3))
    return {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}


@pytest.mark.parametrize("rocket", ["stand-in", pytest.param("own", marks=pytest.mark.slow)])
def test_plain_baselines_read_summaries_of_unequal_series_with_missing_values(rocket, tmp_path, monkeypatch):
    """Classes are scored by their accuracy, numbers by their error in units of the labels."""
    if rocket == "stand-in":
        rocket_module = import_module("sktime.transformations.panel.rocket")
        monkeypatch.setattr(rocket_module, "MiniRocketMultivariateVariable", LastValues)
    found = rates_of_baselines("series-classification", rising_and_falling(tmp_path / "a.csv", 120))
    assert list(found) == BASELINES and all(rate > 0.95 for rate in found.values())
    found = rates_of_baselines("series-regression", numbered(tmp_path / "b.csv", 120))
    assert list(found) == BASELINES and all(0 < error < 0.3 for error in found.values())


def test_the_last_weights_are_taken_where_there_are_too_few_examples_to_choose_by(rising, tmp_path):
    """The labels cannot all be learned, so that some validation is better than the last."""
    for examples in (49, 50):
        data = load_task(data_settings("series-classification", train_file=rising, validation_fraction=examples / 64))
        assert len(data.evaluation["validation"]) == examples
        assert task_named(data.name).objective(data, GatedRNNConfig(), TrainSettings()).takes_last == (examples < 50)
    settings = RunSettings(
        cell="mingru", hidden_size=8, threads=1, model=ModelSettings(embedding_size=8, layers=1),
        data=data_settings("series-classification", train_file=rising_and_falling(tmp_path / "a.csv", 80, wrong=3)),
        train=TrainSettings(total_steps=30, validate_every=3, learning_rate=0.1),
    )  # fmt: skip
    result = run(settings, tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation_loss" in line]
    best = max(lines, key=lambda line: (line["validation_accuracy"], -line["validation_loss"]))
    assert best["step"] < result.best_step == 30


def adding(**train):
    return RunSettings(
        cell="mingru", hidden_size=16, threads=1, data=data_settings(task="adding", length=10, test_lengths=(15,)),
        model=ModelSettings(embedding_size=8), train=TrainSettings(total_steps=40, learning_rate=3e-2, **train),
    )  # fmt: skip


def test_scores_of_numbers_are_squared_error_and_the_share_of_near_answers_and_their_labels_are_not_smoothed(tmp_path):
    settings = adding()
    result = run(settings, tmp_path / "run")
    model = GatedRNNForSequenceClassification.from_pretrained(tmp_path / "run" / "model").eval()
    assert model.config.problem_type == "regression" and model.config.num_labels == 1
    for split, examples in load_task(settings.data).evaluation.items():
        with torch.no_grad():
            answers = model(input_values=torch.from_numpy(np.stack(examples.inputs))).logits[:, 0].numpy()
        off = np.abs(answers - examples.labels)
        assert result.scores[split].loss == pytest.approx(float((off**2).mean()), rel=1e-4)
        assert result.scores[split].accuracy == pytest.approx(float((off < 0.04).mean()), abs=2e-3)
    assert result.scores["test"].loss < 1 / 6, "better than the best constant, whose error is the variance of the sum"
    assert "test at length 15" in (tmp_path / "run" / "model" / "README.md").read_text()
    with pytest.raises(ValidationError, match="the loss of adding has none"):
        adding(label_smoothing=0.1)


UNEVEN_FLAGS = (
    "--task series-classification --hidden-size 8 --embedding-size 8 --layers 1 --bidirectional=false --pooling last "
    "--threads 1 --learning-rate 0.02 --metric auroc --validate-every 15 --total-steps"
).split()


@pytest.fixture(scope="module", params=["gru-d", pytest.param("mingru", marks=pytest.mark.slow)])
def trained(request, tmp_path_factory):
    found = tmp_path_factory.mktemp(request.param)
    train = measurements(found / "train.csv", 240)
    call("train", *UNEVEN_FLAGS, 60, "--train-file", train, "--cell", request.param, "--output", found / "run")
    return found / "run"


def test_the_times_are_learned_and_the_area_is_scikit_learns_and_layers_are_diagnosed(trained, tmp_path, capsys):
    assert json.loads((trained / "result.json").read_text())["test_auroc"] > 0.9
    new = measurements(tmp_path / "new.csv", 60, seed=1)
    found = [float(row["probability_late"]) for row in predicted(trained, new)]
    expected = roc_auc_score([number % 4 == 0 for number in range(60)], found)
    scores = json.loads(printed(capsys, "evaluate", trained, "--file", new, "--json"))
    assert scores[0]["scores"]["auroc"] == pytest.approx(expected) and expected > 0.85
    call("diagnose", trained, "--output", tmp_path / "diagnosis")
    found = json.loads((tmp_path / "diagnosis/diagnosis.json").read_text())
    assert found["layers"][0]["channels"] == 8 and np.isfinite(found["reach"]).all()


def test_equal_steps_do_not_go_with_uneven_times_and_the_area_needs_two_classes(trained, tmp_path, capsys):
    equal, path = tmp_path / "equal.csv", measurements(tmp_path / "a.csv", 40)
    equal.write_text("id,time,heat,pulse,label\na,0,1,2,early\na,1,1,2,early\nb,0,1,2,late\n")
    code, error = outcome(capsys, "evaluate", trained, "--file", equal)
    assert code == 2 and error.count("\n") == 1 and "uneven times" in error
    with pytest.raises(DataError, match=r"equal\.csv: one of it and .*a\.csv has uneven times"):
        load_task(data_settings("series-classification", train_file=path, test_file=equal))
    path.write_text(path.read_text() + "".join(f"z{n},00:00,heat,1,never\n" for n in range(40)))
    code, error = outcome(capsys, "train", *UNEVEN_FLAGS, 1, "--train-file", path, "--output", tmp_path / "run")
    assert code == 2 and error.count("\n") == 1 and "needs two classes" in error and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_comparison_is_made_by_the_area(tmp_path):
    cells = "--cells gru-d mingru --match layers --seeds 0 1 --jobs 1 --output".split()
    call("compare", *UNEVEN_FLAGS, 30, "--train-file", measurements(tmp_path / "a.csv", 120), *cells, tmp_path / "out")
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert found["metric"] == {"name": "auroc", "higher_is_better": True} and found["margin"] == 0.005
    page = (tmp_path / "out/report.md").read_text()
    assert "auroc" in page and "0.005 in AUROC" in page


def test_outcomes_of_ranks_have_mean_and_variance_of_the_area_for_plain_baselines_too(tmp_path):
    random = np.random.default_rng(0)
    labels = (random.random(300) < 0.2).astype(int)
    outputs = np.round(random.normal(size=300) + labels, 1)  # with ties

    def area(rows):
        above = outputs[rows][labels[rows] == 1][:, None] - outputs[rows][labels[rows] == 0]
        return np.mean(np.sign(above)) / 2 + 0.5

    found = of_ranks(outputs, labels)
    assert found.rate == pytest.approx(roc_auc_score(labels, outputs)) == pytest.approx(area(np.arange(300)))
    drawn = np.std([area(random.integers(0, 300, 300)) for _ in range(1000)])
    assert found.values.std() / 300**0.5 == pytest.approx(drawn, rel=0.1)
    assert of_ranks(np.arange(3.0), np.zeros(3, int)).rate == 0.5, "a split of one class has nothing to rank"
    given = {"train_file": measurements(tmp_path / "a.csv", 160), "metric": "auroc", "test_fraction": 0.4}
    found = plain_baselines(load_task(data_settings("series-classification", **given)), threads=1)
    assert [one.name for one in found] == BASELINES[:2]
    assert all(0 < one.outcomes["test"].rate < 1 for one in found)
