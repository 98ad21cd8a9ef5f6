"""Expressions of a graph as lines of code, in the words of the language that compiles them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gatedrnn.codegen.graph import Graph, Value

WIDTH = 96  # of an expression in a line: longer ones get a name of their own
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|",
}  # fmt: skip


class Dialect(NamedTuple):
    """What is written differently from one language to the other."""

    names: Mapping[str, str]
    """Of inputs in the code; those that are missing keep theirs."""
    constant: Callable[[float], str]
    """A number of the kind that is computed in."""
    calls: Mapping[str, str]
    """Operations whose function has another name there."""
    negation: str
    """Of a condition, with {} in its place."""


class Lines:
    """The lines of a function's body; an expression that is read once stands where it is read."""

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        self._graph, self._dialect = graph, dialect
        self._texts: dict[Value, str] = {}

    def text(self, value: Value) -> str:
        """An expression, once its lines are made."""
        return self._texts[value]

    def of(self, outputs: Sequence[Value]) -> list[str]:
        """The lines after which these expressions can be read."""
        needed, found = self._graph.needed(outputs), list[str]()
        uses = dict.fromkeys(needed, 0)
        for value in [argument for v in needed for argument in self._graph.nodes[v].arguments] + list(outputs):
            uses[value] += 1
        for value in needed:
            text = self._expression(value)
            node = self._graph.nodes[value]
            if node.operation in ("input", "constant") or (uses[value] == 1 and len(text) < WIDTH):
                self._texts[value] = f"({text})" if node.operation in (*INFIX, "neg", "not") else text
                continue
            line, name = self._graph.lines.get(value), f"v{len(found)}"
            found.append(f"{name} = {text}" + (f"  # {line}" if line else ""))
            self._texts[value] = name
        return found

    def _expression(self, value: Value) -> str:
        node, dialect = self._graph.nodes[value], self._dialect
        if node.operation == "input":
            return dialect.names.get(node.name, node.name)
        if node.operation == "constant":
            return dialect.constant(node.number)
        arguments = [self._texts[argument] for argument in node.arguments]
        if node.operation in INFIX:
            return f"{arguments[0]} {INFIX[node.operation]} {arguments[1]}"
        if node.operation == "neg":
            return f"-{arguments[0]}"
        if node.operation == "not":
            return dialect.negation.format(arguments[0])
        return f"{dialect.calls.get(node.operation, node.operation)}({', '.join(arguments)})"
