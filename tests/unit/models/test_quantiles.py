"""Quantiles of forecasts and their loss, against loops over forecasts, steps and levels."""

import math

import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.models.quantiles import WIDTH, decode_quantiles, pinball_loss

LEARNED = "logits", "correction", "offsets"


def decoding_problem(horizon=5, quantiles=3, given=True, forecasts=7, smoothers=6):
    def drawn(*shape):
        return torch.randn(shape, dtype=torch.float64)

    return {
        "logits": (3 * drawn(forecasts, smoothers, horizon)).requires_grad_(),
        "said": drawn(forecasts, smoothers, horizon),
        "correction": drawn(forecasts, horizon).requires_grad_() if given else None,
        "offsets": (3 * drawn(forecasts, horizon, quantiles)).requires_grad_(),
        "unit": drawn(forecasts, horizon, 1).abs(),
        "factors": drawn(forecasts, 1, quantiles).exp() if given else torch.ones(1, 1, dtype=torch.float64),
        "middle": quantiles // 2,
    }


def by_definition_of_quantiles(logits, said, correction, offsets, unit, factors, middle):
    """One forecast, step and quantile after the other."""
    factors, found = factors.expand(offsets.shape), torch.empty_like(offsets)
    for n, h in torch.cartesian_prod(*map(torch.arange, offsets.shape[:2])).tolist():
        shares = [math.exp(x) for x in logits[n, :, h].tolist()]
        median = sum(a * b for a, b in zip(shares, said[n, :, h].tolist(), strict=True)) / sum(shares)
        median += (unit[n, h, 0] * offsets[n, h, middle]).item() + (
            0 if correction is None else correction[n, h].item()
        )
        apart = [
            math.log1p(math.exp(x + WIDTH)) * f * unit[n, h, 0].item()
            for x, f in zip(offsets[n, h].tolist(), factors[n, h].tolist(), strict=True)
        ]
        for q in range(offsets.shape[2]):
            found[n, h, q] = median + sum(apart[middle + 1 : q + 1]) - sum(apart[q:middle])
    return found


@over(horizon=(1, 5), quantiles=(1, 3, 9), given=(True, False))
def test_quantiles_are_a_mixture_and_distances_from_it_that_add_up(horizon, quantiles, given):
    problem = decoding_problem(horizon, quantiles, given)
    found = decode_quantiles(**problem)
    with torch.no_grad():
        assert_equal_within(found, by_definition_of_quantiles(**problem), torch.float64, "quantiles")
    assert (found.diff(dim=2) >= 0).all()
    tensors = [problem[name] for name in LEARNED if problem[name] is not None]
    names = [name for name in LEARNED if problem[name] is not None]
    run = lambda *learned: decode_quantiles(**problem | dict(zip(names, learned, strict=True)))  # noqa: E731
    assert horizon > 1 or torch.autograd.gradcheck(run, tensors)


def test_quantiles_rise_in_float32_too():
    problem = {k: x.float() if isinstance(x, torch.Tensor) else x for k, x in decoding_problem(70, 9).items()}
    assert (decode_quantiles(**problem).diff(dim=2) >= 0).all()


def scoring_problem(dtype, batch=3, origins=4, horizon=5, quantiles=3):
    """Windows of logarithms, but the first; the loss counts what is there."""

    def drawn(*shape):
        return torch.randn(shape, dtype=torch.float64)

    mean, deviation, logged = 2 * drawn(batch), drawn(batch).exp(), torch.ones(batch, dtype=torch.float64)
    logged[0] = 0
    bound = torch.where(logged > 0, 1.5, torch.inf)
    future = drawn(batch, origins + horizon - 1)
    future = torch.where(logged[:, None] > 0, (mean[:, None] + 0.3 * future).exp(), mean[:, None] + future)
    future[0, 2] = future[1, -1] = torch.nan
    counted = torch.ones(batch, origins, dtype=torch.bool)
    counted[-1, :2] = False
    return {
        "forecast": (2 * drawn(batch, origins, horizon, quantiles)).to(dtype).requires_grad_(),
        "scale": torch.stack([mean, deviation, logged, mean - bound, mean + bound], 1), "future": future,
        "unit": drawn(batch).exp(), "levels": torch.linspace(0.1, 0.9, quantiles, dtype=dtype), "counted": counted,
    }  # fmt: skip


def by_definition(forecast, scale, future, unit, levels, counted):
    """One label and level after the other, in the units of the series."""
    losses = []
    for b, o, h, q in torch.cartesian_prod(*map(torch.arange, forecast.shape)).tolist():
        label = future[b, o + h]
        if label.isnan() or not counted[b, o]:
            continue
        mean, deviation, logged, low, high = scale[b].tolist()
        quantile = (mean + deviation * forecast[b, o, h, q].double()).clamp(low, high)
        error = (label - (quantile.exp() if logged else quantile)) / unit[b]
        losses.append(torch.maximum(levels[q] * error, (levels[q] - 1) * error))
    return torch.stack(losses).mean()


@over(dtype=(torch.float64, torch.float32), quantiles=(1, 3), horizon=(1, 5))
def test_the_loss_and_its_gradient_are_those_of_each_label_in_the_units_of_its_series(dtype, quantiles, horizon):
    problem = scoring_problem(dtype, horizon=horizon, quantiles=quantiles)
    exact = problem | {"levels": problem["levels"].double(), "forecast": problem["forecast"].detach().double()}
    exact["forecast"].requires_grad_()
    expected = by_definition(**exact)
    (wanted,) = torch.autograd.grad(expected, exact["forecast"])
    found = pinball_loss(**problem)
    assert_equal_within(found, expected, dtype, "loss")
    (gradient,) = torch.autograd.grad(3 * found, problem["forecast"])
    assert_equal_within(gradient, 3 * wanted, dtype, "gradient", gradient=True)
    if dtype == torch.float64:
        assert torch.autograd.gradgradcheck(lambda x: pinball_loss(**problem | {"forecast": x}), problem["forecast"])


def test_windows_of_logarithms_and_others_in_one_batch_have_finite_gradients():
    """A window's own formula alone counts: e to the power of another one's numbers is infinite."""
    problem = scoring_problem(torch.float32)
    problem["scale"][0, :2] = torch.tensor([1e4, 1e4])
    (gradient,) = torch.autograd.grad(pinball_loss(**problem), problem["forecast"])
    assert gradient.isfinite().all() and gradient[0].any()


def test_a_large_value_loses_no_digit_of_the_loss_and_no_label_at_all_costs_nothing():
    forecast = torch.tensor([[[[0.5]]]], requires_grad=True)
    scale = torch.tensor([[1e12, 1.0, 0.0, -math.inf, math.inf]], dtype=torch.float64)
    level, unit = torch.tensor([0.5]), torch.ones(1, dtype=torch.float64)
    loss = pinball_loss(forecast, scale, torch.tensor([[1e12 + 2]], dtype=torch.float64), unit, level)
    assert loss.item() == 0.75
    loss = pinball_loss(forecast, scale, torch.tensor([[math.nan]], dtype=torch.float64), unit, level)
    assert loss.item() == 0 and torch.autograd.grad(loss, forecast)[0].item() == 0
    with torch.no_grad():
        assert not pinball_loss(forecast, scale, torch.tensor([[1e12]]).double(), unit, level).requires_grad
