"""Parameters and multiply-adds, counted by hand."""

import pytest
import torch
from small_models import EMBEDDING, FEATURES, HIDDEN, LABELS, VOCABULARY, config_of, every_build, every_cell, every_kind

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification
from gatedrnn.models.structure import PARTS, count_parameters, describe_structure

GATES = {"lstm": 4, "gru": 3, "minlstm": 3, "mingru": 2}
LOOPED = ("lstm", "gru")  # their gates read h too, and carry torch's second bias
HEAD = (LABELS * HIDDEN + LABELS, LABELS * EMBEDDING + LABELS)  # plain, block
FACTOR = 2  # feed_forward_factor's default

# Two layers, embedding 6, hidden 5; worked out on paper, one product a weight matrix.
BY_HAND = {
    ("lstm", False): {"core": 20 * (6 + 5 + 2) + 20 * (5 + 5 + 2), "products": 20 * (6 + 5) + 20 * (5 + 5)},
    ("gru", False): {"core": 15 * (6 + 5 + 2) + 15 * (5 + 5 + 2), "products": 15 * (6 + 5) + 15 * (5 + 5)},
    ("minlstm", False): {"core": 15 * (6 + 1) + 15 * (5 + 1), "products": 15 * 6 + 15 * 5},
    ("mingru", False): {"core": 10 * (6 + 1) + 10 * (5 + 1), "products": 10 * 6 + 10 * 5},
    # A block: the cell, 5 x 6 back to the embedding's width, and 6 x 12 + 12 x 6 of feed-forward.
    ("lstm", True): {"core": 2 * (20 * (6 + 5 + 2) + 30), "products": 2 * (20 * (6 + 5) + 30 + 144)},
    ("gru", True): {"core": 2 * (15 * (6 + 5 + 2) + 30), "products": 2 * (15 * (6 + 5) + 30 + 144)},
    ("minlstm", True): {"core": 2 * (15 * (6 + 1) + 30), "products": 2 * (15 * 6 + 30 + 144)},
    ("mingru", True): {"core": 2 * (10 * (6 + 1) + 30), "products": 2 * (10 * 6 + 30 + 144)},
}
# Two norms a block and one at the end, 2 x 6 each; feed-forward 6 -> 12 -> 6 with biases.
BLOCK_PART = {False: 0, True: 2 * (2 * 12 + 6 * 12 + 12 + 12 * 6 + 6) + 12}
EMBEDDING_PART = {"tokens": VOCABULARY * EMBEDDING, "numbers": FEATURES * EMBEDDING + EMBEDDING}


@every_cell
@every_build
@every_kind
def test_parameters_by_part_are_those_counted_by_hand(cell, block, kind):
    expected = {
        "embedding": EMBEDDING_PART[kind],
        "core": BY_HAND[cell, block]["core"],
        "block": BLOCK_PART[block],
        "head": HEAD[block],
    }
    for head in (GatedRNNForSequenceClassification, GatedRNNForTokenClassification):
        counts = count_parameters(head(config_of(kind, cell=cell, block=block)))
        assert counts == expected | {"total": sum(expected.values())}


@every_cell
@pytest.mark.parametrize("embedding, hidden", [(3, 7), (8, 4)])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_core_follows_the_formula_at_other_sizes(cell, embedding, hidden, layers):
    def cell_of(features):
        recurrent = hidden + 2 if cell in LOOPED else 1
        return GATES[cell] * hidden * (features + recurrent)

    sizes = {"embedding_size": embedding, "hidden_size": hidden, "num_hidden_layers": layers}
    plain = count_parameters(GatedRNNForSequenceClassification(config_of(cell=cell, **sizes)))
    assert plain["core"] == cell_of(embedding) + (layers - 1) * cell_of(hidden)
    block = count_parameters(GatedRNNForSequenceClassification(config_of(cell=cell, block=True, **sizes)))
    assert block["core"] == layers * (cell_of(embedding) + hidden * embedding)
    feed_forward = 2 * FACTOR * embedding**2 + (FACTOR + 1) * embedding
    assert block["block"] == layers * (4 * embedding + feed_forward) + 2 * embedding


@every_cell
@every_build
def test_the_parts_sum_to_every_parameter_there_is(cell, block):
    model = GatedRNNForSequenceClassification(config_of(cell=cell, block=block))
    counts = count_parameters(model)
    assert counts["total"] == sum(counts[part] for part in PARTS) == sum(p.numel() for p in model.parameters())


@every_build
def test_a_model_without_a_head_counts_as_the_same_model_under_one(block):
    classifier = GatedRNNForSequenceClassification(config_of(block=block))
    counts, bare = count_parameters(classifier), count_parameters(classifier.model)
    assert bare == counts | {"head": 0, "total": counts["total"] - counts["head"]}
    assert describe_structure(classifier.model) == describe_structure(classifier)


@every_cell
@every_build
@every_kind
def test_multiply_adds_are_those_counted_by_hand(cell, block, kind):
    # A table of tokens costs none; the map that takes its place for numbers is one more product.
    expected = BY_HAND[cell, block]["products"] + (FEATURES * EMBEDDING if kind == "numbers" else 0)
    structure = describe_structure(GatedRNNForSequenceClassification(config_of(kind, cell=cell, block=block)))
    assert structure["multiply_adds_per_step"] == expected
    assert structure["state_size"] == 2 * HIDDEN * (2 if cell == "lstm" else 1)
    assert len(structure["gates"]) == GATES[cell]


@every_cell
@every_build
def test_a_model_without_memory_counts_the_same(cell, block):
    config = config_of(cell=cell, block=block)
    with torch.device("meta"):
        model = GatedRNNForSequenceClassification(config)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    expected = GatedRNNForSequenceClassification(config)
    assert count_parameters(model) == count_parameters(expected)
    assert describe_structure(model) == describe_structure(expected)
