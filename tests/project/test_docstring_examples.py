"""Every public name has an example, and the examples of all docstrings run."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch

import gatedrnn

SOURCES = Path(gatedrnn.__file__).parent
TRAINS = re.compile(r">>> .*(?:gatedrnn\.(?:train|forecast|compare|probe)\(|\.fit\()")
"""The pattern of examples that a fast test has no time for."""
KNOWN = {"torch": torch, "gatedrnn": gatedrnn, **{name: getattr(gatedrnn, name) for name in gatedrnn.__all__}}
"""The names that an example finds beside those of its module."""


def with_examples():
    """The modules with examples, once for those that train and once for the others."""
    for file in sorted(SOURCES.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        name = ".".join(file.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__")
        if ">>> " in text:
            yield pytest.param(name, False, id=name)
        if TRAINS.search(text):
            yield pytest.param(name, True, id=f"{name}-trains", marks=pytest.mark.slow)


@pytest.mark.filterwarnings("ignore:The default of config:FutureWarning")  # sktime, of each forecaster
@pytest.mark.parametrize("name, trains", list(with_examples()))
def test_the_examples_of_a_module_run(name, trains, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module, differences = import_module(name), []
    for each in doctest.DocTestFinder().find(module, globs={**KNOWN, **vars(module)}):
        if bool(TRAINS.search(each.docstring)) == trains:
            doctest.DocTestRunner(verbose=False).run(each, out=differences.append)
    assert "".join(differences) == ""


@pytest.mark.parametrize("name", gatedrnn.__all__)
def test_a_public_name_has_an_example_that_runs(name):
    (found,) = doctest.DocTestFinder(recurse=False).find(KNOWN[name], name)
    assert found.examples and not any(doctest.SKIP in example.options for example in found.examples)
