"""Series at uneven times, end to end: trained by AUROC, evaluated, predicted, diagnosed, exported, compared."""

import csv
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from commands import call, outcome, printed
from sklearn.metrics import roc_auc_score

from gatedrnn.data import data_settings, load_task
from gatedrnn.errors import DataError
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.outcomes import of_ranks

FLAGS = (
    "--task series-classification --hidden-size 8 --embedding-size 8 --layers 1 --bidirectional=false --pooling last "
    "--threads 1 --learning-rate 0.02 --metric auroc --validate-every 15 --total-steps"
).split()


def table(path: Path, series: int, seed: int = 0) -> Path:
    """Measurements whose values say nothing: a series is late where the last of them come hours apart."""
    random, lines = np.random.default_rng(seed), ["id,time,parameter,value,label"]
    for number in range(series):
        late, minutes = number % 4 == 0, 0.0
        for step in range(int(random.integers(6, 12))):
            minutes += random.exponential(300 if late and step > 3 else 30) + 1
            parameter = "pulse" if random.random() < 0.7 else "heat"
            clock = f"{int(minutes // 60):02}:{int(minutes % 60):02}"
            lines.append(f"s{number},{clock},{parameter},{random.normal():.3f},{'late' if late else 'early'}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", params=["gru-d", pytest.param("mingru", marks=pytest.mark.slow)])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp(request.param)
    train = table(found / "train.csv", 240)
    call("train", *FLAGS, 60, "--train-file", train, "--cell", request.param, "--output", found / "run")
    return found / "run"


def test_the_times_are_learned_and_the_area_is_scikit_learns(trained: Path, tmp_path: Path, capsys) -> None:
    assert json.loads((trained / "result.json").read_text())["test_auroc"] > 0.9
    new, out = table(tmp_path / "new.csv", 60, seed=1), tmp_path / "predictions.csv"
    call("predict", trained, new, "--output", out)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    late = [number % 4 == 0 for number in range(60)]
    expected = roc_auc_score(late, [float(row["probability_late"]) for row in rows])
    scores = json.loads(printed(capsys, "evaluate", trained, "--file", new, "--json"))
    assert scores[0]["scores"]["auroc"] == pytest.approx(expected) and expected > 0.85


def test_the_layers_of_a_run_are_diagnosed(trained: Path, tmp_path: Path) -> None:
    call("diagnose", trained, "--output", tmp_path / "diagnosis")
    found = json.loads((tmp_path / "diagnosis/diagnosis.json").read_text())
    assert found["layers"][0]["channels"] == 8 and np.isfinite(found["reach"]).all()


@pytest.mark.slow
def test_a_run_becomes_onnx_that_reads_values_and_gaps(trained: Path, tmp_path: Path) -> None:
    call("export", trained, "--output", tmp_path / "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "onnx/window.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["input_values", "gaps"]
    values = np.full((2, 5, 2), np.nan, np.float32)
    values[:, ::2, 0] = 1
    slow, fast = (
        session.run(None, {"input_values": values, "gaps": np.full((2, 5), gap, np.float32)})[0] for gap in (6, 0.5)
    )
    assert np.isfinite(slow).all() and (slow != fast).all()


def test_equal_steps_go_neither_with_the_model_nor_with_training_at_uneven_times(trained, tmp_path, capsys) -> None:
    equal = tmp_path / "equal.csv"
    equal.write_text("id,time,heat,pulse,label\na,0,1,2,early\na,1,1,2,early\nb,0,1,2,late\n")
    code, error = outcome(capsys, "evaluate", trained, "--file", equal)
    assert code == 2 and error.count("\n") == 1 and "uneven times" in error
    files = {"train_file": table(tmp_path / "a.csv", 40), "test_file": equal}
    with pytest.raises(DataError, match=r"equal\.csv: one of it and .*a\.csv has uneven times"):
        load_task(data_settings("series-classification", **files))


def test_plain_baselines_are_ranked_too(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", 160)
    data = load_task(data_settings("series-classification", train_file=path, metric="auroc", test_fraction=0.4))
    found = {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}
    assert list(found) == ["ridge on summary features", "gradient boosting on summary features"]
    assert all(0 < rate < 1 for rate in found.values())


@pytest.mark.slow
def test_a_comparison_is_made_by_the_area(tmp_path: Path) -> None:
    cells = ["--cells", "gru-d", "mingru", "--match", "layers", "--seeds", 0, 1, "--jobs", 1]
    call("compare", *FLAGS, 30, "--train-file", table(tmp_path / "a.csv", 120), *cells, "--output", tmp_path / "out")
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert found["metric"] == {"name": "auroc", "higher_is_better": True} and found["margin"] == 0.005
    page = (tmp_path / "out/report.md").read_text()
    assert "auroc" in page and "0.005 in auroc" in page


def test_the_area_needs_two_classes(tmp_path: Path, capsys) -> None:
    path = table(tmp_path / "a.csv", 40)
    path.write_text(path.read_text() + "".join(f"z{n},00:00,heat,1,never\n" for n in range(40)))
    code, error = outcome(capsys, "train", *FLAGS, 1, "--train-file", path, "--output", tmp_path / "run")
    assert code == 2 and error.count("\n") == 1 and "needs two classes" in error and not (tmp_path / "run").exists()


def test_outcomes_of_ranks_have_the_mean_and_the_variance_of_the_area() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(300) < 0.2).astype(int)
    outputs = np.round(random.normal(size=300) + labels, 1)  # with ties

    def area(rows: np.ndarray) -> float:
        above = outputs[rows][labels[rows] == 1][:, None] - outputs[rows][labels[rows] == 0]
        return np.mean(np.sign(above)) / 2 + 0.5

    found = of_ranks(outputs, labels)
    assert found.rate == pytest.approx(roc_auc_score(labels, outputs)) == pytest.approx(area(np.arange(300)))
    drawn = np.std([area(random.integers(0, 300, 300)) for _ in range(1000)])
    assert found.values.std() / 300**0.5 == pytest.approx(drawn, rel=0.1)
    assert of_ranks(np.arange(3.0), np.zeros(3, int)).rate == 0.5, "a split of one class has nothing to rank"
