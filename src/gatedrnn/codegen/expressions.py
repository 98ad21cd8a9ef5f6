"""Functions that equations use, written in the operations of a graph so that nothing overflows and nothing cancels.

All forms of one argument share one exponential, of the negative of its size: sigmoid(x), sigmoid(-x), softplus(x),
softplus(-x) and logsigmoid(x). The graph knows which expressions are the two parts of a whole, so that one minus the
one is the other.
"""

from gatedrnn.codegen.graph import Graph, Value


class Expressions:
    """Builds expressions of one graph.

    Args:
        differences: one minus a part of a whole is that difference, which can be computed from the part alone.
    """

    def __init__(self, graph: Graph, differences: bool = False) -> None:
        self.graph, self._differences = graph, differences
        self._complements: dict[Value, Value] = {}
        """Of two expressions that sum to one, the other."""
        self._sigmoids: dict[Value, Value] = {}
        self._softplus: dict[Value, Value] = {}
        """The arguments of softplus expressions."""

    def apply(self, operation: str, *arguments: Value) -> Value:
        """An operation of the graph, with one minus a part of a whole as the other part."""
        graph = self.graph
        parts = operation == "sub" and not self._differences
        if parts and graph.number(arguments[0]) == 1 and arguments[1] in self._complements:
            return self._complements[arguments[1]]
        return graph.apply(operation, *arguments)

    def number(self, number: float) -> Value:
        """A constant."""
        return self.graph.constant(number)

    def complement(self, x: Value) -> Value:
        """1 - x."""
        return self.apply("sub", self.number(1), x)

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + e^-x)."""
        if x not in self._sigmoids:
            shares = self._shares(x)
            if shares is None:
                self._add_sigmoid(self._unsigned(x))
            else:
                self._sigmoids[x], self._sigmoids[self.apply("neg", x)] = shares
        return self._sigmoids[x]

    def softplus(self, x: Value) -> Value:
        """log(1 + e^x)."""
        found = self.apply("add", self.apply("maximum", x, self.number(0)), self.apply("log1p", self._shrinking(x)))
        self._softplus[found] = x
        return found

    def logsigmoid(self, x: Value) -> Value:
        """log sigmoid(x)."""
        return self.apply("sub", self.apply("minimum", x, self.number(0)), self.apply("log1p", self._shrinking(x)))

    def times_slope_of_sigmoid(self, gradient: Value, found: Value) -> Value:
        """gradient * s * (1 - s)."""
        return self.apply("mul", gradient, self.apply("mul", found, self.complement(found)))

    def _unsigned(self, x: Value) -> Value:
        """x, or y of x = -y."""
        node = self.graph.nodes[x]
        return node.arguments[0] if node.operation == "neg" else x

    def _shrinking(self, x: Value) -> Value:
        """e^-|x|."""
        return self.apply("shrinking", x)

    def _add_sigmoid(self, x: Value) -> None:
        """sigmoid(x) and sigmoid(-x)."""
        shrunk, one = self._shrinking(x), self.number(1)
        more = self.apply("div", one, self.apply("add", one, shrunk))
        less = self.apply("mul", shrunk, more)
        positive = self.apply("ge", x, self.number(0))
        of_x, of_negative = (
            self.apply("where", positive, *parts) for parts in ((more, less), (less, more))
        )  # fmt: skip
        self._sigmoids[x], self._sigmoids[self.apply("neg", x)] = of_x, of_negative
        self._complements |= {of_x: of_negative, of_negative: of_x}

    def _shares(self, x: Value) -> tuple[Value, Value] | None:
        """Of x = softplus(p) - softplus(q): (1 + e^p) / (2 + e^p + e^q), and the same of q; None of another x.

        1 + e^p is e^max(p, 0) times a number between 1 and 2; the larger of the two powers is taken out of both. So
        nothing overflows, and where p and q are large the ratio does not vanish.
        """
        node = self.graph.nodes[x]
        if node.operation != "sub" or not all(argument in self._softplus for argument in node.arguments):
            return None
        p, q = (self._softplus[argument] for argument in node.arguments)
        apply, zero, one = self.apply, self.number(0), self.number(1)
        top_p, top_q = apply("maximum", p, zero), apply("maximum", q, zero)
        of_p, of_q = (apply("add", one, self._shrinking(argument)) for argument in (p, q))
        apart, p_leads = self._shrinking(apply("sub", top_p, top_q)), apply("ge", top_p, top_q)
        of_p = apply("where", p_leads, of_p, apply("mul", apart, of_p))
        of_q = apply("where", p_leads, apply("mul", apart, of_q), of_q)
        whole = apply("div", one, apply("add", of_p, of_q))
        shares = apply("mul", of_p, whole), apply("mul", of_q, whole)
        self._complements |= {shares[0]: shares[1], shares[1]: shares[0]}
        return shares
