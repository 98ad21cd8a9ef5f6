"""Expressions over the channels of one step: the form of a cell's equations from which kernels are written.

`Graph.apply` adds an operation and simplifies at once: constants are folded, an expression that exists is reused, and a
share of one is never formed by subtracting the other from it.

`Expressions` writes the functions that equations use in these operations without overflow or cancellation. sigmoid(x),
sigmoid(-x), softplus(x), softplus(-x) and logsigmoid(x) share one exponential, of -|x|; pairs of expressions that sum
to one are recorded, so that one minus either is the other.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int
"""The index of an expression in the graph; it reads earlier ones only."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
CONDITIONS = (*COMPARISONS, "and", "or", "not")
COSTLY = frozenset({"exp", "shrinking", "expm1", "log", "log1p", "tanh", "sin", "cos", "sqrt", "div"})
OPERATIONS = (
    "add", "sub", "mul", "div", "neg", "abs", "sign", "exp", "shrinking", "expm1", "log", "log1p", "tanh", "sin",
    "cos", "sqrt", "minimum", "maximum", "where", *CONDITIONS,
)  # fmt: skip
"""The operations of kernels; `trace` expresses all others in these. shrinking is e^-|x|."""


@dataclass(frozen=True)
class Node:
    """One expression: a named input, a constant, or an operation on earlier expressions."""

    operation: str
    arguments: tuple[Value, ...] = ()
    name: str = ""
    """The name of an input."""
    number: float = 0.0
    """The value of a constant."""


class Graph:
    """Expressions, with the lines of the equations that they come from.

    Args:
        gradient: whether a zero chosen by `where` stays zero in any product, since no gradient flows through a branch
            that is not taken; in other graphs this would hide an infinity or NaN.
    """

    def __init__(self, gradient: bool = False) -> None:
        self._gradient = gradient
        self.nodes: list[Node] = []
        self.lines: dict[Value, str] = {}
        """The line of the equations that first contains an expression."""
        self._values: dict[Node, Value] = {}

    def input(self, name: str) -> Value:
        """Add an input, the row of that name."""
        return self._add(Node("input", name=name))

    def constant(self, number: float) -> Value:
        """Add a constant, which must not be NaN."""
        assert not math.isnan(number), "a NaN in an equation"
        return self._add(Node("constant", number=float(number)))

    def number(self, value: Value) -> float | None:
        """Return the value of a constant; None for an expression that depends on inputs."""
        node = self.nodes[value]
        return node.number if node.operation == "constant" else None

    def apply(self, operation: str, *arguments: Value) -> Value:
        """Add an operation, and return the simplest expression of the same value."""
        assert operation in OPERATIONS, operation
        numbers = [self.number(argument) for argument in arguments]
        # Conditions are not folded: a constant of the graph is a number.
        if all(number is not None for number in numbers) and operation in _FOLDED:
            folded = _fold(operation, [number for number in numbers if number is not None])
            if folded is not None:
                return self.constant(folded)
        simpler = self._simplified(operation, arguments, numbers)
        if simpler is not None:
            return simpler
        if operation in ("add", "mul", "and", "or", "eq", "ne"):
            # a + b and b + a become one expression, computed once.
            arguments = tuple(sorted(arguments))
        return self._add(Node(operation, arguments))

    def needed(self, outputs: Iterable[Value]) -> list[Value]:
        """Return all expressions that these depend on, themselves included, in the order of computation."""
        visited, pending = set[Value](), list(outputs)
        while pending:
            value = pending.pop()
            if value not in visited:
                visited.add(value)
                pending += self.nodes[value].arguments
        # An expression reads earlier ones only, so that rising indices are an order of computation.
        return sorted(visited)

    def rebuilt(self, outputs: Iterable[Value], into: "Graph", copies: dict[Value, Value]) -> list[Value]:
        """Copy these expressions into another graph.

        Args:
            copies: expressions that are in the other graph, with their values there; new ones are added.
        """
        for output in outputs:
            pending = [output]
            while pending:
                value = pending[-1]
                node = self.nodes[value]
                missing = [] if value in copies else [x for x in node.arguments if x not in copies]
                if missing:
                    pending += missing
                    continue
                pending.pop()
                if value in copies:
                    continue
                if node.operation == "input":
                    copies[value] = into.input(node.name)
                elif node.operation == "constant":
                    copies[value] = into.constant(node.number)
                else:
                    copies[value] = into.apply(node.operation, *(copies[x] for x in node.arguments))
        return [copies[output] for output in outputs]

    def _add(self, node: Node) -> Value:
        if node not in self._values:
            self._values[node] = len(self.nodes)
            self.nodes.append(node)
        return self._values[node]

    def _has_operation(self, value: Value, operation: str) -> bool:
        return self.nodes[value].operation == operation

    def _simplified(
        self, operation: str, arguments: tuple[Value, ...], numbers: list[float | None]
    ) -> Value | None:  # fmt: skip
        """Return an equal expression without this operation; None if there is none."""
        match operation, arguments, numbers:
            case "neg", (x,), _ if self._has_operation(x, "neg"):
                return self.nodes[x].arguments[0]
            case "neg", (x,), _ if self._has_operation(x, "sub"):
                left, right = self.nodes[x].arguments
                return self.apply("sub", right, left)
            case "abs", (x,), _ if self._has_operation(x, "neg"):
                return self.apply("abs", *self.nodes[x].arguments)
            case "abs", (x,), _ if self._has_operation(x, "abs"):
                return x
            case "shrinking", (x,), _ if self.nodes[x].operation in ("neg", "abs"):
                return self.apply("shrinking", *self.nodes[x].arguments)
            case "not", (x,), _ if self.nodes[x].operation == "not":
                return self.nodes[x].arguments[0]
            case "add", _, _:
                return self._simplified_sum(arguments, numbers)
            case "sub", (x, y), (_, b):
                if b == 0:
                    return x
                if self._has_operation(y, "neg"):
                    return self.apply("add", x, *self.nodes[y].arguments)
                if numbers[0] == 0:
                    return self.apply("neg", y)
            case "mul", _, _:
                return self._simplified_product(arguments, numbers)
            case "div", (x, y), (_, b):
                if b == 1:
                    return x
                if b is not None and math.frexp(b)[0] == 0.5:  # a power of two: the product is the same number
                    return self.apply("mul", x, self.constant(1 / b))
            case "where", (condition, x, y), _:
                return self._simplified_where(condition, x, y)
        return None

    def _simplified_sum(self, arguments: tuple[Value, ...], numbers: list[float | None]) -> Value | None:
        for (x, y), b in zip((arguments, arguments[::-1]), numbers[::-1], strict=True):
            if b == 0:
                return x
            if self._has_operation(y, "neg"):
                return self.apply("sub", x, *self.nodes[y].arguments)
        x, y = arguments
        if self._has_operation(x, "where") and self._has_operation(y, "where"):
            (p, a, b), (q, c, d) = self.nodes[x].arguments, self.nodes[y].arguments
            # The sum of two halves, each zero where the other is not, is one choice.
            if p == q and self.number(b) == 0 and self.number(c) == 0:
                return self.apply("where", p, a, d)
            if p == q and self.number(a) == 0 and self.number(d) == 0:
                return self.apply("where", p, c, b)
        return None

    # A product with 0 stays: 0 times infinity or NaN is NaN, as in torch.
    def _simplified_product(self, arguments: tuple[Value, ...], numbers: list[float | None]) -> Value | None:
        for (x, y), b in zip((arguments, arguments[::-1]), numbers[::-1], strict=True):
            if b == 1:
                return x
            if b == -1:
                return self.apply("neg", x)
            if self._has_operation(y, "neg"):
                # Signs move outwards, where sums absorb them and two of them cancel.
                return self.apply("neg", self.apply("mul", x, *self.nodes[y].arguments))
            # A gradient through a choice: the chosen branch is scaled, and zero stays zero.
            if self._gradient and self._has_operation(y, "where"):
                condition, a, b_ = self.nodes[y].arguments
                if self.number(a) == 0:
                    return self.apply("where", condition, a, self.apply("mul", x, b_))
                if self.number(b_) == 0:
                    return self.apply("where", condition, self.apply("mul", x, a), b_)
        return None

    def _simplified_where(self, condition: Value, x: Value, y: Value) -> Value | None:
        if x == y:
            return x
        if self._has_operation(condition, "not"):
            return self.apply("where", *self.nodes[condition].arguments, y, x)
        for branch, inner in enumerate((x, y)):
            if self._has_operation(inner, "where") and self.nodes[inner].arguments[0] == condition:
                selected = self.nodes[inner].arguments[1 + branch]
                return self.apply("where", condition, *((selected, y) if branch == 0 else (x, selected)))
        return None


_FOLDED: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "neg": lambda x: -x, "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "exp": math.exp,
    "shrinking": lambda x: math.exp(-abs(x)), "expm1": math.expm1,
    "log": math.log, "log1p": math.log1p, "tanh": math.tanh, "sin": math.sin, "cos": math.cos, "sqrt": math.sqrt,
    "minimum": min, "maximum": max,
}  # fmt: skip


def _fold(operation: str, numbers: list[float]) -> float | None:
    """Compute an operation on constants; None if that fails or is NaN: the kernel then computes it as torch would."""
    try:
        number = float(_FOLDED[operation](*numbers))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    return None if math.isnan(number) else number


class Expressions:
    """Builds expressions of one graph.

    Args:
        differences: whether one minus a part of a whole stays a difference, which needs the part alone.
    """

    def __init__(self, graph: Graph, differences: bool = False) -> None:
        self.graph, self._differences = graph, differences
        self._complements: dict[Value, Value] = {}
        """Pairs of expressions that sum to one."""
        self._sigmoids: dict[Value, Value] = {}
        self._softplus: dict[Value, Value] = {}
        """Arguments of softplus by its expressions."""

    def apply(self, operation: str, *arguments: Value) -> Value:
        """Add an operation to the graph; one minus a part of a whole is the other part."""
        graph = self.graph
        parts = operation == "sub" and not self._differences
        if parts and graph.number(arguments[0]) == 1 and arguments[1] in self._complements:
            return self._complements[arguments[1]]
        return graph.apply(operation, *arguments)

    def number(self, number: float) -> Value:
        """Add a constant."""
        return self.graph.constant(number)

    def complement(self, x: Value) -> Value:
        """1 - x."""
        return self.apply("sub", self.number(1), x)

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + e^-x)."""
        if x not in self._sigmoids:
            shares = self._sigmoid_of_difference(x)
            if shares is None:
                self._add_sigmoid(self._without_sign(x))
            else:
                self._sigmoids[x], self._sigmoids[self.apply("neg", x)] = shares
        return self._sigmoids[x]

    def softplus(self, x: Value) -> Value:
        """log(1 + e^x)."""
        # max(x, 0) + log(1 + e^-|x|): the plain formula overflows for large x.
        result = self.apply("add", self.apply("maximum", x, self.number(0)), self.apply("log1p", self._shrinking(x)))
        self._softplus[result] = x
        return result

    def logsigmoid(self, x: Value) -> Value:
        """log sigmoid(x)."""
        return self.apply("sub", self.apply("minimum", x, self.number(0)), self.apply("log1p", self._shrinking(x)))

    def times_slope_of_sigmoid(self, gradient: Value, s: Value) -> Value:
        """gradient * s * (1 - s)."""
        return self.apply("mul", gradient, self.apply("mul", s, self.complement(s)))

    def times_slope_of_silu(self, gradient: Value, x: Value) -> Value:
        """gradient * s * (1 + x * (1 - s)), s = sigmoid(x)."""
        s = self.sigmoid(x)
        slope = self.apply("mul", s, self.apply("add", self.number(1), self.apply("mul", x, self.complement(s))))
        return self.apply("mul", gradient, slope)

    def _without_sign(self, x: Value) -> Value:
        """Return y of x = -y, else x."""
        node = self.graph.nodes[x]
        return node.arguments[0] if node.operation == "neg" else x

    def _shrinking(self, x: Value) -> Value:
        """e^-|x|."""
        return self.apply("shrinking", x)

    def _add_sigmoid(self, x: Value) -> None:
        """Add sigmoid(x) and sigmoid(-x)."""
        shrunk, unit = self._shrinking(x), self.number(1)
        more = self.apply("div", unit, self.apply("add", unit, shrunk))
        # Not 1 - more, which cancels for large |x|.
        less = self.apply("mul", shrunk, more)
        positive = self.apply("ge", x, self.number(0))
        of_x, of_negative = (
            self.apply("where", positive, *parts) for parts in ((more, less), (less, more))
        )  # fmt: skip
        self._sigmoids[x], self._sigmoids[self.apply("neg", x)] = of_x, of_negative
        self._complements |= {of_x: of_negative, of_negative: of_x}

    def _sigmoid_of_difference(self, x: Value) -> tuple[Value, Value] | None:
        """Return (1 + e^p) / (2 + e^p + e^q) and the same of q if x = softplus(p) - softplus(q); None for another x.

        1 + e^p is e^max(p, 0) times a number between 1 and 2; the larger of the two powers is taken out of both, so
        nothing overflows, and where p and q are large the ratio does not vanish.
        """
        node = self.graph.nodes[x]
        if node.operation != "sub" or not all(argument in self._softplus for argument in node.arguments):
            return None
        p, q = (self._softplus[argument] for argument in node.arguments)
        apply, zero, unit = self.apply, self.number(0), self.number(1)
        top_p, top_q = apply("maximum", p, zero), apply("maximum", q, zero)
        of_p, of_q = (apply("add", unit, self._shrinking(argument)) for argument in (p, q))
        apart, p_leads = self._shrinking(apply("sub", top_p, top_q)), apply("ge", top_p, top_q)
        of_p = apply("where", p_leads, of_p, apply("mul", apart, of_p))
        of_q = apply("where", p_leads, apply("mul", apart, of_q), of_q)
        whole = apply("div", unit, apply("add", of_p, of_q))
        shares = apply("mul", of_p, whole), apply("mul", of_q, whole)
        self._complements |= {shares[0]: shares[1], shares[1]: shares[0]}
        return shares
