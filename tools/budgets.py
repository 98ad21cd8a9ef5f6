"""How much code a reader has before them: statements and lines of each package, and counts of what makes code hard to
read.

    python tools/budgets.py            the table, with the limits of budgets.csv
    python tools/budgets.py --write    lower the limits of budgets.csv to today's numbers

A statement is an `ast.stmt` that is no docstring. `tests/project/test_budgets.py` compares both with the limits.
"""

import ast
import csv
import math
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from cyclopts import App
from imports import PACKAGE, files, parsed

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / PACKAGE
LIMITS = ROOT / "budgets.csv"
COLUMNS = ("package", "statements", "lines")
TOP = "(top level)"
CORE = ("cells", "layers", "kinds", "codegen", "kernels", "ops", "equations.py", "registry.py")
"""Packages and files that define and run a cell."""
CHECKS = ("verify", "laws", "inspect")
"""Packages that check a cell, or look into it."""
MANY_PARAMETERS = 10


class Size(NamedTuple):
    """The statements and lines of a package."""

    statements: int
    lines: int


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a string alone, where Python or a documentation tool reads one."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def statements_of(node: ast.AST) -> int:
    """The statements inside a node, without docstrings and itself."""
    return sum(isinstance(part, ast.stmt) and not is_docstring(part) for part in ast.walk(node) if part is not node)


def sources(source: Path = SRC) -> dict[str, str]:
    """The text of each file, by its path below the package."""
    return {path.relative_to(source).as_posix(): path.read_text("utf-8") for path in files(source).values()}


def sizes(texts: Mapping[str, str]) -> dict[str, Size]:
    """The size of each package; of the modules beside them, the core, the checks, the rest and all."""
    rows: dict[str, Size] = {}
    sums = dict.fromkeys(("core", "checks", "rest", "all"), Size(0, 0))
    for path, text in texts.items():
        package = path.split("/")[0] if "/" in path else TOP
        size = Size(statements_of(parsed(text)), len(text.splitlines()))
        part = "core" if path.split("/")[0] in CORE else "checks" if package in CHECKS else "rest"
        rows[package] = _added(rows.get(package, Size(0, 0)), size)
        for name in (part, "all"):
            sums[name] = _added(sums[name], size)
    return dict(sorted(rows.items())) | sums


def counts(texts: Mapping[str, str]) -> dict[str, int | float]:
    """Counts of what makes code hard to read, by name."""
    nodes = [node for text in texts.values() for node in ast.walk(parsed(text))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    bodies = sorted(map(statements_of, functions))
    comments = sum(map(_comment_lines, texts.values()))
    return {
        "files": len(texts),
        "public module constants": sum(sum(map(_is_constant, _assigned(parsed(text)))) for text in texts.values()),
        "calls of isinstance": sum(_calls(node, "isinstance") for node in nodes),
        f"functions with {MANY_PARAMETERS} or more parameters": sum(map(_has_many_parameters, functions)),
        "context managers": sum(map(_is_context_manager, nodes)),
        "90th percentile of a function's statements": bodies[math.ceil(0.9 * len(bodies)) - 1],
        "comment lines, per mille": round(1000 * comments / sum(len(text.splitlines()) for text in texts.values()), 1),
    }


class CallTrace(NamedTuple):
    """The way of a call through the package."""

    files: int
    """Files of which a function runs."""
    calls: int
    """Calls of Python functions; each value that a generator gives is one."""
    look_ups: int
    """Look-ups of a kernel's program."""


def trace_call(call: Callable[[], object]) -> CallTrace:
    """Count the functions of the package that a call runs."""
    codes: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SRC)):
            codes.append(frame.f_code)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    look_ups = sum(code.co_name in ("program_for", "program_of") for code in codes)
    return CallTrace(len({code.co_filename for code in codes}), len(codes), look_ups)


def _added(one: Size, other: Size) -> Size:
    return Size(one.statements + other.statements, one.lines + other.lines)


def _assigned(module: ast.Module) -> Iterator[str]:
    """The names that a module assigns at its top."""
    for node in module.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_constant(name: str) -> bool:
    return name.isupper() and not name.startswith("_")


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _has_many_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    of = function.args
    return len(of.posonlyargs) + len(of.args) + len(of.kwonlyargs) >= MANY_PARAMETERS


def _is_context_manager(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(isinstance(part, ast.FunctionDef) and part.name == "__enter__" for part in node.body)
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any("contextmanager" in ast.unparse(decorator) for decorator in decorators)


def _comment_lines(text: str) -> int:
    """Lines that are a comment, for a reader and not for a tool."""
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    found = (
        token.string for token in tokens if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    )
    return sum(not re.match(r"#\s*(fmt:|type:|noqa|!)", comment) for comment in found)


def read_limits() -> dict[str, Size]:
    """The limits of budgets.csv."""
    with LIMITS.open(encoding="utf-8", newline="") as file:
        return {row["package"]: Size(int(row["statements"]), int(row["lines"])) for row in csv.DictReader(file)}


app = App(help=__doc__)


@app.default
def main(*, write: bool = False) -> None:
    """Print sizes and counts.

    Args:
        write: set the limits of budgets.csv to the sizes; a limit that rises is a reason to write in the commit.
    """
    measured, limits = sizes(sources()), read_limits() if LIMITS.exists() else {}
    for package, size in measured.items():
        limit = limits.get(package, Size(0, 0))
        pairs = zip(size, limit, COLUMNS[1:], strict=True)
        print(f"{package:14}", *(f"{number:7,} of {most:7,} {what}" for number, most, what in pairs))
    for name, count in counts(sources()).items():
        print(f"{count:7,} {name}")
    if write:
        with LIMITS.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerows([COLUMNS, *((package, *size) for package, size in measured.items())])


if __name__ == "__main__":
    app()
