"""Dropout of models: the law of torch's, from fewer random bits."""

import pytest
import torch

from gatedrnn.models.dropout import SixteenBitDropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_share_of_the_elements_is_dropped_and_the_mean_kept(rate):
    x = torch.ones(200, 1001)
    dropped = SixteenBitDropout(rate)(x)
    assert (dropped == 0).float().mean().item() == pytest.approx(rate, abs=6 * (rate * (1 - rate) / x.numel()) ** 0.5)
    assert dropped[dropped > 0].unique().item() == pytest.approx(1 / (1 - rate), rel=1e-3)
    # What one element does says nothing of the next, of those that share a word, or of another row's.
    kept = (dropped > 0).float() - (1 - rate)
    for apart in (1, 2, 3, 4, 1001):
        flat = kept.flatten()
        assert abs((flat[:-apart] * flat[apart:]).mean()) < 6 * rate * (1 - rate) / len(flat) ** 0.5


def test_a_seed_decides_the_gradient_sees_the_same_zeros_and_nothing_is_dropped_beside_training():
    x, layer = torch.randn(3, 5, 7, requires_grad=True), SixteenBitDropout(0.5)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first) and not torch.equal(layer(x), first)
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(gradient == 0, first == 0)
    assert layer.eval()(x) is x and SixteenBitDropout(0.0)(x) is x and not SixteenBitDropout(1.0)(x).any()
    assert SixteenBitDropout(0.5)(torch.empty(0, 3)).shape == (0, 3)


def test_a_transform_takes_torchs_own():
    x = torch.ones(4, 1000)
    dropped = torch.func.vmap(SixteenBitDropout(0.5), randomness="different")(x)
    assert 1700 < (dropped == 0).sum() < 2300
