"""A layer's docstring stands whole in its file, and is true: arguments, weights with their shapes, state, gaps."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from gatedrnn.equations import ScanEquations
from gatedrnn.inspect.describe import equations_of
from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer, SingleStep
from gatedrnn.registry import CELLS

SIZES = {"input_size": 3, "hidden_size": 12}
MANY = 3  # an option that counts: blocks, heads, features of a gap
BATCH = 2
SECTIONS = ["Equations", "Args", "Weights", "Initialisation", "Inputs", "Outputs", "State", "Example", "Source"]
OF_A_STEP = ["Args", "Weights", "Inputs", "Outputs", "Example"]
every_cell = pytest.mark.parametrize("name", CELLS)


@cache
def in_its_file(made):
    """The docstring as the file has it, whatever an import does."""
    (text,) = [
        ast.get_docstring(node)
        for node in ast.parse(Path(inspect.getfile(made)).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == made.__name__
    ]
    return text


def section(made, title):
    """The rows of a section: their names and texts. A name that several share has one entry each."""
    found = re.search(rf"^{title}:.*\n((?: {{4}}.*\n?)+)", in_its_file(made), re.M)
    assert found, f"{made.__name__} has no section {title}"
    rows = re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", found[1], re.M)
    return {name: " ".join(text.split()) for names, text in rows for name in names.split(", ")}


def shapes(made, title, names):
    """The shapes that a section writes, read with these sizes."""
    written = {}
    for name, text in section(made, title).items():
        shape = re.match(r"(\([^)]*\))(?:[,.;]|$)", text)[1].replace("·", "*").replace("/", "//")
        written[name] = (eval(shape, dict(names)), text)
    return written


def made_with(name, single=False, **arguments):
    """A small layer, with the options that count set to 3 where the cell takes that, and the sizes by their names."""
    record = CELLS[name]
    options = {key: MANY for key in record.options if key in ("heads", "gap_features", "block_size")}
    made = (record.single_step if single else record.layer)(**SIZES, **options, **arguments)
    names = {"proj_size": 0, "L": 1, "batch": BATCH, "gates": len(made.cell.projections), **SIZES, **arguments}
    return made, names | dict(made.cell.options)


@every_cell
def test_a_docstring_has_every_section_and_every_argument(name):
    record = CELLS[name]
    for made, titles in ((record.layer, SECTIONS), (record.single_step, OF_A_STEP)):
        assert made.__doc__ is not None and inspect.cleandoc(made.__doc__) == in_its_file(made), "nothing is pasted"
        there = re.findall(r"^([A-Z]\w+(?: Args)?):", in_its_file(made), re.M)
        assert [title for title in there if title != "Keyword Args"] == titles
        options = section(made, "Keyword Args") if "Keyword Args" in there else {}
        assert list(section(made, "Args") | options) == list(inspect.signature(made).parameters), made
    assert (section(record.layer, "Keyword Args").keys() if record.options else set()) == record.options.keys()


@every_cell
def test_the_weights_of_a_docstring_are_those_of_the_layer(name):
    record = CELLS[name]
    for given in ({}, {"layer_norm": True}, {"proj_size": 5}):
        if "proj_size" in given and section(record.layer, "Args")["proj_size"].startswith("0, for"):
            continue
        layer, names = made_with(name, **given)
        expected = {
            key: shape
            for key, (shape, text) in shapes(record.layer, "Weights", names).items()
            if (condition := re.search(r"with `(\w+)`", text)) is None or condition[1] in given
        }
        assert {key: tuple(weight.shape) for key, weight in layer.named_parameters()} == expected
    step, names = made_with(name, single=True)
    expected = {key: shape for key, (shape, _) in shapes(record.single_step, "Weights", names).items()}
    assert {key: tuple(weight.shape) for key, weight in step.named_parameters()} == expected


@every_cell
def test_the_rows_of_a_weight_are_the_projections_in_their_order(name):
    cell = CELLS[name].layer(**SIZES).cell
    rows = re.search(r"rows of ([\w, ]+?)(?:[.;]| \()", section(CELLS[name].layer, "Weights")["weight_ih_l0"])
    if len(cell.projections) > 1:
        assert rows[1].split(", ") == list(cell.projections)


@every_cell
def test_a_bias_that_may_be_left_out_is_a_parameter_only_with_bias(name):
    record = CELLS[name]
    layer, _ = made_with(name, bias=False)
    optional = {key for key, text in section(record.layer, "Weights").items() if "unless `bias`" in text}
    with_biases = {key for key, _ in made_with(name)[0].named_parameters()}
    assert with_biases - {key for key, _ in layer.named_parameters()} >= optional != set()


@every_cell
def test_the_state_of_a_docstring_is_that_of_the_layer(name):
    record = CELLS[name]
    projects = not section(record.layer, "Args")["proj_size"].startswith("0, for")
    for given in ({}, {"proj_size": 5}) if projects else ({},):
        layer, names = made_with(name, **given)
        state = layer.initial_state(BATCH)
        tensors = state if isinstance(state, tuple) else (state,)
        written = shapes(record.layer, "State", names)
        assert [tuple(tensor.shape) for tensor in tensors] == [shape for shape, _ in written.values()]
    begins = section(record.layer, "Inputs")["hx"]
    assert ("`initial_state_l0`" if hasattr(layer, "initial_state_l0") else "zeros") in begins


@every_cell
def test_initialisation_and_gaps_are_said_as_they_are(name):
    record = CELLS[name]
    layer, text = record.layer(**SIZES), in_its_file(record.layer)
    said = re.search(r"^Initialisation:\n((?: {4}.*\n)+)", text, re.M)[1]
    line = section(record.layer, "Args")["weight_init"]
    schemes = {layer.weight_init, layer.bias_init}
    assert set(re.findall(r'"([\w-]+)"', line)) == schemes
    authors = {"authors"} if layer.cell.fill_as_authors else set()
    assert set(re.findall(r'"([\w-]+)"', said)) == schemes | authors
    assert ("gaps" in section(record.layer, "Inputs")) == bool(kind_of(layer.cell).facts(layer.cell).gaps)


VALUES = {"proj_size": 5, "zoneout": 0.5, "state_dropout": 0.5, "weight_dropout": 0.5, "longest_time_scale": 100.0}


@every_cell
@pytest.mark.parametrize("argument", VALUES)
def test_an_argument_is_refused_by_the_cells_whose_docstring_says_so(name, argument):
    record = CELLS[name]
    text = section(record.layer, "Args")[argument]
    given = {argument: VALUES[argument]}
    if text.startswith('for bias_init "time-scales" alone'):
        with pytest.raises(ValueError, match=argument):
            record.layer(**SIZES, **given)
        given["bias_init"] = "time-scales"
    if text.startswith(("0, for", "None, for")):
        with pytest.raises(ValueError, match=argument):
            record.layer(**SIZES, **given)
    else:
        record.layer(**SIZES, **given)


def test_the_long_form_names_every_shared_argument():
    for base in (RecurrentLayer, SingleStep):
        *shared, _ = inspect.signature(base).parameters
        assert list(section(base, "Args")) == shared


class OwnEquations(ScanEquations):
    """h = h + W x."""


def test_equations_are_those_of_the_class_that_names_them():
    grus = CELLS["mingru"].layer
    own = type("Own", (RecurrentLayer,), {"cell_class": OwnEquations})
    documented = {"cell_class": OwnEquations, "__doc__": "A sum.\n\nEquations:\n    h = h + W x\n\nIt grows."}
    assert "z = sigmoid(W_z x)" in equations_of(type("Named", (grus,), {"__doc__": "Another docstring."}))
    assert equations_of(own) == equations_of(type("Other", (grus,), {"cell_class": OwnEquations})) == "h = h + W x."
    assert equations_of(type("Documented", (RecurrentLayer,), documented)) == "A sum.\n\nh = h + W x\n\nIt grows."
    assert inspect.getdoc(own) == inspect.getdoc(RecurrentLayer)
