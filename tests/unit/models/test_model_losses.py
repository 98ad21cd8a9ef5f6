"""Losses against the formulas, written out."""

import math

import pytest
import torch
from small_models import LABELS, every_kind, inputs_of, model_of
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification

IGNORED = -100


def cross_entropy(logits, labels):
    """Mean of -log softmax(logits)[label] over the labels that count, in plain Python."""
    counted = [(row, label) for row, label in zip(logits, labels, strict=True) if label != IGNORED]
    return sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in counted) / len(counted)


def assert_loss(loss, expected, dtype=torch.float64):
    assert_equal_within(loss, torch.tensor(expected, dtype=torch.float64), dtype, "loss")


@every_kind
def test_a_class_costs_its_cross_entropy(kind):
    model = model_of(GatedRNNForSequenceClassification, kind)
    labels = torch.tensor([0, 3, 1, 3, 2])
    output = model(**inputs_of(kind, 5, 6), labels=labels)
    assert_loss(output.loss, cross_entropy(output.logits.tolist(), labels.tolist()))


@pytest.mark.parametrize("numbers", [1, 3])
def test_a_number_costs_its_squared_error(numbers):
    model = model_of(GatedRNNForSequenceClassification, num_labels=numbers, problem_type="regression")
    labels = torch.randn(5, numbers).double()
    # One number a row comes as (batch,), as transformers has it.
    output = model(**inputs_of("tokens", 5, 6), labels=labels[:, 0] if numbers == 1 else labels)
    pairs = list(zip(output.logits.flatten().tolist(), labels.flatten().tolist(), strict=True))
    assert_loss(output.loss, sum((a - b) ** 2 for a, b in pairs) / len(pairs))


@every_kind
def test_a_step_costs_its_cross_entropy_and_nothing_where_it_has_no_label(kind):
    model = model_of(GatedRNNForTokenClassification, kind)
    labels = torch.randint(LABELS, (3, 6))
    labels[0, 2:], labels[1, :5], labels[2, 3] = IGNORED, IGNORED, IGNORED
    output = model(**inputs_of(kind, 3, 6), labels=labels)
    expected = cross_entropy(output.logits.flatten(0, 1).tolist(), labels.flatten().tolist())
    # transformers takes this loss in float32, whatever the logits are.
    assert_loss(output.loss, expected, torch.float32)


def test_without_labels_there_is_no_loss_and_the_same_logits():
    for head, labels in ((GatedRNNForSequenceClassification, [1, 2]), (GatedRNNForTokenClassification, [[1] * 6] * 2)):
        model, batch = model_of(head), inputs_of("tokens", 2, 6)
        without = model(**batch)
        assert without.loss is None
        assert torch.equal(without.logits, model(**batch, labels=torch.tensor(labels)).logits)
