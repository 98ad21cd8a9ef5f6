"""Quantiles of forecasts, against a loop over forecasts, steps and levels."""

import math

import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.models.quantiles import WIDTH, decode_quantiles


def problem_of(horizon=5, quantiles=3, given=True, forecasts=7):
    def drawn(*shape):
        return torch.randn(shape, dtype=torch.float64)

    return {
        "centre": drawn(forecasts, horizon).requires_grad_(),
        "offsets": (3 * drawn(forecasts, horizon, quantiles)).requires_grad_(),
        "unit": drawn(forecasts, horizon, 1).abs(),
        "factors": drawn(forecasts, 1, quantiles).exp() if given else torch.ones(1, 1, dtype=torch.float64),
        "middle": quantiles // 2,
    }


def by_definition(centre, offsets, unit, factors, middle):
    """One forecast, step and quantile after the other."""
    factors, found = factors.expand(offsets.shape), torch.empty_like(offsets)
    for n, h in torch.cartesian_prod(*map(torch.arange, offsets.shape[:2])).tolist():
        median = centre[n, h].item() + (unit[n, h, 0] * offsets[n, h, middle]).item()
        apart = [
            math.log1p(math.exp(x + WIDTH)) * f * unit[n, h, 0].item()
            for x, f in zip(offsets[n, h].tolist(), factors[n, h].tolist(), strict=True)
        ]
        for q in range(offsets.shape[2]):
            found[n, h, q] = median + sum(apart[middle + 1 : q + 1]) - sum(apart[q:middle])
    return found


@over(horizon=(1, 5), quantiles=(1, 3, 9), given=(True, False))
def test_quantiles_are_distances_from_the_median_that_add_up(horizon, quantiles, given):
    problem = problem_of(horizon, quantiles, given)
    found = decode_quantiles(**problem)
    with torch.no_grad():
        assert_equal_within(found, by_definition(**problem), torch.float64, "quantiles")
    assert (found.diff(dim=2) >= 0).all()
    run = lambda *learned: decode_quantiles(*learned, **{k: problem[k] for k in ("unit", "factors", "middle")})  # noqa: E731
    assert horizon > 1 or torch.autograd.gradcheck(run, (problem["centre"], problem["offsets"]))


def test_quantiles_rise_in_float32_too():
    problem = {k: x.float() if isinstance(x, torch.Tensor) else x for k, x in problem_of(70, 9).items()}
    assert (decode_quantiles(**problem).diff(dim=2) >= 0).all()
