"""Functions of one step's rows, before they are source code: their values, and the rows saved for backward.

`evaluate` computes the values of a graph, exactly or with random rounding; `error_mask` compares two results on equal
inputs. `kept_values` chooses the expressions that stay in memory between forward and backward. A row in memory is
written once and read once, which takes about as long as one exponential. So a sigmoid or a tanh of a value that is not
in memory is kept, and sums and products of kept rows are computed again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType

import numpy as np

from gatedrnn.codegen.graph import CONDITIONS, COSTLY, Graph, Value

_RECOMPUTED = 0.9
"""The cost of a costly operation, relative to a kept row."""
# 4 units in the last place cover the polynomials of float32 in `kernels.cpu.functions`.
SAMPLES, ULPS = 16, 4
MAX_ERROR = 1 / 8
"""The largest error by rounding, relative to 1, that leaves a digit to compare."""
# 1e-310 is denormal, which kernels treat as zero.
_EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-310, -1e-310)
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "sign": lambda x: np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0)), "exp": np.exp,
    "shrinking": lambda x: np.exp(-np.abs(x)), "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "minimum": np.minimum, "maximum": np.maximum, "where": np.where,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Row:
    """A function of named rows of memory, one number a channel: the expressions that it writes to them."""

    name: str
    graph: Graph
    writes: dict[str, Value]
    """The rows that it writes, with their expressions; a row that is also an input is changed in place."""
    adds: dict[str, Value]
    """The rows to which it adds, with the added expressions."""

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The rows that it reads, in the order of the graph's inputs."""
        nodes = (self.graph.nodes[v] for v in self.graph.needed([*self.writes.values(), *self.adds.values()]))
        return tuple(node.name for node in nodes if node.operation == "input")

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """All rows, in the order of the compiled function's arguments: the inputs that it uses, then other outputs."""
        outputs = {**self.writes, **self.adds}
        inputs = (node.name for node in self.graph.nodes if node.operation == "input")
        return tuple(dict.fromkeys([*(name for name in inputs if name in {*self.reads, *outputs}), *outputs]))


def sources_of(cell: object) -> list[str]:
    """Return the files of a cell's methods."""
    methods = [method for base in type(cell).__mro__ for method in vars(base).values()]
    return [method.__code__.co_filename for method in methods if isinstance(method, FunctionType)]


def _add() -> Row:
    graph = Graph()
    total = graph.apply("add", graph.input("given"), graph.input("to"))
    return Row("add", graph, {"given": graph.constant(0), "to": total}, {})


ADD = _add()
"""A row that adds the row `given` to `to` and clears it."""


def kept_values(graph: Graph, wanted: Iterable[Value], free: frozenset[Value]) -> list[Value]:
    """Choose about the fewest rows from which these expressions can be computed, in the order of the graph.

    Args:
        free: expressions that are in memory anyway; other inputs are not.
    """
    chosen, available = set[Value](), set(free)

    def is_available(value: Value) -> bool:
        return value in available or graph.number(value) is not None

    def recomputation_cost(value: Value) -> float:
        """Return the cost of computing an expression from those in memory."""
        node = graph.nodes[value]
        # An input that is not in memory cannot be computed: dearer than the 1 of a kept row.
        if node.operation == "input":
            return 2.0
        return sum(map(cost, set(node.arguments))) + _RECOMPUTED * (node.operation in COSTLY)

    def cost(value: Value) -> float:
        if is_available(value):
            return 0.0
        total = recomputation_cost(value)
        # 1 is the cost of keeping a row; a condition is no number, and no row holds it.
        return total if graph.nodes[value].operation in CONDITIONS else min(1.0, total)

    def choose(value: Value) -> None:
        if is_available(value):
            return
        if recomputation_cost(value) > 1 and graph.nodes[value].operation not in CONDITIONS:
            chosen.add(value)
        else:
            for argument in graph.nodes[value].arguments:
                choose(argument)
        available.add(value)  # once computed again, it serves all further readers

    for value in sorted(set(wanted)):
        choose(value)
    return sorted(chosen)


def evaluate(
    graph: Graph, outputs: Sequence[Value], inputs: Mapping[str, np.ndarray],
    rounded: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Compute the outputs for these inputs, in float64.

    Args:
        rounded: applied to the results of operations and to constants.
    """
    results: dict[Value, np.ndarray] = {}
    size = np.broadcast_shapes(*(x.shape for x in inputs.values()))
    with np.errstate(all="ignore"):
        for value in graph.needed(outputs):
            node = graph.nodes[value]
            if node.operation == "input":
                results[value] = inputs[node.name]
                continue
            if node.operation == "constant":
                result = np.full(size, node.number)
            else:
                result = _FUNCTIONS[node.operation](*(results[argument] for argument in node.arguments))
            results[value] = result if rounded is None or result.dtype == np.bool_ else rounded(result)
    # An output may be an input of fewer elements.
    return [np.broadcast_to(results[value], size) for value in outputs]


def rounding_spread(
    graph: Graph, outputs: Sequence[Value], inputs: Mapping[str, np.ndarray], dtype: type[np.floating]
) -> list[np.ndarray]:
    """Estimate the rounding error of each output in a float type: the spread of `SAMPLES` evaluations in which every
    operation errs by a few units in the last place, at random.

    It is wide for ill-conditioned expressions and comparisons near their threshold, and infinite where rounding leaves
    no digit: where some results are not finite, or are far apart, as beside a singularity.
    """
    # A fixed seed: whether a kernel passes its check must not differ from run to run.
    limits, generator = np.finfo(dtype), np.random.default_rng(0)

    def rounded(x: np.ndarray) -> np.ndarray:
        x = x * (1 + ULPS * float(limits.eps) * generator.uniform(-1, 1, x.shape))
        x = np.where(np.abs(x) > limits.max, np.copysign(np.inf, x), x)
        # As in kernels, which flush denormal numbers.
        return np.where(np.abs(x) < limits.tiny, 0.0, x)

    samples = np.array([evaluate(graph, outputs, inputs, rounded) for _ in range(SAMPLES)])
    exact = np.array(evaluate(graph, outputs, inputs))
    with np.errstate(all="ignore"):
        spread = np.abs(samples - exact).max(axis=0)
        certain = (np.isfinite(samples) == np.isfinite(exact)).all(axis=0) & ~(spread > MAX_ERROR * (1 + np.abs(exact)))
    return list(np.where(certain, spread, np.inf))


def sample_inputs(names: Sequence[str], edges: bool) -> dict[str, np.ndarray]:
    """Draw inputs for comparisons: random numbers, and combinations of numbers on which formulas fail."""
    generator = np.random.default_rng(0)
    inputs = {name: 2 * generator.standard_normal(64) for name in names}
    if edges:
        edge_cases = {name: generator.choice([*_EDGES, 0.7, -2.0], size=192) for name in names}
        inputs = {name: np.concatenate([inputs[name], edge_cases[name]]) for name in names}
    return inputs


def error_mask(
    actual: np.ndarray, expected: np.ndarray, tolerance: float, spread: np.ndarray | float = 0.0
) -> np.ndarray:  # fmt: skip
    """Return the mask of results further from a finite expected number than the tolerance and a finite spread.

    Other expected values are infinite, or the NaN of an infinity times zero, which an equal simpler formula need not
    give.
    """
    with np.errstate(all="ignore"):
        # Negated, so that a NaN counts as different.
        beyond_tolerance = ~(np.abs(actual - expected) <= tolerance * (1 + np.abs(expected)) + spread)
    return np.asarray(np.isfinite(expected) & beyond_tolerance & (spread != np.inf))
