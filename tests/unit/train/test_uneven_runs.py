"""Series at uneven times, end to end: trained by AUROC, evaluated, predicted, diagnosed, exported, compared."""

import csv
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from commands import outcome, printed
from sklearn.metrics import roc_auc_score

from gatedrnn.cli.app import main
from gatedrnn.data import data_settings
from gatedrnn.data.series.task import load_series_task
from gatedrnn.errors import DataError
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.outcomes import of_ranks

FLAGS = "--hidden-size 8 --embedding-size 8 --layers 1 --bidirectional=false --pooling last --total-steps 150"
FLAGS += " --validate-every 30 --threads 1 --learning-rate 0.01 --metric auroc"


def table(folder: Path, name: str, series: int, seed: int = 0) -> Path:
    """Measurements whose values say nothing: a series is late where the last of them come hours apart."""
    random, lines = np.random.default_rng(seed), ["id,time,parameter,value,label"]
    for number in range(series):
        late, minutes = number % 4 == 0, 0.0
        for step in range(int(random.integers(6, 12))):
            minutes += random.exponential(300 if late and step > 3 else 30) + 1
            parameter = "pulse" if random.random() < 0.7 else "heat"
            clock = f"{int(minutes // 60):02}:{int(minutes % 60):02}"
            lines.append(f"s{number},{clock},{parameter},{random.normal():.3f},{'late' if late else 'early'}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


@pytest.fixture(scope="module", params=["gru-d", "mingru"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp(request.param)
    train = table(found, "train.csv", 240)
    flags = ["--train-file", str(train), "--cell", request.param, *FLAGS.split(), "--output", str(found / "run")]
    with pytest.raises(SystemExit) as stop:
        main(["train", "--task", "series-classification", *flags])
    assert not stop.value.code
    return found


def test_the_times_are_learned_and_the_area_is_scikit_learns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads((folder / "run/result.json").read_text())
    assert result["test_auroc"] > 0.9
    new, out = table(folder, "new.csv", 60, seed=1), folder / "predictions.csv"
    printed(capsys, "predict", str(folder / "run"), str(new), "--output", str(out))
    rows = list(csv.DictReader(out.read_text().splitlines()))
    late = [number % 4 == 0 for number in range(60)]
    expected = roc_auc_score(late, [float(row["probability_late"]) for row in rows])
    scores = json.loads(printed(capsys, "evaluate", str(folder / "run"), "--file", str(new), "--json"))
    assert scores[0]["scores"]["auroc"] == pytest.approx(expected) and expected > 0.85


def test_the_layers_of_a_run_are_diagnosed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "diagnose", str(folder / "run"), "--output", str(folder / "diagnosis"))
    found = json.loads((folder / "diagnosis/diagnosis.json").read_text())
    assert found["layers"][0]["channels"] == 8 and np.isfinite(found["reach"]).all()


@pytest.mark.slow
def test_a_run_becomes_onnx_that_reads_values_and_gaps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "export", str(folder / "run"), "--output", str(folder / "onnx"))
    session = onnxruntime.InferenceSession(folder / "onnx/window.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["input_values", "gaps"]
    values = np.full((2, 5, 2), np.nan, np.float32)
    values[:, ::2, 0] = 1
    slow, fast = (
        session.run(None, {"input_values": values, "gaps": np.full((2, 5), gap, np.float32)})[0] for gap in (6, 0.5)
    )
    assert np.isfinite(slow).all() and (slow != fast).all()


def test_a_file_of_equal_steps_does_not_fit_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "equal.csv").write_text("id,time,heat,pulse,label\na,0,1,2,early\na,1,1,2,early\n")
    code, error = outcome(capsys, "evaluate", str(folder / "run"), "--file", str(folder / "equal.csv"))
    assert code == 2 and error.count("\n") == 1 and "uneven times" in error


def test_a_test_file_of_equal_steps_does_not_go_with_uneven_training(tmp_path: Path) -> None:
    (tmp_path / "equal.csv").write_text("id,time,heat,pulse,label\na,0,1,2,early\nb,0,1,2,late\n")
    files = {"train_file": table(tmp_path, "a.csv", 40), "test_file": tmp_path / "equal.csv"}
    with pytest.raises(DataError, match=r"equal\.csv: one of it and .*a\.csv has uneven times"):
        load_series_task(data_settings("series-classification", **files))


def test_plain_baselines_are_ranked_too(tmp_path: Path) -> None:
    path = table(tmp_path, "a.csv", 160)
    data = load_series_task(data_settings("series-classification", train_file=path, metric="auroc", test_fraction=0.4))
    found = {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}
    assert list(found) == ["ridge on summary features", "gradient boosting on summary features"]
    assert all(0 < rate < 1 for rate in found.values())


@pytest.mark.slow
def test_a_comparison_is_made_by_the_area(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, "a.csv", 120)
    flags = ["--train-file", str(path), *FLAGS.replace("150", "30").split(), "--jobs", "1"]
    cells = ["--cells", "gru-d", "mingru", "--match", "layers", "--seeds", "0", "1"]
    printed(capsys, "compare", "--task", "series-classification", *flags, *cells, "--output", str(tmp_path / "out"))
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert found["metric"] == {"name": "auroc", "higher_is_better": True} and found["margin"] == 0.005
    page = (tmp_path / "out/report.md").read_text()
    assert "auroc" in page and "0.005 in auroc" in page


def test_the_area_needs_two_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, "a.csv", 40)
    path.write_text(path.read_text() + "".join(f"z{n},00:00,heat,1,never\n" for n in range(40)))
    code, error = outcome(
        capsys, "train", "--task", "series-classification", "--metric", "auroc", "--train-file", str(path),
        "--output", str(tmp_path / "run"),
    )  # fmt: skip
    assert code == 2 and error.count("\n") == 1 and "needs two classes" in error and not (tmp_path / "run").exists()


def test_outcomes_of_ranks_have_the_mean_and_the_variance_of_the_area() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(300) < 0.2).astype(int)
    outputs = np.round(random.normal(size=300) + labels, 1)  # with ties
    found = of_ranks(outputs, labels)
    assert found.rate == pytest.approx(roc_auc_score(labels, outputs))
    rows = random.integers(0, 300, (1000, 300))
    drawn = np.std([roc_auc_score(labels[row], outputs[row]) for row in rows])
    assert found.values.std() / 300**0.5 == pytest.approx(drawn, rel=0.1)


def test_a_split_of_one_class_has_nothing_to_rank() -> None:
    assert of_ranks(np.arange(3.0), np.zeros(3, int)).rate == 0.5
