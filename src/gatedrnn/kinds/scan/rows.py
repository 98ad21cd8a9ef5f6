"""The rows of a cell without products in time: what one step computes for each channel, forward and backward.

A row reads and writes named rows of memory, one number a channel: of a projection `update` x_update, its bias b_update
and their gradients gx_update and gb_update; of a diagonal weight `hr` w_hr and gw_hr.

For kernels of a GPU, where a scan goes over tiles of many steps, each part of a scan cell is a function of its own.
A row is a tile there: x of a projection (with its bias), `state` after a step, `previous` before it, `upstream` of the
output, and `delta`, the whole gradient of the state after the step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from torch import Tensor

from gatedrnn.codegen.graph import COSTLY
from gatedrnn.codegen.row import Row, sources_of
from gatedrnn.codegen.source import triton_source
from gatedrnn.codegen.trace import gradients, in_a_clean_thread, trace
from gatedrnn.equations import ElementwiseLoopEquations, Recurrent, ScanEquations, output_of
from gatedrnn.errors import CannotBeTraced
from gatedrnn.kinds.programs import TracedCell
from gatedrnn.kinds.scan.definition import BARE


@dataclass(frozen=True)
class CellRows:
    """The rows of a cell. A step forward changes h, and c where there are two states, in place; a step backward delta_h
    and delta_c, the gradients of the states after it, into those before it."""

    inputs: tuple[str, ...]
    """Names of the rows of projections, biases and diagonal weights, in order; those of their gradients have a g in
    front."""
    forward: Row
    """x, b, w, h, c → h, c, output."""
    states: Row
    """x, b, w, h, c → h, c, and copies of them, kept_h and kept_c."""
    backward: Row
    """x, b, w, before_h, before_c, upstream, delta_h, delta_c → delta_h, delta_c, gx; gb and gw grow."""
    compose: Row | None
    """A scan's: x, b, h, product → h after the step, product times the decay."""
    compose_backward: Row | None
    """A scan's: x, b, before_h, upstream, delta_h, product → delta_h before the step, product times the decay."""


@dataclass(frozen=True, eq=False)
class CellProgram(TracedCell):
    """All that kernels know of a cell without products in time."""

    states: tuple[str, ...]
    """h, or h and c."""
    diagonals: tuple[str, ...]
    """Names of the diagonal weights through which gates read the state."""
    plain: CellRows
    biased: CellRows
    """Rows that add biases to the projections."""

    @cached_property
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

    def sources(self, equations: str) -> list[str]:
        """Return the source of both passes without biases, headed by the equations."""
        return self.numba_sources((self.plain.forward, self.plain.backward), equations)


def trace_cell(cell: ScanEquations | ElementwiseLoopEquations) -> CellProgram:
    """Return the rows of a cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise; the message names its line.
    """
    plain, biased = in_a_clean_thread(lambda: tuple(_Tracing(cell, biases).rows() for biases in (False, True)))
    return CellProgram(cell.word, cell.projections, cell.states, tuple(cell.diagonals), plain, biased)


class _BareScan(ScanEquations):
    name = BARE
    projections = ("decay", "drive")

    def coefficients(self, *projected: Tensor) -> tuple[Tensor, Tensor]:
        decay, drive = projected
        return decay, drive


@cache
def bare_scan() -> CellProgram:
    """Return the rows of h_t = decay_t h_(t-1) + drive_t."""
    return trace_cell(_BareScan())


@cache
def bare_tiles() -> "TileProgram":
    """Return its parts on tiles."""
    return trace_tiles(_BareScan())


class _Tracing:
    """Functions of rows, as `trace` takes them: states first, then projections, biases and diagonal weights."""

    def __init__(self, cell: ScanEquations | ElementwiseLoopEquations, biases: bool) -> None:
        self.cell, self.biases = cell, biases
        self.states, self.gates = cell.states, cell.projections
        self.sources = sources_of(cell)
        self.inputs = [
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
        # autograd refuses a result that no input reaches, such as a state that is a constant.
        pairs = [(a, d) for a, d in zip((*after, output), (*deltas, upstream), strict=True) if a.requires_grad]
        # A bias is added to its projection and has the same gradient, summed over time (`rows`).
        wanted = [*before, *others[: len(self.gates)], *others[len(others) - len(self.cell.diagonals) :]]
        return gradients(pairs, wanted)

    def _product(self, state: Tensor, product: Tensor, *rows: Tensor) -> list[Tensor]:
        """Return the product of a scan's decays after a step."""
        (after,), _ = self._step((state,), rows)
        return gradients([(after, product)], [state])

    def rows(self) -> CellRows:
        """All rows."""
        states, gates = self.states, self.gates
        graph, (*after, output) = trace(self._forward, [*states, *self.inputs], self.sources)
        writes = dict(zip(states, after, strict=True))
        arguments = [*(f"before_{s}" for s in states), "upstream", *(f"delta_{s}" for s in states)]
        back, values = trace(self._backward, [*arguments, *self.inputs], self.sources, gradient=True)
        deltas = {f"delta_{s}": value for s, value in zip(states, values, strict=False)}
        of_gates = dict(zip(gates, values[len(states) :], strict=False))
        of_weights = dict(zip(self.cell.diagonals, values[len(states) + len(gates) :], strict=True))
        sums = {f"gb_{name}": value for name, value in of_gates.items()} if self.biases else {}
        composed = isinstance(self.cell, ScanEquations)
        return CellRows(
            tuple(self.inputs),
            Row("forward", graph, writes | {"output": output}, {}),
            Row("states", graph, writes | {f"kept_{s}": value for s, value in writes.items()}, {}),
            Row(
                "backward", back, deltas | {f"gx_{name}": value for name, value in of_gates.items()},
                sums | {f"gw_{name}": value for name, value in of_weights.items()},
            ),
            self._with_running_product("compose", self._forward, ["h"], "h") if composed else None,
            self._with_running_product("compose_backward", self._backward, arguments, "delta_h") if composed else None,
        )  # fmt: skip

    def _with_running_product(
        self, name: str, function: Callable[..., list[Tensor]], arguments: list[str], state: str
    ) -> Row:  # fmt: skip
        """A row of a scan that carries the product of decays beside the state."""
        count = len(arguments)

        def both(product: Tensor, *rows: Tensor) -> list[Tensor]:
            return [function(*rows)[0], *self._product(rows[0], product, *rows[count:])]

        graph, values = trace(both, ["product", *arguments, *self.inputs], self.sources, name == "compose_backward")
        return Row(name, graph, dict(zip((state, "product"), values, strict=True)), {})


@dataclass(frozen=True, eq=False)
class TileProgram(TracedCell):
    """All that a kernel of tiles knows of a scan cell."""

    coefficients: Row
    """x → decay, drive."""
    output: Row | None
    """x, state → output; None if that is the state."""
    of_state: Row | None
    """x, state, upstream → by_output, the gradient of the state that comes through the output; likewise None."""
    gradient: Row
    """x, state, previous, delta, upstream → gx."""

    def source(self, comment: str = "") -> str:
        """Return functions `coefficients`, `output` and `of_state`, which return tiles, and `gradient`, which stores
        them, for Triton.

        Args:
            comment: at the head, such as the equations.
        """
        loads = {
            f"x_{name}": f"projection(projected, offset, {index}, gate, inside, like, bias, channel, channels)"
            for index, name in enumerate(self.projections)
        }
        rows = self.coefficients, self.output, self.of_state, self.gradient
        functions = [
            triton_source(row, _ADDRESS + TILES[row.name], loads, _STORE if row is self.gradient else "")
            for row in rows
            if row is not None
        ]
        head = "\n".join(f"# {line}".rstrip() for line in comment.splitlines())
        return "\n\n\n".join([head, *functions] if head else functions) + "\n"

    def sources(self, equations: str) -> list[str]:
        """Return the source of all parts, headed by the equations."""
        return [self.source(equations)]


_ADDRESS = "projected, offset, gate, inside, like, bias, channel, channels"
"""Arguments from which every part loads the tiles of the projections."""
TILES = {
    "coefficients": "", "output": ", state", "of_state": ", state, upstream",
    "gradient": ", state, previous, delta, upstream, to, gate_of_gradient, real, mask",
}  # fmt: skip
"""Further arguments of the parts, and where `gradient` writes."""
_STORE = "tl.store(to + {index} * gate_of_gradient, tl.where(real, {value}, 0.0), mask=mask)"


def trace_tiles(cell: ScanEquations) -> TileProgram:
    """Return the parts of a cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise; the message names its line.
    """
    return in_a_clean_thread(lambda: _traced_tiles(cell))


def _traced_tiles(cell: ScanEquations) -> TileProgram:
    inputs, sources = [f"x_{name}" for name in cell.projections], sources_of(cell)

    def coefficients(*x: Tensor) -> list[Tensor]:
        return list(cell.coefficients(*x))

    def output(state: Tensor, *x: Tensor) -> list[Tensor]:
        return [output_of(cell, (state,), x)]

    def of_state(state: Tensor, upstream: Tensor, *x: Tensor) -> list[Tensor]:
        return gradients([(output(state, *x)[0], upstream)], [state])

    def gradient(state: Tensor, previous: Tensor, delta: Tensor, upstream: Tensor, *x: Tensor) -> list[Tensor]:
        (after,) = cell.step(x, (previous,), Recurrent(cell.projections, {}))
        # Detached: `delta` holds what reaches the state through the output already.
        pairs = [(after, delta), (output(state.detach(), *x)[0], upstream)]
        # autograd refuses a result that no input reaches, such as an output that is the state.
        return gradients([(result, of) for result, of in pairs if result.requires_grad], x)

    graph, values = trace(coefficients, inputs, sources)
    shown, (seen,) = trace(output, ["state", *inputs], sources)
    through, (back,) = trace(of_state, ["state", "upstream", *inputs], sources, gradient=True)
    whole, of_x = trace(gradient, ["state", "previous", "delta", "upstream", *inputs], sources, gradient=True)
    is_state = shown.nodes[seen].name == "state"
    return TileProgram(
        cell.word,
        cell.projections,
        Row("coefficients", graph, dict(zip(("decay", "drive"), values, strict=True)), {}),
        None if is_state else Row("output", shown, {"output": seen}, {}),
        None if is_state else Row("of_state", through, {"by_output": back}, {}),
        Row("gradient", whole, {f"gx_{name}": value for name, value in zip(cell.projections, of_x, strict=True)}, {}),
    )
