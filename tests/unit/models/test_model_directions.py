"""A bidirectional model has no direction of its own, and no parameter that does nothing."""

import torch
from covering import over
from small_models import BUILD, CELL, EVERY_POOLING, HIDDEN, KIND, LABELS, inputs_of, model_of, tokens
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification

STEPS = 6
HEADS = (GatedRNNForSequenceClassification, GatedRNNForTokenClassification)
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


@over(cell=CELL, how=EVERY_POOLING, head=HEADS)
@torch.no_grad()
def test_a_sequence_read_backwards_by_the_other_direction_scores_the_same(cell, how, head):
    batch = tokens(len(MASK), STEPS)
    model, other = (model_of(head, build="both-directions", cell=cell, pooling=how) for _ in range(2))
    other.load_state_dict(turned(model.state_dict()))
    expected = model(batch, attention_mask=MASK).logits
    logits = other(batch.flip(1), attention_mask=MASK.flip(1)).logits
    at_steps = head is GatedRNNForTokenClassification
    assert_equal_within(logits.flip(1) if at_steps else logits, expected, torch.float64, "logits")


@over(cell=CELL, build=BUILD, kind=KIND, head=HEADS)
def test_every_parameter_learns(cell, build, kind, head):
    labels, fields = torch.randint(LABELS, (4, STEPS)), {"problem_type": "single_label_classification"}
    model = model_of(head, kind, torch.float32, build=build, cell=cell, layer_norm=True, **fields).train()
    wanted = labels if head is GatedRNNForTokenClassification else labels[:, 0]
    model(**inputs_of(kind, 4, STEPS, dtype=torch.float32), labels=wanted).loss.backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still, "parameters without a gradient"
