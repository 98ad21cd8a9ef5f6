"""The fixtures of every test: a fixed seed, memory that nobody wrote reads as NaN, no text tokenised for good.

Also here: `over` (support/covering.py), `--exhaustive` and `--slice`, by which the Makefile chooses what runs.
"""

import gc
import os
import zlib
from collections.abc import Iterator

import pytest
import torch
from covering import cases
from hypothesis.configuration import set_hypothesis_home_dir

from gatedrnn.user_cache import cache_folders

pytest_plugins = ["drawn_curves", "finished", "finished_comparison", "kernels_ahead"]

# Some virtual machines announce AMX and end the process that uses it, in any product of bfloat16 matrices. oneDNN reads
# this at its first product, and so does every process that a test starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Kernels are compiled once for all sessions of this checkout, though tests have a temporary folder for other caches.
for cache in cache_folders()[:1]:
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache / "tests"))
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported, by torch.compile for one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="all combinations of the axes of `over`, and every cell")
    parser.addoption("--slice", metavar="K/N", help="the K-th of N parts of the tests, by their functions' names")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("over"):
        where, axes = mark.args
        metafunc.parametrize(list(axes), cases(where, axes, metafunc.config.getoption("exhaustive")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Keep the slice that is asked for; a function's cases stay together, since they share what is made for them."""
    if not config.getoption("slice"):
        return
    part, parts = map(int, config.getoption("slice").split("/"))
    kept = [item for item in items if zlib.crc32(item.nodeid.partition("[")[0].encode()) % parts == part]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def pytest_collection_finish() -> None:
    """Look for garbage among what tests make alone: a look at all that was imported takes half a second each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 50)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.default_generator.manual_seed(0)  # of the CPU: to seed all devices takes a millisecond


@pytest.fixture(autouse=True, scope="session")
def tokenised_texts_go_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))  # what a test starts inherits it
        yield


@pytest.fixture(autouse=True, scope="session")
def properties_leave_nothing_in_the_working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give hypothesis a temporary folder: without a database it would still keep the constants that it found in the
    code.
    """
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))
    yield
    set_hypothesis_home_dir(None)


@pytest.fixture(autouse=True, scope="session")
def uninitialised_memory_is_nan() -> Iterator[None]:
    """An element that a kernel forgot to write then fails its test, instead of passing by luck."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    # torch fills `torch.empty` only in deterministic mode, which costs nothing else on a CPU.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]
