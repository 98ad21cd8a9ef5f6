"""The modules of a package as syntax trees, each parsed once, and what they import; the tests read them here too."""

import ast
import csv
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

PACKAGE = "gatedrnn"
PACKAGE_FLOOR = 17
"""The package itself names what people call, up to runs, so it is just above those."""

Sources: TypeAlias = Mapping[str, str]
"""Source by dotted name; a package goes by its folder's name."""
Graph: TypeAlias = Mapping[str, Collection[str]]
"""The imports of each module."""

parsed = cache(ast.parse)


def files(folder: Path) -> dict[str, Path]:
    """The files of a package by dotted name."""
    paths = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def modules(folder: Path) -> dict[str, str]:
    """The sources of a package by dotted name."""
    return {module: path.read_text(encoding="utf-8") for module, path in files(folder).items()}


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module without bodies of functions, nor what only a type checker reads."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            checked = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if not checked and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                left.append(child)


def imports_of(module: str, sources: Sources, at_import: bool = False) -> Iterator[str]:
    """The imports of a module, wherever they are, in a function too, or by name; or those that run when it is imported.

    Another package goes by the first word of its name. By name means an argument of `import_module`, or a string that
    is a module of the package, with a function after a colon as a lazy command has it.
    """
    tree, is_package = parsed(sources[module]), any(name.startswith(module + ".") for name in sources)
    for node in run_at_import(tree) if at_import else ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = origin_of(node, module, is_package)
            # `from package import name`: a module of that name, or a name that the package's own file holds.
            targets = [f"{base}.{a.name}" if f"{base}.{a.name}" in sources else base for a in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            targets = [text for text in texts if text not in sources]  # which is a string below
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not at_import:
            targets = [name for name in [node.value.split(":")[0]] if "." in name and name in sources]
        for target in targets:
            if target.split(".")[0] != PACKAGE:
                yield target.split(".")[0]
            elif target != module:
                yield target


def origin_of(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module behind `from`, by its whole name."""
    here = module.split(".")
    above = here[: len(here) - node.level + is_package] if node.level else []
    return ".".join(filter(None, [*above, node.module]))


def import_graph(sources: Sources, at_import: bool = False) -> dict[str, list[str]]:
    """The imports of each module; at import, the packages above it too."""
    graph = {module: list(imports_of(module, sources, at_import)) for module in sources}
    above = {name: [parent for parent in [name.rpartition(".")[0]] if parent] for name in sources}
    return {name: [*targets, *above[name]] for name, targets in graph.items()} if at_import else graph


def reached(module: str, graph: Graph) -> set[str]:
    """All modules that are imported with a module, by itself and through others."""
    names: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in names:
            names.add(name)
            left += graph.get(name, [])
    return names


def package_of(module: str) -> str:
    """The folder, or the file, directly below the package; the package's own name for its `__init__`."""
    return ".".join(module.split(".")[1:2]) or module


def arrows(graph: Graph) -> Counter[tuple[str, str]]:
    """Imports from one package to another, counted."""
    pairs = ((package_of(m), package_of(t)) for m, targets in graph.items() for t in targets if is_ours(t))
    return Counter((package, target) for package, target in pairs if package != target)


def is_ours(module: str) -> bool:
    """Whether it belongs to the package."""
    return module.split(".")[0] == PACKAGE


def read_floors(repository: Path) -> dict[str, int]:
    """The floor of each package, by docs/floors.csv."""
    with (repository / "docs" / "floors.csv").open(encoding="utf-8") as table:
        return {row["module"]: int(row["floor"]) for row in csv.DictReader(table)} | {PACKAGE: PACKAGE_FLOOR}


def floor_of(package: str, floors: Mapping[str, int]) -> int:
    """The floor of one package.

    Raises:
        ValueError: the table does not name it.
    """
    if package not in floors:
        raise ValueError(f"{package} has no floor: add it to docs/floors.csv")
    return floors[package]


def upward_imports(graph: Graph, floors: Mapping[str, int]) -> list[tuple[str, str]]:
    """(module, imported module) where the floor of the second is not below, other than within one folder."""
    pairs = [(module, target) for module, targets in graph.items() for target in targets if is_ours(target)]
    return [
        (module, target) for module, target in pairs
        if package_of(module) != package_of(target)
        and floor_of(package_of(target), floors) >= floor_of(package_of(module), floors)
    ]  # fmt: skip


def import_cycle(graph: Graph) -> list[str]:
    """A ring of modules that import each other, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


def circles(graph: Graph) -> list[list[str]]:
    """The largest groups of modules in which each imports all others, by itself or through them."""
    below = {name: reached(name, graph) for name in graph}
    groups = {tuple(sorted(n for n in below[name] & set(graph) if name in below[n])) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)
