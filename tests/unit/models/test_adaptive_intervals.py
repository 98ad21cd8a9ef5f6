"""Intervals of a stream that follow its errors: what they hold in the long run, and what moves them."""

import pytest
import torch
from covering import over
from refusals import refused
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNCache, GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.models.adaptive_intervals import _MIN_LOG_WIDTH
from gatedrnn.models.forecasting import stream_of

CONTEXT, STEPS = 60, 500
SIZES = {"known_size": 2, "past_size": 1, "static_size": 1}


def model_of(cell="mingru", **given):
    """An untrained model: its smoothers are enough."""
    torch.manual_seed(0)
    fields = {"horizon": 1, "context": CONTEXT, "hidden_size": 4, "embedding_size": 4, **given}
    fields["num_hidden_layers"] = len(cell.split(","))
    return GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, **fields)).eval()


def coverage(model, values, adapt):
    """(batch,): the share of the values after the context that lie in the intervals that a stream said just before."""
    state, held = model.start(values[:, :CONTEXT], adapt=adapt), 0
    for value in values[:, CONTEXT:].split(1, dim=1):
        quantiles = model.forecast(state)[:, 0]
        held = held + ((value >= quantiles[:, :1]) & (value <= quantiles[:, -1:])).double()
        model.update(state, value)
    return held[:, 0] / (values.shape[1] - CONTEXT)


@pytest.mark.parametrize(
    ("width", "adapt", "least", "most"),
    [
        (1.0, 0.05, 0.76, 0.84), (0.5, 0.1, 0.76, 0.84), (2.0, 0.1, 0.76, 0.84),
        (0.5, None, 0.3, 0.6), (2.0, None, 0.9, 1.0),
    ],
)  # fmt: skip
def test_intervals_of_any_width_hold_80_percent_of_calm_streams_and_of_those_whose_deviation_triples(
    width, adapt, least, most
):
    torch.manual_seed(1)
    values = torch.randn(6, CONTEXT + STEPS, dtype=torch.float64)
    values[3:, CONTEXT:] *= 3
    found = coverage(model_of(bands=[[width] * 3]), values, adapt)
    assert (least <= found).all() and (found <= most).all(), found


def covariates(model, low, high):
    torch.manual_seed(2)
    known, past = torch.randn(3, 60, 2), torch.randn(3, 60, 1)
    names = {"known_covariates": known[:, low:high], "past_covariates": past[:, low:high]}
    return names if model.config.known_size else {}


@over(
    cell=("mingru", "lstm", "lstm,mingru"), sizes=({}, SIZES), linear_size=(0, 5), seasons=(None, [4]), members=(1, 2)
)
@torch.no_grad()
def test_two_halves_of_a_stream_kept_as_tensors_between_them_are_the_whole_series_by_series(
    cell, sizes, linear_size, seasons, members
):
    levels = [0.05, 0.25, 0.5, 0.9]
    fields = {"linear_size": linear_size, "horizon": 3, "quantiles": levels, "seasons": seasons, "members": members}
    model = model_of(cell, **sizes, **fields)
    for network in model.networks:
        for parameter in network.head.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    values, static = torch.randn(3, 50, dtype=torch.float64), {"static": torch.randn(3, 1)} if sizes else {}
    values[1, 35] = torch.nan

    def begun():
        return model.start(values[:, :20], **covariates(model, 0, 20), **static, adapt=0.2)

    whole, state = begun(), begun()
    model.update(whole, values[:, 20:], **covariates(model, 20, 50))
    for step in range(20, 33):
        model.update(state, values[:, step : step + 1], **covariates(model, step, step + 1))
    rows = torch.tensor([2, 0, 1])
    cache = GatedRNNCache.of_tensors(
        model.config, {name: one[rows] if one.dim() else one for name, one in state.cache.tensors().items()}
    )
    recent = {"static": static["static"][rows]} if static else {}
    again = stream_of(cache, {name: one[rows] for name, one in state.tensors().items()}, recent)
    further = {name: one[rows] for name, one in covariates(model, 33, 50).items()}
    model.update(again, values[rows, 33:], **further)
    ahead = next(iter(covariates(model, 50, 53).values()), None)
    expected = model.forecast(whole, ahead)[rows]
    found = model.forecast(again, None if ahead is None else ahead[rows])
    assert_equal_within(found, expected, torch.float32, "forecast")
    assert (whole.intervals.widths.abs() > 0.1).any() and (found.diff(dim=2) > 0).all()
    assert model.renormalise(whole).intervals is whole.intervals


def test_a_missing_value_moves_nothing_and_others_move_each_quantile_by_its_share():
    model = model_of(quantiles=[0.1, 0.5, 0.75])
    state, widths = model.start(torch.randn(2, CONTEXT), adapt=0.2), []
    for value in (torch.nan, 100.0, -100.0, torch.nan):
        model.update(state, torch.tensor([[value], [torch.nan]]))
        assert not state.intervals.widths[1].any()
        widths.append(state.intervals.widths[0, [0, 2]])
    torch.testing.assert_close(
        torch.stack(widths).diff(dim=0) / 0.2, torch.tensor([[-0.1, 0.75], [0.9, -0.25], [0, 0]])
    )
    assert not widths[0].any()


def test_a_series_that_stands_still_narrows_its_intervals_to_a_bound():
    model = model_of()
    state = model.start(torch.full((1, CONTEXT), 3.0), adapt=5.0)
    model.update(state, torch.full((1, 20), 3.0))
    assert state.intervals.widths[0, [0, 2]].tolist() == pytest.approx([_MIN_LOG_WIDTH] * 2)


@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan"), float("inf")])
def test_a_rate_that_moves_nothing_or_no_way_is_refused(rate):
    refused(ValueError, "adapt must be above 0", model_of().start, torch.randn(1, 9), adapt=rate)
