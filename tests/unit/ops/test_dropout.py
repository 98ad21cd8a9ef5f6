"""`dropout` drops what torch drops, and leaves its generator where torch leaves it."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gatedrnn.kernels import cpu
from gatedrnn.models.modeling import KernelDropout
from gatedrnn.ops import dropout

RATES = (0.1, 0.25, 1 / 3, 0.5, 0.999, 1e-9)
SIZES = (1, 7, 311, 312, 313, 624, 5001)
BEFORE = (0, 1, 622, 623)
"""Numbers that are drawn, and words before them: around a block of 624 words, two a number."""


@pytest.fixture(autouse=True)
def kernel_calls(monkeypatch):
    """Each call of the kernel, which torch's own build may leave without a user."""
    calls, fill = [], cpu.fill_dropout_mask
    monkeypatch.setattr(cpu, "fill_dropout_mask", lambda *given: (calls.append(given), fill(*given))[1])
    return calls


def both(x, rate, before=0):
    """Torch's and ours from one seed, with the random numbers that follow; an odd number of words may go before."""
    found = []
    for function in (functional.dropout, dropout):
        torch.manual_seed(7)
        torch.rand(before)
        found.append((function(x, rate), torch.rand(5), torch.randn(3)))
    return found


def needs_the_kernel():
    if not cpu.draws_as_torch():
        pytest.skip("this build of torch draws by a library of its own")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_same_elements_are_dropped_and_the_generator_goes_on_alike(dtype, kernel_calls):
    needs_the_kernel()
    for i, (numbers, before) in enumerate(product(SIZES, BEFORE)):
        x, rate = torch.randn(numbers).to(dtype), RATES[i % len(RATES)]
        (expected, *after), (found, *ours) = both(x, rate, before)
        assert torch.equal(found, expected) and all(map(torch.equal, after, ours)), (numbers, rate, before)
    assert kernel_calls


def test_elements_are_drawn_in_the_order_of_memory():
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


def test_nothing_and_everything(kernel_calls):
    x = torch.randn(50)
    for rate in (0.0, 1.0):
        (expected, *_), (found, *_) = both(x, rate)
        assert torch.equal(found, expected)
    assert torch.equal(dropout(x, 0.5, training=False), x) and not kernel_calls


def test_a_nan_stays_one_and_an_infinity_that_is_dropped_becomes_one():
    x = torch.tensor([torch.nan, torch.inf] * 50)
    (expected, *_), (found, *_) = both(x, 0.5)
    assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.isinf(), expected.isinf())


def test_transforms_tracers_and_other_tensors_are_torchs(kernel_calls):
    x = torch.randn(8, 5)
    torch.func.vmap(lambda row: dropout(row, 0.5), randomness="different")(x)
    torch.func.jvp(lambda x: dropout(x, 0.5), (x,), (x,))
    dropout(nn.Parameter(x), 0.5)
    dropout(torch.empty(3, device="meta"), 0.5)
    assert not kernel_calls


def test_a_checkpointed_part_drops_the_same_again():
    needs_the_kernel()
    x = torch.ones(1000, requires_grad=True)
    output = checkpoint(lambda x: dropout(x, 0.5), x, use_reentrant=False)
    output.sum().backward()
    assert torch.equal(x.grad, output)


def test_a_module_is_torchs_own_kind():
    module = KernelDropout(0.5)
    assert isinstance(module, nn.Dropout) and repr(module) == "KernelDropout(p=0.5, inplace=False)"
    x = torch.ones(100)
    torch.manual_seed(0)
    expected = nn.Dropout(0.5)(x)
    torch.manual_seed(0)
    assert torch.equal(module(x), expected) and torch.equal(module.eval()(x), x)


def test_a_build_that_draws_otherwise_is_seen(monkeypatch):
    needs_the_kernel()
    from gatedrnn.kernels.cpu import dropout as kernel

    monkeypatch.setattr(kernel, "fill_dropout_mask", lambda mask, *_: mask.zero_())
    kernel._is_as_torch.cache_clear()
    try:
        assert not kernel.draws_as_torch()
    finally:
        kernel._is_as_torch.cache_clear()
