"""A run that is stopped, however, ends with the same bits as one that is not; every file of it and of the token cache,
damaged in each way, is named, refused or made again; on a full disk what was whole before is still whole.
"""

import json
import os
import shutil
import signal
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from accelerate import PartialState
from commands import call, outcome
from finished import contents, copy_of
from outcomes import Killed, assert_same_outcome, killed_at
from refusals import refused
from safetensors.torch import load_file, save_file
from support.disk import small_files
from train_helpers import digits_settings, text_settings

from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder
from gatedrnn.errors import Damaged, FolderTaken, Interrupted, NonFiniteLoss
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.models.modeling import KernelLinear
from gatedrnn.processes import Ended, ended_by_signals
from gatedrnn.records import sync, write_whole
from gatedrnn.training import checkpoint
from gatedrnn.training.folder import MetricsLog, RunFolder, read_metrics
from gatedrnn.training.loop import Trainer, run
from gatedrnn.training.result import RunResult
from gatedrnn.training.sample import load_language_model

ALONE = PartialState()
SIGNALS = {9: signal.SIGINT, 16: signal.SIGTERM, 30: signal.SIGHUP}
"""The signals by the step at which each comes."""


def test_a_run_stopped_again_and_again_ends_with_the_same_bits_and_is_not_run_again(digits_run, tmp_path):
    """21 steps an epoch, a checkpoint every 7: before the first, on one, between two, at and after an epoch's end.

    The whole run was begun by the command, its settings in a file."""
    folder = tmp_path / "run"
    for step in (1, 7, 10, 21, 22, 41):
        with pytest.raises(Killed):
            run(digits_settings(), folder, killed_at(step))
    run(digits_settings(), folder)
    assert_same_outcome(digits_run, folder)
    run(digits_settings(), folder, killed_at(1))
    refused(FolderTaken, r"seed: 0 there, 1 here", run, digits_settings(seed=1), folder)
    assert_same_outcome(digits_run, folder)


def test_a_run_begun_before_a_setting_and_before_manifests_is_gone_on_with(digits_run, tmp_path):
    folder = copy_of(digits_run, tmp_path)
    for manifest in folder.rglob("manifest.json"):
        manifest.unlink()
    config = folder / "config.yaml"
    whole = config.read_text().split("\n", 1)[1]
    config.write_text(whole.replace("beta2: 0.999\n", ""))
    assert config.read_text() != whole
    run(digits_settings(), folder, killed_at(1))
    config.write_text(whole.replace("beta2: 0.999\n", "beta2: much\n"))
    refused(FolderTaken, r"beta2: 'much' there, 0.999 here", run, digits_settings(), folder)


@pytest.mark.parametrize("cell", ["lstm-peephole", "gru", "mingru"])
def test_a_run_that_drops_parts_of_its_layers_resumes_to_the_same_bits(cell, tmp_path):
    whole = digits_settings(cell, total_steps=9, checkpoint_every=4)
    dropped = {"bidirectional": True, "zoneout": 0.1, "input_dropout": 0.1, "state_dropout": 0.1}
    settings = whole.model_copy(update={"model": whole.model.model_copy(update=dropped)})
    run(settings, tmp_path / "whole")
    with pytest.raises(Killed):
        run(settings, tmp_path / "killed", killed_at(5))
    run(settings, tmp_path / "killed")
    assert_same_outcome(tmp_path / "whole", tmp_path / "killed")


def test_initialisation_follows_from_the_seed(tmp_path):
    data, folder = load_task(digits_settings().data), RunFolder(tmp_path)
    trainers = [Trainer(digits_settings(seed=seed), data, folder) for seed in (0, 0, 1)]
    first, again, other = (trainer.bare.state_dict() for trainer in trainers)
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


def test_an_older_whole_checkpoint_is_taken_for_a_damaged_one_and_a_half_written_line_is_cut_from_the_log(tmp_path):
    for step in (1, 2):
        folder = tmp_path / f"kept-{step}"
        checkpoint.save(folder, step, lambda into: (into / "weights").write_text("whole"), ALONE)
        (folder / f"step-{step:08d}").rename(tmp_path / f"step-{step:08d}")
    (tmp_path / "step-00000002" / "weights").write_text("torn")
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000001"
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (5, 10, 15):
        log.append(step=step, loss=1.0)
        if step == 10:
            log.keep(tmp_path / "step-00000001")
    with log.path.open("a") as file:
        file.write('{"step": 2')
    log.go_back(tmp_path / "step-00000001")
    assert [line["step"] for line in read_metrics(log.path)] == [5, 10]


@pytest.mark.parametrize("moment", ["while writing", "before the rename"])
def test_a_kill_while_saving_leaves_the_checkpoint_before(moment, tmp_path, monkeypatch):
    def killed(*_):
        raise Killed

    def write(into):
        (into / "weights").write_text("tw")
        if moment == "while writing":
            raise Killed

    checkpoint.save(tmp_path, 1, lambda into: (into / "weights").write_text("one"), ALONE)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if moment == "before the rename":
            patch.setattr(Path, "rename", killed)
        checkpoint.save(tmp_path, 2, write, ALONE)
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000001"
    checkpoint.save(tmp_path, 3, lambda into: (into / "weights").write_text("three"), ALONE)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_a_kill_while_older_checkpoints_are_removed_leaves_no_half_of_one(tmp_path, monkeypatch):
    def write(into):
        (into / "weights").write_text("one")
        (into / "moments").write_text("two")

    def killed_half_way(folder, ignore_errors=False):
        for file in list(folder.glob("*"))[:1]:
            file.unlink()
            raise Killed

    checkpoint.save(tmp_path, 1, write, ALONE)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(shutil, "rmtree", killed_half_way)
        checkpoint.save(tmp_path, 2, write, ALONE)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000001.removing", "step-00000002"}
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000002"
    checkpoint.save(tmp_path, 3, write, ALONE)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    def poisoned(batch, *_):
        return {**batch, "input_values": batch["input_values"] * float("nan")}

    def poison(progress):
        if progress.step == 9:
            monkeypatch.setattr("gatedrnn.training.loop.rows_of", poisoned)

    with pytest.raises(NonFiniteLoss, match=r"nan at step 10; checkpoint step-00000007 is kept"):
        run(digits_settings(), tmp_path / "run", poison)
    assert checkpoint.newest(tmp_path / "run" / "checkpoint") is not None


def test_a_gradient_that_is_not_finite_reaches_no_weight(tmp_path, monkeypatch):
    forward, check, seen = KernelLinear.forward, Trainer._check_finite, {}

    def overflowing(self, x):
        output = forward(self, x)
        output.register_hook(lambda gradient: gradient * float("inf"))
        return output

    def poison(progress):
        if progress.step == 6:
            monkeypatch.setattr(KernelLinear, "forward", overflowing)

    def weights_after(self, what, value):
        seen["finite"] = all(p.isfinite().all() for p in self.model.parameters())
        check(self, what, value)

    monkeypatch.setattr(Trainer, "_check_finite", weights_after)
    with pytest.raises(NonFiniteLoss, match=r"norm of the gradient is (nan|inf) at step 7"):
        run(digits_settings(), tmp_path / "run", poison)
    assert seen["finite"]


def test_a_signal_ends_the_step_saves_and_goes_on_to_the_same_bits(digits_run, tmp_path):
    """One that is ignored stays so, as nohup has it."""

    def send(progress):
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


def test_a_signal_in_the_middle_of_a_class_statement_ends_the_command_too():
    """An import under way is full of them, and Python 3.11 turns what is raised there into a RuntimeError."""

    class Interrupting:
        def __set_name__(self, owner, name):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Ended) as ended, ended_by_signals():

        class _Owner:
            attribute = Interrupting()

    assert ended.value.signal_number == signal.SIGTERM


def test_the_best_weights_by_validation_are_the_ones_kept(tmp_path):
    settings = digits_settings(total_steps=24, validate_every=3, learning_rate=1.0, schedule="constant")
    result = run(settings, tmp_path / "run")
    kept, lines = result.scores["validation"], read_metrics(tmp_path / "run" / "metrics.jsonl")
    found = {line["step"]: line["validation_accuracy"] for line in lines if "validation_accuracy" in line}
    assert kept.accuracy == max(found.values()) == found[result.best_step]
    assert kept.loss in [line.get("validation_loss") for line in lines if line["step"] == result.best_step]
    assert result.best_step < result.steps == 24, "the last are the best: choose another learning rate"


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_bfloat16_trains_as_float32_does_and_keeps_its_weights_in_float32(cell, tmp_path):
    loss = {}
    for precision in ("float32", "bfloat16"):
        settings = digits_settings(cell, precision=precision, total_steps=40, learning_rate=0.02)
        loss[precision] = run(settings, tmp_path / precision).scores["validation"].loss
    weights = load_file(tmp_path / "bfloat16" / "model" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert loss["bfloat16"] != loss["float32"], "nothing ran in bfloat16"
    assert loss["bfloat16"] == pytest.approx(loss["float32"], rel=0.1)


def test_accuracy_and_loss_are_those_of_a_plain_computation(digits_run):
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


DERIVED = {"report.html", "curves.svg", "samples.json"}
CONFIG_GONE = ("config.yaml", "deleted")


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {
    "truncated": truncate, "emptied": lambda path: path.write_bytes(b""), "flipped": flip, "deleted": Path.unlink
}  # fmt: skip


@pytest.fixture(scope="module")
def killed_run(book, tmp_path_factory):
    """`text_run`, killed between two checkpoints."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(Killed):
        run(text_settings(book), folder, killed_at(103))
    return folder


@pytest.mark.parametrize(("kind", "damage"), [
    pytest.param(kind, damage, marks=[pytest.mark.slow] * (kind == "killed" and damage in ("truncated", "emptied")))
    for kind in ("finished", "killed") for damage in DAMAGES
])  # fmt: skip
def test_no_damage_to_a_run_is_silent(kind, damage, book, text_run, killed_run, tmp_path, caplog):
    """The file is refused by name and nothing is changed, or it is named and the run ends with the same bits."""
    whole, gone_on_with = text_run if kind == "finished" else killed_run, set()
    for name in sorted(path.relative_to(whole) for path in contents(whole)):
        if name.name == "README.md":  # a model's card: nothing reads it, and it is there to be edited
            continue
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        folder = copy_of(whole, tmp_path)
        DAMAGES[damage](folder / name)
        before, said = contents(folder), "holds no run" if (name.name, damage) == CONFIG_GONE else name.name
        caplog.clear()
        try:
            run(text_settings(book), folder)
        except (Damaged, FolderTaken) as refused:
            assert said in str(refused) and "\n" not in str(refused)
            assert contents(folder) == before, "a refusal changed the folder"
        else:
            assert said in caplog.text
            assert_same_outcome(text_run, folder)
            gone_on_with.add(name.as_posix())
    unread = {"manifest.json"} if damage == "deleted" else set()
    assert gone_on_with == unread | (DERIVED if kind == "finished" else {"metrics.jsonl"})


@pytest.mark.slow
def test_what_is_made_of_other_records_is_made_again(book, text_run, tmp_path, caplog):
    folder = copy_of(text_run, tmp_path)
    for name in DERIVED:
        truncate(folder / name)
    call("train", "--resume", folder)
    assert all(f"{name}: has" in caplog.text for name in DERIVED)
    assert (folder / "samples.json").read_text() == (text_run / "samples.json").read_text()
    caplog.clear()
    run(text_settings(book), folder)
    assert caplog.text == ""


def test_a_damaged_model_is_opened_by_nothing_and_one_that_another_program_saved_needs_no_sums(text_run, tmp_path):
    folder = copy_of(text_run, tmp_path)
    for name, damage in product(("config.json", "model.safetensors", "tokenizer.json"), DAMAGES):
        whole = (folder / "model" / name).read_bytes()
        DAMAGES[damage](folder / "model" / name)
        for place in (folder, folder / "model"):
            refused(Damaged, name, load_language_model, place)
        (folder / "model" / name).write_bytes(whole)
    (folder / "model" / "README.md").write_text("a card of one's own")
    for part in load_language_model(folder / "model"):
        part.save_pretrained(tmp_path / "plain")
    load_language_model(tmp_path / "plain")


def test_a_setting_that_was_edited_is_refused_by_its_name_and_before_the_first_checkpoint_too(killed_run, tmp_path):
    folder, early = copy_of(killed_run, tmp_path), tmp_path / "early"
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.01", "learning_rate: 0.001"))
    edited = r"config.yaml: was changed since the run began \(learning_rate: 0.01 in its checkpoint, 0.001 now\)"
    refused(Damaged, edited, RunFolder(folder).settings)
    (folder / "manifest.json").unlink()  # the checkpoint knows its settings too
    refused(Damaged, edited, run, RunFolder(folder).settings(), folder)
    with pytest.raises(Killed):
        run(digits_settings(), early, killed_at(3))
    (early / "config.yaml").write_text((early / "config.yaml").read_text().replace("seed: 0", "seed: 1"))
    refused(Damaged, r"config\.yaml: was changed since the run began", run, digits_settings(), early)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_token_cache_is_made_again_with_a_line(damage, book, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def tokens():
        data = load_task(text_settings(book).data)
        return [lanes.stream.tokens.tolist() for lanes in (data.train, *data.evaluation.values())]

    synced = []
    monkeypatch.setattr("gatedrnn.data.token_cache.sync", lambda path: synced.append(path.name) or sync(path))
    whole = tokens()
    (entry,) = cache_folder().iterdir()
    assert {path.name for path in contents(entry) if path.name != "manifest.json"} <= {*synced}
    for path in contents(entry):
        DAMAGES[damage](path)
        caplog.clear()
        assert tokens() == whole
        assert f"{path.name} " in caplog.text and "the text is tokenised again" in caplog.text
    caplog.clear()
    assert tokens() == whole and not caplog.text
    entry.rename(entry.with_name(f"making-{entry.name}"))  # as a kill would leave it
    assert tokens() == whole and f"{entry.name}: is half-written; the text is tokenised again" in caplog.text
    assert list(cache_folder().iterdir()) == [entry], "a lock or something half-made was left"


LARGE = torch.zeros(1_000_000)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)  # torch keeps the file open that it could not write


WRITERS = {
    "model.safetensors": lambda into: save_file({"weight": LARGE}, into / "model.safetensors"),
    "optimizer.bin": lambda into: torch.save(LARGE, into / "optimizer.bin"),
    "settings.json": lambda into: write_whole(into / "settings.json", "x" * 4_000_000),
}


def test_a_step_is_saved_again_over_itself(tmp_path):
    for words in ("first", "second"):
        checkpoint.save(tmp_path, 1, lambda into, words=words: (into / "weights").write_text(words), ALONE)
    (kept,) = tmp_path.iterdir()
    assert (kept / "weights").read_text() == "second"


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_names_the_file_and_keeps_the_checkpoint_before(name, small_disk):
    checkpoint.save(small_disk, 1, lambda into: (into / "weights").write_text("whole"), ALONE)
    with pytest.raises(OSError, match="kept so far: step-00000001") as full:
        checkpoint.save(small_disk, 2, WRITERS[name], ALONE)
    assert Path(full.value.filename).name == name
    assert [path.name for path in small_disk.iterdir()] == ["step-00000001"], "what was half-written takes up space"
    assert checkpoint.newest(small_disk) == small_disk / "step-00000001"


def test_a_run_on_a_full_disk_ends_with_one_line_and_goes_on_to_the_same_bits(small_disk, tmp_path, capsys):
    settings = digits_settings(epochs=1).model_copy(update={"hidden_size": 512})
    run(settings, tmp_path / "whole")
    filler, config = small_disk / "filler", tmp_path / "config.yaml"
    filler.write_bytes(bytes(740_000))  # there is space for one checkpoint
    config.write_text(yaml.safe_dump(settings.flat()))
    code, said = outcome(capsys, "train", "--config", config, "--output", small_disk / "run")
    assert code == 1 and said.count("\n") == 1, said
    assert f"gatedrnn: {small_disk}/run/checkpoint/step-00000014/" in said and "MiB are free there" in said
    assert "kept so far: step-00000007" in said
    filler.unlink()
    shutil.copytree(small_disk / "run", tmp_path / "run")
    run(settings, tmp_path / "run")
    assert_same_outcome(tmp_path / "whole", tmp_path / "run")


def test_a_file_that_grows_past_what_is_allowed_is_named(digits_run, tmp_path, capsys):
    flags = ["--embedding-size", 512, "--total-steps", 2, "--output", tmp_path / "run"]
    with small_files(100_000):
        refused(OSError, r"large\.json", write_whole, tmp_path / "large.json", "x" * 200_000)
        assert list(tmp_path.iterdir()) == []
        code, error = outcome(capsys, "train", "--config", digits_run / "config.yaml", *flags)
    assert code == 1 and error.count("\n") == 1 and "optimizer.bin: could not be written" in error
    call("train", "--resume", tmp_path / "run")
