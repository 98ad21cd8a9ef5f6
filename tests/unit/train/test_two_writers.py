"""One writer a folder: the second process is told who is at work, or waits; a lock ends with its process."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from outcomes import assert_same_outcome, checkpoint_step
from processes import heeds_signals
from train_helpers import small_text

from gatedrnn.errors import InUse
from gatedrnn.locks import LOCK, sole_writer

HOLD = """
import sys, time
from pathlib import Path
from gatedrnn.locks import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
FLAGS = "--cell mingru --hidden-size 16 --batch-size 8 --length 16 --threads 1 --checkpoint-every 5".split()


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_process_is_told_who_holds_the_folder_and_since_when(holder, tmp_path):
    who = rf"run: is in use by process {holder.pid} since \d\d:\d\d; use --wait to wait"
    with pytest.raises(InUse, match=who), sole_writer(tmp_path / "run"):
        pass


def test_who_waits_gets_the_folder_when_the_holder_is_killed(holder, tmp_path, caplog):
    threading.Timer(0.5, holder.kill).start()
    began = time.monotonic()
    with sole_writer(tmp_path / "run", wait=True):
        assert time.monotonic() - began >= 0.4
        assert (tmp_path / "run" / LOCK).read_text().startswith(f"{os.getpid()} ")
    assert f"is in use by process {holder.pid} since" in caplog.text
    assert list((tmp_path / "run").iterdir()) == [], "the lock was left"


def command(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "gatedrnn", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=heeds_signals,
    )  # fmt: skip


def under_way(process: subprocess.Popen, run: Path) -> None:
    while checkpoint_step(run) == 0:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_two_trainings_of_one_folder_the_second_is_refused_or_waits_and_the_bits_are_those_of_one(tmp_path):
    text, run = small_text(tmp_path / "text.txt"), tmp_path / "run"
    begin = ["train", "--train-file", text, *FLAGS, "--epochs", 40]
    whole = command(*begin, "--output", tmp_path / "whole")
    _, said = whole.communicate(timeout=200)
    assert whole.returncode == 0, said
    first = command(*begin, "--output", run)
    under_way(first, run)
    for second in (command(*begin, "--output", run), command("train", "--resume", run)):
        _, said = second.communicate(timeout=100)
        assert second.returncode == 1 and f"run: is in use by process {first.pid} since" in said, said
    waiting = command("train", "--resume", run, "--wait")
    _, said = first.communicate(timeout=200)
    assert first.returncode == 0, said
    _, said = waiting.communicate(timeout=100)
    assert waiting.returncode == 0 and "waiting" in said, said
    assert_same_outcome(tmp_path / "whole", run)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_comparison_that_a_signal_ends_is_gone_on_with_by_the_same_command(number, jobs, tmp_path):
    folder = tmp_path / "comparison"
    begin = [
        "compare", "--task", "digits", "--cells", "lstm", "mingru", "--seeds", 0, 1, "--hidden-size", 16,
        "--epochs", 12, "--jobs", jobs, "--threads", 1, "--checkpoint-every", 5, "--output", folder,
    ]  # fmt: skip
    first = command(*begin)
    while not any(folder.glob("*/*/checkpoint/step-*")):
        assert first.poll() is None, first.stderr.read()
        time.sleep(0.01)
    second = command(*begin)
    _, said = second.communicate(timeout=100)
    assert second.returncode == 1 and f"comparison: is in use by process {first.pid} since" in said, said
    first.send_signal(number)
    _, said = first.communicate(timeout=100)
    assert first.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    last = command(*begin, "--wait")  # for what a killed parent's workers have still to save
    _, said = last.communicate(timeout=400)
    assert last.returncode == 0, said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_that_need_the_same_tokens_make_them_once(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 200_000)
    script = f"""
from pathlib import Path
from gatedrnn.data import data_settings, load_task, stream
make = stream._make
stream._make = lambda *given: (print("made"), make(*given))[1]
data = load_task(data_settings(task="language-model", train_file=Path({str(text)!r}), tokenizer="characters"))
print(data.train.stream.predictions)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=250) for process in both]
    assert all(process.returncode == 0 for process in both), outputs
    found = "".join(out for out, _ in outputs).split()
    assert found.count("made") == 1 and len(set(found) - {"made"}) == 1
    assert sum("waiting" in said for _, said in outputs) <= 1
