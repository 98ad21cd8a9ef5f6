"""What holds for every test: a fixed seed, memory that nobody wrote reads as NaN, and no text is tokenised for good."""

import os

import pytest
import torch
from hypothesis.configuration import set_hypothesis_home_dir

# Some virtual machines announce AMX and end the process that uses it, in any product of bfloat16 matrices. oneDNN reads
# this at its first product, and so does every process that a test starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

ALIKE = {
    "cifg", "hgrn", "janet", "sru", "para-gru",
    "lstm-no-output-gate", "lstm-input-gated", "lstm-normalized", "gru-no-reset-gate", "gru-input-gated",
}  # fmt: skip
"""Cells for which another one of their kind stands, in the fast tests of what a kind of cell has in common: the steps
down the ladder among them, between cells that are tested."""
EQUATIONS = {"test_equations", "test_signs", "test_layer_parameters", "test_model_counts"}
"""What a cell has of its own: fast for every one."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        given = getattr(item, "callspec", None)
        values = [] if given is None else [value for value in given.params.values() if isinstance(value, str)]
        if ALIKE.intersection(values) and item.module.__name__.rpartition(".")[2] not in EQUATIONS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def tokenised_texts_go_away(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))  # what a test starts inherits it
        yield


@pytest.fixture(autouse=True, scope="session")
def properties_leave_nothing_in_the_working_folder(tmp_path_factory: pytest.TempPathFactory):
    """Without a database hypothesis would still keep the constants that it found in the code."""
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))
    yield
    set_hypothesis_home_dir(None)


@pytest.fixture(autouse=True, scope="session")
def uninitialised_memory_is_nan():
    """An element that a kernel forgot to write then fails its test, instead of passing by luck."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    # torch fills `torch.empty` only in deterministic mode, which costs nothing else on a CPU.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]
