"""What a backward reads of a forward: the expressions that are kept in memory, and those that are computed again.

A row in memory is written once and read once; that takes about as long as one exponential. So a sigmoid or a tanh of
something that is not there anyway is kept, and what follows from kept rows by sums and products is computed again.
"""

from collections.abc import Iterable

from gatedrnn.codegen.graph import CONDITIONS, COSTLY, Graph, Value

RECOMPUTED = 0.9
"""What a costly operation takes, a kept row being 1."""


def kept_values(graph: Graph, wanted: Iterable[Value], free: frozenset[Value]) -> list[Value]:
    """The fewest rows that these expressions can be computed from, roughly, in the order of the graph.

    Args:
        wanted: in the order of the graph, those that others need first.
        free: what is there without being kept; other inputs are not.
    """
    chosen, there = set[Value](), set(free)

    def is_there(value: Value) -> bool:
        return value in there or graph.number(value) is not None

    def again(value: Value) -> float:
        """What it takes to compute an expression from what is there."""
        node = graph.nodes[value]
        if node.operation == "input":
            return 2.0
        return sum(map(cost, set(node.arguments))) + RECOMPUTED * (node.operation in COSTLY)

    def cost(value: Value) -> float:
        if is_there(value):
            return 0.0
        found = again(value)
        return found if graph.nodes[value].operation in CONDITIONS else min(1.0, found)

    def choose(value: Value) -> None:
        if is_there(value):
            return
        if again(value) > 1 and graph.nodes[value].operation not in CONDITIONS:
            chosen.add(value)
        else:
            for argument in graph.nodes[value].arguments:
                choose(argument)
        there.add(value)  # from here on: what is computed again serves all that read it

    for value in sorted(set(wanted)):
        choose(value)
    return sorted(chosen)
