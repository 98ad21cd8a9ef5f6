"""Imports go down only, no two modules import each other, and `import gatedrnn` loads nothing heavy."""

import ast
import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gatedrnn
from gatedrnn.registry import CELLS

ROOT = Path(gatedrnn.__file__).parent
with (Path(__file__).parents[2] / "docs" / "floors.csv").open(encoding="utf-8") as table:
    FLOORS = {row["module"]: int(row["floor"]) for row in csv.DictReader(table)}
# The package itself names layers and what lies below them, so it stands just above those.
PACKAGE_FLOOR = 9
HEAVY = ("transformers", "accelerate", "datasets", "numba", "triton", "sklearn", "plotly")


def modules_below(root: Path) -> dict[str, str]:
    """Source by dotted name; a package goes by its folder's name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imports_of(module: str, modules: dict[str, str]) -> Iterator[str]:
    """What a module imports of the package, wherever it says so: in a function too, or by name.

    By name means a string that is a module, as `import_module` takes it, or a module and a function after a colon, as
    a lazy command has it.
    """
    is_package = any(name.startswith(module + ".") for name in modules)
    for node in ast.walk(ast.parse(modules[module])):
        targets = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".")
                above = here[: len(here) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            # `from package import name`: a module of that name, or a name that the package's own file holds.
            targets = [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            targets = [name for name in [node.value.split(":")[0]] if "." in name and name in modules]
        yield from (target for target in targets if target.split(".")[0] == "gatedrnn" and target != module)


def place(module: str) -> tuple[str, int]:
    """The folder (or single file) directly below the package, and its floor."""
    _, *inner = module.split(".")
    if not inner:
        return "gatedrnn", PACKAGE_FLOOR
    assert inner[0] in FLOORS, f"{module} stands on no floor: add {inner[0]!r} to docs/floors.csv"
    return inner[0], FLOORS[inner[0]]


def upward_imports(modules: dict[str, str]) -> list[str]:
    """Imports of a floor that is not below, other than within one folder."""
    wrong = []
    for module in modules:
        for target in imports_of(module, modules):
            (folder, floor), (other, below) = place(module), place(target)
            if folder != other and below >= floor:
                wrong.append(f"{module} (floor {floor}) imports {target} (floor {below})")
    return wrong


def import_cycle(modules: dict[str, str]) -> list[str]:
    """The first ring of modules that import each other, or nothing."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done or module not in modules:
            return []
        for target in imports_of(module, modules):
            if ring := visit(target, [*path, module]):
                return ring
        done.add(module)
        return []

    return next((ring for module in modules if (ring := visit(module, []))), [])


def test_imports_go_down_only():
    assert upward_imports(modules_below(ROOT)) == []


def test_no_modules_import_each_other():
    assert import_cycle(modules_below(ROOT)) == []


HOUSE = {
    "gatedrnn": "from gatedrnn import LSTM",
    "gatedrnn.shapes": "",
    "gatedrnn.kernels": "",
    "gatedrnn.kernels.cpu": "import gatedrnn.shapes",
    "gatedrnn.ops": "from gatedrnn.ops.linear_scan import scan",
    "gatedrnn.ops.linear_scan": "import_module('gatedrnn.kernels.cpu')\nfrom gatedrnn.ops import reference",
    "gatedrnn.ops.reference": "from ..shapes import Series",
    "gatedrnn.layers": "LSTM = 1",
    "gatedrnn.models": "from gatedrnn import LSTM",
    "gatedrnn.data": "from gatedrnn import LSTM",
    "gatedrnn.cli.train": "def run():\n    from gatedrnn.models import Model",
    "gatedrnn.cli.app": "app.command('gatedrnn.cli.train:run')",
    "gatedrnn.__main__": "from gatedrnn.cli.app import main",
}


def test_a_house_in_order_is_left_in_peace():
    assert upward_imports(HOUSE) == [] and import_cycle(HOUSE) == []


@pytest.mark.parametrize(
    "module, source",
    [
        ("gatedrnn.ops.linear_scan", "from gatedrnn import LSTM"),
        ("gatedrnn.ops.linear_scan", "import gatedrnn.layers"),
        ("gatedrnn.ops.linear_scan", "from gatedrnn import layers"),
        ("gatedrnn.ops.linear_scan", "from ..layers import LSTM"),
        ("gatedrnn.ops", "from ..layers import LSTM"),
        ("gatedrnn.ops.linear_scan", "def f():\n    from gatedrnn import LSTM"),
        ("gatedrnn.kernels.cpu", "importlib.import_module('gatedrnn.ops.reference')"),
        ("gatedrnn.kernels.cpu", "from gatedrnn import linear_scan"),
        ("gatedrnn.models", "from gatedrnn.data import text"),
        ("gatedrnn.data", "from gatedrnn.models import Model"),
        ("gatedrnn.models", "from gatedrnn.cli.app import main"),
        ("gatedrnn.models", "app.command('gatedrnn.cli.train:run')"),
    ],
)
def test_an_upward_import_is_seen_wherever_it_stands(module, source):
    assert len(upward_imports(HOUSE | {module: source})) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"gatedrnn.ops.reference": "def f():\n    from gatedrnn.ops.linear_scan import scan"},
        {"gatedrnn.ops.linear_scan": "from gatedrnn.ops import scan"},
        {"gatedrnn.cli.app": "import gatedrnn.__main__"},
    ],
)
def test_a_ring_of_imports_is_seen(changes):
    assert import_cycle(HOUSE | changes)


def test_import_gatedrnn_adds_nothing_heavy_to_what_torch_loads():
    script = "import sys, torch; before = set(sys.modules); import gatedrnn; print(*(set(sys.modules) - before))"
    added = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "gatedrnn.layers" in added
    assert not {name.split(".")[0] for name in added} & set(HEAVY)


def compared_names(modules: dict[str, str], names: set[str]) -> list[str]:
    """Comparisons with a cell's name; a record tells what a cell is, wherever it was written."""
    return [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, source in modules.items()
        if not module.startswith(("gatedrnn.cells", "gatedrnn.bench"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(part, ast.Constant) and part.value in names for part in ast.walk(node))
    ]


def test_no_cell_is_told_by_its_name():
    """`bench` alone names cells: there they are contenders, as peers' layers are."""
    names = set(CELLS)
    assert compared_names(modules_below(ROOT), names) == []
    assert (
        len(compared_names({"gatedrnn.layers.layer": "if cell.name == 'gru' or kind in ('mgu', 'lstm'): ..."}, names))
        == 2
    )


def overridden(modules: dict[str, str], allowed: set[tuple[str, str]]) -> list[str]:
    """Concrete methods of the package's classes that a class derived from them defines again."""
    classes = {}
    for source in modules.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
                methods = {
                    m.name: [ast.unparse(d) for d in m.decorator_list]
                    for m in node.body
                    if isinstance(m, ast.FunctionDef)
                }
                classes[node.name] = bases, methods
    found = []
    for name, (bases, methods) in classes.items():
        above, seen = list(bases), set()
        while above:
            base = above.pop()
            if base not in classes or base in seen:
                continue
            seen.add(base)
            above += classes[base][0]
            concrete = {m for m, marks in classes[base][1].items() if not any("abstract" in mark for mark in marks)}
            found += [f"{name}.{m}" for m in methods if m in concrete - {"__init__"} and (name, m) not in allowed]
    return found


PRESCRIBED = {("RecurrentLayer", "__setstate__"), ("SharedForm", "compile")}
"""By torch's modules, and by Numba's dispatchers."""


def test_no_concrete_method_is_overridden():
    assert overridden(modules_below(ROOT), PRESCRIBED) == []
    assert overridden({"a": "class A:\n    def f(self): ...\n\nclass B(A):\n    def f(self): ..."}, set()) == ["B.f"]


def untyped(modules: dict[str, str], allowed: set[str]) -> list[str]:
    """Arguments and results of public functions that are annotated with `Any`."""

    def public(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef) and (child.name in SPECIAL or not child.name.startswith("_")):
                yield f"{prefix}{child.name}", child
            elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                yield from public(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.If):
                yield from public(child, prefix)

    found = []
    for module, source in modules.items():
        if any(part.startswith("_") and part not in ("__init__", "__main__") for part in module.split(".")):
            continue
        for name, function in public(ast.parse(source), ""):
            given = function.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            hints = {a.arg: a.annotation for a in arguments if a is not None} | {"returns": function.returns}
            found += [
                f"{module}: {name}, {argument}" for argument, hint in hints.items()
                if hint is not None and "Any" in {part.id for part in ast.walk(hint) if isinstance(part, ast.Name)}
                and f"{name}, {argument}" not in allowed
            ]  # fmt: skip
    return found


SPECIAL = ("__init__", "__call__")
OF_TRANSFORMERS = {
    "RecurrentState.update_recurrent_state, kwargs", "RecurrentState.update_conv_state, kwargs",
    *(f"GatedRNN{kind}.forward, kwargs" for kind in (
        "Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification",
    )),
}  # fmt: skip
"""Keyword arguments that the base class's method takes."""


def test_every_public_signature_says_what_it_takes_and_returns():
    assert untyped(modules_below(ROOT), OF_TRANSFORMERS) == []
    source = "class A:\n    def f(self, *x: Any) -> dict[str, Any]: ...\n    def _g(self, x: Any): ...\n"
    assert untyped({"a.b": source, "a._c": source}, {"A.f, x"}) == ["a.b: A.f, returns"]
