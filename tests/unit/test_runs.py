"""Runs from Python: what a call takes and gives, that it continues, and that nothing is left behind."""

import gc
import inspect
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from importlib import import_module
from pkgutil import walk_packages

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import gatedrnn
from gatedrnn.errors import Damaged, DataError, FolderTaken, Interrupted, UsageError, in_one_line
from gatedrnn.tasks.forecast import read as task
from gatedrnn.training import finished
from gatedrnn.training.settings import with_words_of_cells

pytestmark = pytest.mark.usefixtures("first_training")
DIGITS = {"task": "digits", "cell": "mingru", "hidden_size": 4, "embedding_size": 8, "threads": 1, "total_steps": 4}
SMALL = {"hidden_size": 4, "random_convolutions": 50, "threads": 1, "total_steps": 4, "baselines": "none"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gatedrnn.train(**DIGITS, output=tmp_path_factory.mktemp("run") / "digits", baselines="none", progress=False)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def rows(count=24):
    X = np.random.default_rng(0).normal(size=(count, 6))
    return X, np.where(X.mean(1) > 0, "up", "down")


@pytest.mark.slow
def test_no_public_function_bears_the_name_of_a_module():
    for module in walk_packages(gatedrnn.__path__, "gatedrnn."):
        if "view.page" not in module.name and "__main__" not in module.name and "gpu" not in module.name:
            import_module(module.name)
    for name in ("train", "load", "forecast", "compare", "probe"):
        assert inspect.isfunction(getattr(gatedrnn, name)), name


def test_a_run_has_its_scores_its_steps_its_model_and_its_page(run):
    assert run.is_finished and 0 <= run.scores["test"]["accuracy"] <= 1 and run.settings.hidden_size == 4
    assert set(run.scores["test"]) <= set(type(run.result.scores["test"]).model_fields)
    assert isinstance(run.metrics, pd.DataFrame) and run.metrics.step.max() == 4
    assert not run.model.training and run.report.exists() and "accuracy" in run._repr_html_()
    assert gatedrnn.load(run.folder).scores == run.scores
    assert run.evaluate().scores.accuracy == pytest.approx(run.scores["test"]["accuracy"])
    again = gatedrnn.train(**DIGITS, output=run.folder, baselines="none", progress=False)
    assert again.scores == run.scores
    assert gatedrnn.load(run.folder / "model").model.config.hidden_size == 4


def test_without_a_folder_the_same_call_finds_its_run_again(temporary):
    first = gatedrnn.train(rows(), **SMALL, progress=False)
    assert temporary in first.folder.parents and (first.folder / "train.parquet").exists()
    began = (first.folder / "result.json").stat().st_mtime_ns
    again = gatedrnn.train(rows(), **SMALL, progress=False)
    assert again.folder == first.folder and (again.folder / "result.json").stat().st_mtime_ns == began
    assert gatedrnn.train(rows(30), **SMALL, progress=False).folder != first.folder


def test_other_data_do_not_go_into_the_folder_of_a_run(tmp_path):
    gatedrnn.train(rows(), **SMALL, progress=False, output=tmp_path / "run")
    before = (tmp_path / "run" / "train.parquet").read_bytes()
    with pytest.raises(FolderTaken, match="other data"):
        gatedrnn.train(rows(30), **SMALL, progress=False, output=tmp_path / "run")
    assert (tmp_path / "run" / "train.parquet").read_bytes() == before


def test_data_come_as_frames_texts_and_data_sets(tmp_path):
    from datasets import ClassLabel, Dataset, Features, Value

    texts, labels = ["good one", "bad one"] * 12, [1, 0] * 12
    small = {"hidden_size": 4, "threads": 1, "total_steps": 4, "baselines": "none", "progress": False}
    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    given = {
        "pair": (texts, labels), "frame": pd.DataFrame({"text": texts, "label": labels}),
        "data set": Dataset.from_dict({"text": texts, "label": labels}, features=features),
    }  # fmt: skip
    found = {name: gatedrnn.train(data, **small, output=tmp_path / name) for name, data in given.items()}
    assert {run.settings.data.task for run in found.values()} == {"text-classification"}
    assert found["data set"].predict(["good one"]).prediction.item() in ("no", "yes")
    told = found["frame"].predict(pd.DataFrame({"id": [7], "text": ["good"]}))
    assert told.columns.tolist() == ["id", "text", "prediction", "probability_0", "probability_1"]
    assert found["pair"].evaluate((texts, labels)).labels == 24


def test_a_frame_with_its_times_as_index_is_read_once_and_forecast_by_their_name(tmp_path, monkeypatch):
    days = pd.date_range("2024-01-01", periods=60, freq="D", name="day")
    frame = pd.DataFrame({"sold": np.random.default_rng(0).normal(3, 1, 60)}, index=days)
    small = {"hidden_size": 4, "threads": 1, "total_steps": 4, "baselines": "none", "progress": False}
    read, original = [], task.read_series_table
    monkeypatch.setattr(task, "read_series_table", lambda *given: read.append(given) or original(*given))
    future = gatedrnn.forecast(frame, horizon=7, output=tmp_path / "run", **small)
    assert len(read) == 1, "a table is read once"
    assert future.table.columns.tolist() == ["day", "sold", "sold_0.1", "sold_0.9"] and len(future.table) == 7
    assert isinstance(gatedrnn.load(tmp_path / "run"), gatedrnn.Forecast) and len(future.plot()) > 1
    table = pa.Table.from_pandas(frame.reset_index(), preserve_index=False)
    again = gatedrnn.forecast(table, horizon=7, output=tmp_path / "arrow", **small).table
    assert isinstance(again, pa.Table) and again.to_pandas().equals(future.table)


WRONG = [
    ({"hiden_size": 3}, UsageError, "did you mean 'hidden_size'"), ({"hidden_size": 0}, UsageError, "^hidden_size: "),
    ({"task": "digit"}, UsageError, "digits"), ({"cell": "mingur"}, UsageError, "mingru"),
    ({"log": ["wandbb"]}, UsageError, "did you mean 'wandb'"), ({"lr": 1}, UsageError, "did you mean 'learning_rate'"),
    ({"max_epochs": 1}, UsageError, "did you mean 'epochs'"), ({"units": 1}, UsageError, "did you mean 'hidden_size'"),
    ({"cell": "MinGru"}, UsageError, "^cell: there is no cell 'MinGru'; did you mean 'mingru'"),
]  # fmt: skip


@pytest.mark.parametrize("wrong, kind, said", WRONG)
def test_a_wrong_setting_is_refused_by_its_name(wrong, kind, said, temporary):
    with pytest.raises(kind, match=said):
        gatedrnn.train(**DIGITS | wrong, baselines="none", progress=False)


def test_a_refusal_from_python_keeps_the_flags_for_the_command_line(run):
    with pytest.raises(DataError, match=r"continue it by resume\(\), or give another output$") as error:
        gatedrnn.train(**DIGITS, output=run.folder, exist_ok=False, baselines="none", progress=False)
    assert in_one_line(error.value).endswith("continue it by --resume, or give another --output")


def test_cells_are_classes_too_and_the_names_of_classes(run):
    for cell in (gatedrnn.MinGRU, "MinGRU"):
        again = gatedrnn.train(**DIGITS | {"cell": cell}, output=run.folder, baselines="none", progress=False)
        assert again.settings.cell == "mingru"
    assert with_words_of_cells({"cells": [gatedrnn.GRU, "LSTM", "lstm"]})["cells"] == ["gru", "lstm", "lstm"]


def test_a_run_is_exported_to_a_format_that_there_is(run):
    for to in ("gguf", "tflite", "ONNX"):
        with pytest.raises(UsageError, match=f"there is no format '{to}'; (there is onnx|did you mean 'onnx')"):
            run.export(to=to)
        assert not (run.folder / to).exists()


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A run on texts with whole numbers as labels."""
    frame = pd.DataFrame({"text": ["good one", "bad one"] * 12, "label": np.array([1, 0] * 12, np.int8)})
    small = {"hidden_size": 4, "threads": 1, "total_steps": 40, "baselines": "none", "progress": False}
    return gatedrnn.train(frame, **small, output=tmp_path_factory.mktemp("counted") / "run"), frame


def test_predictions_have_the_type_of_the_labels(counted):
    run, frame = counted
    for data in (frame, frame.text.tolist(), frame.text, frame.text.to_numpy()):
        told = run.predict(data)
        assert told.prediction.dtype == np.int8 and (told.prediction == frame.label).all()
    assert run.predict(pa.Table.from_pandas(frame)).schema.field("prediction").type == pa.int8()
    assert [score.name for score in run.evaluate(frame).classes] == [0, 1]
    assert run.evaluate(frame.assign(label=frame.label.astype(float))).scores.accuracy == 1
    assert run.predict(frame).label.dtype == np.int8


def test_a_run_opens_its_model_once_and_again_when_its_files_have_changed(counted, tmp_path, monkeypatch):
    folder = shutil.copytree(counted[0].folder, tmp_path / "run")
    run, opened, original = gatedrnn.load(folder), [], finished.open_finished
    monkeypatch.setattr(finished, "open_finished", lambda place: opened.append(place) or original(place))
    before = [run.predict(["good one"]).probability_1.item() for _ in range(3)]
    assert len(opened) == 1 and len({*before}) == 1 and run.model is run.model and len(opened) == 1
    os.utime(folder / "model" / "config.json", ns=(0, 0))
    assert run.predict(["good one"]).probability_1.item() == before[0] and len(opened) == 2
    with (folder / "model" / "config.json").open("a") as file:
        file.write(" ")
    with pytest.raises(Damaged, match=r"config\.json"):  # and not an answer of the model that was open
        run.predict(["good one"])


@pytest.mark.parametrize("data", [3, pd.DataFrame({"text": ["a"]}), object(), ([], [])])
def test_data_that_say_nothing_are_refused_in_a_sentence(data, temporary):
    with pytest.raises((DataError, UsageError)) as error:
        gatedrnn.train(data, task="text-classification", progress=False)
    assert "parquet" not in str(error.value), "the caller knows of no file"


class Watch:
    def __init__(self, last=None):
        self.last, self.steps, self.validations, self.ended = last, [], [], None

    def on_step(self, record):
        self.steps.append(record.step)
        return record.step == self.last

    def on_validation(self, record):
        self.validations.append((record.step, record.is_best))
        with pytest.raises(TypeError):
            record.scores["accuracy"] = 1.0

    def on_end(self, result):
        self.ended = result.steps


def test_callbacks_see_each_step_and_may_end_the_run(tmp_path):
    how = DIGITS | {"total_steps": 9, "validate_every": 3, "baselines": "none", "progress": False}
    whole, short = Watch(), Watch(last=4)
    gatedrnn.train(**how, output=tmp_path / "whole", callbacks=[whole, object()])
    assert whole.steps == list(range(1, 10)) and [step for step, _ in whole.validations] == [3, 6, 9]
    run = gatedrnn.train(**how, output=tmp_path / "short", callbacks=[short])
    assert short.steps[-1] == 4 == short.ended == run.result.steps and run.is_finished and run.scores["test"]


def test_a_tracker_is_told_losses_and_scores_by_the_names_that_its_users_expect(tmp_path):
    how = DIGITS | {"log_every": 2, "validate_every": 2, "baselines": "none", "progress": False}
    run = gatedrnn.train(**how, output=tmp_path / "run", log=["tensorboard"])
    (file,) = (tmp_path / "run").rglob("events.out*.0")
    kept = EventAccumulator(str(file))
    kept.Reload()
    names = set(kept.Tags()["scalars"])
    assert {"train/loss", "train/learning_rate", "validation/accuracy", "test/accuracy"} <= names
    assert [event.step for event in kept.Scalars("train/loss")] == [2, 4]
    assert kept.Scalars("test/accuracy")[0].value == pytest.approx(run.scores["test"]["accuracy"])


def test_a_hub_that_cannot_be_reached_is_said_in_a_sentence(run, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="me/digits: could not be uploaded"):
        run.push_to_hub("me/digits", token="hf_none")


def test_ctrl_c_leaves_a_run_that_goes_on_to_the_same_bits(tmp_path, run):
    how = DIGITS | {"baselines": "none", "progress": False}

    def interrupt(progress):
        if progress.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background is started to ignore it
    try:
        with pytest.raises(Interrupted):
            gatedrnn.train(**how, output=tmp_path / "run", on_step=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    stopped = gatedrnn.load(tmp_path / "run")
    assert not stopped.is_finished and "not ended" in repr(stopped) and not stopped.model.training
    ended = stopped.resume(baselines="none", progress=False)
    assert ended.scores == run.scores
    assert all(weights.equal(run.model.state_dict()[name]) for name, weights in ended.model.state_dict().items())


def test_a_thread_of_the_caller_may_train(tmp_path):
    found = []
    how = DIGITS | {"baselines": "none", "progress": False, "output": tmp_path / "run"}
    thread = threading.Thread(target=lambda: found.append(gatedrnn.train(**how)))
    thread.start()
    thread.join()
    assert found[0].is_finished


def caller():
    """The state of libraries in this process: random numbers, threads."""
    numbers = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return random.getstate(), *numbers, torch.get_num_threads()


@pytest.mark.usefixtures("drawn_curves")
def test_what_the_caller_has_set_is_as_it_was(tmp_path):
    """A notebook draws its own pictures after a run has drawn its own."""
    matplotlib.use("pdf")
    before = caller()
    gatedrnn.train(**DIGITS, baselines="none", progress=False, output=tmp_path / "run")
    assert (tmp_path / "run" / "curves.svg").exists() and matplotlib.get_backend() == "pdf"
    assert caller() == before


def test_memory_is_given_back_with_the_run(run):
    opened = gatedrnn.load(run.folder)
    weights = weakref.ref(next(iter(opened.model.parameters())))
    del opened
    gc.collect()
    assert weights() is None


@pytest.mark.slow
def test_a_second_process_is_told_who_writes_into_the_folder(tmp_path):
    script = (
        "import sys, time, gatedrnn\n"
        f"gatedrnn.train(**{DIGITS | {'total_steps': 10_000}!r}, output='run', baselines='none', progress=False,"
        " on_step=lambda p: (print(p.step, flush=True), time.sleep(1)))\n"
    )
    first = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline()
        with pytest.raises(gatedrnn.errors.InUse, match="in use"):
            gatedrnn.train(**DIGITS | {"total_steps": 10_000}, output=tmp_path / "run", progress=False)
    finally:
        first.kill()
        first.communicate()


@pytest.mark.slow
def test_a_study_has_its_verdict_its_frames_and_its_best(tmp_path):
    how = {"hidden_size": 4, "total_steps": 4, "validate_every": 2, "threads": 1, "progress": False}
    study = gatedrnn.compare(rows(60), cells=["gru", "mingru"], seeds=[0, 1], match=["layers"], output=tmp_path, **how)
    assert study.scores.method.isin(["gru", "mingru-layers"]).sum() == 2 and study.verdict and study.page.exists()
    assert {"contender", "other", "verdict", "difference"} <= set(study.pairs.columns)
    assert study.best in ("gru", "mingru-layers") and study.run("gru", 1).settings.seed == 1
    assert study.verdict[0] in repr(study) and "<table" in study._repr_html_() and study.plot()
    with pytest.raises(UsageError, match="did you mean 'gru'"):
        study.run("gur")
    assert json.loads((tmp_path / "results.json").read_text())["task"] == "series-classification"


@pytest.mark.slow
def test_a_script_that_is_imported_anew_by_its_workers_compares_in_parallel(tmp_path):
    script = tmp_path / "study.py"
    script.write_text(
        "import gatedrnn\n\nif __name__ == '__main__':\n"
        "    small = dict(hidden_size=4, total_steps=4, validate_every=2, seeds=[0], match=['layers'])\n"
        "    study = gatedrnn.compare(task='digits', cells=['gru', 'mingru'], jobs=2, output='study', **small)\n"
        "    print(study.best)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("gru", "mingru-layers")


def test_progress_is_shown_in_a_notebook_and_gone_at_the_end(monkeypatch, tmp_path):
    shown = []

    class Place:
        def display(self, html):
            shown.append(html)

        update = display

    from types import SimpleNamespace

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, DisplayHandle=Place))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("gatedrnn.progress._SECONDS_BETWEEN_DRAWINGS", 0.0)
    gatedrnn.train(**DIGITS, output=tmp_path / "run", baselines="none")
    assert any("step 4 of 4" in text for text in shown) and shown[-1] == ""
