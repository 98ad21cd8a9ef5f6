"""gatedrnn describe."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Group, Parameter
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gatedrnn.cli.arguments import CellName, above_zero, at_least_one
from gatedrnn.errors import UsageError
from gatedrnn.inspect.describe import Description, gate_weights, kernel_sources
from gatedrnn.inspect.describe import describe as describe_layer
from gatedrnn.layers import Path as Way
from gatedrnn.layers import RecurrentLayer
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.terminal import Console

OF_BLOCKS = "one kernel scans the blocks of every such cell, and reads their matrices"
"""The reason why there is no source of a cell of small blocks."""
PAPER_RATIOS = {"mingru": ("gru", 2, 3), "minlstm": ("lstm", 3, 4)}
"""Gate weights of a minimal cell over those of the cell it comes from: 2/(3(1+a)) and 3/(4(1+a)), a = hidden/input."""


REGULARISERS, RECIPE = Group("Regularisers", sort_key=1), Group("Recipe", sort_key=2)
Size = Annotated[int, Parameter(validator=at_least_one)]


def describe(
    *cells: CellName,
    model: Path | None = None,
    input_size: Size = 64,
    hidden_size: Annotated[int | None, Parameter(validator=at_least_one)] = None,
    expansion: Annotated[float | None, Parameter(validator=above_zero)] = None,
    num_layers: Size = 1,
    bidirectional: bool = False,
    proj_size: int = 0,
    without_bias: bool = False,
    zoneout: Annotated[float, Parameter(group=REGULARISERS)] = 0.0,
    input_dropout: Annotated[float, Parameter(group=REGULARISERS)] = 0.0,
    state_dropout: Annotated[float, Parameter(group=REGULARISERS)] = 0.0,
    weight_dropout: Annotated[float, Parameter(group=REGULARISERS)] = 0.0,
    layer_norm: Annotated[bool, Parameter(group=REGULARISERS)] = False,
    kernel: bool = False,
    recipe: Annotated[Path | None, Parameter(group=RECIPE)] = None,
    task: Annotated[str | None, Parameter(group=RECIPE)] = None,
) -> None:
    """Print what cells are (equations, parameters by part, state, multiply-adds, the backend on this machine), or of
    what parts a trained model is made.

    Or with --recipe, what `gatedrnn train` and `gatedrnn forecast` do with some data.

    Args:
        cells: Cells to describe, with options as in gru:reset_after=false; all if none is named.
        model: Folder of a run, or of a model that one wrote: print its parts instead, each with its parameters.
        input_size: Features of the input.
        hidden_size: Channels of the state; 128 if neither this nor expansion is given.
        expansion: hidden_size in units of input_size, instead.
        num_layers: Layers.
        bidirectional: Both directions.
        proj_size: Size of an output projection; 0 for none.
        without_bias: No biases.
        zoneout: Rate; regularisers may change the execution mode.
        input_dropout: Rate.
        state_dropout: Rate.
        weight_dropout: Rate.
        layer_norm: Normalise each gate's input projection.
        kernel: Print the sources that are generated from the equations, for a CPU and for a GPU.
        recipe: File of training data: print the settings that a run takes for it, each with its reason, in the place of
            cells.
        task: The task of that file; guessed by its columns if not given.
    """
    if sum((bool(cells), model is not None, recipe is not None)) > 1:
        raise UsageError("cells, --model and --recipe are described one at a time; give one of them")
    if recipe is not None:
        from gatedrnn.cli.recipe import print_recipe

        print_recipe(recipe, task)
        return
    if model is not None:
        from gatedrnn.cli.describe_model import print_model

        print_model(model)
        return
    if hidden_size is not None and expansion is not None:
        raise UsageError("--hidden-size and --expansion both give the width of the state; give one")
    width = hidden_size or (round(expansion * input_size) if expansion else 128)
    arguments = {
        "num_layers": num_layers, "bidirectional": bidirectional, "proj_size": proj_size, "bias": not without_bias,
        "zoneout": zoneout, "input_dropout": input_dropout, "state_dropout": state_dropout,
        "weight_dropout": weight_dropout, "layer_norm": layer_norm,
    }  # fmt: skip
    console = Console()
    layers = []
    for cell in cells or tuple(CELLS):
        try:
            layers.append(_layer(CellChoice.parse(cell), input_size, width, arguments))
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
        console.print(f"no kernel is generated: {layer._kind.why_no_program(layer.cell) or OF_BLOCKS}\n")
    for source in sources:
        console.print(Syntax(source, "python", background_color="default"), "", soft_wrap=True)


def _layer(cell: CellChoice, input_size: int, hidden_size: int, arguments: dict[str, Any]) -> RecurrentLayer:
    kind: Callable[..., RecurrentLayer] = CELLS[cell.name].layer  # options of a cell are its own
    name, make = cell.name, partial(kind, input_size, hidden_size, **arguments, **cell.options)
    try:
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in make().parameters())
    except (RuntimeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise UsageError(f"{name}: more parameters than can be counted in 64 bits; choose smaller sizes") from error
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    taken, there = 4 * parameters, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if taken > there:
        raise UsageError(
            f"{name}: {parameters:,} parameters take {taken / 2**30:,.1f} GiB, and this machine has "
            f"{there / 2**30:,.1f} GiB; choose smaller sizes"
        )
    return make()


def _print(layer: RecurrentLayer, console: Console) -> None:
    description = describe_layer(layer)
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
    if cell not in PAPER_RATIOS:
        return ""
    other, gates, others_gates = PAPER_RATIOS[cell]
    sizes = layer.input_size, layer.hidden_size
    mine, theirs = (gate_weights(CELLS[name].layer(*sizes, bias=False, device="meta")) for name in (cell, other))
    expansion = layer.hidden_size / layer.input_size
    return (
        f"gate weights of a layer {mine:,} to {other}'s {theirs:,}: {mine / theirs:.4f} = "
        f"{gates}/({others_gates}(1+a)) at a = hidden/input = {expansion:g}"
    )


def _path(description: Description) -> str:
    def words(path: Way) -> str:
        return f"{path.name}: {path.reason}"

    if description.training == description.evaluation:
        return words(description.training)
    return f"in training {words(description.training)}; in evaluation {words(description.evaluation)}"
