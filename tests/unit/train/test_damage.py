"""Every file of a run, of a comparison and of the token cache, damaged in each way: named, refused or made again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from outcomes import Killed, assert_same_outcome, killed_at
from train_helpers import digits_run, small_text, text_run

from gatedrnn.cli.app import main
from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder
from gatedrnn.errors import Damaged
from gatedrnn.train.loop import run
from gatedrnn.train.report import write_report
from gatedrnn.train.sample import load_language_model, write_samples

NOT_READ = ("README.md",)
"""A model's card: nothing reads it, and it is there to be edited."""


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": flip,
    "deleted": Path.unlink,
}
each_damage = pytest.mark.parametrize("damage", DAMAGES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A finished run with its report, and one that was killed between two checkpoints."""
    folder = tmp_path_factory.mktemp("runs")
    settings = text_run(small_text(folder / "text.txt"))
    run(settings, folder / "finished")
    write_samples(folder / "finished")
    write_report(folder / "finished")
    with pytest.raises(Killed):
        run(settings, folder / "killed", killed_at(40))
    return {"finished": folder / "finished", "killed": folder / "killed"}


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def resumed(folder: Path, capsys, caplog) -> tuple[int, str]:
    """How `train --resume` ends, and what it says."""
    capsys.readouterr()
    caplog.clear()
    code = 0
    try:
        main(["train", "--resume", str(folder)])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, caplog.text + capsys.readouterr().err


def assert_nothing_silent(name: str, damage: str, whole: Path, damaged: Path, capsys, caplog) -> None:
    before = {path: (damaged / path).read_bytes() for path in files_of(damaged)}
    code, said = resumed(damaged, capsys, caplog)
    assert Path(name).name in said, f"{name} {damage}: {code} {said!r}"
    assert "Traceback" not in said
    if code == 0:
        assert_same_outcome(whole, damaged)
    else:
        assert code in (1, 2) and said.count("\n") == 1, said
        after = {path: (damaged / path).read_bytes() for path in files_of(damaged)}
        assert after == before, "a refusal changed the folder"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_damage
@pytest.mark.parametrize("which", ["finished", "killed"])
def test_no_damage_to_a_run_is_silent(which, damage, runs, tmp_path, capsys, caplog):
    for name in files_of(runs[which]):
        if name.endswith(NOT_READ):
            continue
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(runs[which], tmp_path / "run")
        DAMAGES[damage](tmp_path / "run" / name)
        assert_nothing_silent(name, damage, runs["finished"], tmp_path / "run", capsys, caplog)


REFUSED = ["data.json", "metrics.jsonl", "result.json", "config.yaml", "model/model.safetensors"]


@each_damage
@pytest.mark.parametrize("name", [REFUSED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in REFUSED[1:])])
def test_a_damaged_record_of_a_finished_run_is_refused_by_name(name, damage, runs, tmp_path, capsys, caplog):
    shutil.copytree(runs["finished"], tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / name)
    code, said = resumed(tmp_path / "run", capsys, caplog)
    assert code == (2 if (name, damage) == ("config.yaml", "deleted") else 1)  # then it is no run's folder
    assert Path(name).name in said


@each_damage
@pytest.mark.parametrize("place", ["run", "run/model"])
def test_a_damaged_model_is_opened_by_nothing(place, damage, runs, tmp_path):
    shutil.copytree(runs["finished"], tmp_path / "run")
    load_language_model(tmp_path / place)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        whole = (tmp_path / "run" / "model" / name).read_bytes()
        DAMAGES[damage](tmp_path / "run" / "model" / name)
        with pytest.raises(Damaged, match=name):
            load_language_model(tmp_path / place)
        (tmp_path / "run" / "model" / name).write_bytes(whole)


def test_a_model_that_another_program_saved_needs_no_sums(runs, tmp_path):
    model, tokenizer = load_language_model(runs["finished"])
    model.save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    load_language_model(tmp_path / "plain")
    (runs["finished"] / "model" / "README.md").write_text("a card of one's own")
    load_language_model(runs["finished"])


def test_a_setting_that_was_edited_between_kill_and_resume_is_refused_by_its_name(runs, tmp_path, capsys, caplog):
    shutil.copytree(runs["killed"], tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.01", "learning_rate: 0.001"))
    edited = r"config.yaml: was changed since the run began (learning_rate: 0.01 in its checkpoint, 0.001 now)"
    code, said = resumed(tmp_path / "run", capsys, caplog)
    assert code == 1 and edited in said
    (tmp_path / "run" / "manifest.json").unlink()  # the checkpoint knows its settings too
    code, said = resumed(tmp_path / "run", capsys, caplog)
    assert code == 1 and edited in said


def test_a_setting_that_was_edited_before_the_first_checkpoint_is_refused(tmp_path):
    with pytest.raises(Killed):
        run(digits_run(), tmp_path / "run", killed_at(3))
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(Damaged, match=r"config\.yaml: was changed since the run began"):
        run(digits_run(), tmp_path / "run")


@pytest.mark.parametrize("damage", ["flipped", "deleted"])
def test_lines_of_the_log_that_were_lost_come_back_from_the_checkpoint(damage, runs, tmp_path, caplog):
    shutil.copytree(runs["killed"], tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / "metrics.jsonl")
    run(text_run(runs["killed"].parent / "text.txt"), tmp_path / "run")
    assert "metrics.jsonl: is damaged; its lines are taken from checkpoint step-" in caplog.text
    assert_same_outcome(runs["finished"], tmp_path / "run")


@pytest.mark.slow
def test_what_is_made_of_other_records_is_made_again(runs, tmp_path, capsys, caplog):
    shutil.copytree(runs["finished"], tmp_path / "run")
    for name in ("samples.json", "report.html", "curves.svg"):
        DAMAGES["truncated"](tmp_path / "run" / name)
    code, said = resumed(tmp_path / "run", capsys, caplog)
    assert code == 0
    assert all(f"{name}: has" in said for name in ("samples.json", "report.html", "curves.svg"))
    samples = [json.loads((folder / "samples.json").read_text()) for folder in (tmp_path / "run", runs["finished"])]
    assert samples[0] == samples[1]
    code, said = resumed(tmp_path / "run", capsys, caplog)
    assert (code, said) == (0, "")


@each_damage
def test_a_damaged_token_cache_is_made_again_with_a_line(damage, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = small_text(tmp_path / "text.txt")

    def tokens() -> list[list[int]]:
        load_task.cache_clear()
        data = load_task(text_run(text).data)
        return [lanes.stream.tokens.tolist() for lanes in (data.train, *data.evaluation.values())]

    whole = tokens()
    (entry,) = cache_folder().iterdir()
    for name in files_of(entry):
        DAMAGES[damage](entry / name)
        caplog.clear()
        assert tokens() == whole
        assert f"{name} " in caplog.text and "the text is tokenised again" in caplog.text
        caplog.clear()
        assert tokens() == whole and not caplog.text
    assert list(cache_folder().iterdir()) == [entry], "a lock or something half-made was left"


def test_an_entry_of_the_cache_that_a_kill_left_half_written_is_made_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = text_run(small_text(tmp_path / "text.txt")).data
    load_task.cache_clear()
    load_task(settings)
    (entry,) = cache_folder().iterdir()
    entry.rename(entry.with_name(f"making-{entry.name}"))
    load_task.cache_clear()
    load_task(settings)
    assert f"{entry.name}: is half-written; the text is tokenised again" in caplog.text
    assert list(cache_folder().iterdir()) == [entry]


def test_a_checkpoint_taken_before_there_were_manifests_is_gone_on_from(runs, tmp_path):
    shutil.copytree(runs["killed"], tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().split("\n", 1)[1])
    (step,) = (tmp_path / "run" / "checkpoint").iterdir()
    for name in ("settings.json", "metrics.jsonl"):
        (step / name).unlink()
    files = json.loads((step / "manifest.json").read_text())["files"]
    old = {name: entry["sha256"] for name, entry in files.items() if (step / name).exists()}
    (step / "manifest.json").write_text(json.dumps(old, indent=1))
    run(text_run(runs["killed"].parent / "text.txt"), tmp_path / "run")
    assert_same_outcome(runs["finished"], tmp_path / "run")
