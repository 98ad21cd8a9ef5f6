"""Nothing that takes long is silent: lines where the output is no terminal, a time left, notices before the work."""

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from commands import exit_code, printed
from rich.console import Console
from train_helpers import small_text

from gatedrnn import progress
from gatedrnn.progress import Progress, RunsDisplay, duration

OFTEN = """
import sys
from gatedrnn import progress
progress._SECONDS_BETWEEN_LINES = 0.01
from gatedrnn.cli.app import main
if __name__ == "__main__":
    main(sys.argv[1:])
"""
LINE = re.compile(r"(.+): step ([\d,]+) of ([\d,]+), loss \d+\.\d+, [\d,]+ tokens/s, (.*left)")
DIGITS = "--task digits --hidden-size 8 --embedding-size 8 --threads 1".split()


@pytest.fixture
def often(monkeypatch):
    """Lines at many steps."""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)


def test_training_without_a_terminal_says_how_far_it_is(often, capsys):
    lines = printed(capsys, "train", *DIGITS, "--epochs", 1, "--output", "run").splitlines()
    found = [match for line in lines if (match := LINE.match(line))]
    assert len(found) >= 3 and {match[1] for match in found} == {"digits mingru"}, lines
    steps = [int(match[2]) for match in found]
    assert steps == sorted(steps) and {match[3] for match in found} == {"41"}


def test_a_text_is_said_to_be_tokenised_before_its_first_step(often, tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gatedrnn.training.loop.Trainer.finish", interrupted)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nobody has tokenised it before
    flags = "--hidden-size 8 --layers 1 --embedding-size 8 --batch-size 8 --total-steps 20 --threads 1".split()
    text = small_text(tmp_path / "pages.txt")
    assert exit_code("train", "--train-file", text, *flags, "--output", tmp_path / "run") == 130
    lines = capsys.readouterr().out.splitlines()
    first = min(n for n, line in enumerate(lines) if ": step" in line)
    assert lines.index("tokenising pages.txt by characters") < first


def piped(*before, arguments):
    """The lines of standard output, a pipe; from a file, since processes of a comparison import it."""
    Path("often.py").write_text(OFTEN)
    command = [sys.executable, *before, "often.py", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0 and "step" not in process.stderr, process.stderr
    return process.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_without_a_terminal_comparisons_and_probes_say_how_far_they_are(jobs):
    flags = ["--cells", "mingru", "minlstm", "--match", "layers", "--seeds", 0, "--epochs", 20, "--jobs", jobs]
    lines = piped(arguments=["compare", *DIGITS, *flags, "--output", "c"])
    found = [match for line in lines if (match := LINE.match(line))]
    assert {match[1] for match in found} == {"mingru/seed-0", "minlstm-layers/seed-0"}, lines
    assert all(re.fullmatch(r"[01] of 2 runs finished, .+ left", match[4]) for match in found)
    notice = "measuring the training speed of 2 contenders on digits, about "
    assert any(re.match(rf"{notice}\d+ s, for ", line) for line in lines), lines
    flags = "--tasks parity --seeds 0 --lengths 64 --jobs 1 --output probes".split()
    lines = piped(arguments=["probe", "mingru", *flags])
    assert any(LINE.match(line) and line.startswith("parity/mingru/seed-0: ") for line in lines), lines


@pytest.mark.slow
def test_of_several_processes_the_first_alone_says_how_far_they_are():
    several = "-m", "torch.distributed.run", "--nproc_per_node", "2"
    lines = piped(*several, arguments=["train", *DIGITS, "--epochs", 2, "--output", "run"])
    steps = [int(match[2]) for line in lines if (match := LINE.match(line))]
    assert steps and steps == sorted(steps), lines
    assert "\n".join(lines).count("report: ") == 1


def test_the_time_left_is_that_of_all_runs_at_the_pace_since_the_first_was_heard_of(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    shown = RunsDisplay(Console(file=io.StringIO(), force_terminal=False, width=200), "compare")
    shown.show("", None, 0, 4)
    shown.show("a", None, 1, 4)  # was finished before
    now[0] += 500
    shown.show("b", Progress(50, 100, 1.0, 10.0), 1, 4)  # is resumed in its middle
    assert "left" not in " ".join(shown._state())
    now[0] += 10
    shown.show("b", Progress(75, 100, 1.0, 10.0), 1, 4)
    assert shown._state() == ["b: step 75 of 100, loss 1.0000, 10 tokens/s, 1 of 4 runs finished, 2 min left"]
    now[0] += 10
    shown.show("b", None, 2, 4)
    assert shown._state()[0].endswith("2 of 4 runs finished, 80 s left")
    durations = [duration(seconds) for seconds in (4.2, 89, 90, 5340, 5400, 12_000)]
    assert durations == ["4 s", "89 s", "2 min", "89 min", "1 h 30 min", "3 h 20 min"]


@pytest.mark.slow
def test_the_bar_of_a_terminal_has_a_time_left():
    (master, slave), seen = pty.openpty(), b""
    command = [sys.executable, "-m", "gatedrnn", "train", *DIGITS, "--epochs", "3", "--output", "run"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    with suppress(OSError):  # the other end is closed
        while part := os.read(master, 4096):
            seen += part
    assert process.wait() == 0
    assert re.search(rb"digits mingru.* \d+ s left", seen) and b": step " not in seen
