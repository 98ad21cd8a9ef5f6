"""Layers as `gatedrnn describe` prints them: equations, sizes, execution path, generated sources."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gatedrnn.errors import UsageError
from gatedrnn.inspect.describe import Description, describe, gate_weights, kernel_sources
from gatedrnn.kinds import kernel_of
from gatedrnn.layers import Path, RecurrentLayer
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.terminal import Console

_PAPER_RATIOS = {"mingru": ("gru", 2, 3), "minlstm": ("lstm", 3, 4)}
"""Gate weights of a minimal cell over those of the cell it comes from: 2/(3(1+a)) and 3/(4(1+a)), a = hidden/input."""


def print_layers(
    cells: Sequence[str], input_size: int, hidden_size: int, arguments: Mapping[str, float], kernel: bool,
    console: Console,
) -> None:  # fmt: skip
    """Print what layers of these cells are.

    Args:
        cells: Names, with options or without; all cells if empty, without those that refuse the arguments.
        arguments: Further arguments of the layers.
        kernel: Print the generated sources too.

    Raises:
        UsageError: a named cell refuses the arguments, or a layer is larger than this machine's memory.
    """
    layers = []
    for cell in cells or tuple(CELLS):
        try:
            layers.append(_layer(CellChoice.parse(cell), input_size, hidden_size, arguments))
        except UsageError as error:
            if cells:
                raise
            console.print(f"left out: {error}", highlight=False)
    for layer in layers:
        _print(layer, console)
        if kernel:
            _print_kernel(layer, console)


def _print_kernel(layer: RecurrentLayer, console: Console) -> None:
    sources = kernel_sources(layer.cell)
    if not sources:
        console.print(f"no kernel is generated: {kernel_of(layer.cell).missing}\n")
    for source in sources:
        console.print(Syntax(source, "python", background_color="default"), "", soft_wrap=True)


def _layer(cell: CellChoice, input_size: int, hidden_size: int, arguments: Mapping[str, float]) -> RecurrentLayer:
    kind: Callable[..., RecurrentLayer] = CELLS[cell.name].layer  # options of a cell are its own
    name, make = cell.name, partial(kind, input_size, hidden_size, **arguments, **cell.options)
    try:
        # On the meta device sizes take no memory, so that one too large is counted first.
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in make().parameters())
    except (RuntimeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise UsageError(f"{name}: more parameters than can be counted in 64 bits; choose smaller sizes") from error
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    required, available = 4 * parameters, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if required > available:
        raise UsageError(
            f"{name}: {parameters:,} parameters take {required / 2**30:,.1f} GiB, and this machine has "
            f"{available / 2**30:,.1f} GiB; choose smaller sizes"
        )
    return make()


def _print(layer: RecurrentLayer, console: Console) -> None:
    description = describe(layer)
    heading = Text.assemble((description.cell, "bold"), f"  gatedrnn.{description.layer}({layer.extra_repr()})")
    console.rule(heading, align="left")
    console.print(f"\n{description.equations}\n", highlight=False, soft_wrap=True)
    parts = ", ".join(f"{part} {count:,}" for part, count in description.parameters.items())
    one_bias = (
        f"; {description.one_bias_a_gate:,} with one bias a gate" if description.one_bias_a_gate is not None else ""
    )
    lines = {
        "gates": " ".join(description.gates),
        "parameters": f"{description.total:,} ({parts}){one_bias}",
        "against": _against(description.cell, layer),
        "state": f"{description.state:,} elements a sequence",
        "work": f"{description.multiply_adds:,} multiply-adds a step",
        "initialisation": description.initialisation,
        "runs on": _path(description),
    }
    table = Table.grid(padding=(0, 2))
    for title, text in lines.items():
        if text:
            table.add_row(title, Text(text))
    console.print(table)
    console.print()


def _against(cell: str, layer: RecurrentLayer) -> str:
    """The paper's ratio of gate weights, in one layer and direction."""
    if cell not in _PAPER_RATIOS:
        return ""
    other, gates, others_gates = _PAPER_RATIOS[cell]
    sizes = layer.input_size, layer.hidden_size
    mine, theirs = (gate_weights(CELLS[name].layer(*sizes, bias=False, device="meta")) for name in (cell, other))
    expansion = layer.hidden_size / layer.input_size
    return (
        f"gate weights of a layer {mine:,} to {other}'s {theirs:,}: {mine / theirs:.4f} = "
        f"{gates}/({others_gates}(1+a)) at a = hidden/input = {expansion:g}"
    )


def _path(description: Description) -> str:
    def words(path: Path) -> str:
        return f"{path.name}: {path.reason}"

    if description.training == description.evaluation:
        return words(description.training)
    return f"in training {words(description.training)}; in evaluation {words(description.evaluation)}"
