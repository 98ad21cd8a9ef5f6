"""The rows of a cell without products in time: what one step computes for each channel, forward and backward.

A row reads and writes named rows of memory, one number a channel: of a projection `update` x_update, its bias b_update
and their gradients gx_update and gb_update; h is the state, which a row changes in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import FunctionType

import torch
from torch import Tensor

from gatedrnn.codegen.graph import Graph, Value
from gatedrnn.codegen.trace import in_a_clean_thread, trace
from gatedrnn.equations import ScanEquations, output_of
from gatedrnn.errors import CannotBeTraced


@dataclass(frozen=True, eq=False)
class Row:
    """A function of one step's rows, before it is source code of some kind."""

    name: str
    graph: Graph
    writes: dict[str, Value]
    """The rows that it writes, with the expressions that they get; a row among the inputs too is changed in place."""
    adds: dict[str, Value]
    """Rows that grow by these expressions."""

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The rows that it reads, in the order of the graph's inputs."""
        needed = self.graph.needed([*self.writes.values(), *self.adds.values()])
        nodes = (self.graph.nodes[value] for value in needed)
        return tuple(node.name for node in nodes if node.operation == "input")

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """All rows, in the order in which the compiled function takes them."""
        return tuple(dict.fromkeys([*self.reads, *self.writes, *self.adds]))


@dataclass(frozen=True)
class ScanRows:
    """The rows of a scan cell, h_t = a_t h_(t-1) + b_t with an output of its own or h."""

    forward: Row
    """x, b, h → h, output."""
    states: Row
    """The same with the state itself as the output."""
    compose: Row
    """x, b, h, product → h after the step, product times the decay."""
    backward: Row
    """x, b, before, upstream, delta → delta, gradients gx of x, and what gradients gb of b grow by."""
    compose_backward: Row
    """x, b, before, upstream, delta, product → delta before the step, product times the decay."""


@dataclass(frozen=True, eq=False)
class ScanProgram:
    """All that kernels know of a scan cell."""

    word: str
    """The cell's."""
    projections: tuple[str, ...]
    """Their names, in order."""
    plain: ScanRows
    biased: ScanRows
    """With biases, which are added to the projections."""

    @property
    def gates(self) -> int:
        """Number of projections."""
        return len(self.projections)

    @property
    def output_is_state(self) -> bool:
        """Whether a layer's output shows its state."""
        writes = self.plain.forward.writes
        return writes["output"] == writes["h"]

    @cached_property
    def is_light(self) -> bool:
        """Whether a step computes next to nothing, so that memory alone sets its time."""
        graph, writes = self.plain.forward.graph, self.plain.forward.writes
        used = {graph.nodes[value].operation for value in graph.needed(writes.values())}
        return not used & {"exp", "expm1", "log", "log1p", "tanh", "sqrt", "div"}


def scan_program(cell: ScanEquations) -> ScanProgram:
    """The rows of a cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise; the message names its line.
    """
    plain, biased = in_a_clean_thread(lambda: tuple(_scan_rows(cell, biases) for biases in (False, True)))
    return ScanProgram(cell.word, cell.projections, plain, biased)


@cache
def bare_scan() -> ScanProgram:
    """h_t = decay_t h_(t-1) + drive_t, without a cell."""
    return scan_program(_BareScan())


class _BareScan(ScanEquations):
    name = "linear-scan"
    projections = ("decay", "drive")

    def coefficients(self, *projected: Tensor) -> tuple[Tensor, Tensor]:
        decay, drive = projected
        return decay, drive


def _scan_rows(cell: ScanEquations, biases: bool) -> ScanRows:
    gates, names = len(cell.projections), cell.projections
    methods = [method for kind in type(cell).__mro__ for method in vars(kind).values()]
    sources = [method.__code__.co_filename for method in methods if isinstance(method, FunctionType)]
    given = [*(f"x_{name}" for name in names), *((f"b_{name}" for name in names) if biases else ())]

    def projections(rows: Sequence[Tensor]) -> list[Tensor]:
        return [x + b for x, b in zip(rows[:gates], rows[gates:], strict=True)] if biases else list(rows)

    def forward(h: Tensor, *rows: Tensor) -> list[Tensor]:
        projected = projections(rows)
        decay, drive = cell.coefficients(*projected)
        after = decay * h + drive
        return [after, output_of(cell, (after,), tuple(projected)), decay]

    def compose(h: Tensor, product: Tensor, *rows: Tensor) -> list[Tensor]:
        after, _, decay = forward(h, *rows)
        return [after, product * decay]

    def backward(before: Tensor, upstream: Tensor, delta: Tensor, product: Tensor, *rows: Tensor) -> list[Tensor]:
        after, output, decay = forward(before, *rows)
        of = [before, *rows[:gates]]
        if not (output.requires_grad and after.requires_grad):
            raise CannotBeTraced(f"{type(cell).__name__}: neither state nor output depends on the inputs")
        found = torch.autograd.grad([after, output], of, [delta, upstream], materialize_grads=True)
        return [*found, product * decay]

    graph, (after, output, _) = trace(forward, ["h", *given], sources)
    composed, composed_values = trace(compose, ["h", "product", *given], sources)
    back, (delta, *gradients, product) = trace(backward, ["before", "upstream", "delta", "product", *given], sources)
    return ScanRows(
        Row("forward", graph, {"h": after, "output": output}, {}),
        Row("states", graph, {"h": after, "output": after}, {}),
        Row("compose", composed, dict(zip(("h", "product"), composed_values, strict=True)), {}),
        Row(
            "backward", back, {"delta": delta, **{f"gx_{x}": g for x, g in zip(names, gradients, strict=True)}},
            {f"gb_{x}": g for x, g in zip(names, gradients, strict=True)} if biases else {},
        ),
        Row("compose_backward", back, {"delta": delta, "product": product}, {}),
    )  # fmt: skip


def _add() -> Row:
    graph = Graph()
    given, to = graph.input("given"), graph.input("to")
    return Row("add", graph, {"given": graph.constant(0), "to": graph.apply("add", given, to)}, {})


ADD = _add()
"""to + given → to, 0 → given."""
