"""Processes that share a run: DDP and FSDP2 learn what one process learns; a run goes on with any number of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from outcomes import checkpoint_step, outcome
from processes import heeds_signals
from safetensors.torch import save_file
from train_helpers import small_text, text_run

from gatedrnn.data import load_task
from gatedrnn.errors import UsageError
from gatedrnn.models import GatedRNNCache
from gatedrnn.train import loop
from gatedrnn.train.folder import read_metrics
from gatedrnn.train.model import build_config
from gatedrnn.train.objective import NextToken, rows_of
from gatedrnn.train.settings import RunSettings

FLAGS = (
    "--cell mingru,lstm --hidden-size 48 --layers 2 --embedding-size 32 --batch-size 8 --length 16 --dropout 0 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 1 --test-fraction 0.1 --block=false"
).split()
HERE = Path(__file__).parent
SHARED = {"ddp": [], "fsdp2": ["--shard"]}


def began(text: Path, output: Path, processes: int, *more: str) -> subprocess.Popen:
    """The command, under torchrun where there are several processes, with a log of what each reads beside `output`."""
    several = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    attempt = len(list(output.parent.glob(f"{output.name}-*-0")))
    begin = ["--train-file", str(text), *FLAGS, *more, "--output", str(output)]
    arguments = ["train", "--resume", str(output)] if (output / "config.yaml").exists() else ["train", *begin]
    return subprocess.Popen(
        [
            sys.executable, *(several if processes > 1 else []), str(HERE / "rows_read.py"), f"{output}-{attempt}",
            *arguments,
        ],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heeds_signals,
    )  # fmt: skip


def to_its_end(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said.decode()


def killed_after(process: subprocess.Popen, output: Path, step: int) -> None:
    while checkpoint_step(output) < step:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.005)
    for one in (*psutil.Process(process.pid).children(recursive=True), process):  # torchrun's are groups of their own
        one.kill()
    process.communicate()


def rows_of_steps(output: Path) -> dict[int, list]:
    """Of each step, as it was done last: the rows that all processes have read, in the order of processes."""
    found: dict[int, tuple[int, list]] = {}
    for path in sorted(output.parent.glob(f"{output.name}-*-*")):
        attempt = int(path.name.split("-")[-2])
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            before = found.get(step, (attempt, []))
            found[step] = (attempt, before[1] + rows if before[0] == attempt else rows)
    return {step: rows for step, (_, rows) in found.items()}


def losses(output: Path) -> torch.Tensor:
    return torch.tensor([line["loss"] for line in read_metrics(output / "metrics.jsonl") if "loss" in line])


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return small_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    output = tmp_path_factory.mktemp("alone") / "run"
    to_its_end(began(text, output, 1, "--epochs", "3"))
    return output


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", SHARED)
def test_two_processes_learn_what_one_does(how, text, alone, tmp_path):
    to_its_end(began(text, tmp_path / "two", 2, "--epochs", "3", *SHARED[how]))
    assert torch.allclose(losses(tmp_path / "two"), losses(alone), rtol=1e-4)
    one, two = outcome(alone), outcome(tmp_path / "two")
    assert two[2]["test_loss"] == pytest.approx(one[2]["test_loss"], rel=1e-4)
    assert two[0].keys() == one[0].keys()
    assert all(torch.allclose(weight, two[0][name], atol=1e-3) for name, weight in one[0].items())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("then", [1, 4])
@pytest.mark.parametrize("how", SHARED)
def test_a_run_of_two_processes_goes_on_with_another_number(how, then, text, alone, tmp_path):
    output = tmp_path / "run"
    killed_after(began(text, output, 2, "--epochs", "3", *SHARED[how]), output, 40)
    to_its_end(began(text, output, then, "--epochs", "3", *SHARED[how]))
    steps = [line["step"] for line in read_metrics(output / "metrics.jsonl") if "loss" in line]
    assert steps == list(range(1, len(losses(alone)) + 1)), "a step was left out, or done twice"
    assert rows_of_steps(output) == rows_of_steps(alone), "a token was left out, or read twice"
    assert torch.allclose(losses(output), losses(alone), rtol=1e-3)
    assert outcome(output)[2]["validation_loss"] == pytest.approx(outcome(alone)[2]["validation_loss"], rel=1e-3)
    assert json.loads((output / "result.json").read_text())["measured"]["processes"] == then


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_starts_lost_processes_again_and_the_run_goes_on(text, alone, tmp_path):
    output = tmp_path / "run"
    elastic = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "--max-restarts", "3"]
    process = subprocess.Popen(
        [
            sys.executable, *elastic, "-m", "gatedrnn", "train", "--train-file", str(text), *FLAGS, "--epochs", "3",
            "--output", str(output), "--wait",
        ],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heeds_signals,
    )  # fmt: skip
    while checkpoint_step(output) < 20:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.005)
    os.kill(int((output / ".lock").read_text().split()[0]), signal.SIGKILL)  # the first process
    to_its_end(process)
    assert torch.allclose(losses(output), losses(alone), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("task", ["digits", "forecast"])
def test_an_evaluation_that_processes_share_has_the_scores_of_one(task, tmp_path):
    flags = ["train", "--task", task, "--cell", "mingru", "--epochs", "1", "--threads", "1"]
    flags += ["--dropout", "0", "--head-dropout", "0", "--embedding-dropout", "0"]
    for processes in (1, 2):
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
        to_its_end(
            subprocess.Popen(
                [sys.executable, *several, "-m", "gatedrnn", *flags, "--output", str(tmp_path / str(processes))],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    one, two = (json.loads((tmp_path / str(n) / "result.json").read_text()) for n in (1, 2))
    scores = [name for name in one if name.startswith(("test_", "validation_"))]
    assert scores and all(two[name] == pytest.approx(one[name], rel=1e-3, abs=2e-3) for name in scores)


def test_fewer_rows_than_processes_are_refused(text, tmp_path, monkeypatch):
    class Many:
        num_processes = 9

    monkeypatch.setattr(loop, "Accelerator", lambda **_: Many())
    with pytest.raises(UsageError, match="--batch-size 8: 9 processes share it by rows"):
        loop.run(text_run(text), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_an_earlier_version_goes_on_whatever_its_number_of_processes(text):
    settings = text_run(text)
    assert RunSettings.from_flat({**settings.flat(), "processes": 2}) == settings


@pytest.mark.parametrize(("before", "now"), [(2, 2), (2, 1), (2, 4), (3, 2), (1, 3)])
def test_states_of_lanes_are_shared_out_anew(before, now, text, tmp_path):
    settings = text_run(text)
    config = build_config(settings, load_task(settings.data))
    rows = torch.arange(8 * 16.0).view(8, 16)
    whole = {"layer 0 state 0": rows, "layer 1 state 0": rows + 1, "layer 1 state 1": rows + 2}
    for rank in range(before):
        share = rows_of(whole, rank, before, torch.device("cpu"))
        seen = {"seen tokens": torch.tensor(48)}
        own = {name: one.contiguous() for name, one in share.items()}
        save_file(own | seen, tmp_path / f"carry-{rank}.safetensors")
    found = []
    for rank in range(now):
        objective = NextToken(config, carries=True)
        objective.load(tmp_path, rank, now)
        assert isinstance(objective.carry, GatedRNNCache) and objective.carry.seen_tokens == 48
        found.append(objective.carry.tensors())
    for name, tensor in whole.items():
        assert torch.equal(torch.cat([own[name] for own in found]), tensor)
