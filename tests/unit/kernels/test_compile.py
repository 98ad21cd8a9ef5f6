"""Kernels are compiled once for all processes, and again where their sources are others; a disk is not needed."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from numba.core import config
from numba.core.errors import TypingError

import gatedrnn
from gatedrnn.codegen.numba_source import numba_source
from gatedrnn.codegen.row import ADD
from gatedrnn.kernels.cpu import _compile as cache
from gatedrnn.kernels.cpu import step
from gatedrnn.kernels.cpu._compile import FAST, CompiledFunction, compiled
from gatedrnn.kernels.cpu._rows import compiled_row
from gatedrnn.kernels.cpu._threads import KERNELS


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_WARNED", [])
    return tmp_path / "cache"


def doubling():
    """A function as a new process has it: nothing of it is compiled in memory."""

    def double(x):
        return 2 * x

    return compiled(**FAST)(double)


def compilations(function):
    return sum(function.stats.cache_misses.values())


def files_of(folder):
    return [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"]


def test_a_compiled_function_is_loaded_for_its_types_alone(folder):
    assert doubling()(3) == 6
    again = doubling()
    assert again(4) == 8 and compilations(again) == 0
    assert again(0.5) == 1.0 and compilations(again) == 1
    assert len(files_of(folder)) == 2


def test_a_function_of_other_sources_is_compiled_again_in_its_place(folder, monkeypatch):
    doubling()(3)
    monkeypatch.setattr(cache, "stamp", lambda: b"other sources".ljust(cache.DIGEST))
    again = doubling()
    assert again(3) == 6 and compilations(again) == 1
    assert len(files_of(folder)) == 1


def test_every_source_of_the_kernels_counts(tmp_path, monkeypatch):
    for name in ("_math.py", "_scan_loops.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(cache, "files", lambda package: tmp_path)
    stamp = cache.stamp.__wrapped__
    sums = [stamp()]
    (tmp_path / "_math.py").write_text("2")
    sums.append(stamp())
    (tmp_path / "_views.py").write_text("")
    sums.append(stamp())
    (tmp_path / "_scan_loops.run.compiled").write_text("1")
    assert len(set(sums)) == 3 and stamp() == sums[-1]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_file_is_compiled_again(folder, damage):
    doubling()(3)
    (file,) = files_of(folder)
    file.write_bytes(damage(file.read_bytes()))
    again = doubling()
    assert again(3) == 6 and compilations(again) == 1
    later = doubling()
    assert later(3) == 6 and compilations(later) == 0


def test_a_line_is_logged_before_a_function_compiles_and_none_when_it_is_loaded(folder, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, logger="gatedrnn")
    function, said = doubling(), []
    compile = function._compiler.compile
    monkeypatch.setattr(function._compiler, "compile", lambda *args: (said.append(caplog.text), compile(*args))[1])
    function(3)
    doubling()(3)
    assert caplog.messages == [f"compiling double for this machine, a few seconds; saved in {cache.folders()[0]}"]
    assert caplog.messages[0] in said[0]


def test_where_nothing_can_be_written_functions_compile_and_one_line_is_logged(folder, caplog):
    caplog.set_level(logging.WARNING, logger="gatedrnn")
    folder.write_text("a file where the folder should be")
    for _ in range(2):
        assert doubling()(3) == 6 and doubling()(0.5) == 1.0
    assert len([line for line in caplog.messages if "cannot be saved" in line]) == 1
    assert "NUMBA_CACHE_DIR" in caplog.text and files_of(folder.parent) == [folder]


def test_functions_are_saved_beside_the_sources_or_else_in_the_users_cache(tmp_path, monkeypatch, caplog):
    (tmp_path / "kernels").write_text("a file where a folder should be")
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(cache, "SOURCES", tmp_path / "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache.folders()[0] == tmp_path / "kernels" / "__pycache__"
    doubling()(3)
    assert [file.parent for file in files_of(tmp_path / "user")] == cache.folders()[1:]
    again = doubling()
    assert again(3) == 6 and compilations(again) == 0 and "cannot be saved" not in caplog.text


def test_a_function_that_fails_to_compile_leaves_no_lock(folder):
    def wrong(x):
        return x.nothing

    with pytest.raises(TypingError, match="nothing"):
        compiled(**FAST)(wrong)(3)
    for lock in folder.rglob("*.lock"):  # filelock before 4 removes the file with the lock
        FileLock(lock).acquire(timeout=0)


def test_every_kernel_is_saved():
    forms = [form for kernel in KERNELS.values() for form in kernel]
    assert len(forms) >= 16
    generated = compiled_row(numba_source("test", ADD, {"given": "float32", "to": "float32"})).function
    for form in [*forms, generated, step._gated, step._stack, step._loop_stack]:
        assert isinstance(form, CompiledFunction), form


COMPILES_SLOWLY = """
import time
import numpy as np
from gatedrnn.kernels.cpu.step import _products
compile = _products._compiler.compile
def slowly(*args):
    time.sleep(4)  # longer than the processes start apart
    return compile(*args)
_products._compiler.compile = slowly
out = np.zeros(2)
_products(1, 2, np.ones(2), 2, np.arange(4.0), out)
print(*out, sum(_products.stats.cache_misses.values()))
"""


def python(script, *, before=(), **environment):
    source = str(Path(gatedrnn.__file__).parent.parent)
    given = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [*before, sys.executable, "-c", script], env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.slow
def test_of_two_processes_one_compiles_and_the_other_loads(folder):
    both = [python(COMPILES_SLOWLY, NUMBA_CACHE_DIR=str(folder)) for _ in range(2)]
    answers = [process.communicate(timeout=120) for process in both]
    assert sorted(out for out, _ in answers) == ["1.0 5.0 0\n", "1.0 5.0 1\n"], answers
    assert sum(error.count("compiling") for _, error in answers) == 1, answers


CROSS_ENTROPY = """
import torch
from gatedrnn.kernels.cpu import cross_entropy
torch.manual_seed(0)
scores = torch.randn(33, 1001)
losses = cross_entropy(scores, torch.randint(1001, (33,)), 0.5)
print(losses.double().sum().item(), scores.double().abs().sum().item())
"""


@pytest.mark.slow
def test_a_kernel_that_was_loaded_gives_the_bits_of_the_one_that_was_compiled(folder):
    compiled_here, loaded = (python(CROSS_ENTROPY, NUMBA_CACHE_DIR=str(folder)).communicate() for _ in range(2))
    assert "compiling" in compiled_here[1] and "compiling" not in loaded[1]
    assert compiled_here[0] == loaded[0] != ""


SCANS = """
import torch
from gatedrnn import MinGRU
torch.manual_seed(0)
layer = MinGRU(3, 4)
for _ in range(2):
    y, h = layer(torch.ones(5, 2, 3))
y.sum().backward()
print(round(float(layer.weight_ih_l0.grad.sum()), 4))
"""


def in_namespace(folder, mounts, **environment):
    """What `SCANS` prints and says, from a copy of the package, after the mounts."""
    shutil.copytree(
        Path(gatedrnn.__file__).parent, folder / "src" / "gatedrnn", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "home").mkdir()
    environment = {"HOME": str(folder / "home"), "PYTHONPATH": str(folder / "src"), "XDG_CACHE_HOME": "", **environment}
    shell = [*"unshare --user --map-root-user --mount sh -ec".split(), f'{mounts}; exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*shell, "true"], cwd=folder, capture_output=True).returncode:
        pytest.skip("no mounts in a namespace of its own here")
    process = python(SCANS, before=shell, **environment)
    out, said = process.communicate(timeout=250)
    assert process.returncode == 0, said
    return out, said


READ_ONLY = "for d in src home; do mount --bind $d $d; mount -o remount,bind,ro $d; done; ! touch src/x 2>/dev/null"


@pytest.mark.slow
@pytest.mark.parametrize(
    "mounts, environment",
    [
        (READ_ONLY, {"NUMBA_CACHE_DIR": ""}),
        ("mkdir -p full; mount -t tmpfs -o size=64k none full; dd if=/dev/zero of=full/x 2>/dev/null || true", {}),
    ],
    ids=["read-only", "full disk"],
)
def test_kernels_run_where_nothing_can_be_saved(tmp_path, monkeypatch, mounts, environment):
    monkeypatch.chdir(tmp_path)
    out, said = in_namespace(tmp_path, mounts, **{"NUMBA_CACHE_DIR": str(tmp_path / "full"), **environment})
    expected, _ = python(SCANS, NUMBA_CACHE_DIR=str(tmp_path / "other")).communicate(timeout=250)
    assert out == expected
    assert said.count("cannot be saved") == 1, said
