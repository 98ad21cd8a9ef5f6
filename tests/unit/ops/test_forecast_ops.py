"""Quantiles of forecasts and their loss: kernels give what the equations in plain torch give, and so do gradients."""

import math

import pytest
import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.ops import decode_quantiles as decoding
from gatedrnn.ops import pinball_loss as scoring

LEARNED = "mixture", "offsets", "correction"


def decoding_problem(dtype, horizon=5, quantiles=3, given=True, forecasts=7, smoothers=4, periods=2):
    def drawn(*shape):
        return torch.randn(shape, dtype=dtype)

    return {
        "mixture": drawn(forecasts, smoothers + periods, horizon).requires_grad_(),
        "offsets": (3 * drawn(forecasts, horizon, quantiles)).requires_grad_(),
        "correction": drawn(forecasts, horizon).requires_grad_() if given else None,
        "prior": 20 * drawn(forecasts, smoothers + periods),
        "typical": drawn(smoothers + periods, horizon) if given else None,
        "levels": drawn(forecasts, smoothers), "slopes": drawn(forecasts, smoothers),
        "distances": drawn(smoothers, horizon).abs(), "seasons": drawn(forecasts, horizon),
        "repeated": drawn(forecasts, periods, horizon), "change": drawn(forecasts).abs(),
        "factors": drawn(forecasts, quantiles).exp(), "bands": drawn(horizon, quantiles).exp() if given else None,
        "trust": 0.7, "middle": quantiles // 2,
    }  # fmt: skip


def gradients(output, tensors, upstream):
    given = [x for x in tensors if x is not None]
    return torch.autograd.grad(output, given, upstream.to(output.dtype))


@over(dtype=(torch.float64, torch.float32), horizon=(1, 5, 33), quantiles=(1, 3, 9), given=(True, False))
def test_quantiles_and_gradients_are_those_of_the_equations_in_float64(dtype, horizon, quantiles, given):
    problem = decoding_problem(dtype, horizon, quantiles, given)
    exact = {
        name: x.detach().double().requires_grad_(name in LEARNED) if isinstance(x, torch.Tensor) else x
        for name, x in problem.items()
    }
    found, expected = decoding.decode_quantiles(**problem), decoding._in_torch(**exact)
    assert_equal_within(found, expected, dtype, "quantiles")
    upstream = torch.randn_like(expected)
    for name, one, other in zip(
        LEARNED, gradients(found, [problem[name] for name in LEARNED], upstream),
        gradients(expected, [exact[name] for name in LEARNED], upstream), strict=False,
    ):  # fmt: skip
        assert_equal_within(one, other, dtype, name, gradient=True)


def test_layouts_frozen_parts_and_threads_change_no_bit():
    problem = decoding_problem(torch.float32, horizon=70, forecasts=80)
    expected = decoding.decode_quantiles(**problem)
    (wanted,) = gradients(expected, [problem["offsets"]], torch.ones_like(expected))
    turned = problem | {"offsets": problem["offsets"].detach().mT.contiguous().mT.requires_grad_()}
    turned |= {name: problem[name].detach() for name in ("mixture", "correction")}
    threads = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        found = decoding.decode_quantiles(**turned)
        assert torch.equal(found, expected)
        assert torch.equal(*gradients(found, [turned["offsets"]], torch.ones_like(found)), wanted)
    scored = scoring_problem(torch.float32, batch=9, origins=20, horizon=60)
    losses = []
    for count in (1, 2):
        torch.set_num_threads(count)
        losses.append(scoring.pinball_loss(**scored))
    torch.set_num_threads(threads)
    assert torch.equal(*losses)


def test_quantiles_rise_and_at_the_start_a_smoother_without_errors_is_what_counts():
    """A new network's numbers are 0: the best smoother is the median, and the intervals widen with the root."""
    problem = decoding_problem(torch.float64, given=False)
    zeros = {name: torch.zeros_like(problem[name]) for name in ("mixture", "offsets")}
    prior, ones = torch.full_like(problem["prior"], -1e4), torch.ones_like(problem["factors"])
    prior[:, 1] = 0
    found = decoding.decode_quantiles(**problem | zeros | {"prior": prior, "factors": ones})
    said = decoding.said_ahead(*(problem[n] for n in ("levels", "slopes", "distances", "seasons", "repeated")))
    assert_equal_within(found[..., 1], said[:, 1], torch.float64, "median")
    apart = math.log1p(math.e) * problem["change"][:, None] * torch.arange(1, 6).double().sqrt()
    assert_equal_within(found[..., 2] - found[..., 1], apart, torch.float64, "above")
    assert_equal_within(found[..., 1] - found[..., 0], apart, torch.float64, "below")
    assert (decoding.decode_quantiles(**decoding_problem(torch.float32, quantiles=9)).diff(dim=2) >= 0).all()


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
    for loss in (scoring.pinball_loss, scoring._in_torch):
        found = loss(**problem)
        assert_equal_within(found, expected, dtype, "loss")
        (gradient,) = torch.autograd.grad(3 * found, problem["forecast"])
        assert_equal_within(gradient, 3 * wanted, dtype, "gradient", gradient=True)


def test_a_large_value_loses_no_digit_of_the_loss_and_no_label_at_all_costs_nothing():
    forecast = torch.tensor([[[[0.5]]]], requires_grad=True)
    scale = torch.tensor([[1e12, 1.0, 0.0, -math.inf, math.inf]], dtype=torch.float64)
    level, unit = torch.tensor([0.5]), torch.ones(1, dtype=torch.float64)
    loss = scoring.pinball_loss(forecast, scale, torch.tensor([[1e12 + 2]], dtype=torch.float64), unit, level)
    assert loss.item() == 0.75
    loss = scoring.pinball_loss(forecast, scale, torch.tensor([[math.nan]], dtype=torch.float64), unit, level)
    assert loss.item() == 0 and torch.autograd.grad(loss, forecast)[0].item() == 0
    with torch.no_grad():
        assert not scoring.pinball_loss(forecast, scale, torch.tensor([[1e12]]).double(), unit, level).requires_grad


@pytest.mark.parametrize("ask", ["decode", "loss"])
def test_gradients_can_be_differentiated_again_and_operations_pass_torchs_own_check(ask):
    if ask == "decode":
        problem = decoding_problem(torch.float64, horizon=2, forecasts=2)
        tensors = tuple(problem[name] for name in LEARNED)

        def run(*learned):
            return decoding.decode_quantiles(**problem | dict(zip(LEARNED, learned, strict=True)))

        torch.library.opcheck(decoding.decode_in_kernel, tuple(problem.values()))
    else:
        problem = scoring_problem(torch.float64, batch=2, origins=2, horizon=2)
        tensors = (problem["forecast"],)

        def run(forecast):
            return scoring.pinball_loss(**problem | {"forecast": forecast})

        torch.library.opcheck(scoring.pinball_in_kernel, (*problem.values(), True))
    assert torch.autograd.gradcheck(run, tensors) and torch.autograd.gradgradcheck(run, tensors)
