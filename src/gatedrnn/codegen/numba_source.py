"""A row as the source of a function that Numba compiles: one expression after another inside one loop over channels."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gatedrnn.codegen.lines import Dialect, Lines
from gatedrnn.codegen.row import Row


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
    body = Lines(row.graph, Dialect(names, _constant(wide), {}, "not {}"))
    outputs = [*row.writes.values(), *row.adds.values()]
    lines = body.of(outputs)
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


def _constant(wide: str) -> Callable[[float], str]:
    """Typed, for a number of Python's would turn float32 into float64."""

    def text(number: float) -> str:
        plain = f"float('{number}')" if number in (float("inf"), float("-inf")) else repr(number)
        return f"{wide}({plain})"

    return text
