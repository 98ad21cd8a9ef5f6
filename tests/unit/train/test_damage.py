"""Every file of a run, of a comparison and of the token cache, damaged in each way: named, refused or made again."""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from commands import call
from finished import contents, copy_of
from outcomes import Killed, assert_same_outcome, killed_at
from train_helpers import digits_settings, text_settings

from gatedrnn.data import load_task
from gatedrnn.data.token_cache import cache_folder
from gatedrnn.errors import Damaged, FolderTaken
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.loop import run
from gatedrnn.train.sample import load_language_model

DERIVED = {"report.html", "curves.svg", "samples.json"}
CONFIG_GONE = ("config.yaml", "deleted")


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


@pytest.fixture(scope="module")
def killed_run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_a_damaged_model_is_opened_by_nothing(text_run, tmp_path):
    folder = copy_of(text_run, tmp_path)
    for name, damage in product(("config.json", "model.safetensors", "tokenizer.json"), DAMAGES):
        whole = (folder / "model" / name).read_bytes()
        DAMAGES[damage](folder / "model" / name)
        for place in (folder, folder / "model"):
            with pytest.raises(Damaged, match=name):
                load_language_model(place)
        (folder / "model" / name).write_bytes(whole)
    load_language_model(folder / "model")


def test_a_model_that_another_program_saved_needs_no_sums(text_run, tmp_path):
    folder = copy_of(text_run, tmp_path)
    model, tokenizer = load_language_model(folder)
    model.save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    load_language_model(tmp_path / "plain")
    (folder / "model" / "README.md").write_text("a card of one's own")
    load_language_model(folder)


def test_a_setting_that_was_edited_between_kill_and_resume_is_refused_by_its_name(killed_run, tmp_path):
    folder = copy_of(killed_run, tmp_path)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.01", "learning_rate: 0.001"))
    edited = r"config.yaml: was changed since the run began \(learning_rate: 0.01 in its checkpoint, 0.001 now\)"
    with pytest.raises(Damaged, match=edited):
        RunFolder(folder).settings()
    (folder / "manifest.json").unlink()  # the checkpoint knows its settings too
    with pytest.raises(Damaged, match=edited):
        run(RunFolder(folder).settings(), folder)


def test_a_setting_that_was_edited_before_the_first_checkpoint_is_refused(tmp_path):
    with pytest.raises(Killed):
        run(digits_settings(), tmp_path / "run", killed_at(3))
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(Damaged, match=r"config\.yaml: was changed since the run began"):
        run(digits_settings(), tmp_path / "run")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_token_cache_is_made_again_with_a_line(damage, book, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def tokens() -> list[list[int]]:
        load_task.cache_clear()
        data = load_task(text_settings(book).data)
        return [lanes.stream.tokens.tolist() for lanes in (data.train, *data.evaluation.values())]

    whole = tokens()
    (entry,) = cache_folder().iterdir()
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


def test_a_checkpoint_taken_before_there_were_manifests_is_gone_on_from(book, text_run, killed_run, tmp_path):
    folder = copy_of(killed_run, tmp_path)
    (folder / "manifest.json").unlink()
    config = folder / "config.yaml"
    config.write_text(config.read_text().split("\n", 1)[1])
    (step,) = (folder / "checkpoint").iterdir()
    for name in ("settings.json", "metrics.jsonl"):
        (step / name).unlink()
    files = json.loads((step / "manifest.json").read_text())["files"]
    old = {name: entry["sha256"] for name, entry in files.items() if (step / name).exists()}
    (step / "manifest.json").write_text(json.dumps(old, indent=1))
    run(text_settings(book), folder)
    assert_same_outcome(text_run, folder)
