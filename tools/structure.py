"""The structure of the package in numbers and as a picture.

    python tools/structure.py measure [SRC] [--output FILE.json] [--starts]
    python tools/structure.py draw docs/static/structure.svg

SRC is the folder of the package, by default that of this repository; an older checkout's is measured alike.
"""

import ast
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from cyclopts import App
from imports import (
    PACKAGE,
    Graph,
    Sources,
    arrows,
    circles,
    files,
    floor_of,
    import_graph,
    is_ours,
    modules,
    origin_of,
    package_of,
    parsed,
    reached,
    read_floors,
)
from rich.console import Console
from rich.table import Table
from structure_drawing import drawing, lines_of_code

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / PACKAGE
CORE = ("cells", "equations", "kinds", "layers", "ops", "codegen", "kernels", "inspect", "verify")
"""Packages that define, run and check a cell."""
DECLARATIONS = {
    "window", "heads", "gap_features", "joint_states", "exponential", "begins_keeping", "straight_through",
    "clamped_decay", "reads_state", "multiplies_state", "learns_initial_state", "recurrent_bias", "torch_kernel",
    "kernel",
}  # fmt: skip
"""Attributes of a cell that say of which kind it is, in some checkout."""
CELLS = ("cell", "equations")
"""Names of variables and attributes that hold a cell."""
STARTS = {
    "import torch": ["-c", "import torch"], "import gatedrnn": ["-c", "import gatedrnn"],
    "gatedrnn.MinGRU": ["-c", "import gatedrnn; gatedrnn.MinGRU"],
    **{
        words: ["-m", *words.split()]
        for words in (
            "gatedrnn --help", "gatedrnn trian", "gatedrnn train --help", "gatedrnn train --task digits --hiden-size 8"
        )
    },
}  # fmt: skip
"""Processes that are timed whole, from the interpreter's start to its end."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Numbers: TypeAlias = dict[str, Any]

app = App(help=__doc__)


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a string alone: a docstring, of a field too."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def has_docstring(node: ast.AST) -> bool:
    """Whether a module, class or function begins with one."""
    return isinstance(node, ast.Module | ast.ClassDef | Function) and bool(node.body) and is_text(node.body[0])


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[has_docstring(function) :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def public(node: ast.AST) -> Iterator[ast.AST]:
    """The functions and classes of a module, and what those classes define, whose names have no underscore in front."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function) and not child.name.startswith("_"):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from public(child)
        elif isinstance(child, ast.If):
            yield from public(child)


def sizes(sources: Sequence[str]) -> Numbers:
    """How much some files hold, and how long their functions and lines are."""
    nodes = [node for source in sources for node in ast.walk(parsed(source))]
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    bodies = sorted(body_lines(node) for node in nodes if isinstance(node, Function))
    documented = [has_docstring(node) for source in sources for node in public(parsed(source))]
    lines = [line for source in sources for line in source.splitlines()]
    return {
        "files": len(sources),
        "lines": len(lines),
        "statements": statements - sum(has_docstring(node) for node in nodes),
        "without_field_docstrings": statements - sum(is_text(node) for node in nodes),
        "functions": len(bodies),
        "body_median": statistics.median(bodies) if bodies else 0,
        "body_90": bodies[math.ceil(0.9 * len(bodies)) - 1] if bodies else 0,
        "body_longest": bodies[-1] if bodies else 0,
        "documented": round(statistics.mean(documented), 3) if documented else None,
        "line_median": statistics.median(len(line) for line in lines if line.strip()) if any(lines) else 0,
    }


def sizes_by_package(sources: Sources) -> Numbers:
    """The sizes of each package, of the core and of all files."""
    packages = sorted({package_of(module) for module in sources})
    texts = {package: [s for module, s in sources.items() if package_of(module) == package] for package in packages}
    core = [source for package in CORE for source in texts.get(package, ())]
    by_package = {package: sizes(texts[package]) for package in packages}
    return {"packages": by_package, "core": sizes(core), "all": sizes(list(sources.values()))}


def class_names(sources: Sources) -> dict[str, set[str]]:
    """Each module's names for classes of equations: their own, aliases, and constants that group them."""
    names: dict[str, set[str]] = {module: set() for module in sources}
    nodes = [(module, node) for module, source in sources.items() for node in ast.walk(parsed(source))]
    statements = [(module, node) for module, node in nodes if isinstance(node, ast.ImportFrom | ast.Assign)]
    packages = {module.rpartition(".")[0] for module in sources}
    before = -1
    while before != (before := sum(map(len, names.values()))):  # until no alias of an alias is left
        for module, node in statements:
            if isinstance(node, ast.ImportFrom):
                origin = names.get(origin_of(node, module, module in packages), set())
                aliases = [a for a in node.names if a.name.endswith("Equations") or a.name in origin]
                names[module] |= {alias.asname or alias.name for alias in aliases}
            elif groups_classes(node.value, names[module]):
                names[module] |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def groups_classes(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a class of equations, or a tuple or union with one."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.endswith("Equations") or name in names
        case ast.Tuple(elts=parts):
            return any(groups_classes(part, names) for part in parts)
        case ast.BinOp(left=left, right=right):
            return groups_classes(left, names) or groups_classes(right, names)
    return False


def is_cell(node: ast.AST) -> bool:
    """Whether an expression is a cell by its name: `cell`, `layer.cell`, `record.equations`."""
    return getattr(node, "id", getattr(node, "attr", "")) in CELLS


def asks_for_class(node: ast.AST, names: set[str]) -> TypeGuard[ast.expr | ast.MatchClass]:
    """Whether a node asks for the class of some equations."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return groups_classes(classes, names)
        case ast.MatchClass(cls=classes):
            return groups_classes(classes, names)
    return False


def reads_declaration(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether a node reads what a cell declares about its kind."""
    match node:
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
            return name in DECLARATIONS and is_cell(value)
        case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[value, ast.Constant(value=str(name)), *_]):
            return name in DECLARATIONS and is_cell(value)
    return False


def branches(sources: Sources, names_of_files: Mapping[str, str]) -> dict[str, list[str]]:
    """The places outside kinds/ and the cells' own files that ask for a cell's class, or read what it declares, as
    "file:line: source"."""
    places: dict[str, list[tuple[str, int, str]]] = {"classes": [], "declarations": []}
    names = class_names(sources)
    for module in sources:
        nodes = [] if package_of(module) in ("kinds", "cells") else ast.walk(parsed(sources[module]))
        for node in nodes:
            if asks_for_class(node, names[module]):
                places["classes"].append((names_of_files[module], node.lineno, ast.unparse(node)))
            elif reads_declaration(node):
                places["declarations"].append((names_of_files[module], node.lineno, ast.unparse(node)))
    return {what: [f"{file}:{line}: {text}" for file, line, text in sorted(of)] for what, of in places.items()}


def declarations(sources: Sources) -> dict[str, int]:
    """The public attributes that the class `Equations` declares, each with the number of cells that define it."""
    contract = classes_of([sources.get(f"{PACKAGE}.equations", "")]).get("Equations")
    of_class = [name for node in (contract.body if contract else ()) for name in assigned(node, also_unset=True)]
    names = [name for name in of_class if not name.startswith("_")]
    classes = classes_of([source for module, source in sources.items() if package_of(module) == "cells"])
    bases = {name: [getattr(b, "id", getattr(b, "attr", "")) for b in node.bases] for name, node in classes.items()}
    set_by_class = {name: attributes(node) for name, node in classes.items()}
    cells = [name for name, node in classes.items() if "name" in set_by_class[name] - methods(node)]
    set_by_cell = [set().union(*(set_by_class.get(c, ()) for c in reached(cell, bases))) for cell in cells]
    return {name: sum(name in of_cell for of_cell in set_by_cell) for name in names}


def classes_of(sources: Sequence[str]) -> dict[str, ast.ClassDef]:
    """Classes by name."""
    nodes = [node for source in sources for node in ast.walk(parsed(source))]
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def assigned(node: ast.AST, also_unset: bool = False) -> list[str]:
    """The names to which a statement assigns a value; those it only annotates too, if asked for."""
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)] if node.value or also_unset else []
    targets = node.targets if isinstance(node, ast.Assign) else []
    several = [target.elts if isinstance(target, ast.Tuple) else [target] for target in targets]
    return [ast.unparse(target) for group in several for target in group]


def attributes(node: ast.ClassDef) -> set[str]:
    """Attributes that a class sets, in its body or on `self`, and its methods."""
    of_self = {name for inner in ast.walk(node) for name in assigned(inner) if name.startswith("self.")}
    of_class = {name for inner in node.body for name in assigned(inner)} | methods(node)
    return of_class | {name.removeprefix("self.") for name in of_self}


def methods(node: ast.ClassDef) -> set[str]:
    """Names of the methods of a class."""
    return {inner.name for inner in node.body if isinstance(inner, Function)}


def one_importer(graph: Graph, names_of_files: Mapping[str, str]) -> dict[str, str]:
    """Files that exactly one other file imports, each with that file; imports in functions count."""
    importers: dict[str, set[str]] = {module: set() for module in graph}
    for module, targets in graph.items():
        for target in filter(is_ours, targets):
            importers[target].add(module)
    single = {module: next(iter(by)) for module, by in importers.items() if len(by) == 1}
    return {names_of_files[module]: names_of_files[importer] for module, importer in single.items()}


def imports_between(graph: Graph, floors: Mapping[str, int] | None) -> Numbers:
    """The arrows between packages; which of them point upward, if floors are known; circles of packages, of modules."""
    pairs = arrows(graph)
    packages = {package: [b for a, b in pairs if a == package] for package in map(package_of, graph)}
    upward = [f"{a} -> {b}" for a, b in sorted(pairs) if floors and floor_of(b, floors) >= floor_of(a, floors)]
    return {
        "arrows": len(pairs),
        "upward": upward if floors else None,
        "circles_of_packages": circles(packages),
        "circles_of_modules": circles(graph),
    }


def measure_sources(source: Path) -> Numbers:
    """All numbers that need no run of the package."""
    sources = modules(source)
    names_of_files = {module: path.relative_to(source).as_posix() for module, path in files(source).items()}
    graph, repository = import_graph(sources), source.parent.parent
    has_floors = (repository / "docs" / "floors.csv").exists()
    return {
        **sizes_by_package(sources),
        "branches": branches(sources, names_of_files),
        "declarations": declarations(sources),
        "one_importer": one_importer(graph, names_of_files),
        "imports": imports_between(graph, read_floors(repository) if has_floors else None),
    }


def run_python(source: Path, *words: str) -> str:
    """Run Python in a fresh process with that package, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(source.parent)}
    return subprocess.run(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def times_of_starts(source: Path, rounds: int, predicted: Sequence[Path]) -> Numbers:
    """Seconds of each process and their ratios to those of `import torch`, in turn.

    Args:
        source: the package's folder.
        rounds: how often each is timed.
        predicted: a run and a file whose rows it predicts; none to leave that out.
    """
    environment = os.environ | {"PYTHONPATH": str(source.parent)}
    starts = STARTS | ({"gatedrnn predict": ["-m", "gatedrnn", "predict", *map(str, predicted)]} if predicted else {})
    times: dict[str, list[float]] = {name: [] for name in starts}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, words in starts.items():
                output = ["--output", f"{folder}/{number}.csv"] if "predict" in words else []
                begun = time.perf_counter()
                subprocess.run([sys.executable, *words, *output], env=environment, capture_output=True, check=False)
                times[name].append(time.perf_counter() - begun)
    times = {name: seconds[1:] for name, seconds in times.items()}  # without the first, which fills caches
    ratios = {name: [s / t for s, t in zip(times[name], times["import torch"], strict=True)] for name in times}
    return {name: {"seconds": quartiles(times[name]), "ratio": quartiles(ratios[name])} for name in times}


def quartiles(values: Sequence[float]) -> Numbers:
    """The median and the quartiles around it."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 4), "low": round(low, 4), "high": round(high, 4)}


def table_of(measured: Numbers) -> Table:
    """The sizes: a line a package, then the core and all."""
    table = Table(box=None, pad_edge=False)
    table.add_column("package")
    for title in (
        "files", "lines", "statements", "without field\ndocstrings", "functions", "body lines\nmedian", "\n90 %",
        "\nlongest", "docstrings of\npublic names", "line length\nmedian",
    ):  # fmt: skip
        table.add_column(title, justify="right")
    for name, row in (*measured["packages"].items(), ("core", measured["core"]), ("all", measured["all"])):
        share = "" if row["documented"] is None else f"{row['documented']:.0%}"
        table.add_row(name, *(share if key == "documented" else f"{value:,.10g}" for key, value in row.items()))
    return table


def lines_of(measured: Numbers) -> Iterator[str]:
    """The numbers that are no sizes, in sentences and lists."""
    classes, reads = measured["branches"]["classes"], measured["branches"]["declarations"]
    yield f"Branches on a cell's kind outside kinds/: {len(classes)} ask for its class, {len(reads)} read a declaration"
    yield from (f"  {place}" for place in (*classes, *reads))
    yield f"Declarations of Equations, and how many cells set each: {len(measured['declarations'])}"
    yield f"  {', '.join(f'{name} {count}' for name, count in measured['declarations'].items())}"
    yield f"Files with one importer: {len(measured['one_importer'])} of {measured['all']['files']}"
    imports = measured["imports"]
    upward = "unknown without docs/floors.csv" if imports["upward"] is None else len(imports["upward"])
    yield f"Arrows between packages: {imports['arrows']}; upward: {upward}"
    yield from (f"  {arrow}" for arrow in imports["upward"] or ())
    for what in ("packages", "modules"):
        yield f"Circles of {what}: {len(imports[f'circles_of_{what}'])}"
        yield from (f"  {', '.join(names)}" for names in imports[f"circles_of_{what}"])
    for layer, passes in measured["files_run"].items():
        for direction, names in passes.items():
            yield f"Files in which Python runs in {layer}, {direction}: {len(names)}"
            yield f"  {', '.join(names)}"
    for name, row in measured.get("starts", {}).items():
        ratio, seconds = row["ratio"], row["seconds"]["median"]
        spread = f"{ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
        yield f"{name}: {seconds:.2f} s, {spread} of import torch"


@app.command
def measure(
    source: Path = SRC, *, output: Path | None = None, starts: bool = False, rounds: int = 10,
    predicted: tuple[Path, Path] | None = None,
) -> None:  # fmt: skip
    """Print the numbers, and write them as JSON.

    Args:
        source: the package's folder.
        output: the JSON file.
        starts: also time imports and commands; leave other work aside meanwhile.
        rounds: how often each is timed.
        predicted: a run and a file whose rows it predicts, to time that too.
    """
    source = source.resolve()
    measured = measure_sources(source)
    measured["files_run"] = json.loads(run_python(source, str(ROOT / "tools" / "files_run.py"), str(source)))
    if starts:
        measured["starts"] = times_of_starts(source, rounds, predicted or ())
    if output:
        output.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    Console(width=130).print(table_of(measured))
    print(*lines_of(measured), sep="\n")


@app.command
def draw(output: Path, source: Path = SRC) -> None:
    """Draw the packages on their floors, with the two paths through them, as SVG.

    Args:
        output: the SVG file.
        source: the package's folder.
    """
    source = source.resolve()
    sources = modules(source)
    picture = drawing(lines_of_code(sources), import_graph(sources), read_floors(source.parent.parent))
    output.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    app()
