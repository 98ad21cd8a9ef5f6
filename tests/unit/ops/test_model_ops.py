"""Operations of models, against torch's: the cross-entropy of a language model, dropout, the maximum over steps."""

from importlib import import_module
from itertools import product

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from gatedrnn.kernels.cpu import dropout as kernel
from gatedrnn.models.modeling import KernelDropout
from gatedrnn.ops import cross_entropy as loss
from gatedrnn.ops import dropout, masked_max
from gatedrnn.ops.cross_entropy import next_token_loss, token_losses
from gatedrnn.ops.masked_max import masked_max_in_kernel


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


def test_in_float16_which_no_kernel_takes_gradients_are_torchs():
    hidden, weight, labels = problem(torch.float16)
    ours, theirs = next_token_loss(hidden, weight, labels), torchs_loss(hidden, weight, labels)
    for one, other in zip(*(torch.autograd.grad(of, (hidden, weight)) for of in (ours, theirs)), strict=True):
        assert (one - other).norm() < 0.01 * other.norm()


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
    exact = torch.autograd.grad(torchs_loss(hidden, weight, labels), weight)[0]
    found = torch.autograd.grad(ours, weight)[0]
    assert found.dtype == torch.float32 and (found - exact).norm() < 0.02 * exact.norm()


def test_the_logits_of_a_batch_are_never_in_memory_at_once(monkeypatch):
    seen, plain = [], loss._cross_entropy
    monkeypatch.setattr(loss, "CHUNK", 5 * 37)
    monkeypatch.setattr(loss, "_cross_entropy", lambda logits, *rest: seen.append(logits.shape) or plain(logits, *rest))
    hidden, weight, labels = problem(rows=(4, 8))
    next_token_loss(hidden, weight, labels).backward()
    token_losses(hidden, weight, labels)
    assert len(seen) == 14 and {rows for rows, _ in seen} == {5, 2}


RATES = (0.1, 0.25, 1 / 3, 0.5, 0.999, 1e-9)
SIZES = (1, 7, 311, 312, 313, 624, 5001)
BEFORE = (0, 1, 622, 623)
"""Numbers that are drawn, and words before them: around a block of 624 words, two a number."""


@pytest.fixture
def kernel_calls(monkeypatch):
    """Each call of the kernel, which torch's own build may leave without a user."""
    calls, fill = [], kernel.fill_dropout_mask
    monkeypatch.setattr(kernel, "fill_dropout_mask", lambda *given: (calls.append(given), fill(*given))[1])
    return calls


def both(x, rate, before=0):
    """Torch's and ours from one seed, with the random numbers that follow; an odd number of words may go before."""
    found = []
    for function in (functional.dropout, dropout):
        torch.manual_seed(7)
        torch.rand(before)
        found.append((function(x, rate), torch.rand(5), torch.randn(3)))
    return found


@pytest.fixture
def needs_the_kernel():
    if not kernel.draws_as_torch():
        pytest.skip("this build of torch draws by a library of its own")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_same_elements_are_dropped_and_the_generator_goes_on_alike(dtype, needs_the_kernel, kernel_calls):
    for i, (numbers, before) in enumerate(product(SIZES, BEFORE)):
        x, rate = torch.randn(numbers).to(dtype), RATES[i % len(RATES)]
        (expected, *after), (found, *ours) = both(x, rate, before)
        assert torch.equal(found, expected) and all(map(torch.equal, after, ours)), (numbers, rate, before)
    assert kernel_calls


def test_elements_are_drawn_in_the_order_of_memory_and_transforms_tracers_and_other_tensors_are_torchs(kernel_calls):
    x = torch.randn(8, 5)
    torch.func.vmap(lambda row: dropout(row, 0.5), randomness="different")(x)
    torch.func.jvp(lambda x: dropout(x, 0.5), (x,), (x,))
    dropout(nn.Parameter(x), 0.5)
    dropout(torch.empty(3, device="meta"), 0.5)
    assert not kernel_calls
    strided = torch.randn(4, 10)[:, ::2], torch.randn(6, 9, 4)[:, -3:], torch.randn(9, 6, 4)[-3:].transpose(0, 1)
    for x in (torch.randn(4, 5, 6).transpose(0, 1), torch.randn(5, 6).t(), *strided):
        (expected, *_), (found, *_) = both(x, 0.5)
        assert torch.equal(found, expected) and found.stride() == expected.stride()


def test_what_is_kept_is_scaled_and_so_is_its_gradient_of_any_order():
    x = torch.randn(3, 40, dtype=torch.float64, requires_grad=True)
    found = []
    for function in (functional.dropout, dropout):
        torch.manual_seed(1)
        (first,) = torch.autograd.grad(function(x, 0.4).square().sum(), x, create_graph=True)
        found.append((first, *torch.autograd.grad(first.square().sum(), x)))
    assert all(map(torch.equal, *found))


def test_nothing_and_everything_and_what_is_not_finite(kernel_calls):
    x = torch.randn(50)
    for rate in (0.0, 1.0):
        (expected, *_), (found, *_) = both(x, rate)
        assert torch.equal(found, expected)
    assert torch.equal(dropout(x, 0.5, training=False), x) and not kernel_calls
    (expected, *_), (found, *_) = both(torch.tensor([torch.nan, torch.inf] * 50), 0.5)
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.isinf(), expected.isinf())


def test_a_module_is_torchs_own_kind_and_a_checkpointed_part_drops_the_same_again(needs_the_kernel):
    module, x = KernelDropout(0.5), torch.ones(1000, requires_grad=True)
    assert isinstance(module, nn.Dropout) and repr(module) == "KernelDropout(p=0.5, inplace=False)"
    output = checkpoint(module, x, use_reentrant=False)
    output.sum().backward()
    assert torch.equal(x.grad, output) and output.any() and torch.equal(module.eval()(x), x)


def test_a_build_that_draws_otherwise_is_seen(needs_the_kernel, monkeypatch):
    monkeypatch.setattr(kernel, "fill_dropout_mask", lambda mask, *_: mask.zero_())
    kernel._is_as_torch.cache_clear()
    assert not kernel.draws_as_torch()
    kernel._is_as_torch.cache_clear()


BATCH, STEPS, CHANNELS = 5, 9, 7
FORMS = {
    "by sequence": lambda x: x.contiguous(),
    "by step": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels apart": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "part of a wider series": lambda x: torch.cat([x, x], dim=2)[..., : x.shape[2]],
    "one step for all": lambda x: x[:, :1].expand_as(x),
}
MASKS = ("none", "ragged", "some without a step")


def mask_of(kind):
    if kind == "none":
        return None
    mask = torch.rand(BATCH, STEPS) < 0.6
    mask[0], mask[1], mask[2, 0] = True, kind == "ragged", False
    return mask


def torchs_maximum(x, mask):
    if mask is None:
        return x.amax(1)
    found = torch.where(mask.unsqueeze(2), x, float("-inf")).amax(1)
    return torch.where(mask.any(1, keepdim=True), found, 0)


def series(dtype=torch.float64, ties=False):
    x = torch.randn(BATCH, STEPS, CHANNELS, dtype=dtype)
    return (2 * x).round() / 2 if ties else x


@over(form=tuple(FORMS), kind=MASKS, ties=(False, True), dtype=(torch.float64, torch.float32, torch.bfloat16))
def test_maxima_and_gradients_are_torchs(form, kind, ties, dtype):
    x, mask = FORMS[form](series(dtype, ties)).detach().requires_grad_(), mask_of(kind)
    upstream = torch.randn(BATCH, CHANNELS, dtype=dtype)
    ours, theirs = masked_max(x, mask), torchs_maximum(x, mask)
    assert torch.equal(ours, theirs)
    found, expected = (torch.autograd.grad(of, x, upstream)[0] for of in (ours, theirs))
    assert torch.equal(found, expected)  # bit for bit, so that trainings stay as they were


def test_a_kernel_runs_it_and_torch_runs_transforms(monkeypatch):
    found = torch.func.vmap(torch.func.grad(lambda x: masked_max(x.unsqueeze(0)).sum()))(series())
    assert (found.sum(1) == 1).all()
    monkeypatch.setattr(import_module("gatedrnn.ops.masked_max"), "_in_torch", lambda *_: pytest.fail("torch ran it"))
    assert masked_max(series()).shape == (BATCH, CHANNELS)


def test_second_derivatives_no_numbers_and_empty_series():
    for kind in MASKS:
        x, mask = series()[..., :2].detach().requires_grad_(), mask_of(kind)
        assert torch.autograd.gradgradcheck(lambda x, mask=mask: masked_max(x, mask) ** 2, (x,))
    for shape in ((0, 3, 4), (2, 3, 0), (2, 1, 1)):
        x = torch.randn(shape, requires_grad=True)
        found = masked_max(x)
        found.sum().backward()
        assert found.shape == (shape[0], shape[2]) and x.grad.shape == shape
    for step in range(STEPS):
        x = series()
        x[1, step, 3] = torch.nan
        assert masked_max(x)[1, 3].isnan() and masked_max(x).isnan().sum() == 1


def test_threads_change_nothing(set_threads):
    mask = torch.arange(30) < torch.arange(64).unsqueeze(1)
    for threads in (1, 2):
        set_threads(threads)
        x = torch.randn(64, 30, 100, requires_grad=True)
        found = masked_max(x, mask)
        assert torch.equal(found, torchs_maximum(x, mask))
        found.sum().backward()  # from one number, expanded
        assert (x.grad.sum(1) == mask.any(1, keepdim=True)).all()


@pytest.mark.usefixtures("torchs_compiler")
def test_the_operation_is_registered_as_torch_asks_and_a_compiled_graph_holds_it_whole():
    for kind, form in (("none", "by step"), ("ragged", "by sequence"), ("ragged", "channels apart")):
        x = FORMS[form](series()).detach().requires_grad_()
        torch.library.opcheck(masked_max_in_kernel, (x, mask_of(kind)))
    compiled = torch.compile(lambda x, mask: masked_max(x, mask) * 2, fullgraph=True, backend="aot_eager")
    x, mask = series().requires_grad_(), mask_of("ragged")
    found = compiled(x, mask)
    assert torch.equal(found, 2 * torchs_maximum(x, mask))
    found.sum().backward()
    assert (x.grad.sum(1) == 2).all()
