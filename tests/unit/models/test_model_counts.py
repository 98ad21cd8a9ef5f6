"""Parameters and multiply-adds, counted by hand."""

import pytest
import torch
from small_models import (
    EMBEDDING,
    FEATURES,
    HIDDEN,
    LABELS,
    OPTIONS,
    READS_STATE,
    VOCABULARY,
    config_of,
    every_build,
    every_cell,
    every_kind,
)

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification, GatedRNNModel
from gatedrnn.models.structure import PARTS, count_parameters, describe_structure

# One layer in one direction over d features, h channels wide: its parameters, and its products of a weight and a
# number a step. A gate has d·h of the input, h·h of the state where it reads it, and one bias or torch's two; a
# peephole has h, and a learned initial state; they are no products. What reads a gap has h, a product, and a bias.
BY_HAND = {
    "lstm": lambda d, h: (4 * h * (d + h + 2), 4 * h * (d + h)),
    "lstm-peephole": lambda d, h: (4 * h * (d + h + 1) + 3 * h, 4 * h * (d + h)),
    "lstm-no-output-gate": lambda d, h: (3 * h * (d + h + 1), 3 * h * (d + h)),
    "lstm-input-gated": lambda d, h: (3 * h * (d + 1), 3 * h * d),
    "lstm-normalized": lambda d, h: (3 * h * (d + 1), 3 * h * d),
    "minlstm": lambda d, h: (3 * h * (d + 1), 3 * h * d),
    "gru": lambda d, h: (3 * h * (d + h + 2), 3 * h * (d + h)),
    "gru-d": lambda d, h: (3 * h * (d + h + 1) + 2 * h, 3 * h * (d + h) + h),
    "mgu": lambda d, h: (2 * h * (d + h + 1), 2 * h * (d + h)),
    "gru-no-reset-gate": lambda d, h: (2 * h * (d + h + 1), 2 * h * (d + h)),
    "gru-input-gated": lambda d, h: (2 * h * (d + 1), 2 * h * d),
    "mingru": lambda d, h: (2 * h * (d + 1), 2 * h * d),
    "signed-mingru": lambda d, h: (2 * h * (d + 1) + h, 2 * h * d),
    "block-orthogonal": lambda d, h: (3 * h * (d + 1) + h, 3 * h * d),
    "indrnn": lambda d, h: (h * (d + 1) + h, h * d),
    "para-gru": lambda d, h: (3 * h * (d + 1) + 3 * h, 3 * h * d),
    "para-lstm": lambda d, h: (3 * h * (d + 1) + 5 * h, 3 * h * d),
    "sru": lambda d, h: (4 * h * (d + 1) + 2 * h, 4 * h * d),
    "hgrn": lambda d, h: (2 * h * (d + 1) + h, 2 * h * d),
    "rg-lru": lambda d, h: (3 * h * (d + 1) + h, 3 * h * d),
    "qrnn": lambda d, h: (3 * h * (2 * d + 1), 3 * h * 2 * d),
    "lru": lambda d, h: (h * (d + 1) + 3 * h // 2, h * d),
    "slstm": lambda d, h: (4 * h * (d + h + 1), 4 * h * (d + h)),
    "cifg": lambda d, h: (3 * h * (d + h + 1), 3 * h * (d + h)),
    "janet": lambda d, h: (2 * h * (d + h + 1), 2 * h * (d + h)),
}
GATES = {
    "slstm": "input forget candidate output",
    "lstm": "input forget candidate output",
    "lstm-peephole": "input forget candidate output",
    "lstm-no-output-gate": "input forget candidate",
    "lstm-input-gated": "input forget candidate",
    "lstm-normalized": "input forget candidate",
    "minlstm": "candidate forget input",
    "gru": "reset update candidate",
    "gru-d": "reset update candidate",
    "mgu": "forget candidate",
    "gru-no-reset-gate": "update candidate",
    "gru-input-gated": "update candidate",
    "mingru": "candidate update",
    "signed-mingru": "candidate decay",
    "block-orthogonal": "candidate decay turn",
    "indrnn": "candidate",
    "para-gru": "update reset candidate",
    "para-lstm": "forget candidate output",
    "sru": "candidate forget highway skip",
    "hgrn": "candidate forget",
    "rg-lru": "candidate recurrence input",
    "qrnn": "candidate forget output",
    "lru": "candidate",
    "cifg": "forget candidate output",
    "janet": "forget candidate",
}
STATES = dict.fromkeys(("lstm", "lstm-peephole", "cifg", "para-lstm", "sru"), 2) | {"slstm": 4}
DEFAULTS = {
    "gru": {"reset_after": True}, "gru-d": {"gap_features": 1}, "mgu": {"keep": False},
    "minlstm": {"activation": "g", "log_space": False}, "mingru": {"activation": "g", "log_space": False},
    "block-orthogonal": {"block_size": 2}, "indrnn": {"activation": "relu"}, "janet": {"beta": 1.0},
    "slstm": {"heads": 1}, "qrnn": {"window": 2},
}  # fmt: skip
BIASES = {
    "lstm": "torch", "gru": "torch", "lstm-peephole": "forget-one", "lstm-no-output-gate": "forget-one",
    "cifg": "forget-one",
    "gru-d": "zeros", "mgu": "zeros", "gru-no-reset-gate": "zeros", "indrnn": "zeros", "rg-lru": "zeros",
    "lru": "zeros",
}  # fmt: skip
EMBEDDING_PART = {"tokens": VOCABULARY * EMBEDDING, "numbers": FEATURES * EMBEDDING + EMBEDDING}
FACTOR = 2  # feed_forward_factor's default


def core_of(cell, build, embedding=EMBEDDING, hidden=HIDDEN, layers=2):
    """Parameters and products of the whole core."""
    directions = 2 if "both-directions" in build else 1
    if "block" in build:  # each layer reads the embedding's width, and a projection without bias leads back to it
        parameters, products = BY_HAND[cell](embedding, hidden)
        back = directions * hidden * embedding
        return layers * (directions * parameters + back), layers * (directions * products + back)
    widths = [embedding] + [directions * hidden] * (layers - 1)
    return tuple(directions * sum(BY_HAND[cell](width, hidden)[which] for width in widths) for which in (0, 1))


def state_of(cell, build, embedding=EMBEDDING, hidden=HIDDEN, layers=2):
    """Numbers of the whole state; a window of 2 keeps an input, as wide as the widest of the layers that run as one."""
    directions, size = 2 if "both-directions" in build else 1, hidden * STATES.get(cell, 1)
    if cell == "qrnn":
        size += embedding if "block" in build or layers == 1 else max(embedding, directions * hidden)
    return layers * directions * size


def block_of(build, embedding=EMBEDDING, layers=2):
    """Parameters and products of norms (two a block, one at the end) and feed-forward networks with biases."""
    if "block" not in build:
        return 0, 0
    products = 2 * FACTOR * embedding**2
    return layers * (4 * embedding + products + FACTOR * embedding + embedding) + 2 * embedding, layers * products


def head_of(build):
    width = EMBEDDING if "block" in build else HIDDEN * (2 if "both-directions" in build else 1)
    return LABELS * width + LABELS


@every_cell
@every_build
@every_kind
def test_parameters_by_part_are_those_counted_by_hand(cell, build, kind):
    expected = {
        "embedding": EMBEDDING_PART[kind],
        "core": core_of(cell, build)[0],
        "block": block_of(build)[0],
        "head": head_of(build),
    }
    for head in (GatedRNNForSequenceClassification, GatedRNNForTokenClassification):
        counts = count_parameters(head(config_of(kind, build, cell=cell)))
        assert counts == expected | {"total": sum(expected.values())}


@every_cell
@every_build
@pytest.mark.parametrize("embedding, hidden, layers", [(3, 10, 1), (8, 4, 3)])
def test_the_core_follows_the_formula_at_other_sizes(cell, build, embedding, hidden, layers):
    sizes = {"embedding_size": embedding, "hidden_size": hidden, "num_hidden_layers": layers}
    model = GatedRNNForSequenceClassification(config_of(build=build, cell=cell, **sizes))
    counts, structure = count_parameters(model), describe_structure(model)
    core, products = core_of(cell, build, embedding, hidden, layers)
    around, feed_forward = block_of(build, embedding, layers)
    assert (counts["core"], counts["block"]) == (core, around)
    assert structure["multiply_adds_per_step"] == products + feed_forward
    assert structure["state_size"] == state_of(cell, build, embedding, hidden, layers)


@every_cell
@every_build
def test_the_parts_sum_to_every_parameter_there_is(cell, build):
    model = GatedRNNForSequenceClassification(config_of(build=build, cell=cell))
    counts = count_parameters(model)
    assert counts["total"] == sum(counts[part] for part in PARTS) == sum(p.numel() for p in model.parameters())


@every_build
def test_a_model_without_a_head_counts_as_the_same_model_under_one(build):
    classifier = GatedRNNForSequenceClassification(config_of(build=build))
    counts, bare = count_parameters(classifier), count_parameters(classifier.model)
    assert bare == counts | {"head": 0, "total": counts["total"] - counts["head"]}
    assert describe_structure(classifier.model) == describe_structure(classifier)


@every_cell
@every_build
@every_kind
def test_a_structure_is_what_was_asked_for(cell, build, kind):
    config = config_of(kind, build, cell=cell)
    # A table of tokens costs no product; the map that takes its place for numbers is one more.
    mapped = FEATURES * EMBEDDING if kind == "numbers" else 0
    assert describe_structure(GatedRNNForSequenceClassification(config)) == {
        "cell": cell,
        "options": DEFAULTS.get(cell, {}),
        "layers": 2,
        "bidirectional": "both-directions" in build,
        "hidden_size": HIDDEN,
        "embedding_size": EMBEDDING,
        "gates": GATES[cell].split(),
        "reads_state": cell in READS_STATE,
        "initialisation": {
            "weights": "torch" if cell in ("lstm", "gru") else "fan-in",
            "biases": BIASES.get(cell, "time-scales"),
        },
        "block": "block" in build,
        "pooling": config.pooling,
        "state_size": state_of(cell, build),
        "multiply_adds_per_step": mapped + core_of(cell, build)[1] + block_of(build)[1],
    }


@pytest.mark.parametrize("cell", OPTIONS)
def test_a_structure_names_the_options_that_the_cell_runs_with(cell):
    model = GatedRNNModel(config_of(cell=cell, cell_options=OPTIONS[cell]))
    assert describe_structure(model)["options"] == OPTIONS[cell] != DEFAULTS[cell]


def test_a_gru_that_resets_before_has_one_bias_a_gate():
    after, before = (
        count_parameters(GatedRNNModel(config_of(cell="gru", cell_options={"reset_after": way})))["core"]
        for way in (True, False)
    )
    assert after - before == 2 * 3 * HIDDEN


@every_cell
@every_build
def test_layer_norm_adds_a_gain_a_gate_to_the_core_and_regularisers_add_nothing(cell, build):
    plain = GatedRNNModel(config_of(build=build, cell=cell))
    rates = {"zoneout": 0.1, "input_dropout": 0.1, "state_dropout": 0.1}
    normed = GatedRNNModel(config_of(build=build, cell=cell, layer_norm=True, **rates))
    gains = 2 * (2 if "both-directions" in build else 1) * len(GATES[cell].split()) * HIDDEN
    counts, expected = count_parameters(normed), count_parameters(plain)
    assert counts == expected | {"core": expected["core"] + gains, "total": expected["total"] + gains}
    assert describe_structure(normed) == describe_structure(plain)


@every_cell
@every_build
def test_a_model_without_memory_counts_the_same(cell, build):
    config = config_of(build=build, cell=cell)
    with torch.device("meta"):
        model = GatedRNNForSequenceClassification(config)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    expected = GatedRNNForSequenceClassification(config)
    assert count_parameters(model) == count_parameters(expected)
    assert describe_structure(model) == describe_structure(expected)
