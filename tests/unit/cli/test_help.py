"""The help page of a command that takes a task: its defaults are those of a run to which nothing else is given."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from commands import exit_code, outcome, printed

from gatedrnn.data import LANGUAGE, TASKS


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, str]:
    """The defaults on a help page, by flag."""
    monkeypatch.setenv("COLUMNS", "1000")
    lines = printed(capsys, *arguments, "--help-all").splitlines()
    found = (re.match(r"│ --([a-z0-9-]+) .*\[default: (.*)\]\s*│$", line) for line in lines)
    return {match[1].replace("-", "_"): match[2] for match in found if match}


def recorded(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """What config.yaml of a run holds to which these arguments are given."""
    settings = []

    def run(asked: Any, *_: Any, **__: Any) -> None:
        settings.append(asked.flat())
        raise KeyboardInterrupt

    monkeypatch.setattr("gatedrnn.train.loop.run", run)
    assert exit_code("train", *arguments) == 130
    return settings[0]


def as_written(value: str) -> Any:
    """`0.01`, `False` and `()` as Python has them; a word as it is."""
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value


OFTEN = (LANGUAGE, "digits", "s5", "forecast")


@pytest.mark.parametrize("task", [*OFTEN, *(pytest.param(t, marks=pytest.mark.slow) for t in TASKS if t not in OFTEN)])
def test_help_shows_what_a_run_of_the_task_records(
    task: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    page = shown(capsys, monkeypatch, "train", "--task", task)
    config = recorded(monkeypatch, "--task", task)
    assert page.pop("task") == LANGUAGE, "the task that is trained where none is named"
    assert (page.pop("wait"), page.pop("workers")) == ("False", "0"), "of the process, not of the run"
    assert page.keys() == config.keys() - {"task"}
    assert {name: as_written(value) for name, value in page.items()} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name != "task"
    }


@pytest.mark.slow
def test_without_a_task_help_shows_the_defaults_of_the_task_that_is_trained_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(capsys, monkeypatch, "train") == shown(capsys, monkeypatch, "train", f"--task={LANGUAGE}")


EXPERT = ("beta2", "zoneout", "clip", "split-seed")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "train"])
def test_expert_flags_are_shown_on_demand_and_flags_of_other_tasks_never(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = (printed(capsys, command, "--task", "digits", flag) for flag in ("--help", "--help-all"))
    assert max(map(len, whole.splitlines())) <= 80
    for flag in EXPERT:
        assert f"--{flag} " not in short and f"--{flag} " in whole
    for page in (short, whole):
        assert "--steps " in page and "--permuted" not in page and "--hub " not in page
        assert all(f"─ {group} ─" in page for group in ("Data", "Model", "Training", "Run"))


def test_help_leaves_out_what_a_task_has_no_use_for(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "train", "--task", "forecast", "--help")
    assert not any(f"--{flag} " in page for flag in ("pooling", "bidirectional", "token-dropout", "label-smoothing"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--task forecast --pooling max", "--pooling is of classifiers; leave it out with forecast"),
        ("--task parity --permuted", "gatedrnn: --permuted belongs to mnist, not to parity; name one with --task\n"),
        ("--task digist --help", "Did you mean 'digits'"),
        ("--config wrong.yaml", "--length belongs to probes and language-model, not to digits"),
    ],
)
def test_a_flag_of_another_task_is_refused_by_a_sentence(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.yaml").write_text("task: digits\nlength: 30\n")
    code, error = outcome(capsys, "train", *arguments.split())
    assert code == 2 and said in error


def test_a_cell_has_the_options_of_the_recipe_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert recorded(monkeypatch, "--task", "mnist")["cell"] == "mingru:activation=identity"
    asked = recorded(monkeypatch, "--task", "mnist", "--cell", "mingru:activation=g,lstm", "--layers", "2")
    assert asked["cell"] == "mingru:activation=g,lstm"


def test_a_file_of_an_earlier_version_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its options of cells are flags of all, and it has the defaults of other tasks."""
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(
        "task: digits\ncell: gru,lstm\nlayers: 2\nreset_before: true\nkeep: false\n"
        "length: 20\ntest_lengths: []\nsteps: 64\n"
    )
    found = recorded(monkeypatch, "--config", "old.yaml")
    assert found["cell"] == "gru:reset_after=false,lstm" and found["steps"] == 64 and "length" not in found


def test_help_takes_the_task_from_a_file_of_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("task: parity\n")
    page = shown(capsys, monkeypatch, "compare", "--config", str(config))
    assert page["hidden_size"] == "16" and page["length"] == "40"
