"""The loss of a language model and its gradient are torch's cross-entropy's; logits are made a piece at a time."""

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch.nn.functional import cross_entropy

from gatedrnn.ops import cross_entropy as loss
from gatedrnn.ops.cross_entropy import next_token_loss, token_losses


def problem(dtype=torch.float64, rows=(3, 5), width=4, classes=37):
    hidden = (3 * torch.randn(*rows, width, dtype=dtype)).requires_grad_()
    weight = torch.randn(classes, width, dtype=dtype, requires_grad=True)
    labels = torch.randint(classes, rows)
    labels[0, 1] = labels[-1, -1] = -100
    return hidden, weight, labels


def by_torch(hidden, weight, labels, items=None):
    logits = (hidden @ weight.t()).flatten(0, 1).double()
    total = cross_entropy(logits, labels.flatten(), reduction="sum")
    return total / (items if items is not None else (labels != -100).sum())


@over(piece=(1, 100, 1 << 25), dtype=(torch.float64, torch.float32), items=(None, 7), factor=(1.0, 0.5))
def test_loss_and_gradients_are_torchs(monkeypatch, piece, dtype, items, factor):
    monkeypatch.setattr(loss, "CHUNK", piece)
    hidden, weight, labels = problem(dtype)
    ours, theirs = next_token_loss(hidden, weight, labels, items), by_torch(hidden, weight, labels, items)
    assert_equal_within(ours, theirs, dtype, "loss")
    found = torch.autograd.grad(factor * ours, (hidden, weight))
    for name, one, other in zip(
        ("hidden", "weight"), found, torch.autograd.grad(factor * theirs, (hidden, weight)), strict=True
    ):
        assert_equal_within(one, other, dtype, f"gradient of {name}", gradient=True)
    assert not found[0][labels == -100].any()


def test_logits_far_apart_do_not_overflow():
    hidden, weight, labels = problem(torch.float32)
    with torch.no_grad():
        hidden *= 1000
    ours = next_token_loss(hidden, weight, labels)
    assert_equal_within(ours, by_torch(hidden.double(), weight.double(), labels), torch.float32, "loss")
    assert all(g.isfinite().all() for g in torch.autograd.grad(ours, (hidden, weight)))


def test_a_number_that_is_none_stays_one():
    hidden, weight, labels = problem(torch.float32)
    with torch.no_grad():
        hidden[1, 1, 0] = torch.nan
    assert next_token_loss(hidden, weight, labels).isnan()


def test_any_number_of_classes_will_do():
    for classes in (1, 2, 15, 16, 17, 1000):
        hidden, weight, labels = problem(classes=classes)
        ours = token_losses(hidden, weight, labels)
        logits = (hidden @ weight.t()).flatten(0, 1)
        theirs = cross_entropy(logits, labels.flatten(), reduction="none").view(labels.shape)
        assert_equal_within(ours, theirs, torch.float64, f"losses of {classes} classes")
        assert not ours[labels == -100].any()


def test_only_what_needs_a_gradient_gets_one():
    hidden, weight, labels = problem()
    (alone,) = torch.autograd.grad(next_token_loss(hidden, weight.detach(), labels), hidden)
    both = torch.autograd.grad(next_token_loss(hidden, weight, labels), (hidden, weight))
    assert torch.equal(alone, both[0])
    (matrix,) = torch.autograd.grad(next_token_loss(hidden.detach(), weight, labels), weight)
    assert torch.equal(matrix, both[1])


def test_autocast_takes_products_in_bfloat16_and_the_loss_in_float32():
    hidden, weight, labels = problem(torch.float32, rows=(4, 50), width=16)
    with torch.autocast("cpu", torch.bfloat16):
        ours = next_token_loss(hidden, weight, labels)
    narrow = (hidden.bfloat16() @ weight.bfloat16().t()).float().flatten(0, 1)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(cross_entropy(narrow, labels.flatten()).item(), rel=1e-6)
    exact = torch.autograd.grad(by_torch(hidden, weight, labels), weight)[0]
    found = torch.autograd.grad(ours, weight)[0]
    assert found.dtype == torch.float32 and (found - exact).norm() < 0.02 * exact.norm()


def test_the_logits_of_a_batch_are_never_in_memory_at_once(monkeypatch):
    monkeypatch.setattr(loss, "CHUNK", 5 * 37)
    seen = []
    plain = loss._cross_entropy
    monkeypatch.setattr(loss, "_cross_entropy", lambda logits, *rest: seen.append(logits.shape) or plain(logits, *rest))
    hidden, weight, labels = problem(rows=(4, 8))
    next_token_loss(hidden, weight, labels).backward()
    token_losses(hidden, weight, labels)
    assert len(seen) == 14 and {rows for rows, _ in seen} == {5, 2}
