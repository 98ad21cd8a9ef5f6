"""A bidirectional model has no direction of its own, and every row of a batch is a sequence by itself."""

import pytest
import torch
from small_models import (
    EMBEDDING,
    EVERY_POOLING,
    HIDDEN,
    LABELS,
    every_build,
    every_cell,
    every_smooth_cell,
    inputs_of,
    model_of,
    tokens,
)
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification, GatedRNNModel

STEPS = 6
MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0]])


def turned(weights):
    """A state dict of a model of two layers whose directions have changed places."""
    found = {}
    for name, value in weights.items():
        if "weight_ih_l1" in name or name == "classifier.weight":
            value = value.unflatten(1, (-1, 2, HIDDEN)).flip(2).flatten(1)  # once more for the input of the step before
        if ".layer." in name:
            name = name.removesuffix("_reverse") if name.endswith("_reverse") else f"{name}_reverse"
        found[name] = value
    return found


@every_cell
@pytest.mark.parametrize("how", EVERY_POOLING)
@torch.no_grad()
def test_a_sequence_read_backwards_by_the_other_direction_scores_the_same(cell, how):
    batch = tokens(len(MASK), STEPS)
    for head in (GatedRNNForSequenceClassification, GatedRNNForTokenClassification):
        model = model_of(head, build="both-directions", cell=cell, pooling=how)
        other = model_of(head, build="both-directions", cell=cell, pooling=how)
        other.load_state_dict(turned(model.state_dict()))
        expected = model(batch, attention_mask=MASK).logits
        logits = other(batch.flip(1), attention_mask=MASK.flip(1)).logits
        at_steps = head is GatedRNNForTokenClassification
        assert_equal_within(logits.flip(1) if at_steps else logits, expected, torch.float64, "logits")


@every_smooth_cell
@torch.no_grad()
def test_the_last_states_of_both_directions_have_read_the_whole_sequence(cell):
    model = model_of(
        GatedRNNForSequenceClassification, "numbers", build="both-directions", cell=cell, num_hidden_layers=1,
        cell_options={"activation": "tanh"} if cell == "indrnn" else None,  # a rectifier may see nothing
    )  # fmt: skip
    x = inputs_of("numbers", len(MASK), STEPS)["input_values"]
    logits = model(input_values=x, attention_mask=MASK).logits
    model.classifier.weight[:, :HIDDEN] = 0  # the forward half unread
    backwards = model(input_values=x, attention_mask=MASK).logits
    assert not torch.equal(backwards, logits), "the forward half was read"
    for row, step in MASK.nonzero().tolist():
        moved = x.clone()
        moved[row, step] += 1
        assert not torch.equal(model(input_values=moved, attention_mask=MASK).logits[row], backwards[row])


@every_cell
@every_build
@torch.no_grad()
def test_a_batch_is_its_rows(cell, build):
    batch = tokens(5, STEPS)
    for head in (GatedRNNForSequenceClassification, GatedRNNForTokenClassification):
        model = model_of(head, build=build, cell=cell)
        alone = torch.cat([model(row[None]).logits for row in batch])
        assert_equal_within(model(batch).logits, alone, torch.float64, "logits")


@every_cell
@every_build
def test_every_parameter_learns(cell, build):
    labels = torch.randint(LABELS, (4, STEPS))
    for kind in ("tokens", "numbers"):
        for head in (GatedRNNForSequenceClassification, GatedRNNForTokenClassification):
            fields = {"layer_norm": True, "problem_type": "single_label_classification"}
            model = model_of(head, kind, torch.float32, build=build, cell=cell, **fields).train()
            wanted = labels if head is GatedRNNForTokenClassification else labels[:, 0]
            model(**inputs_of(kind, 4, STEPS, dtype=torch.float32), labels=wanted).loss.backward()
            still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
            assert not still, "parameters without a gradient"


@pytest.mark.parametrize("build, width", [("both-directions", 2 * HIDDEN), ("both-directions-block", EMBEDDING)])
def test_the_states_of_both_directions_stand_side_by_side_but_in_a_block(build, width):
    model = model_of(GatedRNNModel, build=build)
    assert model.output_size == width
    assert model(tokens(2, STEPS)).last_hidden_state.shape == (2, STEPS, width)
