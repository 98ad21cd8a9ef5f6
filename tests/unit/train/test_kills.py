"""Real kills and signals, at any moment: the run still ends with the same bits."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from outcomes import assert_same_outcome
from processes import heeds_signals
from struck import Run, Strike, endings

FLAGS = (
    "--cell mingru,lstm --hidden-size 48 --layers 2 --embedding-size 32 --dropout 0.2 --batch-size 8 --length 16 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 5 --test-fraction 0.1 --block=false --epochs"
).split()
SAVING = ("temporary written", "before the rename", "after the rename", "before the removal")
ENDS = ("model written", "sums written", "result written")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_and_signals_at_random_moments_change_no_bit(book: Path, tmp_path: Path) -> None:
    """SIGTERM, SIGHUP and Ctrl-C end a run after its step; while it is setting out they end it at once."""
    whole, disturbed, moments = tmp_path / "whole", tmp_path / "disturbed", random.Random(0)
    begin, resume = ["train", "--train-file", book, *FLAGS, 12, "--output"], ["train", "--resume", disturbed]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with_config = (disturbed / "config.yaml").exists()
        command = [sys.executable, "-m", "gatedrnn", *map(str, resume if with_config else [*begin, disturbed])]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heeds_signals)
        time.sleep(moments.uniform(0.1, 2))
        process.send_signal(number)
        _, said = process.communicate(timeout=200)
        # Below zero: it had not yet come to its own handling.
        assert process.returncode in (128 + number, -number, 1), said.decode()
        assert process.returncode != 1 or b"KeyboardInterrupt" in said, said.decode()
    numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGKILL, signal.SIGINT] * 2
    strikes = [Strike(number, "step", moments.randint(5, 40), moments.uniform(0.001, 0.03)) for number in numbers]
    first = resume if (disturbed / "config.yaml").exists() else [*begin, disturbed]
    struck = [Run(resume if turn else first, strike) for turn, strike in enumerate(strikes)]
    codes = [[-number if number == signal.SIGKILL else 128 + number] for number in numbers]
    assert endings(*struck, Run(resume), Run([*begin, whole])) == [*codes, [0], [0]]
    assert_same_outcome(whole, disturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_at_each_point_of_saving_changes_no_bit(book: Path, tmp_path: Path) -> None:
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    begin, resume = ["train", "--train-file", book, *FLAGS, 1, "--output"], ["train", "--resume", disturbed]
    strikes = [Strike(point=point, times=3) for point in SAVING] + [Strike(point=point) for point in ENDS]
    struck = [Run(resume if turn else [*begin, disturbed], strike) for turn, strike in enumerate(strikes)]
    assert endings(*struck, Run(resume), Run([*begin, whole])) == [*[[-signal.SIGKILL]] * 7, [0], [0]]
    assert_same_outcome(whole, disturbed)
