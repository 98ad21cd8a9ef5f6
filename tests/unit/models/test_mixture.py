"""The mixture of smoothers, against a loop over forecasts and steps; by the kernel and by operations of torch."""

import math

import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.models.mixture import Mixture, mix


def problem_of(dtype=torch.float64, horizon=5, given=True, forecasts=7, smoothers=4, periods=2):
    def drawn(*shape):
        return torch.randn(shape, dtype=dtype)

    kinds = smoothers + periods
    return Mixture(
        drawn(forecasts, kinds, horizon).requires_grad_(), 3 * drawn(forecasts, kinds),
        drawn(kinds, horizon) if given else None, drawn(forecasts, smoothers), drawn(forecasts, smoothers),
        drawn(smoothers, horizon).abs(), drawn(forecasts, horizon), drawn(forecasts, periods, horizon),
    )  # fmt: skip


def by_definition(learned, prior, usual, levels, slopes, distances, seasons, repeated):
    """One forecast and step after the other."""
    found = torch.empty(seasons.shape, dtype=torch.float64)
    for n, h in torch.cartesian_prod(*map(torch.arange, seasons.shape)).tolist():
        logits = [
            (learned[n, k, h] + prior[n, k] / math.sqrt(h + 1) + (0 if usual is None else usual[k, h])).item()
            for k in range(learned.shape[1])
        ]
        says = [(levels[n, k] + slopes[n, k] * distances[k, h] + seasons[n, h]).item() for k in range(levels.shape[1])]
        says += repeated[n, :, h].tolist()
        shares = [math.exp(x) for x in logits]
        found[n, h] = sum(a * b for a, b in zip(shares, says, strict=True)) / sum(shares)
    return found


@over(dtype=(torch.float64, torch.float32), horizon=(1, 5, 33), given=(True, False))
def test_a_mixture_and_its_gradient_are_those_of_the_definition(dtype, horizon, given):
    problem = problem_of(dtype, horizon, given)
    exact = Mixture(*(None if x is None else x.detach().double().requires_grad_(x.requires_grad) for x in problem))
    found, expected = mix(problem), exact.in_torch()
    assert_equal_within(found, by_definition(*(None if x is None else x.detach() for x in exact)), dtype, "mixture")
    upstream = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad(expected, exact.learned, upstream)
    (gradient,) = torch.autograd.grad(found, problem.learned, upstream.to(dtype))
    assert_equal_within(gradient, wanted, dtype, "gradient", gradient=True)
    if dtype == torch.float64 and horizon == 5:
        assert torch.autograd.gradgradcheck(lambda x: mix(problem._replace(learned=x)), problem.learned)


def test_layouts_threads_and_streams_change_no_bit():
    problem = problem_of(torch.float32, horizon=70, forecasts=80)
    expected = mix(problem)
    turned = problem._replace(learned=problem.learned.detach().mT.contiguous().mT.requires_grad_())
    with torch.no_grad():
        assert torch.equal(mix(turned), expected) and torch.equal(
            mix(problem._replace(learned=turned.learned)), expected
        )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(mix(problem), expected)
    finally:
        torch.set_num_threads(before)


def test_bfloat16_is_mixed_in_float32():
    problem = problem_of(torch.float32)
    narrow = Mixture(*(None if x is None else x.detach().bfloat16() for x in problem))
    wide = Mixture(*(None if x is None else x.float() for x in narrow))
    assert torch.equal(mix(narrow), mix(wide)) and mix(narrow).dtype == torch.float32
