"""The rows of a loop cell: what one step computes for each channel around its products with the state.

Rows as in `gatedrnn.kinds.scan.rows`, and for a projection `update` u_update, the product of the state (with its
bias), and gu_update. The products are the loop's own: of one step all read its output before, or those of the last
projections read what a gate has made of it (`gated`). A step then has two parts, and the backward begins with the
second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from torch import Tensor

from gatedrnn.codegen.graph import Graph, Value
from gatedrnn.codegen.row import Row, evaluate, kept_values, sources_of
from gatedrnn.codegen.trace import gradients, in_a_clean_thread, trace
from gatedrnn.equations import LoopEquations, Recurrent, output_of
from gatedrnn.errors import CannotBeTraced
from gatedrnn.kinds.programs import TracedCell


@dataclass(frozen=True, eq=False)
class LoopProgram(TracedCell):
    """All that kernels know of a loop cell."""

    states: tuple[str, ...]
    """h, which is the output, and whatever else goes on, of the same size; c alone where the output only follows from
    it."""
    diagonals: tuple[str, ...]
    """Names of the diagonal weights through which gates read the states."""
    gated: int
    """Projections at the end whose product reads what a gate has made of the output; 0 where there is one product."""
    separate: tuple[str, ...]
    """Projections whose gradient is not that of their product with the state."""
    kept: int
    """Rows that a step keeps for the gradient."""
    forward: tuple[Row, ...]
    """One for each part: x, u, w, states → states, h, kept_0 and so on; of two parts the first gives `gated`."""
    backward: tuple[Row, ...]
    """One for each part, in the order of the forward: kept, w, and of each state before_, after_ and delta_ → gu, gx
    where it is separate, gated; delta_ of each before the step; gw grows. delta_h is that of the output, and stays as
    it is where no equation but the products reads h."""
    backward_projecting: tuple[Row, ...]
    """Rows that write `inner`, what is projected, too, if h is projected; none of a cell that never projects it."""
    shown: Row | None
    """c → h, where that is no state."""

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """The states but h."""
        return tuple(name for name in self.states if name != "h")

    @cached_property
    def passes_output(self) -> bool:
        """Whether an equation reads h before the step, other than in a product."""
        return "delta_h" in self.backward[0].writes

    def sources(self, equations: str) -> list[str]:
        """Return the source of every part of both passes, headed by the equations."""
        return self.numba_sources((*self.forward, *reversed(self.backward)), equations)


def trace_loop(cell: LoopEquations) -> LoopProgram:
    """Return the rows of a loop cell, traced from its equations.

    Raises:
        CannotBeTraced: an equation is not elementwise, or its products read something that no kernel has for them.
    """
    return in_a_clean_thread(lambda: _Tracing(cell).build_program())


class _Products:
    """The stand-in for a `Recurrent` while equations are traced: rows in the place of products with the state, and what
    they multiply."""

    def __init__(self, products: dict[str, Tensor], diagonals: dict[str, Tensor]) -> None:
        self.gates, self._rows, self._diagonals = tuple(products), products, diagonals
        self.reads: list[tuple[Tensor, tuple[str, ...]]] = []
        self.inner: Tensor | None = None

    def __call__(self, h: Tensor, *gates: str) -> tuple[Tensor, ...]:
        self.reads.append((h, gates or self.gates))
        return tuple(self._rows[gate] for gate in gates or self.gates)

    def diagonal(self, name: str) -> Tensor:
        return self._diagonals[name]

    def over(self, gaps: Tensor) -> Tensor:
        raise CannotBeTraced("weighs the gaps between steps, which the kernel of loops does not")

    def project(self, h: Tensor) -> Tensor:
        self.inner = h
        return h


@dataclass
class _Step:
    """The results of the equations of a step."""

    states: tuple[Tensor, ...]
    output: Tensor
    output_before: Tensor
    products: _Products

    def gated(self, gates: int) -> list[Tensor]:
        """Return the factor of the last projections' product, so many of them; none if there is no second product."""
        return [read for read, names in self.products.reads if gates and self.products.gates[-1] in names][:1]


@dataclass
class _Forward:
    """The results of a step in a graph."""

    graph: Graph
    states: dict[str, Value]
    output: Value
    output_before: Value
    gated: list[Value]
    """Nothing, or what the second product reads."""
    later: tuple[str, ...]
    """Projections of the second product."""

    @property
    def writes(self) -> dict[str, Value]:
        """Rows that a step leaves."""
        return self.states | {"h": self.output}


@dataclass
class _Backward:
    """Gradients, and expressions of the forward that they are computed from, in one graph."""

    graph: Graph
    of: dict[str, Value]
    """Gradients by the row they belong to."""
    after: dict[Value, str]
    """Rows that are there after a step."""
    extra: dict[str, Value]
    """Values that gradients of weights need: the gated state, or what is projected."""

    def kept(self) -> list[Value]:
        """Return the values of the forward that they read."""
        graph, wanted = self.graph, [*self.of.values(), *self.extra.values()]
        inputs = [value for value, node in enumerate(graph.nodes) if node.operation == "input"]
        # States and weights are in memory in the backward anyway; x and u are not, and what needs them is kept.
        free = {value for value in inputs if not graph.nodes[value].name.startswith(("x_", "u_"))} | set(self.after)
        flows = {value for value in inputs if graph.nodes[value].name.startswith("delta_")}
        read = [value for value in wanted if value not in flows]
        # What depends on an upstream gradient is computed in the backward: of such a value its arguments are kept.
        for value in graph.needed(wanted):
            arguments = graph.nodes[value].arguments
            if flows.intersection(arguments):
                flows.add(value)
                read += arguments
        return kept_values(graph, (value for value in read if value not in flows), frozenset(free))

    def row(self, name: str, kept: list[Value], writes: dict[str, Value], adds: dict[str, Value]) -> Row:
        """A row that reads what is kept."""
        graph = Graph(gradient=True)
        inputs = {value: graph.input(f"kept_{i}") for i, value in enumerate(kept)}
        inputs |= {value: graph.input(row) for value, row in self.after.items()}
        there = self.graph.rebuilt([*writes.values(), *adds.values()], graph, inputs)
        return Row(
            name, graph, dict(zip(writes, there, strict=False)), dict(zip(adds, there[len(writes) :], strict=True))
        )


class _Tracing:
    """One cell, from its equations to a program."""

    def __init__(self, cell: LoopEquations) -> None:
        self.cell, self.gates, self.diagonals = cell, cell.projections, tuple(cell.diagonals)
        self.sources = sources_of(cell)
        self.inputs = [f"{letter}_{name}" for letter in "xu" for name in self.gates]
        self.inputs += [f"w_{name}" for name in self.diagonals]
        self.reads: list[tuple[str, ...]] = []

    def _step(self, state: tuple[Tensor, ...], rows: Sequence[Tensor]) -> _Step:
        count = len(self.gates)
        x, u = tuple(rows[:count]), dict(zip(self.gates, rows[count:], strict=False))
        products = _Products(u, dict(zip(self.diagonals, rows[2 * count :], strict=True)))
        after = self.cell.step(x, state, cast(Recurrent, products))
        self.reads = [gates for _, gates in products.reads]
        return _Step(after, output_of(self.cell, after, x), output_of(self.cell, state, x), products)

    def _traced_step(self, *rows: Tensor) -> list[Tensor]:
        step = self._step(rows[: len(self.cell.states)], rows[len(self.cell.states) :])
        inner = step.output if step.products.inner is None else step.products.inner
        reads = [read for read, _ in step.products.reads]
        return [*step.states, step.output, step.output_before, inner, *reads]

    def build_program(self) -> LoopProgram:
        """The program."""
        names = self.cell.states
        forward = self._forward(names)
        # Products read the output: where that only follows from the state, it is called h, and the state c.
        if len(names) == 1 and forward.output != forward.states["h"]:
            forward = self._forward(("c",))
        back = self._backward(forward)
        kept = back.kept()
        inputs = {back.graph.input(f"before_{name}"): forward.graph.input(name) for name in forward.states}
        rows, count = _forward_rows(forward, back.graph.rebuilt(kept, forward.graph, inputs))
        # In a GRU the reset gate multiplies the product with the state alone: x and u have different gradients.
        separate = tuple(name for name in self.gates if back.of[f"x_{name}"] != back.of[f"u_{name}"])
        projecting = self._backward_rows(forward, back, kept, separate, True) if self.cell.projects_state else ()
        return LoopProgram(
            self.cell.word, self.gates, tuple(forward.states), self.diagonals, len(forward.later), separate, count,
            rows, self._backward_rows(forward, back, kept, separate, False), projecting,
            None if "h" in forward.states else _output_row(forward),
        )  # fmt: skip

    def _forward(self, names: tuple[str, ...]) -> _Forward:
        graph, values = trace(self._traced_step, [*names, *self.inputs], self.sources, differences=True)
        states = dict(zip(names, values, strict=False))
        output, before, inner, *reads = values[len(names) :]
        if len(names) > 1 and output != states["h"]:
            raise CannotBeTraced(f"the output of {self.cell.name} is not the first of its states")
        if self.cell.projects_state and inner != output:
            raise CannotBeTraced(f"{self.cell.name} computes something from its projected state")
        later = self._later(reads, before)
        gated = [value for value in dict.fromkeys(reads) if value != before]
        return _Forward(graph, states, output, before, gated, later)

    def _later(self, reads: list[Value], before: Value) -> tuple[str, ...]:
        """The projections whose product reads something else than the output before."""
        later = tuple(gate for read, gates in zip(reads, self.reads, strict=True) if read != before for gate in gates)
        if len({read for read in reads if read != before}) > 1:
            raise CannotBeTraced(f"{self.cell.name} multiplies more than two things by recurrent weights in one step")
        if before not in reads:
            raise CannotBeTraced(f"no recurrent product of {self.cell.name} reads its output of the step before")
        if later and later != self.gates[-len(later) :]:
            raise CannotBeTraced(
                f"{self.cell.name}: what reads a gated state ({', '.join(later)}) must be last among the projections"
            )
        return later

    def _backward(self, forward: _Forward) -> _Backward:
        states = tuple(forward.states)
        carried = tuple(name for name in states if name != "h")
        deltas = ["delta_h", *(f"delta_{name}" for name in carried), *(["delta_gated"] if forward.gated else [])]
        wanted = [*(f"before_{name}" for name in states), *self.inputs]

        def gradient(*rows: Tensor) -> list[Tensor]:
            before, upstream, weighed = rows[: len(states)], rows[len(states) :], rows[len(states) + len(deltas) :]
            step = self._step(before, weighed)
            gated = step.gated(len(forward.later))
            others = step.states[len(states) - len(carried) :]
            results = [step.output, *others, *gated]
            # autograd refuses a result that no input reaches.
            pairs = [(result, delta) for result, delta in zip(results, upstream, strict=False) if result.requires_grad]
            inner = step.output if step.products.inner is None else step.products.inner
            return [*gradients(pairs, [*before, *weighed]), step.output, *others, inner, *gated]

        names = [*wanted[: len(states)], *deltas, *self.inputs]
        graph, values = trace(gradient, names, self.sources, gradient=True, differences=True)
        of, (output, *others) = dict(zip(wanted, values, strict=False)), values[len(wanted) :]
        last, inner, gated = others[: len(carried)], others[len(carried)], others[len(carried) + 1 :]
        if self.cell.projects_state and graph.number(of["before_h"]) != 0:
            raise CannotBeTraced(f"an equation of {self.cell.name} reads its projected state")
        after = {} if self.cell.projects_state else {output: "after_h"}
        after |= {value: f"after_{name}" for name, value in zip(carried, last, strict=True)}
        extra = {"inner": inner} if self.cell.projects_state else dict(zip(["gated"], gated, strict=False))
        return _Backward(graph, of, after, extra)

    def _backward_rows(
        self, forward: _Forward, back: _Backward, kept: list[Value], separate: tuple[str, ...], projecting: bool
    ) -> tuple[Row, ...]:  # fmt: skip
        of = back.of
        writes = {f"delta_{name}": of[f"before_{name}"] for name in forward.states}
        if back.graph.number(writes.get("delta_h", 0)) == 0:
            # The loop clears it itself (`passes_output`): a row of zeros would be written for nothing.
            del writes["delta_h"]
        rows = list[Row]()
        for gates in filter(None, (self.gates[: len(self.gates) - len(forward.later)], forward.later)):
            writes |= {f"gu_{name}": of[f"u_{name}"] for name in gates}
            writes |= {f"gx_{name}": of[f"x_{name}"] for name in gates if name in separate}
            adds = {} if rows else {f"gw_{name}": of[f"w_{name}"] for name in self.diagonals}
            writes |= {} if rows or self.cell.projects_state > projecting else back.extra
            name = "backward" + (f"_{len(rows) + 1}" if forward.later else "") + ("_projecting" if projecting else "")
            rows.append(back.row(name, kept, writes, adds))
            writes = {}
        return tuple(rows)


def _forward_rows(forward: _Forward, kept: list[Value]) -> tuple[tuple[Row, ...], int]:
    """The rows of a step, and how many rows they keep."""
    graph = forward.graph
    if not forward.gated:
        writes = forward.writes | {f"kept_{i}": value for i, value in enumerate(kept)}
        return (Row("forward", graph, writes, {}),), len(kept)
    products = {graph.input(f"u_{name}") for name in forward.later}
    # Without the second product: these are known in the first part of a step.
    early = [value for value in kept if not products.intersection(graph.needed([value]))]
    there = [graph.input(name) for name in forward.states] + [graph.input(f"x_{name}") for name in forward.later]
    weights = [value for value, node in enumerate(graph.nodes) if node.name.startswith("w_")]
    more = kept_values(graph, forward.writes.values(), frozenset([*early, *there, *weights, *products]))
    kept = [*kept, *(value for value in more if value not in kept)]
    names = {value: f"kept_{i}" for i, value in enumerate(kept)}
    early += more
    second = Graph()
    inputs = {value: second.input(names[value]) for value in early}
    writes = forward.writes | {names[value]: value for value in kept if value not in early}
    values = graph.rebuilt(writes.values(), second, inputs)
    first = dict(zip(["gated", *(names[value] for value in early)], [*forward.gated, *early], strict=True))
    return (
        Row("forward_1", graph, first, {}), Row("forward_2", second, dict(zip(writes, values, strict=True)), {})
    ), len(kept)  # fmt: skip


def _output_row(forward: _Forward) -> Row:
    graph = Graph()
    (value,) = forward.graph.rebuilt([forward.output_before], graph, {})
    row = Row("shown", graph, {"h": value}, {})
    # A reset clears h and c both, so that the output of a zero state must be zero.
    if row.reads != ("c",) or evaluate(graph, [value], {"c": np.zeros(1)})[0].any():
        raise CannotBeTraced("the output follows from more than the state, or is not zero where the state is")
    return row
