"""The command line: bad input gets one clear line and the right exit code, and loses nothing."""

import inspect
from pathlib import Path

import pytest
from commands import exit_code, outcome
from finished import copy_of

from gatedrnn.cli.app import build_app
from gatedrnn.study.settings import CompareSettings
from gatedrnn.train import loop
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.recipes import RECIPES


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("compar", "Did you mean"),
        ("compare --cells lstm mingur", "did you mean 'mingru'"),
        ("compare --task digist", "Did you mean 'digits'"),
        ("compare --hiden-size 8", "Did you mean --hidden-size"),
        ("compare --epochs 0", "--epochs: Input should be greater than or equal to 1 (got '0')"),
        ("compare --jobs 0", "must be at least 1"),
        ("compare --early-stop 3", "--early-stop: all contenders take the same number of steps"),
        ("compare --steps 16", "--steps: must be 8 (rows) or 64 (pixels)"),
        ("compare --task text-classification", "needs --train-file"),
        ("compare --task text-classification --train-file nowhere.csv", "nowhere.csv: no such file"),
        ("compare --task ag_news --train-file only.csv", "give both --train-file and --test-file"),
        ("compare --task digits --cells mingru lstm --hidden-size 1 --match params --embedding-size 512", "within 5 %"),
        (
            "compare --train-file reviews.csv",
            "--train-file belongs to mnist, ag_news, text-classification, series-classification, series-regression, "
            "forecast and language-model, not to digits",
        ),
        ("compare --token-dropout 0.1", "digits has no unknown token"),
        ("compare --task digits --validation-fraction 0.001", "cannot be split"),
        ("compare --config .", ".: is a directory"),
        ("train --resume nowhere", "holds no run to resume"),
    ],
)
def test_bad_usage_gets_one_line_and_exit_code_2(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, error = outcome(capsys, *arguments.split())
    assert code == 2
    assert error.startswith("gatedrnn: ") and error.count("\n") == 1
    assert said in error
    assert list(tmp_path.iterdir()) == [], "something was left behind"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hiden_size: 8\n", "hiden_size"), ("cells: [lstm\nseeds: }", "while parsing"),
        # YAML 1.1 reads the bare word as a truth value.
        ("on: nowhere\ntask: digits\n", "--on nowhere: must be local, slurm, ray"),
    ],
)  # fmt: skip
def test_a_file_of_settings_is_refused_as_flags_are(content: str, said: str, capsys, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(content)
    code, error = outcome(capsys, "compare", "--config", config, "--output", tmp_path / "out")
    assert code == 2 and error.count("\n") == 1 and said in error


def test_settings_come_from_recipe_file_and_flags_in_this_order(tmp_path: Path, monkeypatch) -> None:
    config, asked = tmp_path / "mine.yaml", []
    config.write_text("task: digits\ncells: [lstm]\nseeds: [3]\nepochs: 1\nhidden_size: 8\nbatch_size: 50\n")

    def compare(settings: CompareSettings, folder: Path, **_: object) -> None:
        asked.append((settings, folder))
        raise KeyboardInterrupt

    monkeypatch.setattr("gatedrnn.study.experiment.compare", compare)
    assert exit_code("compare", "--config", config, "--batch-size", 60, "--threads", 1, "--output", "here") == 130
    ((settings, folder),) = asked
    who, train = settings.contenders, settings.train
    assert (who.cells, who.seeds, who.hidden_size, folder) == (["lstm"], [3], 8, Path("here"))
    assert (train.epochs, train.batch_size) == (1, 60)
    assert train.learning_rate == RECIPES["digits"]["train"]["learning_rate"]


def test_an_interrupted_run_is_resumed_by_its_own_settings_unless_it_is_damaged(tmp_path: Path, capsys) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    run, flags = tmp_path / "whole", ["--hidden-size", 8, "--total-steps", 2, "--checkpoint-every", 1, "--threads", 1]
    with pytest.MonkeyPatch.context() as patch:  # between its last checkpoint and its end
        patch.setattr(loop.Trainer, "finish", interrupted)
        code, error = outcome(capsys, "train", "--task", "digits", *flags, "--output", run)
    assert code == 130 and "interrupted" in error
    code, error = outcome(capsys, "train", "--resume", run, "--epochs", 50)
    assert code == 2 and "leave out --epochs" in error
    damaged = copy_of(run, tmp_path)
    (weights,) = damaged.glob("checkpoint/step-*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    code, error = outcome(capsys, "train", "--resume", damaged)
    assert code == 1 and "model.safetensors has" in error
    loop.run(RunFolder(run).settings(), run)
    assert not (run / "checkpoint").exists(), "a finished run keeps its model, not its checkpoint"


def test_a_folder_that_holds_something_else_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "precious").write_text("years of work")
    code, error = outcome(capsys, "train", "--task", "digits", "--output", tmp_path)
    assert code == 2 and "holds no run" in error
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "precious"]


@pytest.mark.parametrize(
    "mistake", ["--train-file nowhere.csv --task text-classification", "--cells mingru lstm --hidden-size 1"]
)
def test_fresh_removes_nothing_for_a_comparison_that_cannot_be(
    mistake: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    finished = tmp_path / "comparison"
    finished.mkdir()
    (finished / "comparison.yaml").write_text("hours: of training")
    flags = ["--embedding-size", "512", "--fresh", "--output", str(finished)]
    assert outcome(capsys, "compare", *mistake.split(), *flags)[0] == 2
    assert (finished / "comparison.yaml").exists()


def test_help_says_what_every_flag_is() -> None:
    """All of what the docstring, or the setting's own, says of it: no flag goes without, none loses its first line."""
    whole = build_app()
    for command in (name for name in whole if not name.startswith("-")):
        app = whole[command]
        documented = inspect.getdoc(app.default_command) or ""
        flags = [flag for flag in app.assemble_argument_collection(parse_docstring=True) if flag.show]
        assert flags
        for flag in flags:
            words, name = flag.parameter.help or "", flag.field_info.name
            assert words.rstrip().endswith((".", "…")), f"{command} {flag.name}: {words!r}"
            if f"\n    {name}: " in documented:
                assert f"\n    {name}: {words.splitlines()[0]}" in documented, f"{command} {flag.name}"
