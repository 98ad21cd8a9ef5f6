"""Processes that share a run: DDP and FSDP2 learn what one process learns; a run goes on with any number of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from outcomes import assert_same_outcome, outcome
from processes import heeds_signals
from safetensors.torch import save_file
from struck import Run, Strike, command_of, endings
from train_helpers import text_settings

from gatedrnn.data import load_task
from gatedrnn.errors import UsageError
from gatedrnn.models import GatedRNNCache
from gatedrnn.train import loop
from gatedrnn.train.folder import read_metrics
from gatedrnn.train.model import build_config
from gatedrnn.train.objective import NextToken, rows_of
from gatedrnn.train.settings import RunSettings

FLAGS = (
    "--cell mingru,lstm --hidden-size 32 --layers 2 --embedding-size 16 --batch-size 8 --length 16 --dropout 0 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 1 --test-fraction 0.1 --block=false --epochs 2"
).split()
SHARED = {"ddp": [], "fsdp2": ["--shard"]}


def rows_of_steps(folder: Path) -> dict[int, list]:
    """Of each step, as it was done last: the rows that all processes have read, in the order of processes."""
    found: dict[int, tuple[int, list]] = {}
    for path in sorted(folder.glob("rows-*-*")):
        attempt = int(path.name.split("-")[1])
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            before = found.get(step, (attempt, []))
            found[step] = (attempt, before[1] + rows if before[0] == attempt else rows)
    return {step: rows for step, (_, rows) in found.items()}


def losses(output: Path) -> torch.Tensor:
    return torch.tensor([line["loss"] for line in read_metrics(output / "metrics.jsonl") if "loss" in line])


@pytest.fixture(scope="module")
def shared(book: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a run alone, of one that two processes share, and of runs that 4, 1 and 2 processes shared in turn."""
    base, runs = tmp_path_factory.mktemp("shared"), []
    folders = {name: base / name for name in ("alone", "two", *SHARED)}
    for name, processes in (("alone", 1), ("two", 2)):
        begin = ["train", "--train-file", book, *FLAGS, "--output", folders[name] / "run"]
        runs.append(Run(begin, processes=processes, rows=folders[name] / "rows-0"))
    for how, flags in SHARED.items():
        begin = ["train", "--train-file", book, *FLAGS, *flags, "--output", folders[how] / "run"]
        resume, rows = ["train", "--resume", folders[how] / "run"], folders[how] / "rows"
        runs.append(Run(begin, Strike(times=32, rank=3), 4, Path(f"{rows}-0")))
        runs.append(Run(resume, Strike(times=32), 1, Path(f"{rows}-1")))
        runs.append(Run(resume, None, 2, Path(f"{rows}-2")))
    for folder in folders.values():
        folder.mkdir()
    alone, two, *struck = endings(*runs)
    assert alone == [0] and two == [0, 0]
    for first, second, third in (struck[:3], struck[3:]):  # an error may end who had lost another
        assert (first[3], *second, *third) == (-9, -9, 0, 0) and 0 not in first
    return folders


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["two", *SHARED])
def test_processes_learn_what_one_does_whatever_their_number_is_in_turn(how: str, shared: dict[str, Path]) -> None:
    alone, several = shared["alone"], shared[how]
    steps = [line["step"] for line in read_metrics(several / "run" / "metrics.jsonl") if "loss" in line]
    assert steps == list(range(1, 112 + 1)), "a step was left out, or done twice"
    assert rows_of_steps(several) == rows_of_steps(alone), "a token was left out, or read twice"
    assert torch.allclose(losses(several / "run"), losses(alone / "run"), rtol=1e-4)
    one, found = outcome(alone / "run"), outcome(several / "run")
    for name in ("test_loss", "validation_loss"):
        assert found[2][name] == pytest.approx(one[2][name], rel=1e-4)
    assert found[0].keys() == one[0].keys()
    assert all(torch.allclose(weight, found[0][name], atol=1e-3) for name, weight in one[0].items())
    assert json.loads((several / "run" / "result.json").read_text())["measured"]["processes"] == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_starts_lost_processes_again_and_the_run_goes_on_to_the_same_bits(book, shared, tmp_path) -> None:
    """The first of them is lost, which holds the lock. They meet at a new place each time: at torchrun's own, one
    of them may find there where another was listening before."""
    elastic = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "--max-restarts", "3"]
    begin = ["train", "--train-file", book, *FLAGS, "--output", tmp_path / "run", "--wait"]
    command = [sys.executable, *elastic, *command_of(Run(begin, Strike(times=22), 2))]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, preexec_fn=heeds_signals)
    assert done.returncode == 0 and "exitcode: -9" in done.stderr, done.stderr
    assert_same_outcome(shared["two"] / "run", tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_evaluation_that_processes_share_has_the_scores_of_one(heat: Path, tmp_path: Path) -> None:
    flags = "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --threads 1 --dropout 0 --total-steps 20"
    flags += " --head-dropout 0 --embedding-dropout 0"
    roles = "--target heat --series-column place --time-column when --horizon 6 --season 12 --context 24".split()
    tasks = {"digits": [], "forecast": ["--train-file", heat, *roles]}
    runs = [
        Run(["train", "--task", task, *flags.split(), *data, "--output", tmp_path / f"{task}-{n}"], processes=n)
        for task, data in tasks.items()
        for n in (1, 2)
    ]
    assert endings(*runs) == [[0], [0, 0]] * 2
    for task in tasks:
        one, two = (json.loads((tmp_path / f"{task}-{n}" / "result.json").read_text()) for n in (1, 2))
        scores = [name for name in one if name.startswith(("test_", "validation_"))]
        assert scores and all(two[name] == pytest.approx(one[name], rel=1e-3, abs=2e-3) for name in scores)


def test_fewer_rows_than_processes_are_refused(book: Path, tmp_path: Path, monkeypatch) -> None:
    class Many:
        num_processes = 9

    monkeypatch.setattr(loop, "Accelerator", lambda **_: Many())
    with pytest.raises(UsageError, match="--batch-size 8: 9 processes share it by rows"):
        loop.run(text_settings(book), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_an_earlier_version_goes_on_whatever_its_number_of_processes(book: Path) -> None:
    settings = text_settings(book)
    assert RunSettings.from_flat({**settings.flat(), "processes": 2}) == settings


@pytest.mark.parametrize(("before", "now"), [(2, 4), (3, 2), (1, 3), (2, 1)])
def test_states_of_lanes_are_shared_out_anew(before: int, now: int, book: Path, tmp_path: Path) -> None:
    settings = text_settings(book)
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
