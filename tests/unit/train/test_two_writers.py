"""One writer a folder: the second process is told who is at work, or waits; a lock ends with its process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import call, outcome
from outcomes import assert_same_outcome, checkpoint_step
from processes import heeds_signals

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


def test_the_second_process_is_told_who_holds_the_folder_or_waits_until_it_is_killed(holder, tmp_path, caplog):
    who = rf"run: is in use by process {holder.pid} since \d\d:\d\d; use --wait to wait"
    with pytest.raises(InUse, match=who), sole_writer(tmp_path / "run"):
        pass
    threading.Timer(0.5, holder.kill).start()
    began = time.monotonic()
    with sole_writer(tmp_path / "run", wait=True):
        assert time.monotonic() - began >= 0.4
        assert (tmp_path / "run" / LOCK).read_text().startswith(f"{os.getpid()} ")
    assert f"is in use by process {holder.pid} since" in caplog.text
    assert list((tmp_path / "run").iterdir()) == [], "the lock was left"


def stopped_once(condition: Callable[[], object], *arguments: object) -> subprocess.Popen:
    """The command in a process of its own, stopped for now in the moment in which the condition holds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gatedrnn", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, preexec_fn=heeds_signals,
    )  # fmt: skip
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    return process


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_two_trainings_of_one_folder_the_second_is_refused_or_waits(book: Path, tmp_path: Path, capsys) -> None:
    run = tmp_path / "run"
    begin = ["train", "--train-file", book, *FLAGS, "--epochs", 3, "--output"]
    call(*begin, tmp_path / "whole")
    first = stopped_once(lambda: checkpoint_step(run), *begin, run)
    for second in ([*begin, run], ["train", "--resume", run]):
        code, said = outcome(capsys, *second)
        assert code == 1 and f"run: is in use by process {first.pid} since" in said
    threading.Timer(0.5, first.send_signal, [signal.SIGCONT]).start()
    code, said = outcome(capsys, "train", "--resume", run, "--wait")
    assert code == 0 and "waiting" in said
    first.communicate()
    assert first.returncode == 0
    assert_same_outcome(tmp_path / "whole", run)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_comparison_that_a_signal_ends_is_gone_on_with_by_the_same_command(number, jobs, tmp_path, capsys) -> None:
    """What was finished is kept, and the run under way has taken a checkpoint."""
    folder = tmp_path / "comparison"
    begin = [
        "compare", "--task", "digits", "--cells", "lstm", "mingru", "--seeds", 0, 1, "--hidden-size", 16, "--match",
        "layers", "--epochs", 3, "--threads", 1, "--checkpoint-every", 10, "--output", folder, "--jobs",
    ]  # fmt: skip

    def under_way() -> list[Path]:
        return [path for path in folder.glob("*/*/checkpoint") if not (path.parent / "result.json").exists()]

    first = stopped_once(lambda: under_way() and any(folder.glob("*/*/result.json")), *begin, jobs)
    code, said = outcome(capsys, *begin, jobs)
    assert code == 1 and f"comparison: is in use by process {first.pid} since" in said
    for one in (number, signal.SIGCONT):
        first.send_signal(one)
    _, said = first.communicate()
    assert first.returncode == 128 + number and "Traceback" not in said and "kept" in said.splitlines()[-1], said
    assert jobs > 1 or under_way(), "workers may have ended their runs meanwhile, but this run was under way"
    assert not (folder / "results.json").exists()
    call(*begin, 1, "--wait")
    assert len(list(folder.glob("*/*/result.json"))) == 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_that_need_the_same_tokens_make_them_once(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 30_000)
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
    outputs = [process.communicate() for process in both]
    assert all(process.returncode == 0 for process in both), outputs
    found = "".join(out for out, _ in outputs).split()
    assert found.count("made") == 1 and len(set(found) - {"made"}) == 1
    assert sum("waiting" in said for _, said in outputs) <= 1
