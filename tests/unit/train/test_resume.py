"""A run that is stopped, however, ends with the same bits as one that is not."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from accelerate import PartialState
from finished import copy_of
from outcomes import Killed, assert_same_outcome, killed_at
from safetensors.torch import load_file
from train_helpers import digits_settings

from gatedrnn.data import load_task
from gatedrnn.errors import CheckpointDamaged, FolderTaken, Interrupted, NonFiniteLoss
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.train import checkpoint
from gatedrnn.train.folder import MetricsLog, RunFolder, read_metrics
from gatedrnn.train.interrupt import Ended, ended_by_signals
from gatedrnn.train.loop import Progress, Trainer, run
from gatedrnn.train.result import RunResult

ALONE = PartialState()
SIGNALS = {9: signal.SIGINT, 16: signal.SIGTERM, 30: signal.SIGHUP}
"""By the step at which one comes."""


def test_a_run_stopped_again_and_again_ends_with_the_same_bits(digits_run: Path, tmp_path: Path) -> None:
    """21 steps an epoch, a checkpoint every 7: before the first, on one, between two, at and after an epoch's end.

    The whole run was begun by the command, its settings in a file."""
    for step in (1, 7, 10, 21, 22, 41):
        with pytest.raises(Killed):
            run(digits_settings(), tmp_path / "run", killed_at(step))
    run(digits_settings(), tmp_path / "run")
    assert_same_outcome(digits_run, tmp_path / "run")


def test_a_finished_run_is_not_run_again_and_another_configuration_is_refused(digits_run: Path, tmp_path: Path) -> None:
    folder = copy_of(digits_run, tmp_path)
    run(digits_settings(), folder, killed_at(1))
    with pytest.raises(FolderTaken, match=r"seed: 0 there, 1 here"):
        run(digits_settings(seed=1), folder)
    assert_same_outcome(digits_run, folder)


def test_a_run_begun_before_a_setting_and_before_manifests_is_gone_on_with(digits_run: Path, tmp_path: Path) -> None:
    folder = copy_of(digits_run, tmp_path)
    for manifest in folder.rglob("manifest.json"):
        manifest.unlink()
    config = folder / "config.yaml"
    whole = config.read_text().split("\n", 1)[1]
    config.write_text(whole.replace("beta2: 0.999\n", ""))
    assert config.read_text() != whole
    run(digits_settings(), folder, killed_at(1))
    config.write_text(whole.replace("beta2: 0.999\n", "beta2: much\n"))
    with pytest.raises(FolderTaken, match=r"beta2: 'much' there, 0.999 here"):
        run(digits_settings(), folder)


def test_config_yaml_holds_the_whole_run(digits_run: Path) -> None:
    flat = yaml.safe_load((digits_run / "config.yaml").read_text())
    assert type(digits_settings()).from_flat(flat) == digits_settings()


@pytest.mark.parametrize("cell", ["lstm-peephole", "gru", "mingru"])
def test_a_run_that_drops_parts_of_its_layers_resumes_to_the_same_bits(cell: str, tmp_path: Path) -> None:
    whole = digits_settings(cell, total_steps=9, checkpoint_every=4)
    dropped = {"bidirectional": True, "zoneout": 0.1, "input_dropout": 0.1, "state_dropout": 0.1}
    settings = whole.model_copy(update={"model": whole.model.model_copy(update=dropped)})
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(5))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def test_initialisation_follows_from_the_seed(tmp_path: Path) -> None:
    first, again, other = (
        Trainer(digits_settings(seed=seed), load_task(digits_settings().data), RunFolder(tmp_path)).bare.state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


def test_a_damaged_checkpoint_is_named_and_refused(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(digits_settings(), tmp_path / "run", killed_at(10))
    (weights,) = (tmp_path / "run").glob("checkpoint/step-*/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointDamaged, match=r"step-00000007.*model\.safetensors does not match"):
        run(digits_settings(), tmp_path / "run")


def test_an_older_whole_checkpoint_is_taken_where_the_newest_is_damaged(tmp_path: Path) -> None:
    for step in (1, 2):
        folder = tmp_path / f"kept-{step}"
        checkpoint.save(folder, step, lambda into: (into / "weights").write_text("whole"), ALONE)
        (folder / f"step-{step:08d}").rename(tmp_path / f"step-{step:08d}")
    (tmp_path / "step-00000002" / "weights").write_text("torn")
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000001"


@pytest.mark.parametrize("moment", ["while writing", "before the rename"])
def test_a_kill_while_saving_leaves_the_checkpoint_before(moment: str, tmp_path: Path, monkeypatch) -> None:
    checkpoint.save(tmp_path, 1, lambda into: (into / "weights").write_text("one"), ALONE)

    def write(into: Path) -> None:
        (into / "weights").write_text("tw")
        if moment == "while writing":
            raise Killed

    def no_rename(self: Path, target: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "before the rename":
            patch.setattr(Path, "rename", no_rename)
        with pytest.raises(Killed):
            checkpoint.save(tmp_path, 2, write, ALONE)
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000001"
    checkpoint.save(tmp_path, 3, lambda into: (into / "weights").write_text("three"), ALONE)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_a_half_written_line_is_cut_from_the_log(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (5, 10, 15):
        log.append(step=step, loss=1.0)
    with log.path.open("a") as file:
        file.write('{"step": 2')
    log.cut_back(10)
    assert [line["step"] for line in read_metrics(log.path)] == [5, 10]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path: Path, monkeypatch) -> None:
    def poison(progress: Progress) -> None:
        if progress.step == 9:
            monkeypatch.setattr("gatedrnn.train.loop.rows_of", poisoned)

    def poisoned(batch, *_):
        return {**batch, "input_values": batch["input_values"] * float("nan")}

    with pytest.raises(NonFiniteLoss, match=r"nan at step 10; checkpoint step-00000007 is kept"):
        run(digits_settings(), tmp_path / "run", poison)
    assert checkpoint.newest(tmp_path / "run" / "checkpoint") is not None


def test_a_gradient_that_is_not_finite_reaches_no_weight(tmp_path: Path, monkeypatch) -> None:
    class Overflow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("inf")

    forward = torch.nn.Linear.forward
    seen = {}

    def overflowing(progress: Progress) -> None:
        if progress.step == 6:
            monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: Overflow.apply(forward(self, x)))

    def weights_after(self: Trainer, what: str, value: float) -> None:
        seen["finite"] = all(p.isfinite().all() for p in self.model.parameters())
        check(self, what, value)

    check = Trainer._demand_finite
    monkeypatch.setattr(Trainer, "_demand_finite", weights_after)
    with pytest.raises(NonFiniteLoss, match=r"norm of the gradient is (nan|inf) at step 7"):
        run(digits_settings(), tmp_path / "run", overflowing)
    assert seen["finite"]


def test_a_signal_ends_the_step_saves_and_goes_on_to_the_same_bits(digits_run: Path, tmp_path: Path) -> None:
    """One that is ignored stays so, as nohup has it."""

    def send(progress: Progress) -> None:
        if progress.step in SIGNALS:
            os.kill(os.getpid(), SIGNALS[progress.step])

    for step, number in SIGNALS.items():
        # A suite that was started in the background ignores some of them, and a run then does too.
        outside, before = signal.signal(number, signal.default_int_handler), signal.getsignal(number)
        try:
            with pytest.raises(Interrupted, match=f"stopped at step {step + 1}") as interrupted:
                run(digits_settings(), tmp_path / "run", send)
            assert interrupted.value.signal_number == number and signal.getsignal(number) == before
        finally:
            signal.signal(number, outside)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run(digits_settings(), tmp_path / "run", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_same_outcome(digits_run, tmp_path / "run")


def test_a_signal_in_the_middle_of_a_class_statement_ends_the_command_too() -> None:
    """An import under way is full of them, and Python 3.11 turns what is raised there into a RuntimeError."""

    class Interrupting:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Ended) as ended, ended_by_signals():

        class _Owner:
            attribute = Interrupting()

    assert ended.value.signal_number == signal.SIGTERM


def test_the_best_weights_by_validation_are_the_ones_kept(tmp_path: Path) -> None:
    settings = digits_settings(total_steps=24, validate_every=3, learning_rate=1.0, schedule="constant")
    result = run(settings, tmp_path / "run")
    kept = result.scores["validation"]
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation_accuracy" in line]
    assert kept.accuracy == max(line["validation_accuracy"] for line in lines)
    best = next(line for line in lines if line["step"] == result.best_step)
    assert best["validation_accuracy"] == kept.accuracy and best["validation_loss"] == kept.loss
    assert result.best_step < result.steps == 24, "the last are the best: choose another learning rate"


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_bfloat16_trains_as_float32_does_and_keeps_its_weights_in_float32(cell: str, tmp_path: Path) -> None:
    loss = {}
    for precision in ("float32", "bfloat16"):
        settings = digits_settings(cell, precision=precision, total_steps=40, learning_rate=0.02)
        loss[precision] = run(settings, tmp_path / precision).scores["validation"].loss
    weights = load_file(tmp_path / "bfloat16" / "model" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert loss["bfloat16"] != loss["float32"], "nothing ran in bfloat16"
    assert loss["bfloat16"] == pytest.approx(loss["float32"], rel=0.1)


def test_accuracy_and_loss_are_those_of_a_plain_computation(digits_run: Path) -> None:
    model = GatedRNNForSequenceClassification.from_pretrained(digits_run / "model").eval()
    test = load_task(digits_settings().data).evaluation["test"]
    with torch.no_grad():
        logits = model(input_values=torch.tensor(np.stack(test.inputs))).logits
    labels = torch.tensor(test.labels)
    result = json.loads((digits_run / "result.json").read_text())
    assert result["test_accuracy"] == int((logits.argmax(1) == labels).sum()) / len(labels)
    assert result["test_loss"] == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), rel=1e-5)
    assert sum(map(sum, result["confusion"]["test"])) == len(labels)
    assert RunFolder(digits_run).finished() == RunResult.model_validate(result)
