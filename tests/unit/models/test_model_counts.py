"""Parameters and multiply-adds, counted by hand."""

from dataclasses import astuple, replace

import pytest
import torch
from covering import over
from small_models import BUILD, EMBEDDING, FEATURES, HIDDEN, KIND, LABELS, OPTIONS, VOCABULARY, config_of

from gatedrnn import RecurrentLayer
from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification
from gatedrnn.models.structure import Initialisation, Parameters, Structure, count_parameters, describe_structure
from gatedrnn.registry import CELLS, CellChoice

# A cell's gates; how their biases begin; numbers of a channel beside those of the gates, such as a peephole or a
# learned initial state; tensors of the state. By what gates read of the state: through a matrix,
MULTIPLY = {
    "lstm": ("input forget candidate output", "torch", 0, 2), "gru": ("reset update candidate", "torch", 0, 1),
    "lstm-peephole": ("input forget candidate output", "forget-one", 3, 2),
    "lstm-no-output-gate": ("input forget candidate", "forget-one", 0, 1),
    "cifg": ("forget candidate output", "forget-one", 0, 2), "janet": ("forget candidate", "time-scales", 0, 1),
    "slstm": ("input forget candidate output", "time-scales", 0, 4), "mgu": ("forget candidate", "zeros", 0, 1),
    "gru-no-reset-gate": ("update candidate", "zeros", 0, 1), "gru-d": ("reset update candidate", "zeros", 2, 1),
}  # fmt: skip
# through a vector,
SCALE = {
    "indrnn": ("candidate", "zeros", 1, 1), "para-gru": ("update reset candidate", "time-scales", 3, 1),
    "para-lstm": ("forget candidate output", "time-scales", 5, 2),
    "sru": ("candidate forget highway skip", "time-scales", 2, 2),
}  # fmt: skip
# or nothing.
BY_HAND = MULTIPLY | SCALE | {
    "lstm-input-gated": ("input forget candidate", "time-scales", 0, 1),
    "lstm-normalized": ("input forget candidate", "time-scales", 0, 1),
    "minlstm": ("candidate forget input", "time-scales", 0, 1), "mingru": ("candidate update", "time-scales", 0, 1),
    "gru-input-gated": ("update candidate", "time-scales", 0, 1), "hgrn": ("candidate forget", "time-scales", 1, 1),
    "signed-mingru": ("candidate decay", "time-scales", 1, 1), "lru": ("candidate", "zeros", 1.5, 1),
    "block-orthogonal": ("candidate decay turn", "time-scales", 1, 1),
    "rg-lru": ("candidate recurrence input", "zeros", 1, 1), "qrnn": ("candidate forget output", "time-scales", 0, 1),
}  # fmt: skip
DEFAULTS = {
    "gru": {"reset_after": True}, "gru-d": {"gap_features": 1}, "mgu": {"keep": False},
    "minlstm": {"activation": "g", "log_space": False}, "mingru": {"activation": "g", "log_space": False},
    "block-orthogonal": {"block_size": 2}, "indrnn": {"activation": "relu"}, "janet": {"beta": 1.0},
    "slstm": {"heads": 1}, "qrnn": {"window": 2},
}  # fmt: skip
FACTOR = 2  # feed_forward_factor's default


def layer_of(cell, d, h):
    """Parameters, and products of a weight and a number a step, of one layer in one direction over d features."""
    gates, _, further, _ = BY_HAND[cell]
    products = len(gates.split()) * h * (d * (2 if cell == "qrnn" else 1) + (h if cell in MULTIPLY else 0))
    biases = len(gates.split()) * h * (2 if cell in ("lstm", "gru") else 1)
    return products + biases + int(further * h), products + (h if cell == "gru-d" else 0)  # a gap has a weight


def counts_of(cell, build, kind="tokens", embedding=EMBEDDING, hidden=HIDDEN, layers=2):
    """Parameters by part, and products and state of the whole model."""
    directions = 2 if "both-directions" in build else 1
    mapped = FEATURES * embedding if kind == "numbers" else 0  # a table of tokens costs no product
    widths = [embedding, *[directions * hidden] * (layers - 1)]
    around = feed_forward = back = 0
    if "block" in build:  # each layer reads the embedding's width, and a projection without bias leads back to it
        widths, back = [embedding] * layers, layers * directions * hidden * embedding
        feed_forward = layers * 2 * FACTOR * embedding**2  # of two maps, and their biases; a norm before each, one last
        around = feed_forward + layers * (FACTOR + 1) * embedding + (2 * layers + 1) * 2 * embedding
    layer = zip(*(layer_of(cell, width, hidden) for width in widths), strict=True)
    core, products = (back + directions * sum(numbers) for numbers in layer)
    counts = {
        "embedding": mapped + embedding if mapped else VOCABULARY * embedding, "core": core, "block": around,
        "head": LABELS * (embedding if "block" in build else directions * hidden) + LABELS,
    }  # fmt: skip
    state = hidden * BY_HAND[cell][3] + (max(widths) if cell == "qrnn" else 0)  # a window of 2 keeps an input
    return (
        Parameters(**counts, total=sum(counts.values())),
        mapped + products + feed_forward,
        layers * directions * state,
    )


def weightless(config, head=GatedRNNForSequenceClassification):
    with torch.device("meta"):
        model = head(config)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    return model


@pytest.mark.parametrize("cell", CELLS)
def test_a_model_has_the_gates_states_and_parameters_of_its_layers(cell):
    model, choice = weightless(config_of(build="both-directions", cell=cell)), CellChoice(cell)
    layers = [module for module in model.modules() if isinstance(module, RecurrentLayer)]
    structure, counts = describe_structure(model), count_parameters(model)
    assert structure.gates == list(choice.equations().projections)
    assert structure.options == CELLS[cell].options
    assert counts.core == sum(parameter.numel() for layer in layers for parameter in layer.parameters())
    states = [layer.initial_state(1) for layer in layers]
    tensors = [state if isinstance(state, tuple) else (state,) for state in states]
    assert {len(each) for each in tensors} == {len(choice.state_names)}
    assert structure.state_size == sum(tensor.numel() for each in tensors for tensor in each)


@pytest.mark.parametrize("cell", BY_HAND)
def test_a_cell_has_the_structure_and_the_parameters_that_are_known_of_it(cell):
    build, (gates, biases, _, _) = "both-directions", BY_HAND[cell]
    counts, products, state = counts_of(cell, build)
    model = weightless(config_of(build=build, cell=cell))
    structure = Structure(
        cell=cell, options=DEFAULTS.get(cell, {}), layers=2, bidirectional=True, hidden_size=HIDDEN,
        embedding_size=EMBEDDING, gates=gates.split(), reads_state=cell in MULTIPLY | SCALE,
        initialisation=Initialisation("torch" if biases == "torch" else "fan-in", biases),
        block=False, pooling="last", state_size=state, multiply_adds_per_step=products,
    )  # fmt: skip
    assert (count_parameters(model), describe_structure(model)) == (counts, structure)
    rates = {"layer_norm": True, "input_dropout": 0.1, "state_dropout": 0.1}
    rates |= {} if cell == "slstm" else {"zoneout": 0.1}
    normed = weightless(config_of(build=build, cell=cell, **rates))
    gains = 2 * 2 * len(gates.split()) * HIDDEN
    more = replace(counts, core=counts.core + gains, total=counts.total + gains)
    assert (count_parameters(normed), describe_structure(normed)) == (more, structure), "a gain a gate, and no rate"
    chosen = weightless(config_of(cell=cell, cell_options=OPTIONS.get(cell)))
    assert describe_structure(chosen).options == OPTIONS.get(cell, {})


@over(
    cell=("lstm", "mingru", "qrnn"), build=BUILD, kind=KIND, sizes=((EMBEDDING, HIDDEN, 2), (3, 10, 1), (8, 4, 3)),
    head=(GatedRNNForSequenceClassification, GatedRNNForTokenClassification),
)  # fmt: skip
def test_parameters_by_part_products_and_state_are_those_counted_by_hand(cell, build, kind, sizes, head):
    named = dict(zip(("embedding_size", "hidden_size", "num_hidden_layers"), sizes, strict=True))
    config = config_of(kind, build, cell=cell, pooling="mean", **named)
    model, (counts, products, state) = weightless(config, head), counts_of(cell, build, kind, *sizes)
    filled = head(config)
    assert count_parameters(model) == counts == count_parameters(filled)
    assert sum(astuple(counts)) == 2 * counts.total == 2 * sum(p.numel() for p in model.parameters())
    structure = describe_structure(model)
    assert structure == describe_structure(filled) == replace(
        structure, layers=sizes[2], bidirectional="both-directions" in build, hidden_size=sizes[1],
        embedding_size=sizes[0], block="block" in build, pooling="mean", state_size=state,
        multiply_adds_per_step=products,
    )  # fmt: skip
    bare = replace(counts, head=0, total=counts.total - counts.head)
    assert (count_parameters(model.model), describe_structure(model.model)) == (bare, structure)
