"""A command that a signal ends prints what works, in every part of it, and goes on to the same bits."""

import re
import shlex
import signal
from pathlib import Path

import pytest
from commands import call, exit_code, outcome
from safetensors.numpy import load_file

from gatedrnn import runs
from gatedrnn.cli.interrupted import AGAIN, SAME, now, of_run, of_study
from gatedrnn.errors import Interrupted
from gatedrnn.processes import Ended
from gatedrnn.study import experiment, plain
from gatedrnn.training import loop, report

FLAGS = "--task digits --hidden-size 4 --total-steps 2 --checkpoint-every 1 --validate-every 1 --threads 1".split()
PHASES = {
    "reading": (loop, "load_task"),
    "beginning": (loop.Trainer, "__init__"),
    "validating": (loop.Trainer, "_validate"),
    "testing": (loop.Trainer, "finish"),
    "sealing": (loop.RunFolder, "seal"),
    "baselines": (plain, "write_standing"),
    "report": (report, "write_report"),
}
"""Functions that are interrupted, by the part of the command."""


def printed_command(said):
    """The command that is printed as the one that goes on; None for the same one."""
    found = re.search(r"to go on: gatedrnn (.*?)(?:; to end it here|$)", said.strip())
    return found and shlex.split(found[1])


def weights_of(run):
    return {name: value.tobytes() for name, value in load_file(run / "model" / "model.safetensors").items()}


@pytest.fixture(scope="module")
def gc_paused(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gc_paused") / "run"
    call("train", *FLAGS, "--output", folder, "--baselines", "none")
    return weights_of(folder)


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_goes_on_by_what_was_printed_in_whatever_part_it_was_interrupted(phase, gc_paused, tmp_path, capsys):
    run, (owner, name) = tmp_path / "a run", PHASES[phase]
    arguments = ["train", *FLAGS, "--output", run, *(["--baselines", "plain"] if phase == "baselines" else [])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, lambda *_, **__: signal.raise_signal(signal.SIGTERM))
        code, said = outcome(capsys, *arguments)
    assert code == 143 and said.count("\n") == 1 and said.startswith("gatedrnn: ")
    command = printed_command(said)
    assert (command is None) == (phase == "reading") == said.endswith(f"; {AGAIN}\n")
    assert command is None or command[:3] == ["train", "--resume", str(run)]
    # `call` leaves baselines out where the command does not name them; a printed one names what was named.
    assert command is None or ("none" in command) == (phase != "baselines")
    call(*(command or arguments), *(["--baselines", "none"] if phase == "baselines" else []))
    assert weights_of(run) == gc_paused
    assert not any(run.glob("**/*writing*"))


def test_the_sentence_of_a_run_names_what_its_folder_does_not_hold(tmp_path):
    assert of_run(tmp_path, {}) == AGAIN
    (tmp_path / "config.yaml").touch()
    flags = {"baselines": "none", "workers": 2, "log": ("wandb", "mlflow"), "trust_code": True}
    said = f"train --resume {tmp_path} --baselines none --workers 2 --log wandb mlflow --trust-code"
    assert of_run(tmp_path, flags) == f"to go on: gatedrnn {said}"
    (tmp_path / "checkpoint" / "step-00000001").mkdir(parents=True)
    ends = f"; to end it here: gatedrnn {said.replace('--resume', '--finish')}"
    assert of_run(tmp_path, flags) == f"to go on: gatedrnn {said}{ends}"
    (tmp_path / "result.json").touch()
    assert of_run(tmp_path, flags) == f"to go on: gatedrnn {said}"


def test_a_run_that_was_to_be_ended_is_ended_by_the_same_command(tmp_path, capsys):
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "finish", lambda *_: signal.raise_signal(signal.SIGINT))
        assert exit_code("train", *FLAGS, "--output", run) == 130
        code, said = outcome(capsys, "train", "--finish", run)
    assert code == 130 and said.endswith(f"; {SAME}\n")
    call("train", "--finish", run)


def test_another_length_is_repeated_until_the_folder_holds_it(tmp_path, capsys):
    run, flags = tmp_path / "run", [*FLAGS, "--schedule", "constant", "--warmup", "0"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "finish", lambda *_: signal.raise_signal(signal.SIGINT))
        assert exit_code("train", *flags, "--output", run) == 130
        _, held = outcome(capsys, "train", "--resume", run, "--total-steps", 3)
        patch.setattr(loop, "with_length", lambda *_: signal.raise_signal(signal.SIGINT))
        _, unheld = outcome(capsys, "train", "--resume", run, "--total-steps", 4)
    assert printed_command(held) == ["train", "--resume", str(run), "--baselines", "none"]
    assert printed_command(unheld) == [*printed_command(held), "--total-steps", "4"]


def test_a_study_that_begins_with_a_removal_goes_on_without_it_once_all_is_removed(tmp_path):
    assert of_study(tmp_path, fresh=False, since=now()) == AGAIN
    old, new = (tmp_path / name / "comparison.yaml" for name in ("old", "new"))
    for file in (old, new):
        file.parent.mkdir()
        file.touch()
    assert of_study(tmp_path, fresh=False, since=now()) == SAME
    assert of_study(tmp_path, fresh=True, since=new.stat().st_mtime + 1) == AGAIN
    assert of_study(tmp_path, fresh=True, since=now()) == "the same command without --fresh goes on with it"


def test_a_comparison_and_commands_that_keep_nothing_say_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "compare", lambda *_, **__: signal.raise_signal(signal.SIGHUP))
    code, said = outcome(capsys, "compare", "--task", "digits", "--threads", 1, "--output", tmp_path / "one")
    assert (code, said) == (129, f"gatedrnn: interrupted; {AGAIN}\n")
    monkeypatch.setattr(runs.Run, "predict", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    (tmp_path / "config.json").touch()
    code, said = outcome(capsys, "predict", tmp_path, tmp_path / "a.csv", "--output", tmp_path / "b.csv")
    assert (code, said) == (130, f"gatedrnn: interrupted; {AGAIN}\n")


@pytest.mark.parametrize("error", [Ended(signal.SIGINT), Interrupted("stopped; kept")])
def test_from_python_the_traceback_ends_with_the_call_that_goes_on(error):
    for method, call_of in (("resume", "gatedrnn.load('run').resume()"), ("", "the same call")):
        with pytest.raises(type(error)) as raised, runs._noting(Path("run"), method):
            raise error
        assert raised.value.__notes__[-1] == f"To go on: {call_of}"
