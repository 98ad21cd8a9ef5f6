"""A command asks for no more processes than the machine runs, and leaves none behind when it is killed."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from commands import outcome
from refusals import refused

from gatedrnn.errors import UsageError
from gatedrnn.machine import cores
from gatedrnn.processes import _EACH_CORE, check_cores, oversubscribing

MOST = _EACH_CORE * cores()
COMPARE = ("compare", "--task", "parity", "--cells", "gru")


def test_more_than_the_cores_can_run_must_be_asked_for_twice():
    check_cores(MOST, "--jobs")
    refused(UsageError, f"^--jobs 99: this machine has {cores()} cores.*give {MOST} or fewer, or --over", check_cores,
            MOST + 1, "--jobs 99")  # fmt: skip
    with oversubscribing(True):
        check_cores(10 * MOST, "--jobs")
    refused(UsageError, "--jobs", check_cores, MOST + 1, "--jobs")


@pytest.mark.parametrize("flags", [
    (*COMPARE, "--jobs", 1000), (*COMPARE, "--jobs", MOST, "--threads", MOST), (*COMPARE, "--threads", 1000),
    ("train", "--task", "digits", "--workers", 1000), ("train", "--task", "digits", "--threads", 1000),
    ("probe", "gru", "--tasks", "parity", "--jobs", 1000),
])  # fmt: skip
@pytest.mark.usefixtures("first_training")
def test_a_command_that_would_start_a_thousand_is_refused_before_it_begins(flags, tmp_path, capsys):
    code, said = outcome(capsys, *flags, "--output", tmp_path / "new")
    assert code == 2 and "this machine has" in said and not [*tmp_path.rglob("*.safetensors")]


@pytest.mark.slow
def test_nothing_is_left_of_a_training_that_was_killed(tmp_path):
    flags = ["--task", "digits", "--epochs", "1000", "--workers", "2", "--output", str(tmp_path / "run")]
    begun = subprocess.Popen([sys.executable, "-m", "gatedrnn", "train", *flags], stderr=subprocess.DEVNULL)
    while len(children := psutil.Process(begun.pid).children(recursive=True)) < 2:
        time.sleep(0.1)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    assert psutil.wait_procs(children, timeout=10)[1] == []
