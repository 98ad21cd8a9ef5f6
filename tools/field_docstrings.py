"""The docstrings below the fields of settings and records, for schemas and for the site's tables of settings."""

import ast
import inspect
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def classes() -> dict[str, ast.ClassDef]:
    """The classes of the benchmarks and of the package by name."""
    folders = (ROOT / "benchmarks", ROOT / "src" / "gatedrnn")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for each in folders for path in sorted(each.rglob("*.py"))]
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def docstrings(name: str) -> dict[str, str]:
    """The docstrings below the fields of a class and of those that it inherits from.

    Pydantic would find them when a class is made, at each start of every command.
    """
    node = classes().get(name)
    if node is None:
        return {}
    found = {field: text for base in node.bases for field, text in docstrings(ast.unparse(base)).items()}
    for field, below in pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=held)), ast.Expr(value=ast.Constant(value=str(text))):
                found[held] = inspect.cleandoc(text)
    return found
