"""A layer described: equations, parameters by part, state, work and execution path."""

import inspect
import re
from typing import NamedTuple

from gatedrnn.equations import Equations
from gatedrnn.kinds import kernel_of
from gatedrnn.layers import Path, RecurrentLayer
from gatedrnn.layers.parameters import AUTHORS

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
    """Counts of parameters by part, for the parts that the layer has."""
    one_bias_a_gate: int | None
    """The number of parameters with one bias a gate; None if there is one a gate already."""
    state: int
    """Elements of the state of one sequence, all layers and directions together."""
    multiply_adds: int
    """Multiply-adds of the matrix products for one step of one sequence."""
    initialisation: str
    training: Path
    evaluation: Path

    @property
    def total(self) -> int:
        """The number of parameters."""
        return sum(self.parameters.values())


def describe(layer: RecurrentLayer) -> Description:
    """Describe a layer and its execution on this machine."""
    counts: dict[str, int] = {}
    second_biases = 0
    for name, parameter in layer.named_parameters():
        base = name.rsplit("_l", 1)[0]
        part = next((part for part, names in PARTS.items() if base in names), base)
        counts[part] = counts.get(part, 0) + parameter.numel()
        second_biases += parameter.numel() if base == "bias_hh" else 0
    return Description(
        cell=layer.cell.name,
        layer=type(layer).__name__,
        equations=equations_of(type(layer)),
        gates=layer.cell.projections,
        parameters={part: counts[part] for part in (*PARTS, *counts) if part in counts},
        one_bias_a_gate=sum(counts.values()) - second_biases if second_biases else None,
        state=layer.num_layers * (1 + layer.bidirectional) * sum(layer.state_sizes()),
        # Matrices alone: biases, diagonals and norms are elementwise.
        multiply_adds=sum(p.numel() for p in layer.parameters() if p.dim() == 2),
        initialisation=f"weights {layer.weight_init}, biases {layer.bias_init}" + _authors_scheme(layer.cell),
        training=layer.runs_on(training=True),
        evaluation=layer.runs_on(training=False),
    )


def equations_of(layer: type[RecurrentLayer]) -> str:
    """Return the equations of a layer as its docstring has them, with the sentences around them and the source.

    A class without the section "Equations" in its docstring has them in that of `cell_class`.
    """
    named = next(each for each in layer.__mro__ if "cell_class" in vars(each))  # a subclass may have another docstring
    text = inspect.cleandoc(named.__doc__ or "")
    if "\n\nEquations:\n" not in text:
        return inspect.cleandoc(layer.cell_class.__doc__ or "no equations are written down")
    text = re.sub(r"\n\nArgs:.*?(?=\n\nSource:|\Z)", "", text, flags=re.S)
    return re.sub(r"^(?:Equations|Source):\n|^ {4}", "", text, flags=re.M)


def _authors_scheme(cell: Equations) -> str:
    """Describe the scheme of the cell's authors, if it is one of its own."""
    fill = cell.fill_as_authors
    return "" if fill is None else f"; {AUTHORS}: {' '.join((fill.__doc__ or '').split())}"


def kernel_sources(cell: Equations) -> list[str]:
    """Return the source of a cell's generated functions, headed by the docstring of its equations.

    For a CPU in float32, forward and backward; for scan cells, for a GPU too. The list is empty for a cell without a
    generated kernel.

    Example:
        >>> from gatedrnn.registry import CELLS
        >>> print(kernel_sources(CELLS["signed-mingru"].equations())[0].splitlines()[0])
        def signed_mingru_forward(n, table):
    """
    equations = inspect.cleandoc(type(cell).__doc__ or "")
    programs = (kernel_of(cell, device).program for device in ("cpu", "cuda"))
    return [text for program in programs if program is not None for text in program.sources(equations)]


def gate_weights(layer: RecurrentLayer) -> int:
    """Count the parameters of gates alone, without biases and projection, as the minimal cells' paper does."""
    return sum(p.numel() for name, p in layer.named_parameters() if name.startswith(("weight_ih", "weight_hh")))
