"""A row as source code, one expression after another: a function that Numba compiles, looping over channels, and one
that Triton compiles, on tiles of steps and channels."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import NamedTuple

import numpy as np

from gatedrnn.codegen.graph import OPERATIONS, Graph, Value
from gatedrnn.codegen.row import Row

_RESERVED = re.compile(rf"i|table|address|float32|float64|v\d+|{'|'.join(OPERATIONS)}|(read|write|to)_.*")
"""Names in a function for Numba beside those of its rows."""
WIDTH = 96  # of an expression in a line: longer ones get a name of their own
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|",
}  # fmt: skip
_TRITON_CALLS = {
    "abs": "tl.abs", "exp": "tl.exp", "log": "tl.log", "sin": "tl.sin", "cos": "tl.cos", "sqrt": "tl.sqrt",
    "where": "tl.where",
}  # fmt: skip
"""Operations by Triton's own names; others are functions of `gatedrnn.kernels.gpu.tile`."""


class Dialect(NamedTuple):
    """Differences between the two languages."""

    names: Mapping[str, str]
    """Names of inputs in the code, where they differ."""
    constant: Callable[[float], str]
    """A function that writes a number in the type of the computation."""
    calls: Mapping[str, str]
    """Functions of operations, where their names differ."""
    negation: str
    """The negation of a condition, with {} in its place."""


class Lines:
    """The lines of a function's body; an expression that is read once is written inline."""

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        self._graph, self._dialect = graph, dialect
        self._texts: dict[Value, str] = {}

    def text(self, value: Value) -> str:
        """Return the code of an expression, after `make`."""
        return self._texts[value]

    def make(self, outputs: Sequence[Value]) -> list[str]:
        """Write the lines after which these expressions can be read."""
        needed, lines = self._graph.needed(outputs), list[str]()
        uses = dict.fromkeys(needed, 0)
        for value in [argument for v in needed for argument in self._graph.nodes[v].arguments] + list(outputs):
            uses[value] += 1
        for value in needed:
            text = self._expression(value)
            node = self._graph.nodes[value]
            if node.operation in ("input", "constant") or (uses[value] == 1 and len(text) < WIDTH):
                self._texts[value] = f"({text})" if node.operation in (*_INFIX, "neg", "not") else text
                continue
            line, name = self._graph.lines.get(value), f"v{len(lines)}"
            lines.append(f"{name} = {text}" + (f"  # {line}" if line else ""))
            self._texts[value] = name
        return lines

    def _expression(self, value: Value) -> str:
        node, dialect = self._graph.nodes[value], self._dialect
        if node.operation == "input":
            return dialect.names.get(node.name, node.name)
        if node.operation == "constant":
            return dialect.constant(node.number)
        arguments = [self._texts[argument] for argument in node.arguments]
        if node.operation in _INFIX:
            return f"{arguments[0]} {_INFIX[node.operation]} {arguments[1]}"
        if node.operation == "neg":
            return f"-{arguments[0]}"
        if node.operation == "not":
            return dialect.negation.format(arguments[0])
        return f"{dialect.calls.get(node.operation, node.operation)}({', '.join(arguments)})"


@dataclass(frozen=True)
class Source:
    """Source code of one function for Numba."""

    name: str
    text: str
    rows: tuple[str, ...]
    """The rows whose addresses are in the table, in order."""
    identifiers: tuple[str, ...]
    """Their names in the code."""
    dtypes: tuple[str, ...]
    """The dtype of each: float32, float64 or bfloat16."""
    row: Row = field(compare=False, repr=False)
    """The row that it computes."""

    @property
    def key(self) -> str:
        """A hash of everything but comments."""
        # Comments name lines of equations: an edit above them would compile every kernel anew.
        code = re.sub(r"\s*#.*", "", self.text)
        return hashlib.sha256(repr((code, self.rows, self.dtypes)).encode()).hexdigest()[:16]

    @property
    def is_wide(self) -> bool:
        """Whether it computes in float64."""
        return "float64" in self.dtypes


def numba_source(title: str, row: Row, dtypes: Mapping[str, str], comment: str = "") -> Source:
    """Write the function of (n, table): `table` is the address of the addresses of the rows, each of n numbers.

    Args:
        title: a prefix of the function's name.
        dtypes: the dtype of each of the rows.
        comment: lines at the head, such as the equations.
    """
    rows, names = row.rows, _identifiers(row.rows)
    wide = "float64" if "float64" in dtypes.values() else "float32"

    def constant(number: float) -> str:  # typed, for a number of Python's would turn float32 into float64
        plain = f"float('{number}')" if number in (float("inf"), float("-inf")) else repr(number)
        return f"{wide}({plain})"

    body = Lines(row.graph, Dialect(names, constant, {}, "not {}"))
    outputs = [*row.writes.values(), *row.adds.values()]
    lines = body.make(outputs)
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


def triton_source(row: Row, arguments: str, loads: Mapping[str, str], store: str = "") -> str:
    """Write a function of tiles, which returns the row's outputs.

    Args:
        arguments: arguments of the function, some of which are inputs of the row.
        loads: code that loads the other inputs.
        store: code that stores {value}, output number {index}, instead of returning it.
    """
    # Triton has no `not` of tiles, so that a negation is written "== 0".
    names = {name: re.sub(r"\W", "_", name) for name in loads}
    body, outputs = (
        Lines(row.graph, Dialect(names, _tile_constant, _TRITON_CALLS, "{} == 0")),
        list(row.writes.values()),
    )
    lines = [f"{names[name]} = {code}" for name, code in loads.items() if name in row.reads] + body.make(outputs)
    results = [body.text(value) for value in outputs]
    if store:
        lines += [store.format(index=index, value=value) for index, value in enumerate(results)]
    else:
        lines.append(f"return {', '.join(results)}")
    return "\n".join([f"def {row.name}({arguments}):", *(f"    {line}" for line in lines)])


def _tile_constant(number: float) -> str:
    """Write a number for Triton, which reads it in float32: numbers that need more get the tile's type."""
    if not np.isfinite(number):
        return f'float("{number}")'
    return repr(number) if float(np.float32(number)) == number else f"tl.full((1, 1), {number!r}, like.dtype)"


def _identifiers(rows: Sequence[str]) -> dict[str, str]:
    """Return unique identifiers of rows, none of which the function has for something else; states and projections may
    have any names."""
    names: dict[str, str] = {}
    for row in rows:
        name = re.sub(r"\W", "_", row)
        while name in names.values() or _RESERVED.fullmatch(name) or iskeyword(name):
            name += "_"
        names[row] = name
    return names
