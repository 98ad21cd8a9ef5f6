"""The value of a graph, in float64, and whether two answers to the same inputs agree."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gatedrnn.codegen.graph import Graph, Value

EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-310, -1e-310)
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs,
    "sign": lambda x: np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0)), "exp": np.exp,
    "shrinking": lambda x: np.exp(-np.abs(x)), "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "sqrt": np.sqrt, "minimum": np.minimum, "maximum": np.maximum, "where": np.where, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def evaluate(graph: Graph, outputs: Sequence[Value], given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs for these inputs."""
    found: dict[Value, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for value in graph.needed(outputs):
            node = graph.nodes[value]
            if node.operation == "input":
                found[value] = given[node.name]
            elif node.operation == "constant":
                found[value] = np.array(node.number)
            else:
                found[value] = _FUNCTIONS[node.operation](*(found[argument] for argument in node.arguments))
    size = np.broadcast_shapes(*(x.shape for x in given.values()))
    return [np.broadcast_to(found[value], size) for value in outputs]


def trials(names: Sequence[str], edges: bool) -> dict[str, np.ndarray]:
    """Inputs to compare answers on: random numbers, and combinations of those where formulas fail."""
    drawn = np.random.default_rng(0)
    found = {name: 2 * drawn.standard_normal(64) for name in names}
    if edges:
        odd = {name: drawn.choice([*EDGES, 0.7, -2.0], size=192) for name in names}
        found = {name: np.concatenate([found[name], odd[name]]) for name in names}
    return found


def differing(found: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Where an answer is further than the tolerance from a finite number.

    Elsewhere what is expected is itself infinite, or the NaN of an infinity times zero, which an equal formula that is
    simpler need not give.
    """
    with np.errstate(all="ignore"):
        far = ~(np.abs(found - expected) <= tolerance * (1 + np.abs(expected)))
    return np.asarray(np.isfinite(expected) & far)
