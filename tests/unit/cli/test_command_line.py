"""The command line: bad input gets one clear line and the right exit code, and loses nothing."""

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from commands import exit_code, outcome
from finished import copy_of
from processes import heeds_signals

from gatedrnn.cli.app import build_app, main
from gatedrnn.data import load_task


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
        ("compare --dropout 1.5", "--dropout: Input should be less than 1"),
        ("compare --match width", "--match"),
        ("compare --steps 16", "--steps: must be 8 (rows) or 64 (pixels)"),
        ("compare --config nowhere.yaml", "nowhere.yaml"),
        ("compare --task text-classification", "needs --train-file"),
        ("compare --task text-classification --train-file nowhere.csv", "nowhere.csv: no such file"),
        ("compare --task ag_news --train-file only.csv", "give both --train-file and --test-file"),
        ("compare --task digits --cells mingru lstm --hidden-size 1 --match params --embedding-size 512", "within 5 %"),
        ("train --cell lstmm", "did you mean 'lstm'"),
        (
            "compare --train-file reviews.csv",
            "--train-file belongs to mnist, ag_news, text-classification, series-classification, series-regression, "
            "forecast and language-model, not to digits",
        ),
        ("compare --token-dropout 0.1", "digits has no unknown token"),
        ("compare --task digits --validation-fraction 0.001", "cannot be split"),
        ("compare --seeds 4294967296", "less than 4294967296"),
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


def test_an_unknown_key_in_a_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("hiden_size: 8\n")
    code, error = outcome(capsys, "compare", "--config", str(config))
    assert code == 2
    assert "hiden_size" in error


def test_a_file_of_settings_that_is_no_yaml_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("cells: [lstm\nseeds: }")
    code, error = outcome(capsys, "compare", "--config", str(config))
    assert code == 2
    assert error.count("\n") == 1


@pytest.mark.slow
def test_settings_come_from_recipe_file_and_flags_in_this_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, speed_in_a_moment: None
) -> None:
    from gatedrnn.train.recipes import RECIPES

    config = tmp_path / "mine.yaml"
    config.write_text("task: digits\ncells: [lstm]\nseeds: [3]\nepochs: 1\nhidden_size: 8\nbatch_size: 50\n")
    flags = ["--batch-size", 600, "--threads", 1, "--output", tmp_path / "c"]
    assert outcome(capsys, "compare", "--config", config, *flags) == (0, "")
    (run,) = (tmp_path / "c").glob("lstm/seed-*/config.yaml")
    settings = yaml.safe_load(run.read_text())
    assert (settings["seed"], settings["hidden_size"], settings["batch_size"]) == (3, 8, 600)
    assert settings["learning_rate"] == RECIPES["digits"]["train"]["learning_rate"]


def test_a_runs_own_config_file_runs_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, digits_run: Path
) -> None:
    again = tmp_path / "again"
    assert outcome(capsys, "train", "--config", digits_run / "config.yaml", "--output", again)[0] == 0
    one, two = ((folder / "model" / "model.safetensors").read_bytes() for folder in (digits_run, again))
    assert one == two


def test_an_existing_run_is_not_touched_without_resume(capsys: pytest.CaptureFixture[str], digits_run: Path) -> None:
    code, error = outcome(capsys, "train", "--task", "digits", "--output", digits_run)
    assert code == 2 and "--resume" in error


def interrupted_run(folder: Path, *flags: object) -> Path:
    """A run that was interrupted between its last checkpoint and its end."""
    from gatedrnn.train.loop import Trainer

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "finish", interrupted)
        assert exit_code("train", *flags, "--hidden-size", 8, "--epochs", 1, "--output", folder / "run") == 130
    return folder / "run"


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interrupted_run(tmp_path_factory.mktemp("unfinished"), "--task", "digits", "--batch-size", 200)


def test_a_damaged_checkpoint_ends_with_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, unfinished: Path
) -> None:
    run = copy_of(unfinished, tmp_path)
    (weights,) = run.glob("checkpoint/step-*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    code, error = outcome(capsys, "train", "--resume", run)
    assert code == 1 and "model.safetensors has" in error


def test_a_run_whose_data_have_changed_is_not_resumed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\n" + "good,1\nbad,0\n" * 20)
    run = interrupted_run(tmp_path, "--task", "text-classification", "--train-file", file, "--min-count", 1)
    file.write_text("text,label\n" + "good,1\nbad,0\n" * 21)
    load_task.cache_clear()  # as in a new process
    code, error = outcome(capsys, "train", "--resume", run)
    assert code == 2 and "the data have changed" in error


def test_resume_takes_no_other_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path, unfinished: Path) -> None:
    run = copy_of(unfinished, tmp_path)
    code, error = outcome(capsys, "train", "--resume", run, "--epochs", "50")
    assert code == 2 and "leave out --epochs" in error
    assert outcome(capsys, "train", "--resume", run)[0] == 0
    assert not (run / "checkpoint").exists(), "a finished run keeps its model, not its checkpoint"


def test_a_folder_that_holds_something_else_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "precious").write_text("years of work")
    code, error = outcome(capsys, "train", "--task", "digits", "--epochs", "1", "--output", str(tmp_path))
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


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_what_was_finished_and_ends_with_130(jobs: str, tmp_path: Path) -> None:
    flags = f"compare --task digits --cells lstm mingru --seeds 0 1 --epochs 20 --jobs {jobs} --threads 1".split()
    command = [sys.executable, "-m", "gatedrnn", *flags, "--output", str(tmp_path / "c")]
    process = subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_signals
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("c/*/*/result.json")):
        assert process.poll() is None and time.monotonic() < deadline, "nothing was finished in time"
        time.sleep(0.02)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "kept" in error.splitlines()[-1] and "Traceback" not in error
    assert not (tmp_path / "c" / "results.json").exists()
    unfinished = [
        path.parent for path in tmp_path.glob("c/*/*/checkpoint") if not (path.parent / "result.json").exists()
    ]
    assert unfinished, "the run under way took no checkpoint"


@pytest.mark.parametrize("command", [name for name in build_app() if not name.startswith("-")])
def test_help_says_what_every_flag_is(command: str) -> None:
    """All of what the docstring, or the setting's own, says of it: no flag goes without, none loses its first line."""
    app = build_app()[command]
    documented = inspect.getdoc(app.default_command) or ""
    flags = [flag for flag in app.assemble_argument_collection(parse_docstring=True) if flag.show]
    assert flags
    for flag in flags:
        words, name = flag.parameter.help or "", flag.field_info.name
        assert words.rstrip().endswith((".", "…")), f"{flag.name}: {words!r}"
        if f"\n    {name}: " in documented:
            assert f"\n    {name}: {words.splitlines()[0]}" in documented


def test_the_key_on_is_a_setting_in_yaml_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML 1.1 reads the bare word as a truth value."""
    config = tmp_path / "compare.yaml"
    config.write_text("on: nowhere\ntask: digits\n")
    with pytest.raises(SystemExit) as end:
        main(["compare", "--config", str(config), "--output", str(tmp_path / "out")])
    assert end.value.code == 2 and "--on nowhere: must be local, slurm, ray" in capsys.readouterr().err
