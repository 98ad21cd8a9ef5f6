"""Real kills: `kill -9` at any moment, of one process or of a group, and the run still ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from outcomes import assert_same_outcome, checkpoint_step, outcome
from processes import heeds_signals
from train_helpers import small_text

FLAGS = (
    "--cell mingru,lstm --hidden-size 48 --layers 2 --embedding-size 32 --dropout 0.2 --batch-size 8 --length 16 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 5 --test-fraction 0.1 --block=false"
).split()
HERE = Path(__file__).parent
ENDS = ("model written", "sums written", "result written")
GATEDRNN, TWO = (
    ["-m", "gatedrnn"],
    ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "gatedrnn"],
)


def began(text: Path, output: Path, epochs: int, how: list[str] = GATEDRNN) -> subprocess.Popen:
    """The command that begins a run, or goes on with it, in a process group of its own."""
    begin = ["train", "--train-file", str(text), *FLAGS, "--epochs", str(epochs), "--output", str(output)]
    arguments = ["train", "--resume", str(output)] if (output / "config.yaml").exists() else begin
    return subprocess.Popen(
        [sys.executable, *how, *arguments], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=heeds_signals,
    )  # fmt: skip


def to_its_end(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said.decode()


def killed(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return small_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_an_epoch_ends_with_the_same_bits(text, tmp_path):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    process = began(text, disturbed, epochs=4)
    # 53 steps are an epoch: some way into one, and far enough from its end.
    while not 10 <= checkpoint_step(disturbed) % 53 < 40:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.005)
    killed(process)
    assert process.returncode == -signal.SIGKILL and not (disturbed / "result.json").exists()
    assert checkpoint_step(disturbed) % 53 != 0, "killed at the end of an epoch; choose another moment"
    to_its_end(began(text, disturbed, epochs=4))
    to_its_end(began(text, whole, epochs=4))
    assert_same_outcome(whole, disturbed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_at_random_moments_change_no_bit(text, tmp_path):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    to_its_end(began(text, whole, epochs=40))
    moments, kills = random.Random(0), 0
    while kills < 20:
        before = checkpoint_step(disturbed)
        process = began(text, disturbed, epochs=40)
        if kills % 4 == 3:  # while it is still setting out
            time.sleep(moments.uniform(0.1, 4))
        else:
            while checkpoint_step(disturbed) < before + moments.randint(5, 80) and process.poll() is None:
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.3))
        assert process.poll() is None, f"the run ended after {kills} kills; give it more epochs"
        killed(process)
        kills += 1
    to_its_end(began(text, disturbed, epochs=40))
    assert_same_outcome(whole, disturbed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_signals_at_random_moments_change_no_bit(text, tmp_path):
    """SIGTERM, SIGHUP and Ctrl-C end a run after its step; before its first step they end it at once."""
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    to_its_end(began(text, whole, epochs=40))
    moments, saved = random.Random(1), 0
    for turn in range(20):
        before = checkpoint_step(disturbed)
        process = began(text, disturbed, epochs=40)
        number = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)[turn % 3]
        if turn % 5 == 4:  # while it is still setting out
            time.sleep(moments.uniform(0.1, 4))
        else:
            while checkpoint_step(disturbed) < before + moments.randint(5, 40) and process.poll() is None:
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.3))
        assert process.poll() is None, f"the run ended after {turn} signals; give it more epochs"
        os.killpg(process.pid, number)
        _, said = process.communicate(timeout=60)
        # Below zero: it had not yet come to its own handling.
        assert process.returncode in (128 + number, -number, 1), said.decode()
        assert process.returncode != 1 or b"KeyboardInterrupt" in said, said.decode()
        saved += b"stopped at step" in said
    assert saved >= 10
    to_its_end(began(text, disturbed, epochs=40))
    assert_same_outcome(whole, disturbed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_of_two_processes_killed_and_both_resumed_change_no_bit(text, tmp_path):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    to_its_end(began(text, whole, epochs=6, how=TWO))
    for before in (20, 150):
        process = began(text, disturbed, epochs=6, how=TWO)
        while checkpoint_step(disturbed) < before:
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.005)
        os.kill(one_worker_of(process.pid), signal.SIGKILL)
        process.communicate(timeout=120)
        assert process.returncode != 0 and not (disturbed / "result.json").exists()
    to_its_end(began(text, disturbed, epochs=6, how=TWO))
    assert_same_outcome(whole, disturbed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_learn_what_one_does(text, tmp_path):
    for name, how in (("one", GATEDRNN), ("two", TWO)):
        plain = " ".join(FLAGS).replace("--dropout 0.2", "--dropout 0").replace("--average 0.9", "--epochs 1").split()
        begin = ["train", "--train-file", str(text), *plain, "--output", str(tmp_path / name)]
        to_its_end(subprocess.Popen([sys.executable, *how, *begin], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    one, two = (outcome(tmp_path / name)[2] for name in ("one", "two"))
    assert one["test_loss"] == pytest.approx(two["test_loss"], rel=1e-4)


def one_worker_of(launcher: int) -> int:
    """The second process that torchrun has started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    workers = [int(child) for child in children if b"gatedrnn" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return workers[-1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_at_each_point_of_saving_changes_no_bit(text, tmp_path):
    whole = tmp_path / "whole"
    to_its_end(began(text, whole, epochs=2))
    points = ("temporary written", "before the rename", "after the rename", "before the removal")
    for point, number in [(point, "3") for point in points] + [(point, "1") for point in ENDS]:
        disturbed = tmp_path / point.replace(" ", "-")
        process = began(text, disturbed, epochs=2, how=[str(HERE / "killed_while_saving.py"), point, number])
        process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, f"{point}: was not reached"
        to_its_end(began(text, disturbed, epochs=2))
        assert_same_outcome(whole, disturbed)
