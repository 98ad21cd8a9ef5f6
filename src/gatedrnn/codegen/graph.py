"""Expressions over the channels of one step: what a cell's equations become before a kernel is written from them.

`Graph.apply` adds an operation and simplifies as it goes: constants are folded, an expression that is there already is
found again, and a share of one is never formed by subtracting the other from it.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int
"""An expression, by its place in the graph; a later one reads earlier ones only."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
CONDITIONS = (*COMPARISONS, "and", "or", "not")
COSTLY = frozenset({"exp", "shrinking", "expm1", "log", "log1p", "tanh", "sqrt", "div"})
OPERATIONS = (
    "add", "sub", "mul", "div", "neg", "abs", "sign", "exp", "shrinking", "expm1", "log", "log1p", "tanh", "sqrt",
    "minimum", "maximum", "where", *CONDITIONS,
)  # fmt: skip
"""All that a kernel computes; everything else that `trace` understands is written in these. shrinking is e^-|x|."""


@dataclass(frozen=True)
class Node:
    """One expression: an input by its name, a constant, or an operation on earlier expressions."""

    operation: str
    arguments: tuple[Value, ...] = ()
    name: str = ""
    """Of an input."""
    number: float = 0.0
    """Of a constant."""


class Graph:
    """Expressions, and where in the equations each comes from.

    Args:
        gradient: a zero that a choice gives stays zero whatever it is multiplied with, as nothing goes back where
            nothing was read; of other expressions it would hide an infinity or NaN.
    """

    def __init__(self, gradient: bool = False) -> None:
        self._gradient = gradient
        self.nodes: list[Node] = []
        self.lines: dict[Value, str] = {}
        """The line of the equations that an expression was first written in."""
        self._known: dict[Node, Value] = {}

    def input(self, name: str) -> Value:
        """The row of that name."""
        return self._add(Node("input", name=name))

    def constant(self, number: float) -> Value:
        """A number; NaN is none."""
        assert not math.isnan(number), "a NaN in an equation"
        return self._add(Node("constant", number=float(number)))

    def number(self, value: Value) -> float | None:
        """The number that an expression is; None for one that depends on inputs."""
        node = self.nodes[value]
        return node.number if node.operation == "constant" else None

    def apply(self, operation: str, *arguments: Value) -> Value:
        """The simplest expression that has the value of this operation."""
        assert operation in OPERATIONS, operation
        numbers = [self.number(argument) for argument in arguments]
        if all(number is not None for number in numbers) and operation in _FOLDED:
            folded = _fold(operation, [number for number in numbers if number is not None])
            if folded is not None:
                return self.constant(folded)
        simpler = self._simpler(operation, arguments, numbers)
        if simpler is not None:
            return simpler
        if operation in ("add", "mul", "and", "or", "eq", "ne"):
            arguments = tuple(sorted(arguments))
        return self._add(Node(operation, arguments))

    def needed(self, outputs: Iterable[Value]) -> list[Value]:
        """What these expressions are computed from, themselves included, in the order of computation."""
        found, left = set[Value](), list(outputs)
        while left:
            value = left.pop()
            if value not in found:
                found.add(value)
                left += self.nodes[value].arguments
        return sorted(found)

    def rebuilt(self, outputs: Iterable[Value], into: "Graph", known: dict[Value, Value]) -> list[Value]:
        """These expressions in another graph.

        Args:
            known: of expressions that are there already, what they are there; the others that are met are added.
        """
        for output in outputs:
            left = [output]
            while left:
                value = left[-1]
                node = self.nodes[value]
                missing = [] if value in known else [x for x in node.arguments if x not in known]
                if missing:
                    left += missing
                    continue
                left.pop()
                if value in known:
                    continue
                if node.operation == "input":
                    known[value] = into.input(node.name)
                elif node.operation == "constant":
                    known[value] = into.constant(node.number)
                else:
                    known[value] = into.apply(node.operation, *(known[x] for x in node.arguments))
        return [known[output] for output in outputs]

    def _add(self, node: Node) -> Value:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def _is(self, value: Value, operation: str) -> bool:
        return self.nodes[value].operation == operation

    def _simpler(
        self, operation: str, arguments: tuple[Value, ...], numbers: list[float | None]
    ) -> Value | None:  # fmt: skip
        """An expression without this operation; None if it stays."""
        match operation, arguments, numbers:
            case "neg", (x,), _ if self._is(x, "neg"):
                return self.nodes[x].arguments[0]
            case "neg", (x,), _ if self._is(x, "sub"):
                left, right = self.nodes[x].arguments
                return self.apply("sub", right, left)
            case "abs", (x,), _ if self._is(x, "neg"):
                return self.apply("abs", *self.nodes[x].arguments)
            case "abs", (x,), _ if self._is(x, "abs"):
                return x
            case "shrinking", (x,), _ if self.nodes[x].operation in ("neg", "abs"):
                return self.apply("shrinking", *self.nodes[x].arguments)
            case "not", (x,), _ if self.nodes[x].operation == "not":
                return self.nodes[x].arguments[0]
            case "add", _, _:
                return self._simpler_sum(arguments, numbers)
            case "sub", (x, y), (_, b):
                if b == 0:
                    return x
                if self._is(y, "neg"):
                    return self.apply("add", x, *self.nodes[y].arguments)
                if numbers[0] == 0:
                    return self.apply("neg", y)
            case "mul", _, _:
                return self._simpler_product(arguments, numbers)
            case "div", (x, y), (_, b):
                if b == 1:
                    return x
                if b is not None and math.frexp(b)[0] == 0.5:  # a power of two: the product is the same number
                    return self.apply("mul", x, self.constant(1 / b))
            case "where", (condition, x, y), _:
                return self._simpler_choice(condition, x, y)
        return None

    def _simpler_sum(self, arguments: tuple[Value, ...], numbers: list[float | None]) -> Value | None:
        for (x, y), b in zip((arguments, arguments[::-1]), numbers[::-1], strict=True):
            if b == 0:
                return x
            if self._is(y, "neg"):
                return self.apply("sub", x, *self.nodes[y].arguments)
        x, y = arguments
        if self._is(x, "where") and self._is(y, "where"):
            (p, a, b), (q, c, d) = self.nodes[x].arguments, self.nodes[y].arguments
            # Of two halves that are zero where the other is not, one choice is left.
            if p == q and self.number(b) == 0 and self.number(c) == 0:
                return self.apply("where", p, a, d)
            if p == q and self.number(a) == 0 and self.number(d) == 0:
                return self.apply("where", p, c, b)
        return None

    def _simpler_product(self, arguments: tuple[Value, ...], numbers: list[float | None]) -> Value | None:
        for (x, y), b in zip((arguments, arguments[::-1]), numbers[::-1], strict=True):
            if b == 1:
                return x
            if b == -1:
                return self.apply("neg", x)
            if self._is(y, "neg"):
                return self.apply("neg", self.apply("mul", x, *self.nodes[y].arguments))
            # A gradient that a choice has let through or not: what is chosen is scaled, and zero stays zero.
            if self._gradient and self._is(y, "where"):
                condition, a, b_ = self.nodes[y].arguments
                if self.number(a) == 0:
                    return self.apply("where", condition, a, self.apply("mul", x, b_))
                if self.number(b_) == 0:
                    return self.apply("where", condition, self.apply("mul", x, a), b_)
        return None

    def _simpler_choice(self, condition: Value, x: Value, y: Value) -> Value | None:
        if x == y:
            return x
        if self._is(condition, "not"):
            return self.apply("where", *self.nodes[condition].arguments, y, x)
        for place, inner in enumerate((x, y)):
            if self._is(inner, "where") and self.nodes[inner].arguments[0] == condition:
                taken = self.nodes[inner].arguments[1 + place]
                return self.apply("where", condition, *((taken, y) if place == 0 else (x, taken)))
        return None


_FOLDED: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "neg": lambda x: -x, "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "exp": math.exp,
    "shrinking": lambda x: math.exp(-abs(x)), "expm1": math.expm1,
    "log": math.log, "log1p": math.log1p, "tanh": math.tanh, "sqrt": math.sqrt,
    "minimum": min, "maximum": max,
}  # fmt: skip


def _fold(operation: str, numbers: list[float]) -> float | None:
    """The number; None where it is none that a kernel could hold, which then computes it as torch would."""
    try:
        found = float(_FOLDED[operation](*numbers))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    return None if math.isnan(found) else found
