"""A task of a user's file: it trains, is killed, goes on to the same bits, predicts and is compared; and is refused."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from commands import call, outcome
from refusals import refused

from gatedrnn import load
from gatedrnn.data import registry
from gatedrnn.data.registry import data_settings, registered_task, settings_of, task_names
from gatedrnn.errors import UntrustedCode, UsageError
from gatedrnn.tasks.images.task import DigitsTask
from gatedrnn.training.task import Task
from gatedrnn.trust import trusting

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_task.py"
NEXT = {"order": "pay", "pay": "pack", "pack": "ship"}
SMALL = "--hidden-size 8 --epochs 2 --threads 1 --baselines none".split()


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Forty orders; each second one is sent back. The current folder is that of the log."""
    events = [(n, event) for n in range(40) for event in (*NEXT, "ship", *(["return"] if n % 2 else []))]
    (tmp_path / "log.csv").write_text("case,event\n" + "".join(f"o{n},{event}\n" for n, event in events))
    (tmp_path / "own_task.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "log.csv"


def asked(log, word="own_task.py:NextEvent"):
    return ["train", "--task", word, "--train-file", str(log), *SMALL]


def test_a_task_of_a_file_trains_predicts_and_is_compared(log, tmp_path, capsys):
    call(*asked(log), "--output", "run")
    assert "test accuracy" in capsys.readouterr().out
    registry._of_file.cache_clear()  # as in another process
    code, said = outcome(capsys, "predict", "run", str(log), "--output", "next.csv")
    assert code != 0 and "own_task.py:NextEvent: this Python file would be run" in said
    call("predict", "run", log, "--output", "next.csv", "--trust-code")
    rows = (tmp_path / "next.csv").read_text().splitlines()
    assert len(rows) == 41 and rows[0].startswith("case,prediction,probability_")
    asked_for = "--cells gru mingru --seeds 0 --match layers --output compared".split()
    call("compare", *asked(log)[1:-2], *asked_for)
    assert (tmp_path / "compared" / "results.json").exists()


@pytest.mark.slow
def test_a_killed_run_of_an_own_task_goes_on_to_the_same_bits(log, tmp_path):
    longer = ["40" if word == "2" else word for word in asked(log)]
    command = [sys.executable, "-m", "gatedrnn", *longer, "--checkpoint-every", "2", "--output"]
    subprocess.run([*command, "whole"], cwd=tmp_path, check=True)
    begun = subprocess.Popen([*command, "killed"], cwd=tmp_path)
    while not list((tmp_path / "killed").glob("checkpoint*/step-*")):
        assert begun.poll() is None
        time.sleep(0.01)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    assert not (tmp_path / "killed" / "result.json").exists()
    again = [sys.executable, "-m", "gatedrnn", "train", "--resume", "killed", "--trust-code"]
    subprocess.run(again, cwd=tmp_path, check=True)
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_a_file_that_nobody_named_is_not_run_and_one_without_a_task_is_refused(log):
    with pytest.raises(UntrustedCode, match=r"own_task\.py:NextEvent"):
        registered_task("own_task.py:NextEvent")
    with trusting([Path("own_task.py")]):
        assert registered_task("own_task.py:NextEvent") is registered_task("own_task.py:NextEvent")
        refused(UsageError, r"--task own_task\.py:Nothing: the file has no class Nothing", registered_task,
                "own_task.py:Nothing")  # fmt: skip
        refused(UsageError, "is no task, which names its `settings`", registered_task, "own_task.py:read_log")
        assert data_settings("own_task.py:NextEvent", longest=7).longest == 7


@pytest.fixture
def entries(monkeypatch):
    """Registers entry points for one test."""
    ours = [*registry._entry_points().values()]

    def register(**values):
        held = [EntryPoint(name.replace("_", "-"), value, "gatedrnn.tasks") for name, value in values.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: [*held, *ours])
        for cached in (registry._entry_points, registry._of_package):
            cached.cache_clear()

    yield register
    monkeypatch.undo()
    for cached in (registry._entry_points, registry._of_package):
        cached.cache_clear()


def test_a_package_registers_a_task_and_one_that_does_not_import_leaves_the_others(entries, caplog):
    entries(next_digit="gatedrnn.tasks.images.task:DigitsTask", broken="no_such_package.tasks:Task")
    assert isinstance(registered_task("next-digit"), DigitsTask) and "broken" in task_names()
    refused(UsageError, r"--task broken: no_such_package\.tasks:Task cannot be imported: .*; other tasks work",
            registered_task, "broken")  # fmt: skip
    assert "next-digit" in registry.tasks_with("steps") and "broken" not in registry.all_settings()
    assert "--task broken" in caplog.text


def test_a_task_that_is_gone_is_named_where_its_run_is_opened(entries, tmp_path, capsys):
    entries(next_digit="gatedrnn.tasks.images.task:DigitsTask")
    run = tmp_path / "run"
    call("train", "--task", "next-digit", *SMALL, "--output", run)
    entries()
    for command in (("train", "--resume", run), ("predict", run, __file__, "--output", tmp_path / "a.csv")):
        code, said = outcome(capsys, *command)
        assert code != 0 and "unknown task 'next-digit'" in said and "Traceback" not in said


def test_what_a_task_shows_is_asked_for_without_its_model(tmp_path):
    run = tmp_path / "run"
    call("train", "--task", "digits", *SMALL, "--output", run)
    shutil.rmtree(run / "model")
    assert load(run).forecasts is None


def test_a_task_has_few_members_and_each_registered_one_has_all():
    members = [name for name in vars(Task) if not name.startswith("_")]
    assert len(members) + 1 <= 15, "and its settings"
    for name in task_names():
        assert isinstance(registered_task(name), Task) and settings_of(name)(task=name).task == name
