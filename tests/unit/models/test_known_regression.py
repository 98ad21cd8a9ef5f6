"""Known covariates have their effect on a forecast even where the network has none."""

import numpy as np
import pytest
import torch

from gatedrnn.models import GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.models.known_regression import Effects, effects_of, fit_known_regression

RATIOS = (1.05, 1000.0)


def demand(steps=300, seed=0):
    """Values with a week, a level that moves, a working day and a V of the temperature; and the effect of both."""
    rng = np.random.default_rng(seed)
    time, warm = np.arange(steps), 20 + 6 * rng.normal(size=steps)
    work = (rng.random(steps) < 0.7).astype(float)
    effect = 0.1 * work + 0.01 * np.abs(warm - 20)
    level = 0.05 * np.sin(2 * np.pi * time / 7) + np.cumsum(rng.normal(size=steps)) / 500
    return np.exp(5 + level + effect + rng.normal(size=steps) / 200), np.stack([work, warm], 1), effect


def fitted(values, known, season=7):
    means, scales = known.mean(0), known.std(0)
    return fit_known_regression([values], [known], np.array([values.std()]), season, means, scales, RATIOS)


def test_the_curves_are_those_that_made_the_values():
    values, known, effect = demand()
    curves = fitted(values, known)
    assert curves is not None and curves.relative
    found = curves.amounts(torch.from_numpy(known)[None])[0].numpy()
    assert np.abs((found - found.mean()) - (effect - effect.mean())).mean() < 0.01 < effect.std() / 4
    assert abs(curves.weights[0][0] - 0.1) < 0.01


def test_effects_on_values_that_are_not_all_positive_are_in_units_of_their_deviation():
    values, known, effect = demand()
    other = 50 * (np.log(values) - 5)
    curves = fitted(other, known)
    assert curves is not None and not curves.relative
    found = effects_of(curves, torch.from_numpy(known)[None], other.std()).amounts[0].numpy()
    assert np.abs((found - found.mean()) - 50 * (effect - effect.mean())).mean() < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_columns_without_an_effect_have_no_regression(seed):
    rng = np.random.default_rng(seed)
    values, _, _ = demand(seed=seed)
    known = np.stack([rng.normal(size=300), np.cumsum(rng.normal(size=300))], 1)  # a trend that both happen to have
    assert fitted(np.exp(5 + np.cumsum(rng.normal(size=300)) / 50), known) is None
    assert fitted(values[:8], known[:8]) is None


def test_effects_do_not_depend_on_units():
    values, known, _ = demand()
    curves, other = fitted(values, known), fitted(values * 2.0**9, known * [1, 1e6] + [3, 1e9])
    assert curves is not None and other is not None and fitted(values * 2.0**9, known) == curves
    pairs = zip((curves, other), (known, known * [1, 1e6] + [3, 1e9]), strict=True)
    one, two = (each.amounts(torch.from_numpy(columns)[None]) for each, columns in pairs)
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_a_missing_covariate_has_a_mean_effect_and_a_far_one_a_bounded_one():
    values, known, _ = demand()
    curves = fitted(values, known)
    assert curves is not None
    amounts = curves.amounts(torch.tensor([[[torch.nan, torch.nan], [1.0, 1e30], [1.0, -1e30]]], dtype=torch.float64))
    assert amounts[0, 0] == 0 and curves.limits[0] <= amounts.min() and amounts.max() <= curves.limits[1]


def test_what_is_taken_off_is_added_again():
    values = torch.rand(2, 5, dtype=torch.float64) + 1
    for effects in (Effects(torch.randn(2, 5), True), Effects(torch.randn(2, 5), False)):
        ahead = effects.removed(values)[:, None, -3:, None]
        torch.testing.assert_close(effects.added(ahead)[:, 0, :, 0], values[:, -3:])
    assert Effects().removed(values) is values


def model_of(relative, **options):
    fields = {
        "relative": relative, "knots": [[0.5], [20.0, 25.0]], "weights": [[0.1], [-0.01, 0.03]], "centres": [0.0, 0.0],
        "limits": [-2.0, 2.0],
    }  # fmt: skip
    torch.manual_seed(0)
    config = GatedRNNForecastConfig(
        cell="mingru", hidden_size=4, embedding_size=4, horizon=3, context=20, seasons=[7], known_size=2,
        covariate_means=[0.5, 20.0], covariate_deviations=[0.5, 6.0], known_regression=fields, **options,
    )  # fmt: skip
    return GatedRNNForForecasting(config).eval()


@pytest.mark.parametrize("relative", [True, False])
def test_without_the_network_another_future_moves_the_forecast_by_its_effect(relative):
    model, values, known, _ = model_of(relative, shrinkage=1.0), *demand(23)
    batch = {"past_values": torch.from_numpy(values[None, :20]), "deviation": torch.tensor([3.0])}
    now = torch.from_numpy(known)[None]
    hot = now.clone()
    hot[:, 20:, 1] = 42.0
    change = effect_of_change(model, now, hot)
    quantiles = [model.predict(**batch, known_covariates=future)[0] for future in (now, hot)]
    expected = quantiles[0] * change.exp()[:, None] if relative else quantiles[0] + 3 * change[:, None]
    torch.testing.assert_close(quantiles[1], expected)
    assert (quantiles[1] > quantiles[0]).all()


def effect_of_change(model, now, later):
    amounts = [model.config.curves.amounts(known)[0, 20:] for known in (now, later)]
    return amounts[1] - amounts[0]


@pytest.mark.parametrize("relative", [True, False])
def test_a_stream_forecasts_as_its_window(relative):
    model, values, known, _ = model_of(relative), *demand(30)
    model.head.quantiles.weight.data.normal_()
    past, covariates, unit = torch.from_numpy(values[None]), torch.from_numpy(known[None]), torch.tensor([2.0])
    effects = model.effects_of(covariates[:, :27], unit)
    scale = model.scale_of(effects.removed(past[:, :27]), unit)
    whole = model(past[:, :27], known_covariates=covariates, deviation=unit, scale=scale).quantiles
    state = model.start(past[:, :20], covariates[:, :20], deviation=unit, scale=scale)
    model.update(state, past[:, 20:27], covariates[:, 20:27])
    torch.testing.assert_close(model.forecast(state, covariates[:, 27:]), whole, rtol=1e-4, atol=1e-4)


def test_a_regression_that_does_not_fit_the_covariates_is_refused():
    fields = {"relative": True, "knots": [[0.5]], "weights": [[0.1]], "centres": [0.0], "limits": [-1.0, 1.0]}
    for wrong, known_size, message in (
        (fields, 2, "each of 2 known covariates"),
        (fields | {"weights": [[0.1, 0.2]]}, 1, "a weight for each knot"),
        ({"relative": True}, 1, "each of 1 known covariates"),
    ):
        with pytest.raises(Exception, match=message):
            GatedRNNForecastConfig(known_size=known_size, known_regression=wrong)
