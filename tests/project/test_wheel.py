"""Installation: each extra brings what the modules import that need it, and a wheel works with and without."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata

import pytest
from imports import reached
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import ROOT
from sources import PACKAGE, modules, package_graph

import gatedrnn
from gatedrnn import extras

pytestmark = pytest.mark.timeout(1800)  # what is installed comes from a network
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_USERS = ("train", "series", "export", "slurm", "ray")
BROUGHT = {"llvmlite": "numba", "pydantic_core": "pydantic", "typing_extensions": "torch"}
"""Modules that listed packages bring."""
IMPORTED_BY_OTHERS = {"onnxscript"}  # by torch's exporter
PROVIDED = metadata.packages_distributions().items()
IMPORTED_AS = [(canonicalize_name(name), module) for module, names in PROVIDED for name in names]


def listed(extra=None):
    """The import names of the packages that an extra lists itself; for None, of those of the core."""
    lines = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(line).name) for line in lines} - {PROJECT["name"]}
    return {name: {module for of, module in IMPORTED_AS if of == name} or {name} for name in names}


EXTRAS = {extra: set().union(*listed(extra).values()) for extra in (*OF_USERS, "gpu-test")}
CORE = set().union(*listed().values()) | {name for name, package in BROUGHT.items() if package in listed()}


def foreign(names):
    """The modules of packages that are not in the core."""
    return {name for name in names if name.split(".")[0] != "gatedrnn"} - sys.stdlib_module_names - CORE


def test_no_hint_names_a_package_of_an_index_that_has_none():
    """Whoever registers the name there would be run by those who follow the hint."""
    places = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    places += [*ROOT.glob("*.md"), *(ROOT / "tools").rglob("*.py"), *(ROOT / "view" / "src").iterdir()]
    found = re.compile(r"pip3? install[^\n`]*\bgatedrnn\b|gatedrnn\[\w")
    wrong = [path for path in places if "_build" not in path.parts and found.search(path.read_text(encoding="utf-8"))]
    assert wrong == [] and found.search("pip install 'gatedrnn[train]'") and found.search("pip install -U gatedrnn")


@pytest.fixture(scope="module")
def imported():
    """The imports of each module beyond the core, anywhere in it."""
    return {module: foreign(names) for module, names in package_graph().items()}


@pytest.fixture(scope="module")
def needed():
    """The imports of each module beyond the core at import, by itself and through others."""
    graph = package_graph(at_import=True)
    return {module: foreign(reached(module, graph)) for module in graph}


def test_what_is_imported_is_listed_and_what_is_listed_is_imported(imported):
    for module, names in imported.items():
        assert not names - set().union(*EXTRAS.values(), BROUGHT), module
    everywhere = set().union(*package_graph().values())
    packages = [listed(), *map(listed, OF_USERS)]
    assert {name for one in packages for name, words in one.items() if not words & everywhere} == IMPORTED_BY_OTHERS
    for name, package in BROUGHT.items():
        requires = {Requirement(line).name.replace("-", "_") for line in metadata.requires(package) or []}
        assert name in requires and name in everywhere


def test_the_core_and_train_suffice_for_what_needs_no_other_extra_by_its_name(needed):
    """Commands of [train] import series, SLURM and Ray when they are asked for; the message names their extra."""
    named = {extra: set(packages) for extra, packages in extras.EXTRAS.items()}
    assert named.pop("train") <= EXTRAS["train"]
    assert named == {extra: EXTRAS[extra] for extra in OF_USERS if extra != "train"}
    for module, packages in needed.items():
        rest = packages - EXTRAS["train"] - EXTRAS["gpu-test"] - set(BROUGHT)
        if module == "gatedrnn.estimators.sktime":  # which is for whoever has it
            rest -= EXTRAS["series"]
        assert not rest or (rest <= EXTRAS["export"] and module.split(".")[1] in ("export", "view")), (module, rest)
    of_core = {module for module, packages in needed.items() if not packages}
    parts = (
        "cells",
        "cli.app",
        "cli.describe",
        "cli.verify",
        "inspect.trace",
        "registry",
    )
    assert of_core >= {"gatedrnn", *(f"gatedrnn.{part}" for part in parts)}
    assert not of_core & {"gatedrnn.models", "gatedrnn.cli.train", "gatedrnn.data.task"}


def run(*command, folder=ROOT):
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(folder):
    """A clean checkout: what git keeps."""
    if not (ROOT / ".git").exists():
        pytest.skip("a checkout is what git keeps")
    for name in filter(None, run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


BUILD = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--verbose", "--wheel-dir")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel as it is built from a clean checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(*BUILD, folder, checkout(folder / "checkout"))
    (built,) = folder.glob("*.whl")
    return built


def environment(folder, *wanted, beside=None):
    """The folder of the commands of a new environment, in which `wanted` was installed, beside another's packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    packages = "lib/python{}.{}/site-packages".format(*sys.version_info)
    if beside is not None:
        (folder / packages / "beside.pth").write_text(str(beside.parent / packages))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-compile")
    run(*pip, "--constraint", ROOT / "constraints.txt", *wanted)
    return folder / "bin"


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("core"), str(wheel))


@pytest.fixture(scope="module")
def full(wheel, core, tmp_path_factory):
    """An environment with every extra of users; what the core needs is not copied again."""
    return environment(tmp_path_factory.mktemp("full"), f"{wheel}[{','.join(OF_USERS)}]", beside=core)


MISSING = """
import importlib, json, sys
missing = {}
for name in sys.argv[1:]:
    try:  # of a package that is not there no module is, also if it was loaded before the package failed
        importlib.import_module(name)
        missing |= {name: missing[package] for package in [name.rpartition(".")[0]] if package in missing}
    except ModuleNotFoundError as error:
        missing[name] = error.name.split(".")[0]
print(json.dumps(missing))
"""


def missing_in(commands, names, folder):
    """The packages that are not installed, by the module whose import fails."""
    return json.loads(run(commands / "python", "-W", "ignore", "-c", MISSING, *names, folder=folder).splitlines()[-1])


@pytest.mark.slow
def test_a_wheel_holds_every_module_the_page_and_the_extras(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        page = archive.read("gatedrnn/view/page.html").decode() if shutil.which("npm") else ""
        (described,) = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    own = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == own
    assert {name.split("/")[0] for name in names} == {"gatedrnn", f"gatedrnn-{gatedrnn.__version__}.dist-info"}
    assert ("gatedrnn/view/page.html" in names) == bool(page)
    notices = page.partition('<script type="text/plain" id="notices">')[2]
    lock = json.loads((ROOT / "view" / "package-lock.json").read_text())["packages"]
    for name in ("@huggingface/tokenizers", "onnxruntime-web") if page else ():
        assert f"{name} {lock[f'node_modules/{name}']['version']}, " in notices
    # The permission that MIT asks for, Apache's terms, and some of what the WebAssembly is made of.
    wanted = ("Permission is hereby granted", "Apache License", "protocolbuffers/protobuf", "Eigen")
    assert not page or [words for words in wanted if words not in notices] == []
    assert set(re.findall(r"^Provides-Extra: ([\w-]+)$", described, re.M)) == set(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_where_npm_fails_a_wheel_comes_without_the_page_and_says_so_and_a_release_fails(tmp_path):
    source, npm = checkout(tmp_path / "checkout"), tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\necho 'npm ERR! offline' >&2\nexit 1\n")
    npm.chmod(0o755)
    outside = {**os.environ, "PATH": f"{npm.parent}{os.pathsep}{os.environ['PATH']}"}
    for release, code in (({}, 0), ({"GATEDRNN_RELEASE": "1"}, 1)):
        done = subprocess.run(
            [*BUILD, tmp_path / "out", source], env={**outside, **release}, capture_output=True, text=True
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == code, said
        assert "page for `gatedrnn view`: `npm ci" in said and "npm ERR! offline" in said
    (built,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        assert "gatedrnn/view/page.html" not in archive.namelist()
    assert not (source / "src" / "gatedrnn" / "view" / "page.html").exists()


@pytest.mark.slow
def test_the_core_alone_has_its_commands_and_what_needs_more_names_its_extra(core, needed, tmp_path):
    missing = missing_in(core, modules(), tmp_path)
    asking = {module for module, source in modules().items() if "\nrequire(" in source}
    below = {module for module in modules() if any(f"{module}.".startswith(f"{one}.") for one in asking)}
    assert set(missing) == {module for module, packages in needed.items() if packages} | below
    named = {name for packages in extras.EXTRAS.values() for name in packages}
    assert [module for module, name in missing.items() if name not in named | needed[module]] == []
    for command in ("--help", "describe mingru --hidden-size 8", "verify mingru --dtypes float64"):
        run(core / "gatedrnn", *command.split(), folder=tmp_path)
    done = subprocess.run([core / "gatedrnn", "train"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.endswith("'.[series,export]', in the folder of gatedrnn's source\n")


LAYERS = """
import torch, gatedrnn
from gatedrnn.registry import CELLS
from gatedrnn.verify import check
for record in CELLS.values():
    layer = record.layer(4, 8)
    layer(torch.randn(5, 2, 4))[0].sum().backward()
    with torch.no_grad():
        layer.eval().step(torch.randn(2, 4))
report = check(gatedrnn.MinGRU, input_size=3, hidden_size=4)
print(gatedrnn.choose_backend("cpu").backend, report.failures)
"""
REFUSED = """
import torch, gatedrnn
try:
    gatedrnn.linear_scan(torch.rand(1, 3, 2), torch.rand(1, 3, 2), backend="native")
except gatedrnn.BackendUnavailable as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [("numba",), ()])
def test_with_torch_and_numpy_alone_all_layers_run_and_are_checked_by_kernels_where_numba_is(compiler, tmp_path):
    commands = environment(tmp_path / "bare", "torch", "numpy", *compiler)
    (folder,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    (folder / "own.pth").write_text(str(PACKAGE.parent))
    said = run(commands / "python", "-W", "ignore", "-c", LAYERS, folder=tmp_path)
    assert said.splitlines()[-1] == f"{'native' if compiler else 'reference'} []"
    if not compiler:
        said = run(commands / "python", "-W", "ignore", "-c", REFUSED, folder=tmp_path)
        assert said == "backend 'native' needs numba on a CPU, which is not installed; use 'reference'\n"


@pytest.mark.slow
def test_with_every_extra_all_is_there_and_a_model_trains(full, imported, tmp_path):
    wanted = set().union(*imported.values()) & set().union(*EXTRAS.values())
    missing = missing_in(full, [*wanted, *modules()], tmp_path)
    assert set(missing.values()) <= EXTRAS["gpu-test"]
    task = "--task digits --cell mingru --hidden-size 8 --layers 1 --embedding-size 8 --epochs 1 --threads 1"
    run(full / "python", "-m", "gatedrnn", "train", *task.split(), "--output", "run", folder=tmp_path)
    assert json.loads((tmp_path / "run" / "result.json").read_text())
