"""Processes that the package starts run nothing of the current folder, and not the caller's script."""

import multiprocessing
import os
import subprocess
import sys
import threading
from operator import methodcaller
from subprocess import PIPE

import pytest

from gatedrnn import children
from gatedrnn.executors import HERE, executor_for

NAMES = ("heapq", "numba", "pickle", "queue", "random", "sitecustomize", "socket", "token", "torch", "usercustomize")


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The current folder, in which Python finds modules that leave a file behind; relative places are on the path."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'EXECUTED')!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    return tmp_path


# The flag, the variable, the path, and the file of the main module, as a process sees them.
SEEN = """(
    __import__("random"), (sys := __import__("sys")).flags.safe_path, __import__("os").environ["PYTHONSAFEPATH"],
    sys.path, getattr(sys.modules.get("__mp_main__"), "__file__", None),
)[1:]"""


def test_a_child_runs_nothing_of_the_current_folder(hostile):
    with children.start_python("import random, sys; print(sys.flags.safe_path, sys.path)", stdout=PIPE) as child:
        printed, _ = child.communicate()
    assert printed.startswith(b"True") and b"''" not in printed and b"'.'" not in printed
    assert not (hostile / "EXECUTED").exists()


def test_a_worker_runs_nothing_of_the_current_folder_and_not_the_callers_script(hostile):
    event = children.shared_event()
    with children.process_pool(1, methodcaller("set"), event, max_tasks_per_child=1) as pool:
        safe, variable, path, main = pool.submit(eval, SEEN).result()
    assert safe and variable == "1" and main is None and event.is_set()
    assert all(os.path.isabs(folder) for folder in path) and not (hostile / "EXECUTED").exists()


def test_a_caller_s_own_processes_are_as_multiprocessing_starts_them(monkeypatch):
    """Another thread may start one at the same time, and afterwards all are as before."""
    spawn, before = multiprocessing.spawn, dict(os.environ)
    with children._isolating():
        here, elsewhere = spawn.get_command_line(), []
        thread = threading.Thread(target=lambda: elsewhere.append(spawn.get_command_line()))
        thread.start()
        thread.join()
    assert "-P" in here and "-P" not in elsewhere[0] and spawn.get_command_line() == elsewhere[0]
    with children.isolated_children():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert dict(os.environ) == before


SCRIPT = """
import gatedrnn
from gatedrnn.trust import trusting
print("the script runs")
small = dict(hidden_size=4, total_steps=4, validate_every=2, seeds=[0], match=["layers"])
with trusting(trust_code=True):
    gatedrnn.compare(task="digits", cells=["gru", "own.py:Own"], jobs=2, output="study", progress=False, **small)
"""
OWN = """
from torch import nn


class Own(nn.Module):
    def __init__(self, features, hidden_size, layers, *, bidirectional, dropout):
        super().__init__()
        self.map = nn.Linear(features, features)

    def forward(self, x, mask):
        return self.map(x)
"""


@pytest.mark.slow
def test_a_script_without_a_guard_compares_in_parallel_with_a_cell_of_its_own(tmp_path):
    (tmp_path / "study.py").write_text(SCRIPT)
    (tmp_path / "own.py").write_text(OWN)
    command = [sys.executable, "study.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "the script runs\n", done.stderr
    assert (tmp_path / "study" / "results.json").exists()


def test_in_a_worker_runs_go_one_after_another_and_a_line_says_so(monkeypatch, caplog):
    monkeypatch.setitem(multiprocessing.process.current_process()._config, "daemon", True)
    assert executor_for("local", 2) is HERE
    assert caplog.messages == ["--jobs 2: this process is a worker, which may start none; runs go one after another"]


IN_A_POOL = """
import multiprocessing, gatedrnn
small = dict(hidden_size=4, total_steps=2, seeds=[0], match=["layers"], progress=False)
def job(name, **options):
    try:
        return gatedrnn.compare(task="digits", cells=["gru", "mingru"], jobs=2, output=name, **small, **options).best
    except gatedrnn.errors.UsageError as error:
        return str(error)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.apply(job, ["a"]))
        print(pool.apply(job, ["b"], {"memory": True}))
"""


@pytest.mark.slow
def test_a_comparison_runs_in_a_worker_of_a_pool(tmp_path):
    (tmp_path / "job.py").write_text(IN_A_POOL)
    done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    best, refused = done.stdout.splitlines()
    assert best in ("gru", "mingru-layers") and refused.startswith("memory: is measured in a process of its own")
    assert done.stderr.count("runs go one after another") == 2
