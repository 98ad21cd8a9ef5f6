"""The parts of a scan cell that a kernel needs apart from each other, where a scan goes over tiles of many steps.

Rows as in `elementwise`, each of which is a tile here: x of a projection (with its bias), `state` after a step,
`previous` before it, `upstream` of the output, and `delta`, the whole gradient of the state after the step.
"""

from dataclasses import dataclass

from torch import Tensor

from gatedrnn.codegen.row import Row, sources_of
from gatedrnn.codegen.trace import gradients, in_a_clean_thread, trace
from gatedrnn.equations import Recurrent, ScanEquations, output_of


@dataclass(frozen=True, eq=False)
class TileProgram:
    """All that a kernel of tiles knows of a scan cell."""

    word: str
    """The cell's."""
    projections: tuple[str, ...]
    """Their names, in order."""
    coefficients: Row
    """x → decay, drive."""
    output: Row | None
    """x, state → output; None where that is the state."""
    of_state: Row | None
    """x, state, upstream → by_output, the gradient of the state that comes through the output; likewise None."""
    gradient: Row
    """x, state, previous, delta, upstream → gx."""

    @property
    def gates(self) -> int:
        """Number of projections."""
        return len(self.projections)


def tile_program(cell: ScanEquations) -> TileProgram:
    """The parts of a cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise; the message names its line.
    """
    return in_a_clean_thread(lambda: _traced(cell))


def _traced(cell: ScanEquations) -> TileProgram:
    given, sources = [f"x_{name}" for name in cell.projections], sources_of(cell)

    def coefficients(*x: Tensor) -> list[Tensor]:
        return list(cell.coefficients(*x))

    def output(state: Tensor, *x: Tensor) -> list[Tensor]:
        return [output_of(cell, (state,), x)]

    def of_state(state: Tensor, upstream: Tensor, *x: Tensor) -> list[Tensor]:
        return gradients([(output(state, *x)[0], upstream)], [state])

    def gradient(state: Tensor, previous: Tensor, delta: Tensor, upstream: Tensor, *x: Tensor) -> list[Tensor]:
        (after,) = cell.step(x, (previous,), Recurrent(cell.projections, {}))
        pairs = [(after, delta), (output(state.detach(), *x)[0], upstream)]
        return gradients([(result, of) for result, of in pairs if result.requires_grad], x)

    graph, found = trace(coefficients, given, sources)
    shown, (seen,) = trace(output, ["state", *given], sources)
    through, (back,) = trace(of_state, ["state", "upstream", *given], sources, gradient=True)
    whole, of_x = trace(gradient, ["state", "previous", "delta", "upstream", *given], sources, gradient=True)
    is_state = shown.nodes[seen].name == "state"
    return TileProgram(
        cell.word,
        cell.projections,
        Row("coefficients", graph, dict(zip(("decay", "drive"), found, strict=True)), {}),
        None if is_state else Row("output", shown, {"output": seen}, {}),
        None if is_state else Row("of_state", through, {"by_output": back}, {}),
        Row("gradient", whole, {f"gx_{name}": value for name, value in zip(cell.projections, of_x, strict=True)}, {}),
    )
