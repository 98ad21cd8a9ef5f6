"""Smoothers of a series: against numpy, a step at a time; and however the steps are cut."""

import numpy as np
import pytest
import torch
from tolerances import assert_equal_within

from gatedrnn.models.season_means import _FORGETTING
from gatedrnn.models.smoothing import (
    _DAMPING,
    _HALF_SLOPE,
    _LEVEL_WEIGHTS,
    _LINE_WEIGHTS,
    ERROR_STEPS,
    MEMORY,
    SmoothingPast,
    features_of,
    filled,
    smooth,
)  # fmt: skip

STEPS, HORIZON = 90, 6


def series(season):
    torch.manual_seed(0)
    found = (
        torch.randn(3, STEPS) + 0.02 * torch.arange(STEPS) + 2 * torch.sin(2 * torch.pi * torch.arange(STEPS) / season)
    )
    found[0, :7] = torch.nan
    return found


def read(values, periods, cuts, kept=9):
    past, found = SmoothingPast.empty(values, periods, kept), []
    for low, high in zip([0, *cuts], [*cuts, values.shape[1]], strict=True):
        one, past = smooth(values[:, low:high], periods, HORIZON, past, high - low, kept)
        found.append(one)
    return {name: torch.cat([getattr(one, name) for one in found], 1) for name in vars(found[0])}, past.tensors()


@pytest.mark.parametrize("periods", [[1], [4], [5, 12], [2], [3]], ids=str)
def test_the_whole_is_any_cut_into_pieces(periods):
    values = series(periods[-1])
    values[1, 20:23] = values[2, 50] = torch.nan
    whole, after = read(values, periods, [])
    assert whole["features"].shape[2] == features_of(periods, HORIZON) and whole["features"].isfinite().all()
    for cuts in ([30, 31, 32, 60], list(range(1, STEPS))):
        found, past = read(values, periods, cuts)
        for name, own in whole.items():
            assert_equal_within(found[name], own, torch.float32, name)
        assert {name: one.shape for name, one in past.items()} == {name: one.shape for name, one in after.items()}


def weighted(values, weight):
    ages = np.arange(len(values))[::-1]
    return np.average(values, weights=weight**ages if weight else (ages == 0) * 1.0)


def line(values, weight):
    """Level and slope at the last value, by weighted least squares."""
    if len(values) < 2:
        return values[-1], 0.0
    ages = np.arange(len(values))[::-1]
    root = np.sqrt(float(weight) ** ages)
    level, slope = np.linalg.lstsq(root[:, None] * np.stack([np.ones(len(values)), -ages], 1), root * values)[0]
    return level, slope


def forecasts(values):
    """(HORIZON, smoothers) after values without a season."""
    values, steps = values[-MEMORY:], np.arange(1, HORIZON + 1)
    trend = line(values, 1.0)[1] / 2
    found = [np.full(HORIZON, weighted(values, 1 - weight)) for weight in _LEVEL_WEIGHTS]
    found += [weighted(values, 1 - weight) + trend * steps for weight in _HALF_SLOPE]
    found.append(values[-1] + (values[-1] - values[0]) / max(len(values) - 1, 1) * steps)
    damped = np.cumsum(_DAMPING**steps)
    found += [level + slope * damped for level, slope in (line(values, weight) for weight in _LINE_WEIGHTS)]
    return np.stack(found, 1)


def test_smoothers_are_what_their_names_say():
    values = series(1)
    whole, _ = read(values, [1], [])
    for row, first in ((0, 7), (1, 0)):
        for step in (first, first + 1, first + 20, STEPS - 1):
            own = values[row, first : step + 1].double().numpy()
            ahead = whole["levels"][row, step] + whole["slopes"][row, step] * torch.tensor(
                [[k] * 12 + [sum(_DAMPING**j for j in range(1, k + 1))] * 5 for k in range(1, HORIZON + 1)]
            )
            assert_equal_within(ahead, forecasts(own), torch.float32, f"row {row}, step {step}")
            if len(own) > 1:
                changes, ages = np.abs(np.diff(own)), np.arange(len(own) - 1)[::-1]
                expected = np.average(changes, weights=0.97**ages)
                assert_equal_within(whole["change"][row, step], expected, torch.float32, "unit")


def test_errors_are_those_of_the_last_dozen_forecasts_a_step_ahead():
    values, step = series(1), 40
    whole, _ = read(values, [1], [])
    own = values[1].double().numpy()
    said = [np.append(forecasts(own[:now])[0], own[now - 1]) for now in range(step - ERROR_STEPS + 1, step + 1)]
    mean = np.abs(np.array(said) - own[step - ERROR_STEPS + 1 : step + 1, None]).mean(0)
    assert_equal_within(whole["errors"][1, step], np.log(mean / mean.mean() + 0.1), torch.float32, "errors")


def season_ahead(values, season, step, ahead):
    """The addition of a season `ahead` steps after `step`, from the values up to it."""
    half, over = season // 2, {}
    for middle in range(half, step - half + 1):
        window = values[middle - half : middle + half + 1]
        weights = np.full(len(window), 1 / season)
        if season % 2 == 0:
            weights[[0, -1]] = 0.5 / season
        over.setdefault(middle % season, []).append(values[middle] - weights @ window)
    if len(over) < season:
        return 0.0
    weights = {phase: _FORGETTING ** np.arange(len(own))[::-1] for phase, own in over.items()}
    counts = sum(own.sum() for own in weights.values())
    means = {phase: np.average(own, weights=weights[phase]) for phase, own in over.items()}
    within = sum(weights[phase] @ (np.array(own) - means[phase]) ** 2 for phase, own in over.items())
    centred = {phase: own - np.mean(list(means.values())) for phase, own in means.items()}
    error = within / max(counts - season, 1) / max(counts / season, 1)
    shrunk = 1 - max(season - 3, 1) * error / sum(own**2 for own in centred.values())
    shrunk = min(max(shrunk, 0), 1) if counts > season else 0.5
    return centred[(step + ahead) % season] * shrunk


@pytest.mark.parametrize("season", [2, 4, 5, 12])
def test_a_season_is_a_mean_by_phase_that_error_shrinks(season):
    values = series(season)
    whole, _ = read(values, [season], [])
    own = values[1].double().numpy()
    for step in (season, 2 * season + 1, 40, STEPS - 1):
        expected = [season_ahead(own, season, step, ahead) for ahead in range(1, HORIZON + 1)]
        assert_equal_within(whole["seasons"][1, step], expected, torch.float32, f"after {step}")
    repeated = whole["repeated"][1, STEPS - 1, 0]
    assert repeated.tolist() == [values[1, STEPS - season + k % season].item() for k in range(HORIZON)]


def test_a_missing_value_is_that_of_a_season_before_or_the_last():
    nan = float("nan")
    values = torch.tensor([[nan, 1.0, 2.0, 3.0, nan, nan, nan], [1.0, nan, 3.0, nan, 5.0, 6.0, nan]])
    found = filled(values, torch.full((2, 3), nan))
    assert (
        found[0, 0].isnan()
        and found[0, 1:].tolist() == [1, 2, 3, 1, 2, 3]
        and found[1].tolist() == [1, 1, 3, 1, 5, 6, 1]
    )
