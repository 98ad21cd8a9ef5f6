"""Nothing that takes long is silent: lines where the output is no terminal, a time left, notices before the work."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from train_helpers import small_text

from gatedrnn.cli.progress import RunsDisplay, duration
from gatedrnn.train.loop import Progress

OFTEN = """
import sys
from gatedrnn.cli import progress
progress.SECONDS_BETWEEN_LINES = 0.001
from gatedrnn.cli.app import main
if __name__ == "__main__":
    main(sys.argv[1:])
"""
LINE = re.compile(r"(.+): step ([\d,]+) of ([\d,]+), loss \d+\.\d+, [\d,]+ tokens/s, (.*left)")
DIGITS = "--task digits --hidden-size 8 --embedding-size 8 --threads 1".split()


@pytest.fixture
def often(tmp_path: Path) -> Path:
    """The command line with a line at almost every step; a file, since processes of a comparison import it."""
    script = tmp_path / "often.py"
    script.write_text(OFTEN)
    return script


def piped(script: Path, *arguments: object) -> list[str]:
    """The lines of standard output, which is a pipe."""
    process = subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.slow
def test_training_without_a_terminal_says_how_far_it_is(often: Path, tmp_path: Path) -> None:
    lines = piped(often, "train", *DIGITS, "--epochs", 10, "--output", tmp_path / "run")
    found = [match for line in lines if (match := LINE.match(line))]
    assert len(found) >= 3 and {match[1] for match in found} == {"digits mingru"}, lines
    steps = [int(match[2].replace(",", "")) for match in found]
    assert steps == sorted(steps) and {match[3] for match in found} == {"410"}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_comparison_without_a_terminal_says_how_far_each_run_and_the_whole_is(
    jobs: int, often: Path, tmp_path: Path
) -> None:
    flags = ["--cells", "mingru", "minlstm", "--match", "layers", "--seeds", "0", "--epochs", 60, "--jobs", jobs]
    lines = piped(often, "compare", *DIGITS, *flags, "--output", tmp_path / "c")
    found = [match for line in lines if (match := LINE.match(line))]
    assert {match[1] for match in found} == {"mingru/seed-0", "minlstm-layers/seed-0"}, lines
    assert all(re.fullmatch(r"[01] of 2 runs finished, .+ left", match[4]) for match in found)
    notice = "measuring the training speed of 2 contenders on digits, about 4 s"
    assert notice in lines and any(line.startswith(f"{notice}, for ") for line in lines), lines


@pytest.mark.slow
def test_a_probe_says_how_far_it_is(often: Path, tmp_path: Path) -> None:
    flags = "--tasks parity --seeds 0 --lengths 64 --jobs 1".split()
    lines = piped(often, "probe", "mingru", *flags, "--output", tmp_path / "probes")
    assert any(LINE.match(line) and line.startswith("parity/mingru/seed-0: ") for line in lines), lines


@pytest.mark.slow
def test_a_text_is_said_to_be_tokenised_before_its_first_step(
    often: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nobody has tokenised it before
    text = small_text(tmp_path / "book.txt")
    flags = "--hidden-size 8 --layers 1 --embedding-size 8 --epochs 1 --threads 1".split()
    lines = piped(often, "train", "--train-file", text, *flags, "--output", tmp_path / "run")
    assert "tokenising book.txt by characters" in lines
    assert lines.index("tokenising book.txt by characters") < min(n for n, line in enumerate(lines) if ": step" in line)


@pytest.mark.slow
def test_of_several_processes_the_first_alone_says_how_far_they_are(often: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", often]
    flags = [*DIGITS, "--epochs", 20, "--output", tmp_path / "run"]
    process = subprocess.run([*map(str, command), "train", *map(str, flags)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    steps = [int(match[2]) for line in process.stdout.splitlines() if (match := LINE.match(line))]
    assert steps and steps == sorted(steps), process.stdout
    assert process.stdout.count("report: ") == 1 and "step" not in process.stderr


def display(terminal: bool) -> tuple[RunsDisplay, io.StringIO]:
    written = io.StringIO()
    return RunsDisplay(Console(file=written, force_terminal=terminal, width=200), "compare"), written


def test_the_time_left_is_that_of_all_runs_at_the_pace_since_the_first_was_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    shown, _ = display(terminal=False)
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


@pytest.mark.slow
def test_the_bar_of_a_terminal_has_a_time_left(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "gatedrnn", "train", *DIGITS, "--epochs", "10", "--output", str(tmp_path / "run")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    seen = b""
    try:
        while part := os.read(master, 4096):
            seen += part
    except OSError:
        pass  # the other end is closed
    assert process.wait() == 0
    assert re.search(rb"digits mingru.* \d+ s left", seen) and b": step " not in seen


def test_a_duration_reads_as_one_says_it() -> None:
    assert [duration(seconds) for seconds in (4.2, 89, 90, 5340, 5400, 12_000)] == [
        "4 s", "89 s", "2 min", "89 min", "1 h 30 min", "3 h 20 min",
    ]  # fmt: skip
