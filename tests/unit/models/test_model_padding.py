"""Padding is nothing: where it stands and what stands in it changes no logit, no loss and no gradient."""

import pytest
import torch
from small_models import LABELS, every_build, every_cell, every_cell_and_every_build, inputs_of, model_of, poolings_of
from tolerances import assert_equal_within
from torch.nn.functional import cross_entropy

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification

STEPS = 7
MASKS = {
    "right": [[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]],
    "left": [[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]],
    "between": [[1, 0, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0]],
    "both": [[0, 0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0]],
}
KINDS = (("tokens", torch.float64), ("numbers", torch.float32))
every_place = pytest.mark.parametrize("place", MASKS)


def padded_and_alone(kind, place, dtype=torch.float64):
    """A batch whose padding holds any values at all, its mask, and each row by itself without padding."""
    batch, mask = inputs_of(kind, len(MASKS[place]), STEPS, dtype=dtype), torch.tensor(MASKS[place])
    ((name, values),) = batch.items()
    return batch, mask, [{name: row[real.bool()][None]} for row, real in zip(values, mask, strict=True)]


def gradients(model, loss):
    return dict(zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True))


def assert_same_gradients(actual, expected):
    for name, value in expected.items():
        assert_equal_within(actual[name], value, torch.float64, f"gradient of {name}", gradient=True)


@every_cell_and_every_build
@every_place
@torch.no_grad()
def test_padding_anywhere_changes_no_sequence_logit(cell, build, place):
    for pooling in poolings_of(build):
        for kind, dtype in KINDS:
            model = model_of(GatedRNNForSequenceClassification, kind, dtype, build=build, cell=cell, pooling=pooling)
            batch, mask, alone = padded_and_alone(kind, place, dtype)
            expected = torch.cat([model(**row).logits for row in alone])
            assert_equal_within(model(**batch, attention_mask=mask).logits, expected, dtype, f"{pooling} logits")


@every_cell_and_every_build
def test_gradients_of_a_padded_batch_are_the_sum_over_its_rows_alone(cell, build):
    batch, mask, alone = padded_and_alone("numbers", "between")
    upstream = torch.randn(len(mask), LABELS).double()
    for pooling in poolings_of(build):
        model = model_of(GatedRNNForSequenceClassification, "numbers", build=build, cell=cell, pooling=pooling)
        together = gradients(model, (model(**batch, attention_mask=mask).logits * upstream).sum())
        rows = sum((model(**row).logits * up).sum() for row, up in zip(alone, upstream, strict=True))
        assert_same_gradients(together, gradients(model, rows))


@every_cell_and_every_build
@every_place
def test_real_steps_have_the_logits_of_the_rows_alone_and_the_sum_of_their_gradients(cell, build, place):
    model = model_of(GatedRNNForTokenClassification, build=build, cell=cell)
    batch, mask, alone = padded_and_alone("tokens", place)
    upstream = torch.randn(int(mask.sum()), LABELS).double()
    logits = model(**batch, attention_mask=mask).logits[mask.bool()]
    expected = torch.cat([model(**row).logits[0] for row in alone])
    assert_equal_within(logits, expected, torch.float64, "logits")
    assert_same_gradients(gradients(model, (logits * upstream).sum()), gradients(model, (expected * upstream).sum()))


@every_place
def test_the_loss_of_a_padded_batch_is_that_of_its_real_steps(place):
    model = model_of(GatedRNNForTokenClassification, dtype=torch.float32)
    batch, mask, alone = padded_and_alone("tokens", place)
    labels = torch.randint(LABELS, mask.shape)
    loss = model(**batch, attention_mask=mask, labels=labels.where(mask.bool(), -100)).loss
    expected = cross_entropy(torch.cat([model(**row).logits[0] for row in alone]), labels[mask.bool()])
    assert_equal_within(loss, expected, torch.float32, "loss")


@every_cell
@every_build
def test_a_row_without_a_real_step_reads_nothing_and_disturbs_nobody(cell, build):
    for pooling in poolings_of(build):
        model = model_of(GatedRNNForSequenceClassification, build=build, cell=cell, pooling=pooling)
        batch, mask, _ = padded_and_alone("tokens", "left")
        full = model(**batch, attention_mask=mask).logits
        mask[1] = 0
        logits = model(**batch, attention_mask=mask).logits
        assert torch.equal(logits[1], model.classifier.bias), "the pooled vector of nothing is zero"
        assert_equal_within(logits[[0, 2]], full[[0, 2]], torch.float64, "the other rows")
        assert all(g.isfinite().all() for g in gradients(model, logits.sum()).values())


@every_cell_and_every_build
@torch.no_grad()
def test_a_mask_of_ones_equals_no_mask(cell, build):
    for dtype in (torch.float32, torch.float64):
        model = model_of(GatedRNNForSequenceClassification, dtype=dtype, build=build, cell=cell, pooling="mean")
        batch = inputs_of("tokens", 3, STEPS)
        for ones in (torch.ones(3, STEPS, dtype=torch.int64), torch.ones(3, STEPS, dtype=torch.bool)):
            expected = model(**batch).logits
            assert_equal_within(model(**batch, attention_mask=ones).logits, expected, dtype, "logits")
