"""The numbers of the package's structure, on a package small enough to count by hand, and its picture."""

import json
import re
import subprocess
import sys

import pytest
import structure
from files_run import files_run
from imports import import_graph, read_floors
from pages import ROOT
from refusals import refused
from sources import PACKAGE, modules, package_graph
from structure_drawing import drawing, lines_of_code

KEPT = ROOT / "docs" / "static" / "structure.svg"
EQUATIONS = '''"""Equations."""

class Equations:
    """What a cell defines."""

    name: str
    """As on the command line."""
    window = 1
    """Inputs that a gate reads."""
    heads: int = 1
    """Blocks of a matrix."""
    output = None
    _private = 0

class ScanEquations(Equations):
    """A scan."""
'''
LAYER = '''"""Layers."""
from gatedrnn.equations import ScanEquations as Scan
from gatedrnn.kinds import scan

SCANS = (Scan,)

class Layer:
    def run(self, cell):
        """Run it.

        Two paragraphs.
        """
        if isinstance(cell, SCANS) and self.cell.window > getattr(cell, "heads", 1):
            return scan.run(cell)

        match cell:
            case Scan():
                return cell.other
    def _of(self): return cell.window.heads
'''
FILES = {
    "__init__.py": "from gatedrnn.cells import one",
    "equations.py": EQUATIONS,
    "kinds/__init__.py": "",
    "kinds/scan.py": "def run(cell):\n    return isinstance(cell, ScanEquations), cell.window\n",
    "layers/__init__.py": LAYER,
    "cells/__init__.py": "",
    "cells/base.py": "class Base(ScanEquations):\n    def __init__(self):\n        self.window = 2\n",
    "cells/one.py": "from .base import Base\nclass OneEquations(Base):\n    name = 'one'\n    heads: int\n",
    "cells/two.py": "from gatedrnn.cells import base\nclass Two(base.Base):\n    name = 'two'\n"
    "    def output(self): ...\nclass Layer:\n    wrapper = lambda cell: cell.window\n    def name(self): ...\n",
    "errors.py": "def f():\n    import gatedrnn.layers\n",
}
FLOORS = "floor,module\n0,errors\n1,equations\n2,kinds\n3,layers\n4,cells\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of the small package, in a repository with floors."""
    repository = tmp_path_factory.mktemp("repository")
    files = {f"src/gatedrnn/{name}": text for name, text in FILES.items()}
    for name, text in {**files, "docs/floors.csv": FLOORS}.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    return repository / "src" / "gatedrnn"


@pytest.fixture(scope="module")
def measured(package):
    return structure.measure_sources(package)


def test_sizes_are_those_counted_by_hand(measured):
    packages = measured["packages"]
    assert sorted(packages) == ["cells", "equations", "errors", "gatedrnn", "kinds", "layers"]
    assert packages["layers"] == {
        "files": 1, "lines": 19, "statements": 11, "without_field_docstrings": 11, "functions": 2, "body_median": 3.5,
        "body_90": 6, "body_longest": 6, "documented": 0.5, "line_median": 24,
    }  # fmt: skip
    equations = packages["equations"]
    assert (equations["statements"], equations["without_field_docstrings"]) == (10, 7)
    parts = [packages[name] for name in ("cells", "equations", "kinds", "layers")]
    for number in ("files", "lines", "statements", "functions"):
        assert measured["core"][number] == sum(part[number] for part in parts)
        assert measured["all"][number] == sum(part[number] for part in packages.values())


def test_a_branch_is_found_by_any_name_of_a_class_and_not_in_kinds_or_the_file_of_a_cell(measured):
    assert measured["branches"] == {
        "classes": ["layers/__init__.py:13: isinstance(cell, SCANS)", "layers/__init__.py:17: Scan()"],
        "declarations": [
            "layers/__init__.py:13: getattr(cell, 'heads', 1)", "layers/__init__.py:13: self.cell.window",
            "layers/__init__.py:19: cell.window",
        ],
    }  # fmt: skip


def test_a_declaration_is_set_by_a_cell_or_by_its_base_beside_it_as_a_method_too(measured):
    assert measured["declarations"] == {"name": 2, "window": 2, "heads": 0, "output": 1}


def test_importers_arrows_and_circles(measured):
    assert measured["one_importer"] == {
        "cells/one.py": "__init__.py", "equations.py": "layers/__init__.py", "kinds/scan.py": "layers/__init__.py",
        "layers/__init__.py": "errors.py",
    }  # fmt: skip
    imports = {"arrows": 4, "upward": ["errors -> layers"], "circles_of_packages": [], "circles_of_modules": []}
    assert measured["imports"] == imports
    ring = {"gatedrnn.a.b": ["gatedrnn.c"], "gatedrnn.c": ["gatedrnn.a.d"], "gatedrnn.a.d": []}
    between = structure.imports_between(ring, None)
    assert (between["upward"], between["circles_of_packages"], between["circles_of_modules"]) == (
        None,
        [["a", "c"]],
        [],
    )
    ring["gatedrnn.a.d"].append("gatedrnn.a.b")
    assert structure.imports_between(ring, None)["circles_of_modules"] == [sorted(ring)]


def test_files_run_are_those_of_the_functions_entered(tmp_path):
    functions = {}
    for name, text in (("a", "def f(): return g()"), ("b", "def g(): pass"), ("c", "def h(): pass")):
        exec(compile(text, str(tmp_path / f"{name}.py"), "exec"), functions)
    assert files_run(functions["f"], tmp_path) == ["a.py", "b.py"]
    assert files_run(functions["g"], tmp_path / "elsewhere") == []


@pytest.mark.slow
def test_the_command_prints_the_numbers_and_writes_them(tmp_path):
    output = tmp_path / "structure.json"
    command = [sys.executable, structure.__file__, "measure", str(PACKAGE), "--output", str(output)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    written = json.loads(output.read_text())
    assert f"of {written['all']['files']}" in printed and str(PACKAGE.parent) not in output.read_text()
    assert "layers/layer.py" in written["files_run"]["MinGRU"]["forward"]
    assert written["files_run"]["LSTM"]["backward"] == []


COMMAND = f"run: python tools/structure.py draw {KEPT.relative_to(ROOT).as_posix()}"


@pytest.fixture(scope="module")
def graph():
    return package_graph()


def test_the_picture_is_that_of_the_package(graph):
    """Its lines of code may be a tenth off, so that a new cell or a few functions ask for no other picture."""
    shown = {name: int(count.replace(",", "")) for name, count in re.findall(r"(\w+) \(([\d,]+)\)", KEPT.read_text())}
    lines = lines_of_code(modules())
    assert shown.keys() == lines.keys() and all(abs(shown[name] / lines[name] - 1) < 0.1 for name in lines), COMMAND
    assert KEPT.read_text() == drawing(shown, graph, read_floors(ROOT)), COMMAND


def layout(steps):
    """Sources in which each package of a step imports the other, and floors as low as that allows."""
    sources, floors = {}, {}
    for importer, imported in reversed(steps):
        sources.setdefault(f"gatedrnn.{imported}", "")
        sources[f"gatedrnn.{importer}"] = sources.get(f"gatedrnn.{importer}", "") + f"import gatedrnn.{imported}\n"
        floors.setdefault(imported, 0)
        floors[importer] = max(floors.get(importer, 0), floors[imported] + 1)
    return sources, floors


KINDS = [("cells", "layers"), ("layers", "kinds"), ("kinds", "kernels"), ("kernels", "errors")]
STUDIES = [
    ("cli", "studies"), ("studies", "study"), ("study", "executors"), ("study", "records"), ("executors", "training"),
    ("training", "data"), ("training", "models"), ("training", "records"), ("models", "layers"), ("data", "errors"),
    ("records", "errors"), *((f"small{i}", "errors") for i in range(8)),
]  # fmt: skip
"""Packages of another layout with the same paths, and a floor with more boxes than a row has."""


def test_another_layout_is_drawn_and_no_two_boxes_are_in_one_place():
    sources, floors = layout([*STUDIES, *KINDS])
    picture = drawing(lines_of_code(sources), import_graph(sources), floors)
    boxes = re.findall(r'class="box" x="([\d.]+)" y="([\d.]+)"', picture)
    assert len(boxes) == len(set(boxes)) == len(sources)
    assert "layers → kinds → kernels" in picture and "cli → studies → study → executors → training" in picture
    assert not re.search(r"https?:(?!//www.w3.org/2000/svg)|<image|@import|url\((?!#)", picture)


def test_a_path_follows_imports_and_a_package_without_a_floor_is_refused():
    for step in KINDS[1:3]:
        others = [other for other in [*STUDIES, *KINDS] if other != step]
        sources, floors = layout(others)
        found = lines_of_code(sources), import_graph(sources), floors
        refused(ValueError, f"from {step[0]} to {step[1]}", drawing, *found)
    sources, floors = layout([*STUDIES, *KINDS])
    without = {name: floor for name, floor in floors.items() if name != "cells"}
    refused(ValueError, "cells has no floor", drawing, lines_of_code(sources), import_graph(sources), without)
