"""A model that forecasts: what a new one says, what its units are, and that a stream is the same model."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch import Tensor

from gatedrnn.models import GatedRNNForecastConfig, GatedRNNForForecasting
from gatedrnn.models.forecast_units import naive_forecast

SIZES = {"known_size": 2, "past_size": 1, "static_size": 1}
CELLS = ("mingru", "lstm", "lstm,mingru", "gru-input-gated")


def model_of(cell: str = "mingru", *, drawn: bool = True, **given: Any) -> GatedRNNForForecasting:
    """A model with seasons of 4 and 7 steps; its head drawn too, which begins as nothing."""
    torch.manual_seed(0)
    covariates = sum(given.get(name, 0) for name in SIZES)
    fields = {
        "horizon": 5, "seasons": [4, 7], "context": 40, "hidden_size": 8, "embedding_size": 6, "flagged_channels": [0],
        "num_hidden_layers": len(cell.split(",")),
    }  # fmt: skip
    fields |= given
    size = 1 + len(fields["seasons"]) + covariates
    scale = {"channel_means": [0.0] * size, "channel_deviations": [1.0 + n for n in range(size)]}
    model = GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, input_size=size, **scale, **fields)).eval()
    if drawn:
        for parameter in model.head.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def windows(steps: int = 40, horizon: int = 5) -> dict[str, Tensor]:
    """Series that begin late, and that have holes."""
    torch.manual_seed(1)
    values = torch.randn(3, steps, dtype=torch.float64) * 100 + 50
    values[0, :6] = values[1, 20] = float("nan")
    values[2, 5:9] = values[2, -1] = float("nan")
    return {
        "past_values": values, "known_covariates": torch.randn(3, steps + horizon, 2), "static": torch.randn(3, 1),
        "past_covariates": torch.randn(3, steps, 1),
    }  # fmt: skip


def cut(batch: Mapping[str, Tensor], low: int | None, high: int | None) -> dict[str, Tensor]:
    """Some steps of a batch; what a series has for all times stays."""
    return {name: value if name == "static" else value[:, low:high] for name, value in batch.items()}


@pytest.mark.parametrize("linear_size", [0, 9])
def test_a_new_model_is_the_seasonal_naive_forecast(linear_size: int) -> None:
    model = model_of(drawn=False, seasons=[4], linear_size=linear_size)
    season = torch.tensor([[5.0, 7.0, 6.0, 9.0]])
    found = model.predict(season.repeat(1, 3))[..., 1]
    torch.testing.assert_close(found, torch.tensor([[5.0, 7.0, 6.0, 9.0, 5.0]], dtype=torch.float64))


def test_a_missing_value_is_that_of_a_season_before() -> None:
    values = torch.tensor([[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, float("nan"), 2.0, float("nan"), 4.0]])
    found = model_of(drawn=False, seasons=[4]).predict(values)[0, :4, 1]
    torch.testing.assert_close(found, torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    masked = model_of(drawn=False, seasons=[4]).predict(values.nan_to_num(99.0), past_mask=~values.isnan())
    torch.testing.assert_close(masked[0, :4, 1], found)


@pytest.mark.parametrize("cell", CELLS)
def test_quantiles_never_cross_and_follow_the_units_of_the_series(cell: str) -> None:
    model, batch = model_of(cell, **SIZES, quantiles=[0.05, 0.25, 0.5, 0.9]), windows()
    found = model.predict(**batch)
    assert found.shape == (3, 5, 4) and (found.diff(dim=2) > 0).all()
    other = model.predict(**{**batch, "past_values": 1000 * batch["past_values"] - 7e5})
    torch.testing.assert_close(other, 1000 * found - 7e5, rtol=1e-4, atol=1.0)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("linear_size", [0, 9])
@torch.no_grad()
def test_a_stream_is_the_window_with_the_same_mean_and_deviation(cell: str, linear_size: int) -> None:
    model, batch, last = model_of(cell, **SIZES, linear_size=linear_size), windows(), 13
    labels = torch.randn(3, 5)
    whole = model(**batch, labels=labels, origins=last + 1).quantiles
    context = cut({**batch, "known_covariates": batch["known_covariates"][:, :40]}, 0, 40 - last)
    state = model.start(**context)
    for step in range(last):
        place = 40 - last + step
        found = model.forecast(state, batch["known_covariates"][:, place : place + 5])
        assert_equal_within(found, whole[:, step], torch.float32, "forecast")
        new = cut({**batch, "known_covariates": batch["known_covariates"][:, :40]}, place, place + 1)
        model.update(state, new["past_values"], new["known_covariates"], new["past_covariates"])
    found = model.forecast(state, batch["known_covariates"][:, 40:])
    assert_equal_within(found, whole[:, -1], torch.float32, "forecast")
    at_once = model.start(**context)
    new = cut({**batch, "known_covariates": batch["known_covariates"][:, :40]}, 40 - last, 40)
    model.update(at_once, new["past_values"], new["known_covariates"], new["past_covariates"])
    found = model.forecast(at_once, batch["known_covariates"][:, 40:])
    assert_equal_within(found, whole[:, -1], torch.float32, "forecast")
    fresh = model.forecast(model.renormalise(at_once), batch["known_covariates"][:, 40:])
    assert_equal_within(fresh, model.predict(**batch), torch.float32, "forecast")


@over(cell=CELLS, seasons=([4], [4, 7], [1]), linear_size=(0, 9), every=(1, 6))
@torch.no_grad()
def test_a_stream_of_values_alone_takes_one_at_a_time(
    cell: str, seasons: list[int], linear_size: int, every: int
) -> None:
    """Which is a shorter way through the model; a missing value takes the longer one."""
    model = model_of(cell, context=27, seasons=seasons, linear_size=linear_size)
    values, last = 50 + 10 * torch.randn(3, 40, dtype=torch.float64), 13
    values[1, 30] = values[0, 35] = torch.nan
    whole = model(values, labels=torch.randn(3, 5), origins=last + 1).quantiles
    state = model.start(values[:, : 40 - last])
    for step in range(last):
        if step % every == 0:
            assert_equal_within(model.forecast(state), whole[:, step], torch.float32, f"forecast after {step}")
        model.update(state, values[:, 40 - last + step : 40 - last + step + 1])
    assert_equal_within(model.forecast(state), whole[:, -1], torch.float32, "last forecast")
    fresh = model.forecast(model.renormalise(state))
    assert_equal_within(fresh, model.predict(values[:, -27:]), torch.float32, "forecast in units of the last context")


@pytest.mark.parametrize("dtype, within", [(torch.float64, 1e-5), (torch.bfloat16, 0.05)])
@torch.no_grad()
def test_a_model_of_another_dtype_forecasts_too(dtype: torch.dtype, within: float) -> None:
    model, batch = model_of(**SIZES, linear_size=9), windows()
    expected = model.predict(**batch)
    model = model.to(dtype)
    found = model.predict(**batch)
    assert found.dtype == torch.float64 and (found - expected).abs().max() <= within * expected.abs().max()
    alone = model_of(seasons=[4]).to(dtype)
    state = alone.update(alone.start(batch["past_values"][:, :-1]), batch["past_values"][:, -1:])
    assert alone.forecast(state).isfinite().all()


def test_a_stream_does_not_grow() -> None:
    model = model_of(seasons=[4], context=20)
    state = model.start(torch.randn(1, 20))

    def size() -> int:
        tensors = [state.hidden, state.before, *state.seasons, *state.cache.tensors().values()]
        recent = [value for value in state.recent.values() if value is not None]
        return sum(tensor.numel() for tensor in [*tensors, *recent])

    before = size()
    model.update(state, torch.randn(1, 300))
    assert size() == before
    for _ in range(30):
        model.update(state, torch.randn(1, 1))
    assert size() == before


def test_the_loss_counts_known_labels_alone_and_no_later_value_reaches_an_earlier_forecast() -> None:
    model, batch = model_of(**SIZES), windows()
    labels = torch.randn(3, 5) * 100
    some = labels.clone()
    some[:, 3:] = float("nan")
    whole, part = model(**batch, labels=labels).loss, model(**batch, labels=some).loss
    assert whole.isfinite() and part.isfinite() and whole != part
    assert model(**batch, labels=torch.full((3, 5), float("nan"))).loss == 0
    several = model(**batch, origins=10).quantiles
    batch["past_values"][:, -5:] += 1000
    batch["past_covariates"][:, -5:] += 1000
    later = model(**batch, origins=10).quantiles
    torch.testing.assert_close(later[:, :5], several[:, :5])
    assert (later[:, 5:] != several[:, 5:]).any()


def test_frozen_weights_and_non_contiguous_values_are_read_alike() -> None:
    model, batch = model_of(**SIZES), windows()
    expected = model.predict(**batch)
    turned = {name: value.transpose(0, 1).contiguous().transpose(0, 1) for name, value in batch.items()}
    assert not turned["past_values"].is_contiguous()
    torch.testing.assert_close(model.predict(**turned), expected)
    model.model.requires_grad_(False)
    model(**turned, labels=torch.randn(3, 5)).loss.backward()
    assert all(parameter.grad is None for parameter in model.model.parameters())
    assert all(parameter.grad is not None for parameter in model.head.parameters())


def test_a_naive_forecast_fills_what_is_missing_with_a_season_before() -> None:
    nan = float("nan")
    found = naive_forecast(torch.tensor([[1.0, 2.0, 3.0, nan], [nan, 4.0, nan, 6.0]]), 2, 3)
    torch.testing.assert_close(found, torch.tensor([[3.0, 2.0, 3.0], [5.0, 6.0, 5.0]], dtype=torch.float64))
    last = naive_forecast(torch.tensor([[1.0, 2.0, nan]]), 1, 2)
    torch.testing.assert_close(last, torch.tensor([[2.0, 2.0]], dtype=torch.float64))


def test_constant_and_empty_series_are_answered() -> None:
    model = model_of(seasons=[4])
    constant, zero, empty = model.predict(torch.tensor([[1e6], [0.0], [float("nan")]]).expand(3, 12))
    assert constant.isfinite().all() and zero.isfinite().all() and empty.isnan().all()
    assert (zero.diff(dim=1) > 0).all(), "the deviation of zeros is 1"
    loss = model(torch.full((1, 12), float("nan")), labels=torch.ones(1, 5)).loss
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "given", [{"known_covariates": torch.randn(3, 40, 2)}, {"static": None}, {"past_covariates": None}]
)
def test_covariates_of_another_shape_are_refused(given: dict[str, Tensor | None]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be"):
        model_of(**SIZES)(**{**windows(), **given})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"quantiles": [0.1, 0.9]}, "hold 0.5"),
        ({"quantiles": [0.5, 0.1]}, "must rise"),
        ({"quantiles": [0.5, 1.0]}, "between 0 and 1"),
        ({"bidirectional": True}, "forwards alone"),
        ({"seasons": [0]}, "seasons must be at least 1"),
        ({"horizon": 0}, "horizon must be at least 1"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said):
        model_of(**fields)


def test_a_backbone_reads_windows_and_has_no_stream() -> None:
    model = model_of("transformer", num_hidden_layers=1, hidden_size=8, embedding_size=8)
    assert model.predict(torch.randn(2, 20)).shape == (2, 5, 3)
    with pytest.raises(ValueError, match="no state of constant size"):
        model.start(torch.randn(2, 20))


def test_a_model_on_disk_is_the_model(tmp_path: Any) -> None:
    from transformers import AutoModelForTimeSeriesPrediction

    model = model_of(**SIZES)
    model.save_pretrained(tmp_path)
    again = AutoModelForTimeSeriesPrediction.from_pretrained(tmp_path).eval()
    assert type(again) is GatedRNNForForecasting and torch.equal(again.predict(**windows()), model.predict(**windows()))
