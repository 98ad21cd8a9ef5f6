"""Kernels are compiled once for all processes, and again where their sources are others; a disk is not needed."""

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from numba.core.errors import TypingError

import gatedrnn
from gatedrnn.codegen.row import ADD
from gatedrnn.codegen.source import numba_source
from gatedrnn.kernels.cpu import compile as cache
from gatedrnn.kernels.cpu import store
from gatedrnn.kernels.cpu.rows import compiled_row
from gatedrnn.kernels.cpu.threads import KERNELS
from gatedrnn.kinds.block import cpu as block
from gatedrnn.kinds.loop import loops as loop
from gatedrnn.kinds.loop import step as loop_step
from gatedrnn.kinds.scan import loops as scan
from gatedrnn.kinds.scan import step as scan_step

PACKAGE = Path(gatedrnn.__file__).parent


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(cache, "_WARNED", [])
    monkeypatch.setattr(store, "_warned", set())
    return tmp_path / "cache"


def doubling():
    """A function as a new process has it: nothing of it is compiled in memory."""

    def double(x):
        return 2 * x

    return cache.compiled(**cache.FAST)(double)


def compilations(function):
    return sum(function.stats.cache_misses.values())


def files_of(folder):
    return [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"]


def test_a_compiled_function_is_loaded_for_its_types_and_sources_alone(folder, monkeypatch):
    assert doubling()(3) == 6
    again = doubling()
    assert again(4) == 8 and compilations(again) == 0
    assert again(0.5) == 1.0 and compilations(again) == 1
    assert len(files_of(folder)) == 2
    monkeypatch.setattr(cache, "source_hash", lambda: b"other sources".ljust(store._DIGEST))
    again = doubling()
    assert again(3) == 6 and compilations(again) == 1
    assert len(files_of(folder)) == 2


NUMBA = re.compile(r"^(?:from|import) (?:numba|gatedrnn\.kernels\.cpu\.compile)\b", re.MULTILINE)
"""Change a source of compiled code, or of what compiles it."""


def test_every_source_of_the_kernels_counts(tmp_path, monkeypatch):
    for folder in ("kernels", "kinds", "models"):
        shutil.copytree(PACKAGE / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "files", lambda package: tmp_path)
    compiled = [file for file in tmp_path.rglob("*.py") if NUMBA.search(file.read_text(encoding="utf-8"))]
    assert {"functions.py", "views.py", "loops.py", "step.py", "mixture_kernel.py"} <= {file.name for file in compiled}
    sums = [cache.source_hash.__wrapped__()]
    for file in [*compiled, tmp_path / "kernels" / "cpu" / "new.py"]:
        with file.open("a") as source:
            source.write("\n")
        sums.append(cache.source_hash.__wrapped__())
    assert len(set(sums)) == len(sums)
    (tmp_path / "kernels" / "cpu" / "kinds.scan.loops.run.compiled").write_text("1")
    assert cache.source_hash.__wrapped__() == sums[-1]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_file_is_compiled_again(folder, damage):
    doubling()(3)
    (file,) = files_of(folder)
    file.write_bytes(damage(file.read_bytes()))
    for expected in (1, 0):
        again = doubling()
        assert again(3) == 6 and compilations(again) == expected


def test_a_line_is_logged_before_a_function_compiles_and_none_when_it_is_loaded(folder, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, logger="gatedrnn")
    function, said = doubling(), []
    compile = function._compiler.compile
    monkeypatch.setattr(function._compiler, "compile", lambda *args: said.append(caplog.text) or compile(*args))
    function(3)
    doubling()(3)
    assert caplog.messages == [f"compiling double for this machine, a few seconds; saved in {cache.folders()[0]}"]
    assert caplog.messages[0] in said[0]


def test_where_nothing_can_be_written_functions_compile_and_one_line_is_logged(folder, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, logger="gatedrnn")
    monkeypatch.setenv("HOME", str(folder))
    for file in (folder, folder.parent / "user"):
        file.write_text("a file where the folder should be")
    for _ in range(2):
        assert doubling()(3) == 6 and doubling()(0.5) == 1.0
    (line,) = [line for line in caplog.messages if "cannot be saved" in line]
    assert "GATEDRNN_KERNEL_CACHE to a folder that only you can write" in line
    assert {*files_of(folder.parent)} == {folder, folder.parent / "user"}


def test_a_function_that_fails_to_compile_leaves_no_lock(folder):
    with pytest.raises(TypingError, match="nothing"):
        cache.compiled(**cache.FAST)(lambda x: x.nothing)(3)
    for lock in folder.rglob("*.lock"):  # filelock before 4 removes the file with the lock
        FileLock(lock).acquire(timeout=0)


def test_every_kernel_is_saved_and_known_by_its_name():
    of_kinds = [kernel for module in (block, loop, scan) for kernel in (module.RUN, module.RUN_BACKWARD)]
    assert all(KERNELS[kernel.name] is kernel for kernel in of_kinds)
    generated = compiled_row(numba_source("test", ADD, {"given": "float32", "to": "float32"})).function
    steps = scan_step._gated, scan_step._stack, loop_step._loop_stack, block._step_blocks, block._step_turns
    for form in [*(form for kernel in KERNELS.values() for form in kernel), generated, *steps]:
        assert isinstance(form, cache.CompiledFunction), form
    assert scan.RUN.name == "kinds.scan.loops.run"


def python(script, *before, **environment):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1", **environment}
    to = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*before, sys.executable, "-c", script], env=env, **to)


KERNELS_RUN = """
import torch
from gatedrnn import MGU, MinGRU
torch.manual_seed(0)
layer, other = MinGRU(3, 4), MGU(3, 4)
for _ in range(2):
    y, h = layer(torch.ones(5, 2, 3))
y.sum().backward()
z, _ = other(torch.ones(5, 2, 3))
print(*(x.double().abs().sum().item() for x in (y, z, layer.weight_ih_l0.grad)))
"""


@pytest.mark.slow
def test_of_two_processes_one_compiles_and_the_other_loads_and_both_give_the_same_bits(folder):
    """A process alone does so before them, and one after them."""
    alone = python(KERNELS_RUN, NUMBA_CACHE_DIR=f"{folder}-alone").communicate(timeout=250)
    both = [python(KERNELS_RUN, NUMBA_CACHE_DIR=str(folder)) for _ in range(2)]
    found = [alone, *(one.communicate(timeout=250) for one in both)]
    found.append(python(KERNELS_RUN, NUMBA_CACHE_DIR=str(folder)).communicate(timeout=250))
    assert alone[0] and {out for out, _ in found} == {alone[0]}, found
    whole, first, second, later = (said.count("compiling") for _, said in found)
    assert first + second == whole > 0 == later, found


READ_ONLY = "for d in src home; do mount --bind $d $d; mount -o remount,bind,ro $d; done; ! touch src/x 2>/dev/null"
FULL = "mkdir -p full; mount -t tmpfs -o size=64k none full; dd if=/dev/zero of=full/x 2>/dev/null || true"


@pytest.mark.slow
@pytest.mark.parametrize("mounts, saved_in", [(READ_ONLY, ""), (FULL, "full")], ids=["read-only", "full disk"])
def test_kernels_run_where_nothing_can_be_saved(tmp_path, monkeypatch, mounts, saved_in):
    """Run a copy of the package, after the mounts."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PACKAGE, "src/gatedrnn", ignore=shutil.ignore_patterns("__pycache__"))
    Path("home").mkdir()
    shell = [*"unshare --user --map-root-user --mount sh -ec".split(), f'{mounts}; exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*shell, "true"], capture_output=True).returncode:
        pytest.skip("no mounts in a namespace of its own here")
    folders = {"HOME": "home", "PYTHONPATH": "src", "NUMBA_CACHE_DIR": saved_in}
    folders = {name: folder and str(tmp_path / folder) for name, folder in folders.items()}
    out, said = python(KERNELS_RUN, *shell, XDG_CACHE_HOME="", **folders).communicate(timeout=250)
    expected, _ = python(KERNELS_RUN, NUMBA_CACHE_DIR=str(tmp_path / "other")).communicate(timeout=250)
    assert out == expected != "", said
    assert said.count("cannot be saved") == 1, said
