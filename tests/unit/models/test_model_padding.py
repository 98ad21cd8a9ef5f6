"""Padding is nothing: where it stands and what stands in it changes no logit, no loss and no gradient."""

import torch
from covering import over
from small_models import BUILD, CELL, EVERY_POOLING, KIND, allows, inputs_of, model_of
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification, GatedRNNForTokenClassification

STEPS = 7
MASKS = {
    "right": [[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]],
    "left": [[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]],
    "between": [[1, 0, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0]],
    "both": [[0, 0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0]],
    "nowhere": [[1, 1, 1, 1, 1, 1, 1]] * 3,
}
PLACE = tuple(MASKS)


def padded_and_alone(kind, place):
    """A batch whose padding holds any values at all, its mask, and each row by itself without padding."""
    batch, mask = inputs_of(kind, len(MASKS[place]), STEPS), torch.tensor(MASKS[place])
    ((name, values),) = batch.items()
    return batch, mask, [{name: row[real.bool()][None]} for row, real in zip(values, mask, strict=True)]


def forms(mask):
    """What says the same."""
    return [mask, mask.bool(), *([None] if mask.all() else [])]


def assert_same(model, logits, expected):
    """Logits, and their gradients."""
    assert_equal_within(logits, expected, torch.float64, "logits")
    upstream = torch.randn_like(expected)
    got, want = (torch.autograd.grad((x * upstream).sum(), list(model.parameters())) for x in (logits, expected))
    for name, a, b in zip(dict(model.named_parameters()), got, want, strict=True):
        assert_equal_within(a, b, torch.float64, f"gradient of {name}", gradient=True)


@over(allows, cell=CELL, build=BUILD, pooling=EVERY_POOLING, kind=KIND, place=PLACE)
def test_rows_of_a_padded_batch_have_the_logits_and_gradients_of_the_rows_alone(cell, build, pooling, kind, place):
    model = model_of(GatedRNNForSequenceClassification, kind, build=build, cell=cell, pooling=pooling)
    batch, mask, alone = padded_and_alone(kind, place)
    for given in forms(mask):
        assert_same(
            model, model(**batch, attention_mask=given).logits, torch.cat([model(**row).logits for row in alone])
        )


@over(cell=CELL, build=BUILD, kind=KIND, place=PLACE)
def test_real_steps_have_the_logits_and_gradients_of_the_rows_alone(cell, build, kind, place):
    model = model_of(GatedRNNForTokenClassification, kind, build=build, cell=cell)
    batch, mask, alone = padded_and_alone(kind, place)
    for given in forms(mask):
        logits = model(**batch, attention_mask=given).logits[mask.bool()]
        assert_same(model, logits, torch.cat([model(**row).logits[0] for row in alone]))


@over(allows, build=BUILD, pooling=EVERY_POOLING, kind=KIND)
def test_a_row_without_a_real_step_reads_nothing_and_disturbs_nobody(build, pooling, kind):
    model = model_of(GatedRNNForSequenceClassification, kind, build=build, pooling=pooling)
    batch, mask, _ = padded_and_alone(kind, "left")
    full = model(**batch, attention_mask=mask).logits
    mask[1] = 0
    logits = model(**batch, attention_mask=mask).logits
    assert torch.equal(logits[1], model.classifier.bias), "the pooled vector of nothing is zero"
    assert_equal_within(logits[[0, 2]], full[[0, 2]], torch.float64, "the other rows")
    assert all(g.isfinite().all() for g in torch.autograd.grad(logits.sum(), list(model.parameters())))
