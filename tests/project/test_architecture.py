"""Imports go down only, no two modules import each other, `import gatedrnn` loads nothing heavy; a cell is known in its
own file, and its kind in the package of that kind.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structure
from imports import import_cycle, import_graph, origin_of, package_of, parsed, reached, read_floors, upward_imports
from pages import ROOT
from sources import modules, package_graph

from gatedrnn import kinds
from gatedrnn.kernels import private
from gatedrnn.kinds.kind import Kind
from gatedrnn.registry import CELLS

FLOORS = read_floors(ROOT)
CORE = {"cells", "layers", "kinds", "codegen", "kernels", "ops", "equations", "registry"}
"""The packages and modules that define and run a cell."""
BOTTOM = {"errors", "names", "shapes", "machine", "children", "user_cache"}
"""The modules that the core may import: they need the standard library and torch alone."""
INSTALLED = {"torch", "numpy", "numba", "llvmlite", "triton", "filelock", "typing_extensions"}
"""Packages that the core may import: torch brings the last two and, on a GPU, triton; numba brings llvmlite."""
READERS = ("src", "tests", "benchmarks", "tools", "examples", "docs")
HEAVY = {"transformers", "accelerate", "datasets", "numba", "triton", "sklearn", "plotly"}


@pytest.fixture(scope="module")
def graph():
    return package_graph()


def test_imports_go_down_only_and_no_modules_import_each_other(graph):
    assert upward_imports(graph, FLOORS) == [] and import_cycle(graph) == []


HOUSE = {
    "gatedrnn.ops": "from gatedrnn.ops.scan import scan", "gatedrnn.ops.reference": "from ..shapes import Series",
    "gatedrnn.ops.scan": "import_module('gatedrnn.kernels.cpu')\nfrom gatedrnn.ops import reference",
    "gatedrnn.cli.train": "from gatedrnn import models", "gatedrnn.cli.app": "app.command('gatedrnn.cli.train:run')",
    **dict.fromkeys((f"gatedrnn.{part}" for part in ("shapes", "kernels", "kernels.cpu", "layers", "models")), ""),
}  # fmt: skip
UPWARD = [
    *(("gatedrnn.ops.scan", source) for source in (
        "from gatedrnn import layers", "def f():\n    import gatedrnn.layers", "from ..layers import LSTM",
    )),
    ("gatedrnn.ops", "from ..layers import LSTM"), ("gatedrnn.models", "app.command('gatedrnn.cli.train:run')"),
    ("gatedrnn.kernels.cpu", "importlib.import_module('gatedrnn.ops.reference')"),
]  # fmt: skip
RING = {"gatedrnn.ops.reference": "def f():\n    from gatedrnn.ops.scan import scan"}


def test_an_upward_import_is_seen_wherever_it_stands_and_so_is_a_ring():
    assert upward_imports(import_graph(HOUSE), FLOORS) == [] == import_cycle(import_graph(HOUSE))
    assert [one for one in UPWARD if len(upward_imports(import_graph(HOUSE | dict([one])), FLOORS)) != 1] == []
    assert import_cycle(import_graph(HOUSE | RING))


def test_import_gatedrnn_reaches_nothing_heavy():
    graph = package_graph(at_import=True)
    assert not reached("gatedrnn", graph) & HEAVY
    assert reached("gatedrnn.models", graph) >= {"gatedrnn.models.configuration", "gatedrnn", "transformers"}
    lazy = {"a": "import b\ndef f():\n    import numba", "gatedrnn.c": "if TYPE_CHECKING:\n    import triton"}
    assert import_graph(lazy, at_import=True) == {"a": ["b"], "gatedrnn.c": ["gatedrnn"]}


def imported_from_outside(graph):
    """Imports of the core, and of the modules below it, that a machine with torch, numpy and numba alone may lack."""
    allowed = {module: CORE | BOTTOM for module in CORE} | {module: BOTTOM for module in BOTTOM}
    return [
        f"{module}: {target}" for module, targets in graph.items() if package_of(module) in allowed
        for target in targets if target != "gatedrnn" and (
            package_of(target) not in allowed[package_of(module)] if target.startswith("gatedrnn.")
            else target.split(".")[0] not in INSTALLED | sys.stdlib_module_names
        )
    ]  # fmt: skip


def test_the_core_stands_alone(graph):
    assert imported_from_outside(graph) == []
    outside = {"gatedrnn.layers.layer": ["gatedrnn.records", "yaml"], "gatedrnn.names": ["gatedrnn.cells"]}
    assert len(imported_from_outside(outside)) == 3


@pytest.mark.slow
def test_import_gatedrnn_and_its_layers_add_nothing_heavy_to_what_torch_loads():
    script = "import sys, torch; before = set(sys.modules); import gatedrnn; gatedrnn.MinGRU; "
    script += "print(*(set(sys.modules) - before))"
    added = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "gatedrnn.layers" in added and not {name.split(".")[0] for name in added} & HEAVY


OF_A_LAYER = {"transformers"}
"""Libraries whose layers the laws make; they are imported when one of them is named."""


def beside_torch(graph):
    """Imports of the laws beside torch, Python's own library and themselves."""
    known = sys.stdlib_module_names | {"torch", "numpy"}
    return {
        (module, target) for module, targets in graph.items() if package_of(module) == "laws" for target in targets
        if target not in known and target != "gatedrnn" and package_of(target) != "laws"
    }  # fmt: skip


def test_the_laws_of_any_module_could_be_a_package_of_their_own(graph):
    assert beside_torch(package_graph(at_import=True)) == set()
    assert {target for _, target in beside_torch(graph)} <= OF_A_LAYER
    wrong = {"gatedrnn.laws.a": "import rich\nfrom gatedrnn import errors", "gatedrnn.errors": ""}
    assert len(beside_torch(import_graph(wrong))) == 2


def nodes(kind, sources):
    """All of a kind, each with its module."""
    return [(m, node) for m, source in sources.items() for node in ast.walk(parsed(source)) if isinstance(node, kind)]


def compared_names(sources, names):
    """Comparisons with a cell's name; a record tells what a cell is, wherever it was written."""
    return [
        f"{module}:{node.lineno}: {ast.unparse(node)}" for module, node in nodes(ast.Compare, sources)
        if not module.startswith("gatedrnn.cells")
        and any(isinstance(part, ast.Constant) and part.value in names for part in ast.walk(node))
    ]  # fmt: skip


def test_no_cell_is_told_by_its_name():
    assert compared_names(modules(), set(CELLS)) == []
    wrong = {"gatedrnn.layers.layer": "if cell.name == 'gru' or kind in ('mgu', 'lstm'): ..."}
    assert len(compared_names(wrong, set(CELLS))) == 2


RECORDS = {name for name, value in vars(kinds).items() if isinstance(value, Kind)}
"""Names of the objects of single kinds."""


def compared_kinds(sources):
    """Imports of one kind, and comparisons of a cell's kind, outside kinds/."""
    outside = {module: source for module, source in sources.items() if package_of(module) != "kinds"}
    imports = [
        f"{module}:{node.lineno}: {alias.name}" for module, node in nodes(ast.ImportFrom, outside)
        for alias in node.names if alias.name in RECORDS
        and origin_of(node, module, True).startswith("gatedrnn.kinds")
    ]  # fmt: skip
    comparisons = [
        f"{module}:{node.lineno}: {ast.unparse(node)}" for module, node in nodes(ast.Compare, outside)
        for part in (node.left, *node.comparators)
        if getattr(part, "attr", "") == "_kind" or getattr(getattr(part, "func", None), "id", "") == "kind_of"
    ]  # fmt: skip
    return imports + comparisons


BY_KIND = {
    "gatedrnn.layers.a": "from gatedrnn.kinds import LOOP\nfrom gatedrnn.equations import LoopEquations\n"
    "slow = isinstance(cell, LoopEquations) or cell.joint_states or layer._kind is LOOP",
    "gatedrnn.kinds.b": "from gatedrnn.kinds.loop.path import LOOP\nslow = kind_of(cell) is LOOP and cell.joint_states",
}  # fmt: skip


def test_no_code_outside_kinds_asks_for_the_kind_of_a_cell():
    """A difference between kinds is a method of `Kind`, or a value of its facts."""

    def asked(sources):
        return *structure.branches(sources, {module: module for module in sources}).values(), compared_kinds(sources)

    assert asked(modules()) == ([], [], [])
    assert list(map(len, asked(BY_KIND))) == [1, 1, 2]


def test_equations_declare_little_and_each_declaration_has_users():
    users = structure.declarations(modules())
    assert 10 <= len(users) <= 14 and {name: count for name, count in users.items() if count < 3} == {}


def test_kernels_and_generated_code_know_no_cell(graph):
    machinery = {target for module in graph if package_of(module) in ("kernels", "codegen") for target in graph[module]}
    assert not {package_of(target) for target in machinery} & {"kinds", "layers", "cells", "registry"}


def overridden(sources, allowed):
    """Concrete methods of the package's classes that a class derived from them defines again."""
    classes = {}
    for _, node in nodes(ast.ClassDef, sources):
        methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
        marks = {m.name: " ".join(ast.unparse(mark) for mark in m.decorator_list) for m in methods}
        classes[node.name] = [ast.unparse(b).split("[")[0].split(".")[-1] for b in node.bases], marks
    found, above = [], {name: bases for name, (bases, _) in classes.items()}
    for name, (_, methods) in classes.items():
        for base in reached(name, above) & set(classes) - {name}:
            concrete = {m for m, marks in classes[base][1].items() if "abstract" not in marks} - {"__init__"}
            again = [m for m in methods if m in concrete and base not in HOOKS and (name, m) not in allowed]
            found += [f"{name}.{m}" for m in again]
    return found


HOOKS = {"LabelledTask", "Ending", "LabelAnswering", "TaskSettings"}
"""Classes whose methods are defaults, as their docstrings say, which a task replaces."""
PRESCRIBED = {("RecurrentLayer", "__setstate__"), ("ParallelForm", "compile"), ("ScanKind", "step")}
"""Methods whose names torch's modules and Numba's dispatchers prescribe, and the one for which `Kind` has a default."""


def test_no_concrete_method_is_overridden():
    assert overridden(modules(), PRESCRIBED) == []
    assert overridden({"a": "class A:\n    def f(self): ...\n\nclass B(A):\n    def f(self): ..."}, set()) == ["B.f"]


STARTS = re.compile(
    r"subprocess|multiprocessing|pty|concurrent\.futures\.ProcessPoolExecutor"
    r"|os\.(?:system|popen|fork\w*|exec\w+|spawn\w+|posix_spawn\w*|startfile)"
)
"""Modules and functions that start processes."""
LOOKS = {"multiprocessing.process.parent_process", "subprocess.DEVNULL", "subprocess.PIPE", "subprocess.Popen"}
"""Names of these modules that start none; of `Popen` annotations speak, and `start_python` returns it."""
STARTERS = {
    "gatedrnn.children": "Python processes", "gatedrnn.records": "git, in the checkout of this package alone",
    "gatedrnn.view.page": "make, in the checkout of this package alone",
}  # fmt: skip


def processes_started(sources, allowed):
    """Imports and calls that start processes outside of the modules that may."""
    found = []
    for module, node in nodes((ast.Import, ast.ImportFrom, ast.Attribute, ast.Call), sources):
        match node:
            case ast.ImportFrom():
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.Attribute():
                names = [ast.unparse(node)] if ast.unparse(node).startswith("os.") else []
            case ast.Call(func=ast.Name(id="Popen")):  # imported for an annotation, and called all the same
                names = ["subprocess.Popen()"]
            case _:
                names = []
        wrong = [name for name in names if STARTS.match(name.removeprefix("torch.")) and name not in LOOKS]
        found += [f"{module}:{node.lineno}: {name}" for name in wrong if module not in allowed]
    return found


def test_one_module_starts_python_processes():
    """Each of them leaves the current folder out of its path; whoever starts one by himself forgets it."""
    assert processes_started(modules(), STARTERS) == []
    sources = [
        "import subprocess", "from multiprocessing import get_context", "import torch.multiprocessing as mp",
        "from concurrent.futures import ProcessPoolExecutor", "import os\nos.execv('a', [])",
        "import multiprocessing.pool", "from subprocess import Popen\nPopen(['python'])",
    ]  # fmt: skip
    assert [source for source in sources if len(processes_started({"gatedrnn.a": source}, STARTERS)) != 1] == []
    assert processes_started({"gatedrnn.a": "from subprocess import PIPE\nimport os\nos.fspath('a')"}, STARTERS) == []


def public(node, prefix=""):
    """The functions of a module by their names, and those of its classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and (child.name in SPECIAL or not child.name.startswith("_")):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If):
            yield from public(child, prefix)


MACHINERY = re.compile(
    r"gatedrnn\.(?:kernels\.(?:op|cpu\.(?:ahead|compile|functions|products|rows|threads|views)|gpu\.launch)"
    r"|kinds\.\w+\.loops)$"
)
"""The pattern of modules whose functions are compiled, or take what compilers give: annotations say nothing there."""


def untyped(sources, allowed):
    """Arguments and results of public functions that are annotated with `Any`."""
    found = []
    for module, source in sources.items():
        if MACHINERY.match(module):
            continue
        for name, function in public(parsed(source)):
            given = function.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            hints = {a.arg: a.annotation for a in arguments if a is not None} | {"returns": function.returns}
            wrong = [f"{name}, {a}" for a, hint in hints.items() if hint and re.search(r"\bAny\b", ast.unparse(hint))]
            found += [f"{module}: {words}" for words in wrong if words not in allowed]
    return found


DOCUMENTED = {"os._exit", "sys._getframe"}
"""Functions whose names begin with an underscore, and which Python documents."""
PRIVATE = {
    "torch._C._ForceDispatchKeyGuard": "an operation of torch's kernel that differentiates inside, as are the next two",
    "torch._C._dispatch_tls_local_exclude_set": "",
    "torch._C._dispatch_tls_local_include_set": "",
    "torch._higher_order_ops.scan.scan": "the loop of an export to ONNX",
    "torch.utils._python_dispatch.TorchDispatchMode": "documented where it stands, and nowhere else",
    "torch.utils._pytree": "states of anybody's layer, nested as they may be, as are the next two",
    "torch.utils._pytree.tree_leaves": "",
    "torch.utils._pytree.tree_map": "",
    "nn.modules.batchnorm._BatchNorm": "a base class by which a subject is known",
    "nn.Module._apply": "a method that RNNBase has overridden, as is the next one",
    "nn.Module._replicate_for_data_parallel": "",
    "CompileResult._rebuild": "what Numba's own cache makes of its files",
    "SpawnProcess._Popen": "the start of a process, in which the current folder is left out",
    "AcceleratorState._reset_state": "a second run in a process, which may ask for another precision",
    "sklearn.utils.validation._check_sample_weight": "weights whose faults scikit-learn's checks want in its words",
}
"""Private names of other packages beside those of `kernels.private`, which has a way without each; and what for."""


OF_TORCH = Path(private.__file__).read_text("utf-8")


def private_names(sources):
    """Private names that modules read of modules and classes of other packages, by the reading module."""
    found = {}
    for module, source in sources.items():
        tree, names = parsed(source), {}
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in imports:
            whence = f"{node.module}." if isinstance(node, ast.ImportFrom) and not node.level else ""
            for alias in node.names:
                if not f"{whence}{alias.name}".startswith("gatedrnn"):
                    names[(alias.asname or alias.name).split(".")[0]] = f"{whence}{alias.name}"
        read = {f"{whence}" for whence in names.values() if re.search(r"(^|\.)_[a-z]", whence)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and re.match(r"_[a-zA-Z]", node.attr):
                root = ast.unparse(node)
                if re.fullmatch(r"[\w.]+", root) and root.split(".")[0] in names and "._C._C" not in root:
                    read.add(root)
        longest = {name for name in read if not any(other.startswith(f"{name}.") for other in read)}
        if longest - DOCUMENTED:
            found[module] = sorted(longest - DOCUMENTED)
    return found


def test_few_modules_read_private_names_of_other_packages():
    assert set().union(*private_names(modules()).values()) == set(PRIVATE)
    assert len(re.findall(r"of_torch\(\"", OF_TORCH)) == 3
    source = "import torch\nfrom numba.core import _cache\nfrom os import path\ntorch._C._a()\ntorch.nn(x._y)\n"
    assert private_names({"gatedrnn.a": source}) == {"gatedrnn.a": ["numba.core._cache", "torch._C._a"]}


SPECIAL = ("__init__", "__call__")
FORWARD = ("Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification")
OF_TRANSFORMERS = {f"GatedRNN{kind}.forward, kwargs" for kind in FORWARD}
OF_TRANSFORMERS |= {"GatedRNNForCausalLM.prepare_inputs_for_generation, kwargs"}
OF_TRANSFORMERS |= {f"RecurrentState.update_{kind}_state, kwargs" for kind in ("recurrent", "conv")}
"""Keyword arguments that the base class's method takes."""


def test_a_public_constant_is_read_by_another_file():
    """A constant of one file alone is private, so that a reader need not look for other places."""
    paths = [path for folder in READERS for ending in ("py", "md") for path in (ROOT / folder).rglob(f"*.{ending}")]
    texts = {path: path.read_text("utf-8") for path in paths}
    words = {path: set(re.findall(r"\w+", text)) for path, text in texts.items()}
    public = [
        (path, target.id)
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.parse(texts[path]).body
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
        if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_")
    ]
    alone = [f"{path.name}: {name}" for path, name in public if not any(name in words[o] for o in words if o != path)]
    assert alone == []


def test_every_public_signature_says_what_it_takes_and_returns():
    of_any_cell = {"kind_of, returns"}
    assert untyped(modules(), OF_TRANSFORMERS | of_any_cell) == []
    source = "class A:\n    def f(self, *x: Any) -> dict[str, Any]: ...\n    def _g(self, x: Any): ...\n"
    assert untyped({"a.b": source, "gatedrnn.kernels.op": source}, {"A.f, x"}) == ["a.b: A.f, returns"]


def test_every_exception_stands_in_one_file():
    """One clause of the command line catches them all, but those of the laws, which know no other package."""
    files = ["gatedrnn.errors", "gatedrnn.laws.errors"]
    classes = nodes(ast.ClassDef, modules())
    of_errors = {node.name for module, node in classes if module in files}
    builtin = {"BaseException", "Exception", "ValueError", "RuntimeError", "TypeError", "OSError", "AssertionError"}
    bases = [(module, {getattr(base, "id", "") for base in node.bases}) for module, node in classes]
    derived = [module for module, names in bases if names & (of_errors | builtin)]
    assert [module for module in derived if module not in files] == [] and len(derived) == len(of_errors)
