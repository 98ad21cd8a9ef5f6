"""Processes that share a run learn what one does, whatever their number in turn; killed at any moment, a run still ends
with the same bits; a folder has one writer: the second is told who is at work, or waits; a lock ends with its process.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from commands import call, heeds_signals, outcome
from outcomes import assert_same_outcome, checkpoint_step
from outcomes import outcome as left_by
from refusals import refused
from safetensors.torch import save_file
from struck import Run, Strike, command_of, endings
from train_helpers import text_settings

from gatedrnn import manifest
from gatedrnn.data import load_task
from gatedrnn.errors import CheckpointDamaged, Interrupted, InUse, UsageError
from gatedrnn.locks import LOCK, sole_writer
from gatedrnn.models import GatedRNNCache
from gatedrnn.tasks.language.objective import NextToken
from gatedrnn.training import loop
from gatedrnn.training.checkpoint import newest
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.model import build_config
from gatedrnn.training.objective import rows_of
from gatedrnn.training.result import Metric

FLAGS = (
    "--cell mingru,lstm --hidden-size 32 --layers 2 --embedding-size 16 --batch-size 8 --length 16 --dropout 0 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 1 --test-fraction 0.1 --block=false --epochs 2"
).split()


def rows_of_steps(folder):
    """The rows of each step, as it was done last: those that all processes have read, in the order of processes."""
    found: dict[int, tuple[int, list]] = {}
    for path in sorted(folder.glob("rows-*-*")):
        attempt = int(path.name.split("-")[1])
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            before = found.get(step, (attempt, []))
            found[step] = (attempt, before[1] + rows if before[0] == attempt else rows)
    return {step: rows for step, (_, rows) in found.items()}


def losses(output):
    return torch.tensor([line["loss"] for line in read_metrics(output / "metrics.jsonl") if "loss" in line])


@pytest.fixture(scope="module")
def shared(book, tmp_path_factory):
    """Folders of a run alone, of one that two processes share, and of one that 4, 1 and 2 processes shared in turn."""
    base, runs = tmp_path_factory.mktemp("shared"), []
    folders = {name: base / name for name in ("alone", "two", "in-turn")}
    for name, processes in (("alone", 1), ("two", 2)):
        begin = ["train", "--train-file", book, *FLAGS, "--output", folders[name] / "run"]
        runs.append(Run(begin, processes=processes, rows=folders[name] / "rows-0"))
    begin = ["train", "--train-file", book, *FLAGS, "--output", folders["in-turn"] / "run"]
    resume, rows = ["train", "--resume", folders["in-turn"] / "run"], folders["in-turn"] / "rows"
    runs.append(Run(begin, Strike(times=32, rank=3), 4, Path(f"{rows}-0")))
    runs.append(Run(resume, Strike(times=32), 1, Path(f"{rows}-1")))
    runs.append(Run(resume, None, 2, Path(f"{rows}-2")))
    for folder in folders.values():
        folder.mkdir()
    alone, two, first, second, third = endings(*runs)
    assert alone == [0] and two == [0, 0]
    assert (first[3], *second, *third) == (-9, -9, 0, 0) and 0 not in first  # an error may end who had lost another
    return folders


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["two", "in-turn"])
def test_processes_learn_what_one_does_whatever_their_number_is_in_turn(how, shared):
    alone, several = shared["alone"], shared[how]
    steps = [line["step"] for line in read_metrics(several / "run" / "metrics.jsonl") if "loss" in line]
    assert steps == list(range(1, 112 + 1)), "a step was left out, or done twice"
    assert rows_of_steps(several) == rows_of_steps(alone), "a token was left out, or read twice"
    assert torch.allclose(losses(several / "run"), losses(alone / "run"), rtol=1e-4)
    one, found = left_by(alone / "run"), left_by(several / "run")
    for name in ("test_loss", "validation_loss"):
        assert found[2][name] == pytest.approx(one[2][name], rel=1e-4)
    assert found[0].keys() == one[0].keys()
    assert all(torch.allclose(weight, found[0][name], atol=1e-3) for name, weight in one[0].items())
    assert json.loads((several / "run" / "result.json").read_text())["measured"]["processes"] == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_starts_lost_processes_again_and_the_run_goes_on_to_the_same_bits(book, shared, tmp_path):
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
def test_an_evaluation_that_processes_share_has_the_scores_of_one(heat, tmp_path):
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


def test_fewer_rows_than_processes_are_refused_and_an_earlier_run_goes_on_with_any(book, tmp_path, monkeypatch):
    class Many:
        num_processes = 9

    monkeypatch.setattr(loop, "Accelerator", lambda **_: Many())
    with pytest.raises(UsageError, match="--batch-size 8: 9 processes share it by rows"):
        loop.run(text_settings(book), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_folder_with_a_removed_setting_is_opened_and_refused_where_its_checkpoint_is_in_parts(book, tmp_path):
    settings, folder, stop = text_settings(book), tmp_path / "run", threading.Event()
    with pytest.raises(Interrupted):
        loop.run(settings, folder, lambda progress: stop.set(), stop)
    with (folder / "config.yaml").open("a") as config:
        config.write("shard: true\n")
    manifest.add(folder, "config.yaml")
    assert RunFolder(folder).settings() == settings
    checkpoint = newest(folder / "checkpoint")
    (checkpoint / "model.safetensors").rename(checkpoint / "__0_0.distcp")
    (checkpoint / manifest.MANIFEST).unlink()
    manifest.add(checkpoint, *(path.name for path in checkpoint.iterdir()))
    advice = "in parts, as the removed setting shard left them, .*; train again in another folder$"
    refused(CheckpointDamaged, advice, loop.run, settings, folder)


@pytest.mark.parametrize(("before", "now"), [(2, 4), (3, 2), (1, 3), (2, 1)])
def test_states_of_lanes_are_shared_out_anew(before, now, book, tmp_path):
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
        objective = NextToken(config, Metric(name="perplexity", higher_is_better=False), carries=True)
        objective.load(tmp_path, rank, now)
        assert isinstance(objective.carry, GatedRNNCache) and objective.carry.seen_tokens == 48
        found.append(objective.carry.tensors())
    for name, tensor in whole.items():
        assert torch.equal(torch.cat([own[name] for own in found]), tensor)


KILLED_FLAGS = (
    "--cell mingru,lstm --hidden-size 48 --layers 2 --embedding-size 32 --dropout 0.2 --batch-size 8 --length 16 "
    "--average 0.9 --threads 1 --checkpoint-every 5 --log-every 5 --test-fraction 0.1 --block=false --epochs"
).split()
SAVING = ("temporary written", "before the rename", "after the rename", "before the removal")
ENDS = ("model written", "sums written", "result written")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_and_signals_at_random_moments_change_no_bit(book, tmp_path):
    """SIGTERM, SIGHUP and Ctrl-C end a run after its step; while it is setting out they end it at once."""
    whole, disturbed, moments = tmp_path / "whole", tmp_path / "disturbed", random.Random(0)
    begin, resume = ["train", "--train-file", book, *KILLED_FLAGS, 12, "--output"], ["train", "--resume", disturbed]
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
def test_a_kill_at_each_point_of_saving_changes_no_bit(book, tmp_path):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    begin, resume = ["train", "--train-file", book, *KILLED_FLAGS, 1, "--output"], ["train", "--resume", disturbed]
    strikes = [Strike(point=point, times=3) for point in SAVING] + [Strike(point=point) for point in ENDS]
    struck = [Run(resume if turn else [*begin, disturbed], strike) for turn, strike in enumerate(strikes)]
    assert endings(*struck, Run(resume), Run([*begin, whole])) == [*[[-signal.SIGKILL]] * 7, [0], [0]]
    assert_same_outcome(whole, disturbed)


HOLD = """
import sys, time
from pathlib import Path
from gatedrnn.locks import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
WRITERS_FLAGS = "--cell mingru --hidden-size 16 --batch-size 8 --length 16 --threads 1 --checkpoint-every 5".split()


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


def stopped_once(condition, *arguments):
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
def test_of_two_trainings_of_one_folder_the_second_is_refused_or_waits(book, tmp_path, capsys):
    run = tmp_path / "run"
    begin = ["train", "--train-file", book, *WRITERS_FLAGS, "--epochs", 3, "--output"]
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
def test_a_comparison_that_a_signal_ends_is_gone_on_with_by_the_same_command(number, jobs, tmp_path, capsys):
    """Finished runs are kept, and the run under way has taken a checkpoint."""
    folder = tmp_path / "comparison"
    begin = [
        "compare", "--task", "digits", "--cells", "lstm", "mingru", "--seeds", 0, 1, "--hidden-size", 16, "--match",
        "layers", "--epochs", 3, "--threads", 1, "--checkpoint-every", 10, "--output", folder, "--jobs",
    ]  # fmt: skip

    def under_way():
        return [path for path in folder.glob("*/*/checkpoint") if not (path.parent / "result.json").exists()]

    first = stopped_once(lambda: under_way() and any(folder.glob("*/*/result.json")), *begin, jobs)
    code, said = outcome(capsys, *begin, jobs)
    assert code == 1 and f"comparison: is in use by process {first.pid} since" in said
    for one in (number, signal.SIGCONT):
        first.send_signal(one)
    _, said = first.communicate()
    assert first.returncode == 128 + number and "Traceback" not in said, said
    assert "goes on with it" in said.splitlines()[-1], said
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
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", script], env=environment, **piped) for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert all(process.returncode == 0 for process in both), outputs
    found = "".join(out for out, _ in outputs).split()
    assert found.count("made") == 1 and len(set(found) - {"made"}) == 1
    assert sum("waiting" in said for _, said in outputs) <= 1
