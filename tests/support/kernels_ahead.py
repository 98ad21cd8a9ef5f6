"""Kernels that fast tests use, compiled once for all workers before the first test that may call one."""

import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from layer_laws import BATCH, CELL, FEATURES, JOINT, layer_of, packed_up, projection, series, states_of
from once import made_once

from gatedrnn import RecurrentLayer
from gatedrnn.kernels.cpu.ahead import compile_ahead
from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS
from gatedrnn.verify.contract import choices_of

FOLDERS = ("laws", "benchmarks", "ops", "kernels", "codegen", "layers", "models", "inspect", "verify")
"""The folders of the tests that run layers."""
SECONDS = pytest.StashKey[float]()


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        # Those of kernels for a GPU need none for a CPU, whose compilation takes minutes on a new machine.
        if set(FOLDERS).intersection(item.path.parts) and "gpu" not in item.path.parts:
            item.fixturenames.insert(0, "kernels")


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Compile what small layers of every cell call; what a test calls besides is small."""
    begin = time.perf_counter()
    made_once(tmp_path_factory, "kernels", compile_all)
    pytestconfig.stash[SECONDS] = time.perf_counter() - begin


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kernels"] = session.config.stash.get(SECONDS, 0.0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The longest of the workers: one compiles, and the others wait for it."""
    seconds = getattr(node, "workeroutput", {}).get("kernels", 0.0)
    node.config.stash[SECONDS] = max(seconds, node.config.stash.get(SECONDS, 0.0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SECONDS in config.stash:
        terminalreporter.write_line(f"kernels compiled, or found compiled, in {config.stash[SECONDS]:.1f} s")


def compile_all(folder: Path) -> None:
    """Record what the layers call, without running it; `compile_ahead` then compiles it by several processes."""
    with compile_ahead(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own remark on proj_size in float32
        for layer in layers():
            for x, hx, flags in inputs(layer):
                output, _ = layer(x, hx, **flags)
                output.sum().backward()
    with torch.no_grad():  # kernels of single steps are compiled where they are called
        for name, dtype in product(("mingru", "mgu", "lstm", "lru"), (torch.float64, torch.float32)):
            layer_of(name, dtype=dtype).step(series(BATCH, FEATURES, dtype=dtype))


def layers() -> Iterator[RecurrentLayer]:
    """Every cell and choice of options in float64, and those of the fast suite in other dtypes."""
    for choice in (choice for name in CELLS for choice in choices_of(name) if choice.options):
        options: dict[str, Any] = {"dtype": torch.float64, **choice.options}
        yield CELLS[choice.name].layer(FEATURES, 12, batch_first=True, **options)
    for dtype, names in ((torch.float64, CELL.every), (torch.float32, CELL.fast), (torch.bfloat16, CELL.fast)):
        for name, bias in product(names, (True, False)):
            yield layer_of(name, dtype=dtype, bias=bias, bidirectional=True, **projection(name, 2))
            yield layer_of(name, dtype=dtype, bias=bias, state_dropout=0.2, zoneout=0.0 if name in JOINT else 0.2)


def inputs(layer: RecurrentLayer) -> Iterator[tuple[torch.Tensor, object, dict[str, Any]]]:
    """A series alone, one with a state and flags, and one with times."""
    x = series(dtype=layer.weight_ih_l0.dtype)
    hx, flags = packed_up(states_of(layer, dtype=x.dtype)), torch.zeros(x.shape[:2], dtype=torch.bool)
    yield x, None, {}
    yield x, hx, {"mask": ~flags, "resets": flags}
    if kind_of(layer.cell).facts(layer.cell).gaps is not None:
        yield x, hx, {"gaps": torch.ones(x.shape[:2], dtype=torch.promote_types(x.dtype, torch.float32))}
