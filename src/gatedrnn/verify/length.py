"""Errors by length of a sequence, in float32: they do not grow, except in the scan over logarithms."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import split_gates
from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.ops import choose_backend, linear_scan, log_space_scan
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.shapes import Series
from gatedrnn.verify.contract import Check, as_log_space
from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition
from gatedrnn.verify.tolerances import allowed_error, largest_error

_SCAN_LENGTHS = (100, 10_000, 1_000_000)
_LOOP_LENGTHS = (100, 3_000)
CHANNELS = 2
_LONG_SCAN_CELL = "mingru"
"""The scan cell that represents all: they share the scan over time."""


def check_lengths(cells: tuple[str, ...]) -> Iterator[Check]:
    """Check the error by length of the bare scan, of one scan cell, and of every loop cell among `cells`."""
    backend = choose_backend("cpu").backend
    decay, drive = _random_coefficients(_SCAN_LENGTHS[-1])
    exact = _loop_in_python(decay, drive)
    for steps in _SCAN_LENGTHS:
        h, _ = linear_scan(decay[:, :steps].float(), drive[:, :steps].float(), backend=backend)
        yield _row("linear_scan", backend, steps, h, exact[:, :steps])
    for name in dict.fromkeys(CellChoice.parse(cell).name for cell in cells):
        layer_class = CELLS[name].layer
        if kind_of(layer_class.cell_class).facts(layer_class.cell_class).iterates:
            layer, x = _layer_and_input(name, _LOOP_LENGTHS[-1])
            with torch.no_grad():
                exact, _ = run_by_definition(layer.double(), _unpadded(layer, x.double()))
                layer.float()
                for steps in _LOOP_LENGTHS:
                    yield _row(name, layer.backends[-1], steps, layer(x[:, :steps])[0], exact[:, :steps])
        elif name == _LONG_SCAN_CELL:
            yield from _long_scan_cell(name)


def _long_scan_cell(name: str) -> Iterator[Check]:
    """Check a scan cell in linear space, and show its error in log space, where it may grow."""
    layer, x = _layer_and_input(name, _SCAN_LENGTHS[-1])
    backend = layer.backends[-1]
    cell: Any = layer.cell  # a scan cell
    with torch.no_grad():
        projected = layer.project(x.double(), {k.removesuffix("_l0"): p.double() for k, p in layer.named_parameters()})
        coefficients = cell.coefficients(*split_gates(len(cell.projections), projected))
        exact = _loop_in_python(*coefficients)
        for steps in _SCAN_LENGTHS:
            yield _row(name, backend, steps, layer(x[:, :steps])[0], exact[:, :steps])
        for steps in _SCAN_LENGTHS:
            decay, drive = (each[:, :steps].float() for each in coefficients)
            h, _ = log_space_scan(decay, drive, torch.zeros(1, CHANNELS))
            yield as_log_space(_row(name, backend, steps, h, exact[:, :steps]), steps)


def _row(cell: str, backend: str, steps: int, actual: Series, exact: Series) -> Check:
    allowed = allowed_error(exact, torch.float32)
    return Check(cell, "float32", backend, f"T = {steps:,}", "output", largest_error(actual, exact), allowed)


def _random_coefficients(steps: int) -> tuple[Tensor, Tensor]:
    """Draw decays of both signs, up to a time scale of 64, and drives that keep the state within one, in float32."""
    generator = torch.Generator().manual_seed(0)
    decay = (2 * torch.rand(1, steps, CHANNELS, generator=generator) - 1) * (1 - 1 / 64)
    drive = (1 - decay.abs()) * (2 * torch.rand(1, steps, CHANNELS, generator=generator) - 1)
    # Drawn in float32, so that the same numbers go into both precisions without rounding.
    return decay.double(), drive.double()


def _loop_in_python(decay: Series, drive: Series) -> Series:
    """Run the recurrence in Python's floats: independent of our code, and faster than tensors of two elements."""
    channels = []
    for a, b in zip(decay[0].T.tolist(), drive[0].T.tolist(), strict=True):
        h, states = 0.0, []
        for a_t, b_t in zip(a, b, strict=True):
            h = a_t * h + b_t
            states.append(h)
        channels.append(torch.tensor(states, dtype=torch.float64))
    return torch.stack(channels, dim=1).unsqueeze(0)


def _layer_and_input(name: str, steps: int) -> tuple[RecurrentLayer, Series]:
    """Make a layer with its default initialisation and one long sequence."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = CELLS[name].layer(CHANNELS, CHANNELS, batch_first=True)
        return layer, torch.randn(1, steps, CHANNELS)


def _unpadded(layer: RecurrentLayer, x: Series) -> Sequences:
    flags = torch.zeros(x.shape[:2], dtype=torch.bool)
    return Sequences(x, initial_states(layer, len(x)), ~flags, flags)
