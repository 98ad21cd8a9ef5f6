"""The loss of a forecast's quantiles, against a loop over labels and levels."""

import math

import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.kernels.cpu.threads import WORTH_A_THREAD
from gatedrnn.models.pinball import Scored, pinball_loss


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


@over(dtype=(torch.float64, torch.float32), quantiles=(1, 3))
def test_the_form_without_a_kernel_has_the_same_loss(dtype, quantiles):
    problem = scoring_problem(dtype, quantiles=quantiles)
    assert_equal_within(Scored(**problem, differentiated=True).in_torch(), pinball_loss(**problem), dtype, "loss")


def test_two_threads_change_no_bit_of_the_loss_or_its_gradient():
    problem = scoring_problem(torch.float32, batch=40, origins=16, horizon=24)
    assert problem["forecast"].numel() > WORTH_A_THREAD
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            loss = pinball_loss(**problem)
            results.append((loss, *torch.autograd.grad(loss, problem["forecast"])))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))
