"""A disk that fills while something is written: the file is named, and what was whole before is still whole."""

import resource
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from accelerate import PartialState
from outcomes import assert_same_outcome
from safetensors.torch import save_file
from train_helpers import digits_run

from gatedrnn.cli.app import main
from gatedrnn.records import write_whole
from gatedrnn.train import checkpoint
from gatedrnn.train.loop import run

ALONE = PartialState()
LARGE = torch.zeros(1_000_000)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)  # torch keeps the file open that it could not write


WRITERS = {
    "model.safetensors": lambda into: save_file({"weight": LARGE}, into / "model.safetensors"),
    "optimizer.bin": lambda into: torch.save(LARGE, into / "optimizer.bin"),
    "settings.json": lambda into: write_whole(into / "settings.json", "x" * 4_000_000),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_names_the_file_and_keeps_the_checkpoint_before(name, small_disk):
    checkpoint.save(small_disk, 1, lambda into: (into / "weights").write_text("whole"), ALONE)
    with pytest.raises(OSError, match="kept so far: step-00000001") as full:
        checkpoint.save(small_disk, 2, WRITERS[name], ALONE)
    assert Path(full.value.filename).name == name
    assert [path.name for path in small_disk.iterdir()] == ["step-00000001"], "what was half-written takes up space"
    assert checkpoint.newest(small_disk) == small_disk / "step-00000001"


def test_a_run_on_a_full_disk_ends_with_one_line_and_goes_on_to_the_same_bits(small_disk, tmp_path, capsys):
    settings = digits_run(epochs=1).model_copy(update={"hidden_size": 512})
    run(settings, tmp_path / "whole")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(740_000))  # there is space for one checkpoint
    flags = {**settings.train.model_dump(include=settings.train.model_fields_set), **settings.model.model_dump(
        include=settings.model.model_fields_set)}  # fmt: skip
    given = [part for name, value in flags.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    with pytest.raises(SystemExit) as end:
        main([
            "train", "--task", "digits", "--cell", "mingru", "--hidden-size", "512", "--threads", "1", *given,
            "--output", str(small_disk / "run"),
        ])  # fmt: skip
    said = capsys.readouterr().err
    assert end.value.code == 1 and said.count("\n") == 1, said
    assert f"gatedrnn: {small_disk}/run/checkpoint/writing-step-00000014/" in said and "MiB are free there" in said
    assert "kept so far: step-00000007" in said
    filler.unlink()
    shutil.copytree(small_disk / "run", tmp_path / "run")
    run(settings, tmp_path / "run")
    assert_same_outcome(tmp_path / "whole", tmp_path / "run")


def test_a_file_that_grows_past_what_is_allowed_is_named(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"large\.json"):
            write_whole(tmp_path / "large.json", "x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
