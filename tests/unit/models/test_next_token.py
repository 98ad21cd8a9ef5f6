"""The cross-entropy of a language model, against torch's on all logits at once."""

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch.nn.functional import cross_entropy

from gatedrnn.models import next_token as loss
from gatedrnn.models.next_token import next_token_loss, token_losses


def problem(dtype=torch.float64, rows=(3, 5), width=4, classes=37):
    hidden = (3 * torch.randn(*rows, width, dtype=dtype)).requires_grad_()
    weight = torch.randn(classes, width, dtype=dtype, requires_grad=True)
    labels = torch.randint(classes, rows)
    labels[0, 1] = labels[-1, -1] = -100
    return hidden, weight, labels


def torchs_loss(hidden, weight, labels, items=None):
    logits = (hidden @ weight.t()).flatten(0, 1).double()
    total = cross_entropy(logits, labels.flatten(), reduction="sum")
    return total / (items if items is not None else (labels != -100).sum())


@over(piece=(1, 100, 1 << 25), dtype=(torch.float64, torch.float32), items=(None, 7), factor=(1.0, 2.0))
def test_loss_and_gradients_are_torchs(monkeypatch, piece, dtype, items, factor):
    monkeypatch.setattr(loss, "CHUNK", piece)
    hidden, weight, labels = problem(dtype)
    ours, theirs = next_token_loss(hidden, weight, labels, items), torchs_loss(hidden, weight, labels, items)
    assert_equal_within(ours, theirs, dtype, "loss")
    found = torch.autograd.grad(factor * ours, (hidden, weight))
    for one, other in zip(found, torch.autograd.grad(factor * theirs, (hidden, weight)), strict=True):
        assert_equal_within(one, other, dtype, f"gradient of {list(other.shape)}", gradient=True)
    assert not found[0][labels == -100].any()


def test_logits_far_apart_do_not_overflow_a_number_that_is_none_stays_one_and_any_number_of_classes_will_do():
    hidden, weight, labels = problem(torch.float32)
    with torch.no_grad():
        hidden *= 1000
    ours = next_token_loss(hidden, weight, labels)
    assert_equal_within(ours, torchs_loss(hidden.double(), weight.double(), labels), torch.float32, "loss")
    assert all(g.isfinite().all() for g in torch.autograd.grad(ours, (hidden, weight)))
    with torch.no_grad():
        hidden[1, 1, 0] = torch.nan
    assert next_token_loss(hidden, weight, labels).isnan()
    for classes in (1, 2, 15, 16, 17, 1000):
        hidden, weight, labels = problem(classes=classes)
        ours = token_losses(hidden, weight, labels)
        logits = (hidden @ weight.t()).flatten(0, 1)
        theirs = cross_entropy(logits, labels.flatten(), reduction="none").view(labels.shape)
        assert_equal_within(ours, theirs, torch.float64, f"losses of {classes} classes")
        assert not ours[labels == -100].any()


def test_autocast_takes_products_in_bfloat16_and_the_loss_in_float32():
    hidden, weight, labels = problem(torch.float32, rows=(4, 50), width=16)
    with torch.autocast("cpu", torch.bfloat16):
        ours = next_token_loss(hidden, weight, labels)
    narrow = (hidden.bfloat16() @ weight.bfloat16().t()).float().flatten(0, 1)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(cross_entropy(narrow, labels.flatten()).item(), rel=1e-6)
    exact = torch.autograd.grad(torchs_loss(hidden, weight, labels), weight)[0]
    found = torch.autograd.grad(ours, weight)[0]
    assert found.dtype == torch.float32 and (found - exact).norm() < 0.02 * exact.norm()


def test_the_logits_of_a_large_batch_are_never_in_memory_at_once_and_are_differentiated_twice(monkeypatch):
    seen, plain = [], loss.linear
    monkeypatch.setattr(loss, "CHUNK", 5 * 37)
    monkeypatch.setattr(loss, "linear", lambda rows, *rest: seen.append(len(rows)) or plain(rows, *rest))
    hidden, weight, labels = problem(rows=(4, 8))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        found = next_token_loss(hidden, weight, labels)
    assert max(kept) < 32 * 37
    token_losses(hidden, weight, labels)
    assert set(seen) == {5, 2} and len(seen) == 7 * 3  # logits of both, and the gradient of the rows
    assert torch.autograd.gradgradcheck(lambda h, w: next_token_loss(h, w, labels), (hidden, weight))
    assert_equal_within(found, torchs_loss(hidden, weight, labels), torch.float64, "loss")


def test_a_frozen_weight_has_no_gradient_computed_and_its_inputs_have_torchs(monkeypatch):
    """A frozen table of embeddings, shared with the head, would cost as much as one that is trained."""
    monkeypatch.setattr(loss, "CHUNK", 5 * 37)
    monkeypatch.setattr(loss, "add_weight_grad", lambda *_: pytest.fail("a gradient of the weight is computed"))
    hidden, weight, labels = problem()
    weight.requires_grad_(False)
    ours, theirs = (
        torch.autograd.grad(function(hidden, weight, labels), hidden)[0] for function in (next_token_loss, torchs_loss)
    )
    assert_equal_within(ours, theirs, torch.float64, "gradient of the rows", gradient=True)
    hidden, weight = hidden.detach(), weight.requires_grad_()
    with pytest.raises(pytest.fail.Exception):
        next_token_loss(hidden, weight, labels)
