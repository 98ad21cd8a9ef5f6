"""The rows of a cell without products in time: what one step computes for each channel, forward and backward.

A row reads and writes named rows of memory, one number a channel: of a projection `update` x_update, its bias b_update
and their gradients gx_update and gb_update; of a diagonal weight `hr` w_hr and gw_hr.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from torch import Tensor

from gatedrnn.codegen.graph import COSTLY
from gatedrnn.codegen.row import Row, sources_of
from gatedrnn.codegen.trace import gradients, in_a_clean_thread, trace
from gatedrnn.equations import ElementwiseLoopEquations, Recurrent, ScanEquations, output_of
from gatedrnn.errors import CannotBeTraced


@dataclass(frozen=True)
class CellRows:
    """The rows of a cell. A step forward changes h, and c where there are two states, in place; a step backward delta_h
    and delta_c, the gradients of the states after it, into those before it."""

    forward: Row
    """x, b, w, h, c → h, c, output."""
    states: Row
    """x, b, w, h, c → h, c, and copies of them, kept_h and kept_c."""
    backward: Row
    """x, b, w, before_h, before_c, upstream, delta_h, delta_c → delta_h, delta_c, gx; gb and gw grow."""
    compose: Row | None
    """Of a scan: x, b, h, product → h after the step, product times the decay."""
    compose_backward: Row | None
    """Of a scan: x, b, before_h, upstream, delta_h, product → delta_h before the step, product times the decay."""


@dataclass(frozen=True, eq=False)
class CellProgram:
    """All that kernels know of a cell without products in time."""

    word: str
    """The cell's."""
    projections: tuple[str, ...]
    """Their names, in order."""
    states: tuple[str, ...]
    """h, or h and c."""
    diagonals: tuple[str, ...]
    """Names of the diagonal weights through which gates read the state."""
    plain: CellRows
    biased: CellRows
    """With biases, which are added to the projections."""

    @property
    def gates(self) -> int:
        """Number of projections."""
        return len(self.projections)

    @property
    def output_is_state(self) -> bool:
        """Whether a layer's output shows all of its state."""
        writes = self.plain.forward.writes
        return len(self.states) == 1 and writes["output"] == writes["h"]

    @cached_property
    def is_light(self) -> bool:
        """Whether a step computes next to nothing, so that memory alone sets its time."""
        graph, writes = self.plain.forward.graph, self.plain.forward.writes
        used = {graph.nodes[value].operation for value in graph.needed(writes.values())}
        return not used & COSTLY


def cell_program(cell: ScanEquations | ElementwiseLoopEquations) -> CellProgram:
    """The rows of a cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise; the message names its line.
    """
    plain, biased = in_a_clean_thread(lambda: tuple(_Tracing(cell, biases).rows() for biases in (False, True)))
    return CellProgram(cell.word, cell.projections, cell.states, tuple(cell.diagonals), plain, biased)


@cache
def bare_scan() -> CellProgram:
    """h_t = decay_t h_(t-1) + drive_t, without a cell."""
    return cell_program(_BareScan())


class _BareScan(ScanEquations):
    name = "linear-scan"
    projections = ("decay", "drive")

    def coefficients(self, *projected: Tensor) -> tuple[Tensor, Tensor]:
        decay, drive = projected
        return decay, drive


class _Tracing:
    """Functions of rows, as `trace` takes them: states first, then projections, biases and diagonal weights."""

    def __init__(self, cell: ScanEquations | ElementwiseLoopEquations, biases: bool) -> None:
        self.cell, self.biases = cell, biases
        self.states, self.gates = cell.states, cell.projections
        self.sources = sources_of(cell)
        self.given = [
            *(f"x_{name}" for name in self.gates), *((f"b_{name}" for name in self.gates) if biases else ()),
            *(f"w_{name}" for name in cell.diagonals),
        ]  # fmt: skip

    def _step(self, state: tuple[Tensor, ...], rows: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
        """The states after a step, and the output."""
        count = len(self.gates)
        projected, weights = tuple(rows[:count]), rows[count:]
        if self.biases:
            projected = tuple(x + b for x, b in zip(projected, weights[:count], strict=True))
            weights = weights[count:]
        named = {f"weight_{name}": weight for name, weight in zip(self.cell.diagonals, weights, strict=True)}
        after = self.cell.step(projected, state, Recurrent(self.gates, named))
        return after, output_of(self.cell, after, projected)

    def _forward(self, *rows: Tensor) -> list[Tensor]:
        count = len(self.states)
        after, output = self._step(rows[:count], rows[count:])
        return [*after, output]

    def _backward(self, *rows: Tensor) -> list[Tensor]:
        count = len(self.states)
        before, upstream, deltas = rows[:count], rows[count], rows[count + 1 : 2 * count + 1]
        others = rows[2 * count + 1 :]
        after, output = self._step(before, others)
        if not any(result.requires_grad for result in (*after, output)):
            raise CannotBeTraced(f"{type(self.cell).__name__}: neither state nor output depends on the inputs")
        pairs = [(a, d) for a, d in zip((*after, output), (*deltas, upstream), strict=True) if a.requires_grad]
        wanted = [*before, *others[: len(self.gates)], *others[len(others) - len(self.cell.diagonals) :]]
        return gradients(pairs, wanted)

    def _product(self, state: Tensor, product: Tensor, *rows: Tensor) -> list[Tensor]:
        """Of a scan: the product of decays after a step."""
        (after,), _ = self._step((state,), rows)
        return gradients([(after, product)], [state])

    def rows(self) -> CellRows:
        """All rows."""
        states, gates = self.states, self.gates
        graph, (*after, output) = trace(self._forward, [*states, *self.given], self.sources)
        writes = dict(zip(states, after, strict=True))
        arguments = [*(f"before_{s}" for s in states), "upstream", *(f"delta_{s}" for s in states)]
        back, found = trace(self._backward, [*arguments, *self.given], self.sources, gradient=True)
        deltas = {f"delta_{s}": value for s, value in zip(states, found, strict=False)}
        of_gates = dict(zip(gates, found[len(states) :], strict=False))
        of_weights = dict(zip(self.cell.diagonals, found[len(states) + len(gates) :], strict=True))
        sums = {f"gb_{name}": value for name, value in of_gates.items()} if self.biases else {}
        composed = isinstance(self.cell, ScanEquations)
        return CellRows(
            Row("forward", graph, writes | {"output": output}, {}),
            Row("states", graph, writes | {f"kept_{s}": value for s, value in writes.items()}, {}),
            Row(
                "backward", back, deltas | {f"gx_{name}": value for name, value in of_gates.items()},
                sums | {f"gw_{name}": value for name, value in of_weights.items()},
            ),
            self._composed("compose", self._forward, ["h"], "h") if composed else None,
            self._composed("compose_backward", self._backward, arguments, "delta_h") if composed else None,
        )  # fmt: skip

    def _composed(
        self, name: str, function: Callable[..., list[Tensor]], arguments: list[str], state: str
    ) -> Row:  # fmt: skip
        """A row of a scan that carries the product of decays beside the state."""
        count = len(arguments)

        def both(product: Tensor, *rows: Tensor) -> list[Tensor]:
            return [function(*rows)[0], *self._product(rows[0], product, *rows[count:])]

        graph, values = trace(both, ["product", *arguments, *self.given], self.sources, name == "compose_backward")
        return Row(name, graph, dict(zip((state, "product"), values, strict=True)), {})
