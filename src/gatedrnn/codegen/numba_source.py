"""A row as the source of a function that Numba compiles: one expression after another inside one loop over channels."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gatedrnn.codegen.graph import Graph, Value
from gatedrnn.codegen.row import Row

WIDTH = 96  # of an expression in a line: longer ones get a name of their own
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Source code of one function."""

    name: str
    text: str
    rows: tuple[str, ...]
    """The rows whose addresses it takes, in order."""
    identifiers: tuple[str, ...]
    """Their names in the code."""
    dtypes: tuple[str, ...]
    """Of each: float32, float64 or bfloat16."""
    row: Row = field(compare=False, repr=False)
    """What it computes."""

    @property
    def key(self) -> str:
        """A sum over all of it but comments."""
        code = re.sub(r"\s*#.*", "", self.text)
        return hashlib.sha256(repr((code, self.rows, self.dtypes)).encode()).hexdigest()[:16]

    @property
    def is_wide(self) -> bool:
        """Whether it computes in float64."""
        return "float64" in self.dtypes


def numba_source(title: str, row: Row, dtypes: Mapping[str, str], comment: str = "") -> Source:
    """The function of (n, table): `table` is the address of the addresses of the rows, each of n numbers.

    Args:
        title: in front of the function's name.
        dtypes: of each of the rows.
        comment: at the head, such as the equations that it computes.
    """
    rows, names = row.rows, _identifiers(row.rows)
    wide = "float64" if "float64" in dtypes.values() else "float32"
    body = _Body(row.graph, wide, names)
    outputs = [*row.writes.values(), *row.adds.values()]
    lines = body.lines(outputs)
    writes = [f"write_{names[name]}(to_{names[name]}, i, {body.text(value)})" for name, value in row.writes.items()]
    for name, value in ((names[row], value) for row, value in row.adds.items()):
        writes.append(f"write_{name}(to_{name}, i, read_{name}(to_{name}, i) + {body.text(value)})")
    name = re.sub(r"\W|^(?=\d)", "_", f"{title}_{row.name}")
    head = [f"def {name}(n, table):", *([f"    # {line}".rstrip() for line in comment.splitlines()])]
    head += [f"    to_{names[name]} = address(table, {i})" for i, name in enumerate(rows)]
    inner = [f"        {name} = read_{name}(to_{name}, i)" for name in map(names.__getitem__, row.reads)]
    inner += [f"        {line}" for line in [*lines, *writes]]
    text = "\n".join([*head, "    for i in range(n):", *inner, ""])
    return Source(name, text, rows, tuple(names.values()), tuple(dtypes[name] for name in rows), row)


def _identifiers(rows: Sequence[str]) -> dict[str, str]:
    """Names for code, each once; those of projections may be any words."""
    found: dict[str, str] = {}
    for row in rows:
        name = re.sub(r"\W", "_", row)
        while name in found.values():
            name += "_"
        found[row] = name
    return found


class _Body:
    """The lines of a loop's body; an expression that is read once stands where it is read."""

    def __init__(self, graph: Graph, wide: str, names: Mapping[str, str]) -> None:
        self._graph, self._wide, self._names = graph, wide, names
        self._texts: dict[Value, str] = {}

    def text(self, value: Value) -> str:
        return self._texts[value]

    def lines(self, outputs: Sequence[Value]) -> list[str]:
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
        node = self._graph.nodes[value]
        if node.operation == "input":
            return self._names[node.name]
        if node.operation == "constant":
            return self._constant(node.number)
        arguments = [self._texts[argument] for argument in node.arguments]
        if node.operation in INFIX:
            return f"{arguments[0]} {INFIX[node.operation]} {arguments[1]}"
        if node.operation == "neg":
            return f"-{arguments[0]}"
        if node.operation == "not":
            return f"not {arguments[0]}"
        return f"{node.operation}({', '.join(arguments)})"

    def _constant(self, number: float) -> str:
        """Typed, for a number of Python's would turn float32 into float64."""
        text = f"float('{number}')" if number in (float("inf"), float("-inf")) else repr(number)
        return f"{self._wide}({text})"
