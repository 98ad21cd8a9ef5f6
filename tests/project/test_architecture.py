"""Imports go down only, no two modules import each other, and `import gatedrnn` loads nothing heavy."""

import ast
import csv
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest
from pages import ROOT
from sources import Sources, import_graph, modules, package_graph, parsed, reached

from gatedrnn.registry import CELLS

with (ROOT / "docs" / "floors.csv").open(encoding="utf-8") as table:
    FLOORS = {row["module"]: int(row["floor"]) for row in csv.DictReader(table)}
# The package itself names layers and what lies below them, so it stands just above those.
PACKAGE_FLOOR = 9
HEAVY = {"transformers", "accelerate", "datasets", "numba", "triton", "sklearn", "plotly"}


def place(module: str) -> tuple[str, int]:
    """The folder (or single file) directly below the package, and its floor."""
    _, *inner = module.split(".")
    if not inner:
        return "gatedrnn", PACKAGE_FLOOR
    assert inner[0] in FLOORS, f"{module} stands on no floor: add {inner[0]!r} to docs/floors.csv"
    return inner[0], FLOORS[inner[0]]


def upward_imports(imports: Mapping[str, list[str]]) -> list[str]:
    """Imports of a floor that is not below, other than within one folder."""
    wrong = []
    for module, targets in imports.items():
        for target in (name for name in targets if name.split(".")[0] == "gatedrnn"):
            (folder, floor), (other, below) = place(module), place(target)
            if folder != other and below >= floor:
                wrong.append(f"{module} (floor {floor}) imports {target} (floor {below})")
    return wrong


def import_cycle(imports: Mapping[str, list[str]]) -> list[str]:
    """A ring of modules that import each other, or nothing."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def graph():
    return package_graph()


def test_imports_go_down_only_and_no_modules_import_each_other(graph):
    assert upward_imports(graph) == [] and import_cycle(graph) == []


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
}
UPWARD = [
    ("gatedrnn.ops.linear_scan", "from gatedrnn import layers"),
    ("gatedrnn.ops.linear_scan", "def f():\n    import gatedrnn.layers"),
    ("gatedrnn.ops.linear_scan", "from ..layers import LSTM"),
    ("gatedrnn.ops", "from ..layers import LSTM"),
    ("gatedrnn.kernels.cpu", "importlib.import_module('gatedrnn.ops.reference')"),
    ("gatedrnn.models", "from gatedrnn.data import text"),
    ("gatedrnn.models", "app.command('gatedrnn.cli.train:run')"),
]
RING = {"gatedrnn.ops.reference": "def f():\n    from gatedrnn.ops.linear_scan import scan"}


def test_an_upward_import_is_seen_wherever_it_stands_and_so_is_a_ring():
    assert upward_imports(import_graph(HOUSE)) == [] == import_cycle(import_graph(HOUSE))
    assert [one for one in UPWARD if len(upward_imports(import_graph(HOUSE | dict([one])))) != 1] == []
    assert import_cycle(import_graph(HOUSE | RING))


def test_import_gatedrnn_reaches_nothing_heavy():
    graph = package_graph(at_import=True)
    assert not reached("gatedrnn", graph) & HEAVY
    assert reached("gatedrnn.models", graph) >= {"gatedrnn.models.configuration", "gatedrnn", "transformers"}
    lazy = {"a": "import b\ndef f():\n    import numba", "gatedrnn.c": "if TYPE_CHECKING:\n    import triton"}
    assert import_graph(lazy, at_import=True) == {"a": ["b"], "gatedrnn.c": ["gatedrnn"]}


@pytest.mark.slow
def test_import_gatedrnn_adds_nothing_heavy_to_what_torch_loads():
    script = "import sys, torch; before = set(sys.modules); import gatedrnn; print(*(set(sys.modules) - before))"
    added = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "gatedrnn.layers" in added and not {name.split(".")[0] for name in added} & HEAVY


def compared_names(sources: Sources, names: set[str]) -> list[str]:
    """Comparisons with a cell's name; a record tells what a cell is, wherever it was written."""
    return [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, source in sources.items()
        if not module.startswith(("gatedrnn.cells", "gatedrnn.bench"))
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(part, ast.Constant) and part.value in names for part in ast.walk(node))
    ]


def test_no_cell_is_told_by_its_name():
    """`bench` alone names cells: there they are contenders, as peers' layers are."""
    assert compared_names(modules(), set(CELLS)) == []
    wrong = {"gatedrnn.layers.layer": "if cell.name == 'gru' or kind in ('mgu', 'lstm'): ..."}
    assert len(compared_names(wrong, set(CELLS))) == 2


def overridden(sources: Sources, allowed: set[tuple[str, str]]) -> list[str]:
    """Concrete methods of the package's classes that a class derived from them defines again."""
    classes = {}
    for source in sources.values():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
                marks = {m.name: [ast.unparse(mark) for mark in m.decorator_list] for m in methods}
                classes[node.name] = [ast.unparse(b).split("[")[0].split(".")[-1] for b in node.bases], marks
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
    assert overridden(modules(), PRESCRIBED) == []
    assert overridden({"a": "class A:\n    def f(self): ...\n\nclass B(A):\n    def f(self): ..."}, set()) == ["B.f"]


def untyped(sources: Sources, allowed: set[str]) -> list[str]:
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
    for module, source in sources.items():
        if any(part.startswith("_") and part not in ("__init__", "__main__") for part in module.split(".")):
            continue
        for name, function in public(parsed(source), ""):
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
    assert untyped(modules(), OF_TRANSFORMERS) == []
    source = "class A:\n    def f(self, *x: Any) -> dict[str, Any]: ...\n    def _g(self, x: Any): ...\n"
    assert untyped({"a.b": source, "a._c": source}, {"A.f, x"}) == ["a.b: A.f, returns"]


def test_every_exception_stands_in_one_file():
    """Which one clause of the command line catches."""
    of_errors = {node.name for node in ast.walk(parsed(modules()["gatedrnn.errors"])) if isinstance(node, ast.ClassDef)}
    names = of_errors | {"Exception", "ValueError", "RuntimeError", "TypeError", "OSError"}
    derived = [
        f"{module}: {node.name}"
        for module, source in modules().items()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ClassDef) and {base.id for base in node.bases if isinstance(base, ast.Name)} & names
    ]
    assert {name.split(":")[0] for name in derived} == {"gatedrnn.errors"} and len(derived) == len(of_errors)
