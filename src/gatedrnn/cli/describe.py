"""gatedrnn describe."""

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from gatedrnn.cli.arguments import CellName, above_zero, at_least_one
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console

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
    from gatedrnn.inspect.printing import print_layers

    arguments = {
        "num_layers": num_layers, "bidirectional": bidirectional, "proj_size": proj_size, "bias": not without_bias,
        "zoneout": zoneout, "input_dropout": input_dropout, "state_dropout": state_dropout,
        "weight_dropout": weight_dropout, "layer_norm": layer_norm,
    }  # fmt: skip
    print_layers(cells, input_size, width, arguments, kernel, Console())
