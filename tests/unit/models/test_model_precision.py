"""Mixed precision stays near single precision."""

import torch
from covering import over
from small_models import BUILD, KIND, SMOOTH_CELL, config_of, inputs_of
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNForSequenceClassification

MASK = torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [0] * 2 + [1] * 7, [0] * 9])


@over(cell=SMOOTH_CELL, build=BUILD, kind=KIND, masked=(False, True))
def test_bfloat16_autocast_stays_near_float32(cell, build, kind, masked):
    model = GatedRNNForSequenceClassification(config_of(kind, build=build, cell=cell, pooling="mean"))
    batch, labels = inputs_of(kind, len(MASK), MASK.shape[1], dtype=torch.float32), torch.arange(len(MASK))
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            output = model(**batch, attention_mask=MASK if masked else None, labels=labels)
        results.append((output, torch.autograd.grad(output.loss, list(model.parameters()))))
    (single, expected), (mixed, found) = results
    assert mixed.logits.dtype == torch.bfloat16
    # The table allows one rounding. A block adds up some eight in each logit, of either sign: not in the loss.
    if "block" not in build:
        assert_equal_within(mixed.logits, single.logits, torch.bfloat16, "logits")
    assert_equal_within(mixed.loss, single.loss, torch.bfloat16, "loss")
    for (name, _), a, b in zip(model.named_parameters(), found, expected, strict=True):
        assert a.dtype == torch.float32
        assert a.isfinite().all()
        if "block" not in build:
            assert_equal_within(a, b, torch.bfloat16, f"gradient of {name}", gradient=True)
