"""A layer described: equations, parameters by part, state, work and execution path."""

import inspect
from typing import NamedTuple

from gatedrnn.codegen.numba_source import numba_source
from gatedrnn.codegen.triton_source import triton_source
from gatedrnn.equations import Equations
from gatedrnn.layers import Path, RecurrentLayer
from gatedrnn.layers.parameters import AUTHORS
from gatedrnn.ops.cells import cell_program, loop_program, tile_program

PARTS = {
    "input weights": ("weight_ih",),
    "recurrent weights": ("weight_hh",),
    "peepholes": ("weight_ci", "weight_cf", "weight_co"),
    "decay over gaps": ("weight_gap", "bias_gap"),
    "projection": ("weight_hr",),
    "normalisation": ("weight_norm",),
    "biases": ("bias_ih", "bias_hh"),
    "initial state": ("initial_state",),
}


class Description(NamedTuple):
    """Equations, sizes and execution paths of a layer."""

    cell: str
    layer: str
    equations: str
    gates: tuple[str, ...]
    parameters: dict[str, int]
    """By part, for the parts that the layer has."""
    one_bias_a_gate: int | None
    """Parameters in all with one bias a gate; None if there is one a gate already."""
    state: int
    """Elements of the state of one sequence, all layers and directions together."""
    multiply_adds: int
    """Per step of one sequence, of the matrix products."""
    initialisation: str
    training: Path
    evaluation: Path

    @property
    def total(self) -> int:
        """Parameters in all."""
        return sum(self.parameters.values())


def describe(layer: RecurrentLayer) -> Description:
    """Describe a layer on this machine."""
    counts: dict[str, int] = {}
    second = 0
    for name, parameter in layer.named_parameters():
        base = name.rsplit("_l", 1)[0]
        part = next((part for part, names in PARTS.items() if base in names), base)
        counts[part] = counts.get(part, 0) + parameter.numel()
        second += parameter.numel() if base == "bias_hh" else 0
    return Description(
        cell=layer.cell.name,
        layer=type(layer).__name__,
        equations=inspect.cleandoc(type(layer.cell).__doc__ or "no equations are written down"),
        gates=layer.cell.projections,
        parameters={part: counts[part] for part in (*PARTS, *counts) if part in counts},
        one_bias_a_gate=sum(counts.values()) - second if second else None,
        state=layer.num_layers * (1 + layer.bidirectional) * sum(layer.state_sizes()),
        multiply_adds=sum(p.numel() for p in layer.parameters() if p.dim() == 2),
        initialisation=f"weights {layer.weight_init}, biases {layer.bias_init}" + _of_the_authors(layer.cell),
        training=layer.runs_on(training=True),
        evaluation=layer.runs_on(training=False),
    )


def _of_the_authors(cell: Equations) -> str:
    """What their code does, where that is a scheme of its own."""
    fill = getattr(cell, "fill_as_authors", None)
    return "" if fill is None else f"; {AUTHORS}: {' '.join((fill.__doc__ or '').split())}"


def kernel_sources(cell: Equations) -> list[str]:
    """The source of a cell's generated functions, its equations at the head: for a CPU in float32, forward and
    backward; of a scan cell for a GPU too. None for a cell without a generated kernel.

    Example:
        >>> from gatedrnn.registry import CELLS
        >>> print(kernel_sources(CELLS["signed-mingru"].equations())[0].splitlines()[0])
        def signed_mingru_forward(n, table):
    """
    program, loop = cell_program(cell), loop_program(cell)
    if program is not None:
        rows = [program.plain.forward, program.plain.backward]
    elif loop is not None:
        rows = [*loop.forward, *reversed(loop.backward)]
    else:
        return []
    equations = inspect.cleandoc(type(cell).__doc__ or "")
    found = [numba_source(cell.word, row, dict.fromkeys(row.rows, "float32"), equations).text for row in rows]
    tiles = tile_program(cell)
    return found if tiles is None else [*found, triton_source(tiles, equations)]


def gate_weights(layer: RecurrentLayer) -> int:
    """Parameters of the gates alone, without biases and projection: what the minimal cells' paper counts."""
    return sum(p.numel() for name, p in layer.named_parameters() if name.startswith(("weight_ih", "weight_hh")))
