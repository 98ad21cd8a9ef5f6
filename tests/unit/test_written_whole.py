"""A file is whole under its name or not there: whatever ends the writing, an error names it, and no part stays."""

import errno
import signal
import subprocess
import sys

import numpy as np
import onnx
import pyarrow as pa
import pytest
from commands import outcome
from finished import contents
from support.disk import small_files

from gatedrnn.data.frames import InMemory, write_predictions
from gatedrnn.errors import FolderTaken
from gatedrnn.export import onnx as onnx_export
from gatedrnn.export.onnx import export_onnx
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM
from gatedrnn.processes import Ended
from gatedrnn.records import whole_or_removed, write_whole, written_beside, written_together
from gatedrnn.tables.table import Table
from gatedrnn.training.report import _draw  # which finds the fonts before files are limited

ENDS = {
    "a full disk": OSError(errno.ENOSPC, "No space left on device"),
    "numpy on a full disk": OSError("1000 requested and 10 written"),
    "another error": ValueError("wrong"),
    "Ctrl-C": KeyboardInterrupt(),
    "SIGTERM": Ended(signal.SIGTERM),
}


def ended_in(writing, error):
    """The error that comes out of a `with` block that raises one."""
    with pytest.raises(type(error)) as raised, writing:
        raise error
    return raised.value


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_the_writing_all_is_as_it_was_and_an_error_names_the_file(end, tmp_path):
    (tmp_path / "there").mkdir()
    for path in (tmp_path / "a.txt", tmp_path / "there" / "a.onnx"):
        path.write_text("old")
    before = contents(tmp_path)

    def in_file():
        with written_beside(tmp_path / "a.txt") as file:
            file.write_text("half")
            raise ENDS[end]

    def in_folder(name):
        with written_together(tmp_path / name) as folder:
            (folder / "b.npz").write_text("whole")
            (folder / "a.onnx").write_text("half")
            raise ENDS[end]

    named = {"a.txt": in_file, "there/a.onnx": lambda: in_folder("there"), "new/a.onnx": lambda: in_folder("new")}
    for name, write in named.items():
        with pytest.raises(type(ENDS[end])) as raised:
            write()
        if isinstance(raised.value, OSError):
            assert raised.value.filename == str(tmp_path / name) and "MiB are free there" in raised.value.strerror
    assert contents(tmp_path) == before and {path.name for path in tmp_path.iterdir()} == {"a.txt", "there"}


def test_files_that_belong_together_replace_others_and_what_a_kill_left_is_removed(tmp_path):
    for name in ("out", "out/.writing", "new.writing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "left").touch()
    (tmp_path / "out" / "b.onnx").write_text("old")
    for name in ("out", "new"):
        with written_together(tmp_path / name) as folder:
            assert list(folder.iterdir()) == []
            for file in ("a.onnx", "b.onnx"):
                (folder / file).write_text("new")
    assert contents(tmp_path / "new") == {tmp_path / "new" / file: b"new" for file in ("a.onnx", "b.onnx")}
    assert contents(tmp_path) == {
        **contents(tmp_path / "new"), tmp_path / "out" / "left": b"",
        **{tmp_path / "out" / file: b"new" for file in ("a.onnx", "b.onnx")},
    }  # fmt: skip


def test_an_error_of_reading_within_keeps_its_own_name(tmp_path):
    absent = FileNotFoundError(errno.ENOENT, "No such file or directory", "data.csv")
    for writing in (written_beside(tmp_path / "a"), written_together(tmp_path / "b")):
        assert ended_in(writing, absent).filename == "data.csv"
    (tmp_path / "c").mkdir()
    assert ended_in(whole_or_removed(tmp_path / "c", tmp_path / "d"), absent).filename == "data.csv"
    with pytest.raises(OSError, match="o such file") as raised:
        write_whole(tmp_path / "none" / "file.json", "{}")
    assert raised.value.filename == str(tmp_path / "none" / "file.json")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as raised, written_together(tmp_path / "file"):
        pass
    assert raised.value.filename == str(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


ROWS = Table({"text": [f"the film was {number}" for number in range(500)]})


def predictions(path):
    write_predictions(path, ROWS, {"prediction": ["good"] * 500}, "rows.csv", {})


def pictures(path):
    line = {"train": (list(range(300)), np.random.default_rng(0).random(300).tolist())}
    _draw({"Loss": line, "Learning rate": line}, path)


WRITERS = {
    **dict.fromkeys(("p.csv", "p.tsv", "p.jsonl", "p.parquet"), predictions),
    "curves.svg": pictures,
    "train.parquet": lambda path: InMemory({"train": pa.table({"x": np.random.default_rng(0).random(1000)})}).write(
        path.parent, replace=True
    ),
    "page.html": lambda path: write_whole(path, "x" * 3_000),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False])
def test_what_does_not_fit_on_the_disk_is_named_and_leaves_what_was_there(name, there, tmp_path):
    if there:
        (tmp_path / name).write_text("old")
    with pytest.raises(OSError, match="MiB are free there") as full, small_files(2_000):
        WRITERS[name](tmp_path / name)
    assert full.value.filename == str(tmp_path / name)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == ({name: "old"} if there else {})


def test_other_data_in_the_folder_of_a_run_are_refused_and_no_part_of_them_stays(tmp_path):
    InMemory({"train": pa.table({"x": [1]})}).write(tmp_path)
    with pytest.raises(FolderTaken):
        InMemory({"train": pa.table({"x": [2]})}).write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.parquet"]


def test_an_export_is_all_of_its_files_or_none(tmp_path, monkeypatch):
    config = GatedRNNConfig(cell="mingru", vocab_size=30, hidden_size=4, embedding_size=4, num_hidden_layers=1)
    weight = onnx.numpy_helper.from_array(np.zeros(600, np.float32), "weight")
    graph = onnx.helper.make_model(onnx.helper.make_graph([], "step", [], [], initializer=[weight]))
    monkeypatch.setattr(onnx_export, "_exported", lambda _: graph)  # larger than the limit; the states are smaller
    monkeypatch.setattr(onnx_export, "scanned_over_time", lambda _: graph)
    with pytest.raises(OSError, match="MiB are free there") as full, small_files(2_000):
        export_onnx(GatedRNNForCausalLM(config), tmp_path / "onnx")
    assert full.value.filename == str(tmp_path / "onnx" / "step.onnx") and list(tmp_path.iterdir()) == []


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 8 kB."""
    if sys.platform != "linux" or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "t", tmp_path]).returncode:
        pytest.skip("only root can mount a file system that is full")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "export"])
def test_a_command_on_a_full_disk_names_the_file_and_leaves_nothing(
    command, full_disk, series_run, rising, digits_run, capsys
):
    given = [series_run, rising] if command == "predict" else [digits_run]
    output, file = ("p.csv", "p.csv") if command == "predict" else ("onnx", "onnx/window.onnx")
    (full_disk / "filler").write_bytes(bytes(8192))
    code, said = outcome(capsys, command, *given, "--output", full_disk / output)
    assert code == 1 and said.startswith(f"gatedrnn: {full_disk / file}: no space left on device; 0.0 MiB are free")
    assert [path.name for path in full_disk.iterdir()] == ["filler"]
