"""A run that is stopped, however, ends with the same bits as one that is not."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
import yaml
from accelerate import PartialState
from outcomes import Killed, assert_same_outcome, killed_at, outcome
from safetensors.torch import load_file
from train_helpers import digits_run

from gatedrnn.data import load_task
from gatedrnn.errors import CheckpointDamaged, FolderTaken, Interrupted, NonFiniteLoss
from gatedrnn.train import checkpoint
from gatedrnn.train.folder import MetricsLog, RunFolder, read_metrics
from gatedrnn.train.interrupt import Ended, ended_by_signals
from gatedrnn.train.loop import Progress, Trainer, run
from gatedrnn.train.result import RunResult

ALONE = PartialState()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(digits_run(), folder)
    return folder


@pytest.mark.parametrize("step", [1, 7, 10, 21, 22, 41])
def test_a_run_stopped_at_any_step_ends_with_the_same_bits(step: int, undisturbed: Path, tmp_path: Path) -> None:
    # 21 steps an epoch, a checkpoint every 7: before the first, on one, between two, at and after an epoch's end.
    with pytest.raises(Killed):
        run(digits_run(), tmp_path / "run", killed_at(step))
    run(digits_run(), tmp_path / "run")
    assert_same_outcome(undisturbed, tmp_path / "run")


def test_a_finished_run_is_not_run_again(undisturbed: Path) -> None:
    before = (undisturbed / "result.json").stat().st_mtime_ns
    run(digits_run(), undisturbed, killed_at(1))
    assert (undisturbed / "result.json").stat().st_mtime_ns == before


def test_a_folder_with_another_configuration_is_refused_and_kept(undisturbed: Path) -> None:
    before = outcome(undisturbed)[2]
    with pytest.raises(FolderTaken, match=r"seed: 0 there, 1 here"):
        run(digits_run(seed=1), undisturbed)
    assert outcome(undisturbed)[2] == before


def test_a_run_begun_before_a_setting_and_before_manifests_is_taken_up(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "run")
    for manifest in (tmp_path / "run").rglob("manifest.json"):
        manifest.unlink()
    config = tmp_path / "run" / "config.yaml"
    whole = config.read_text().split("\n", 1)[1]
    config.write_text(whole.replace("beta2: 0.999\n", ""))
    assert config.read_text() != whole
    run(digits_run(), tmp_path / "run", killed_at(1))
    config.write_text(whole.replace("beta2: 0.999\n", "beta2: much\n"))
    with pytest.raises(FolderTaken, match=r"beta2: 'much' there, 0.999 here"):
        run(digits_run(), tmp_path / "run")


def test_config_yaml_holds_the_whole_run(undisturbed: Path) -> None:
    flat = yaml.safe_load((undisturbed / "config.yaml").read_text())
    assert type(digits_run()).from_flat(flat) == digits_run()


@pytest.mark.parametrize(
    "schedule", ["plateau", *(pytest.param(name, marks=pytest.mark.slow) for name in ("constant", "linear"))]
)
def test_every_schedule_resumes_to_the_same_bits(schedule: str, tmp_path: Path) -> None:
    settings = digits_run(schedule=schedule, patience=0, epochs=4, learning_rate=0.05)
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(66))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("cell", ["lstm-peephole", "gru", "mingru"])
def test_a_run_that_drops_parts_of_its_layers_resumes_to_the_same_bits(cell: str, tmp_path: Path) -> None:
    whole = digits_run(cell, epochs=1)
    dropped = {"bidirectional": True, "zoneout": 0.1, "input_dropout": 0.1, "state_dropout": 0.1}
    settings = whole.model_copy(update={"model": whole.model.model_copy(update=dropped)})
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(10))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def test_another_seed_gives_other_weights(undisturbed: Path, tmp_path: Path) -> None:
    run(digits_run(seed=1), tmp_path / "run")
    ours, theirs = outcome(undisturbed)[0], outcome(tmp_path / "run")[0]
    assert not torch.equal(ours["classifier.weight"], theirs["classifier.weight"])


def test_a_damaged_checkpoint_is_named_and_refused(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(digits_run(), tmp_path / "run", killed_at(10))
    (weights,) = (tmp_path / "run").glob("checkpoint/step-*/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointDamaged, match=r"step-00000007.*model\.safetensors does not match"):
        run(digits_run(), tmp_path / "run")


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
        run(digits_run(), tmp_path / "run", poison)
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
        run(digits_run(), tmp_path / "run", overflowing)
    assert seen["finite"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_saves_and_goes_on_to_the_same_bits(number, undisturbed: Path, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == 9:
            os.kill(os.getpid(), number)

    # A suite that was started in the background ignores some of them, and a run then does too.
    outside, before = signal.signal(number, signal.default_int_handler), signal.getsignal(number)
    try:
        with pytest.raises(Interrupted, match="stopped at step 10") as interrupted:
            run(digits_run(), tmp_path / "run", interrupt)
        assert interrupted.value.signal_number == number and signal.getsignal(number) == before
    finally:
        signal.signal(number, outside)
    run(digits_run(), tmp_path / "run")
    assert_same_outcome(undisturbed, tmp_path / "run")


def test_a_signal_that_is_ignored_stays_ignored(undisturbed: Path, tmp_path: Path) -> None:
    """As nohup has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run(digits_run(), tmp_path / "run", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_same_outcome(undisturbed, tmp_path / "run")


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
    settings = digits_run(epochs=6, learning_rate=0.05, schedule="constant")
    result = run(settings, tmp_path / "run")
    kept = result.scores["validation"]
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation_accuracy" in line]
    assert kept.accuracy == max(line["validation_accuracy"] for line in lines)
    best = next(line for line in lines if line["step"] == result.best_step)
    assert best["validation_accuracy"] == kept.accuracy
    assert best["validation_loss"] == kept.loss


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_bfloat16_trains_as_float32_does_and_keeps_its_weights_in_float32(cell: str, tmp_path: Path) -> None:
    scores = {}
    for precision in ("float32", "bfloat16"):
        settings = digits_run(cell, precision=precision, epochs=10, learning_rate=0.02)
        scores[precision] = run(settings, tmp_path / precision).scores["validation"].loss
    weights = load_file(tmp_path / "bfloat16" / "model" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert scores["bfloat16"] != scores["float32"], "nothing ran in bfloat16"
    assert scores["bfloat16"] == pytest.approx(scores["float32"], rel=0.3)


def test_accuracy_and_loss_are_those_of_a_plain_computation(undisturbed: Path) -> None:
    from gatedrnn.models import GatedRNNForSequenceClassification

    model = GatedRNNForSequenceClassification.from_pretrained(undisturbed / "model").eval()
    test = load_task(digits_run().data).evaluation["test"]
    with torch.no_grad():
        logits = torch.cat([model(input_values=torch.tensor(x)[None]).logits for x in test.inputs])
    labels = torch.tensor(test.labels)
    result = json.loads((undisturbed / "result.json").read_text())
    assert result["test_accuracy"] == int((logits.argmax(1) == labels).sum()) / len(labels)
    assert result["test_loss"] == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), rel=1e-5)
    assert sum(map(sum, result["confusion"]["test"])) == len(labels)
    assert RunFolder(undisturbed).finished() == RunResult.model_validate(result)
