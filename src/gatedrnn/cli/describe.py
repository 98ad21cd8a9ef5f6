"""gatedrnn describe: cells, or a model."""

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from rich.table import Table
from rich.text import Text

from gatedrnn.cli.arguments import above_zero, at_least_one, known_cell
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console


def print_model(folder: Path) -> None:
    """Print the parts of a run's or a folder's model, each with its parameters, and how they answer together.

    Raises:
        DataError: there is no model.
    """
    from gatedrnn.inspect.parts import answers_of, parts_of
    from gatedrnn.models.structure import describe_structure
    from gatedrnn.training.finished import open_finished

    console, model = Console(), open_finished(folder).model
    parts, structure = parts_of(model), describe_structure(model)
    console.rule(Text.assemble((folder.name, "bold"), f"  {type(model).__name__}"), align="left")
    table = Table(show_footer=True)
    trained, fitted = sum(part.trained for part in parts), sum(part.fitted for part in parts)
    for title, footer in (("part", "together"), ("of", ""), ("trained", f"{trained:,}"), ("fitted", f"{fitted:,}")):
        table.add_column(title, footer, justify="right" if footer.replace(",", "").isdigit() else "left")
    for part in parts:
        table.add_row(part.name, part.what, f"{part.trained:,}", f"{part.fitted:,}")
    console.print(table)
    state, work = structure.state_size, structure.multiply_adds_per_step
    lines = [("answer", sentence) for sentence in answers_of(model)]
    lines += [] if state is None else [("state", f"{state:,} elements a sequence")]
    for title, text in [*lines, ("work", f"{work:,} multiply-adds a step")]:
        console.print(Text(f"{title:<8}{text}"), soft_wrap=True)


REGULARISERS = Group("Regularisers", sort_key=1)
Size = Annotated[int, Parameter(validator=at_least_one)]


def describe(
    *cells: Annotated[str, Parameter(validator=known_cell)],
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
    recipe: Path | None = None,
) -> None:
    """Print what cells are (equations, parameters by part, state, multiply-adds, the backend on this machine), or of
    what parts a trained model is made.

    Or, of a table, as in `gatedrnn describe sales.csv`, how it is read, and what `gatedrnn train` and
    `gatedrnn forecast` do with it.

    Args:
        cells: Cells to describe, with options as in gru:reset_after=false; all cells if none is named.
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
        recipe: File of training data, in the place of cells: as `gatedrnn describe FILE`, with the flags of the
            task's data.
    """
    if recipe is not None or (cells and model is not None):
        raise UsageError(
            "cells, --model and --recipe are described one at a time; give one of them, and --recipe first"
        )
    if model is not None:
        print_model(model)
        return
    if hidden_size is not None and expansion is not None:
        raise UsageError("--hidden-size and --expansion both give the width of the state; give one")
    width = hidden_size or (round(expansion * input_size) if expansion else 128)
    from gatedrnn.inspect.printing import print_layers

    arguments = {
        "num_layers": num_layers, "bidirectional": bidirectional, "proj_size": proj_size, "bias": not without_bias,
        "zoneout": zoneout, "input_dropout": input_dropout, "state_dropout": state_dropout,
        "weight_dropout": weight_dropout, "layer_norm": layer_norm,
    }  # fmt: skip
    print_layers(cells, input_size, width, arguments, kernel, Console())
