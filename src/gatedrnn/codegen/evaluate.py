"""The value of a graph, exact or as rounding may make it, and whether two answers to the same inputs agree."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gatedrnn.codegen.graph import Graph, Value

SAMPLES, ULPS = 16, 4
LARGEST = 1 / 8
"""Of what rounding may move, beside 1, and leave a digit to compare."""
EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-310, -1e-310)
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "sign": lambda x: np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0)), "exp": np.exp,
    "shrinking": lambda x: np.exp(-np.abs(x)), "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "sqrt": np.sqrt, "minimum": np.minimum, "maximum": np.maximum, "where": np.where, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def evaluate(
    graph: Graph, outputs: Sequence[Value], given: Mapping[str, np.ndarray],
    rounded: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """The outputs for these inputs, in float64.

    Args:
        rounded: applied to the numbers that every operation and every constant gives.
    """
    found: dict[Value, np.ndarray] = {}
    size = np.broadcast_shapes(*(x.shape for x in given.values()))
    with np.errstate(all="ignore"):
        for value in graph.needed(outputs):
            node = graph.nodes[value]
            if node.operation == "input":
                found[value] = given[node.name]
                continue
            if node.operation == "constant":
                result = np.full(size, node.number)
            else:
                result = _FUNCTIONS[node.operation](*(found[argument] for argument in node.arguments))
            found[value] = result if rounded is None or result.dtype == np.bool_ else rounded(result)
    return [np.broadcast_to(found[value], size) for value in outputs]


def uncertain(
    graph: Graph, outputs: Sequence[Value], given: Mapping[str, np.ndarray], dtype: type[np.floating]
) -> list[np.ndarray]:
    """How far the rounding of a float type may move each output: the spread of `SAMPLES` evaluations in which every
    operation errs by a few units in the last place, at random.

    Ill-conditioned expressions and comparisons near their threshold have a wide one. It is infinite where rounding
    leaves no digit: where some of the answers are no finite numbers, or far apart, as those beside a singularity.
    """
    limits, drawn = np.finfo(dtype), np.random.default_rng(0)

    def rounded(x: np.ndarray) -> np.ndarray:
        x = x * (1 + ULPS * float(limits.eps) * drawn.uniform(-1, 1, x.shape))
        x = np.where(np.abs(x) > limits.max, np.copysign(np.inf, x), x)
        return np.where(np.abs(x) < limits.tiny, 0.0, x)

    samples = np.array([evaluate(graph, outputs, given, rounded) for _ in range(SAMPLES)])
    exact = np.array(evaluate(graph, outputs, given))
    with np.errstate(all="ignore"):
        spread = np.abs(samples - exact).max(axis=0)
        certain = (np.isfinite(samples) == np.isfinite(exact)).all(axis=0) & ~(spread > LARGEST * (1 + np.abs(exact)))
    return list(np.where(certain, spread, np.inf))


def trials(names: Sequence[str], edges: bool) -> dict[str, np.ndarray]:
    """Inputs to compare answers on: random numbers, and combinations of those where formulas fail."""
    drawn = np.random.default_rng(0)
    found = {name: 2 * drawn.standard_normal(64) for name in names}
    if edges:
        odd = {name: drawn.choice([*EDGES, 0.7, -2.0], size=192) for name in names}
        found = {name: np.concatenate([found[name], odd[name]]) for name in names}
    return found


def differing(
    found: np.ndarray, expected: np.ndarray, tolerance: float, spread: np.ndarray | float = 0.0
) -> np.ndarray:  # fmt: skip
    """Where an answer is further than the tolerance, and a finite spread, from a finite number.

    Elsewhere what is expected is itself infinite, or the NaN of an infinity times zero, which an equal formula that is
    simpler need not give.
    """
    with np.errstate(all="ignore"):
        far = ~(np.abs(found - expected) <= tolerance * (1 + np.abs(expected)) + spread)
    return np.asarray(np.isfinite(expected) & far & (spread != np.inf))
