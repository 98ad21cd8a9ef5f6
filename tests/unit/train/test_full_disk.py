"""A disk that fills while something is written: the file is named, and what was whole before is still whole."""

import resource
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from accelerate import PartialState
from commands import call, outcome
from outcomes import assert_same_outcome
from safetensors.torch import save_file
from train_helpers import digits_settings

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
    settings = digits_settings(epochs=1).model_copy(update={"hidden_size": 512})
    run(settings, tmp_path / "whole")
    filler, config = small_disk / "filler", tmp_path / "config.yaml"
    filler.write_bytes(bytes(740_000))  # there is space for one checkpoint
    config.write_text(yaml.safe_dump(settings.flat()))
    code, said = outcome(capsys, "train", "--config", config, "--output", small_disk / "run")
    assert code == 1 and said.count("\n") == 1, said
    assert f"gatedrnn: {small_disk}/run/checkpoint/writing-step-00000014/" in said and "MiB are free there" in said
    assert "kept so far: step-00000007" in said
    filler.unlink()
    shutil.copytree(small_disk / "run", tmp_path / "run")
    run(settings, tmp_path / "run")
    assert_same_outcome(tmp_path / "whole", tmp_path / "run")


@pytest.fixture
def small_files():
    """As a disk without room would have it: no file grows past 100 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_grows_past_what_is_allowed_is_named(small_files, digits_run, tmp_path, capsys):
    with pytest.raises(OSError, match=r"large\.json"):
        write_whole(tmp_path / "large.json", "x" * 200_000)
    assert list(tmp_path.iterdir()) == []
    flags = ["--embedding-size", 512, "--total-steps", 2, "--output", tmp_path / "run"]
    code, error = outcome(capsys, "train", "--config", digits_run / "config.yaml", *flags)
    assert code == 1 and error.count("\n") == 1 and "optimizer.bin: could not be written" in error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    call("train", "--resume", tmp_path / "run")
