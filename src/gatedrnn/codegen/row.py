"""One function of one step's rows, before it is source code of some kind."""

from dataclasses import dataclass
from functools import cached_property
from types import FunctionType

from gatedrnn.codegen.graph import Graph, Value
from gatedrnn.equations import Equations


@dataclass(frozen=True, eq=False)
class Row:
    """Named rows of memory, one number a channel, and what is written to them from what is read of them."""

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
        """All rows, in the order in which the compiled function takes them: of the inputs those that it uses, then the
        others that it writes."""
        outputs = {**self.writes, **self.adds}
        inputs = (node.name for node in self.graph.nodes if node.operation == "input")
        return tuple(dict.fromkeys([*(name for name in inputs if name in {*self.reads, *outputs}), *outputs]))


def sources_of(cell: Equations) -> list[str]:
    """The files that its equations stand in."""
    methods = [method for kind in type(cell).__mro__ for method in vars(kind).values()]
    return [method.__code__.co_filename for method in methods if isinstance(method, FunctionType)]


def _add() -> Row:
    graph = Graph()
    given, to = graph.input("given"), graph.input("to")
    return Row("add", graph, {"given": graph.constant(0), "to": graph.apply("add", given, to)}, {})


ADD = _add()
"""to + given → to, 0 → given."""
