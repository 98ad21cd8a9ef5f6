"""Models of series: forecasts, their units and streams; uneven times, by Che et al.'s equations in numpy; refusals."""

import copy
import io
import json
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
import torch
from covering import over
from huggingface_hub.errors import StrictDataclassError
from refusals import refused
from tolerances import assert_equal_within
from transformers import AutoModelForTimeSeriesPrediction

from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
)
from gatedrnn.models.forecast_units import Scale, naive_forecast
from gatedrnn.models.forecasting import SHARPNESS
from gatedrnn.models.inputs import DecayedInputs, UnevenInputs
from gatedrnn.models.smoothing import SmoothingPast, smooth
from gatedrnn.models.structure import count_parameters, describe_structure

SIZES = {"known_size": 2, "past_size": 1, "static_size": 1}
CELLS = ("mingru", "lstm", "lstm,mingru", "gru-input-gated")


def model_of(cell="mingru", *, drawn=True, **given):
    """A model with seasons of 4 and 7 steps; its head drawn too, which begins as nothing."""
    torch.manual_seed(0)
    covariates = sum(given.get(name, 0) for name in SIZES)
    fields = {
        "horizon": 5, "seasons": [4, 7], "context": 40, "hidden_size": 8, "embedding_size": 6,
        "num_hidden_layers": len(cell.split(",")), "covariate_deviations": [1.0 + n for n in range(covariates)],
    }  # fmt: skip
    model = GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, **fields | given)).eval()
    if drawn:
        for network in model.networks:
            for parameter in network.head.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
    return model


def windows(steps=40, horizon=5):
    """Series that begin late, and that have holes."""
    torch.manual_seed(1)
    values = torch.randn(3, steps, dtype=torch.float64) * 100 + 50
    values[0, :6] = values[1, 20] = float("nan")
    values[2, 5:9] = values[2, -1] = float("nan")
    return {
        "past_values": values, "known_covariates": torch.randn(3, steps + horizon, 2), "static": torch.randn(3, 1),
        "past_covariates": torch.randn(3, steps, 1),
    }  # fmt: skip


@pytest.mark.parametrize("linear_size", [0, 9])
def test_a_new_model_weighs_its_smoothers_by_their_errors(linear_size):
    """The errors are those of values and, where all are positive, of logarithms."""
    model = model_of(drawn=False, linear_size=linear_size)
    for values in (windows()["past_values"], windows()["past_values"].abs() + 20):
        scale = Scale.of(values, logs=True)
        assert scale.logged.all() == (values.nan_to_num(1.0) > 0).all()
        past = SmoothingPast.empty(scale.normalise(values), [4, 7], 0)
        smoothed, _ = smooth(scale.normalise(values), [4, 7], 5, past, 1)
        steps = torch.arange(1, 6)
        powers = smoothed.errors.exp().unsqueeze(2) ** (-SHARPNESS / steps.sqrt()).unsqueeze(1)
        said = (smoothed.ahead() * powers / powers.sum(-1, keepdim=True)).sum(-1)
        found, expected = model.predict(values), scale.denormalise(said)[:, 0]
        assert_equal_within(found[..., 1], expected, torch.float32, "median")
        unit = smoothed.change[:, -1:] * 1.3133 * steps.sqrt()
        upper = scale.denormalise(said + unit[:, None])[:, 0]
        torch.testing.assert_close(found[..., 2], upper, rtol=1e-4, atol=1e-3)
    nan = float("nan")
    found = naive_forecast(torch.tensor([[1.0, 2.0, 3.0, nan], [nan, 4.0, nan, 6.0]]), 2, 3)
    torch.testing.assert_close(found, torch.tensor([[3.0, 2.0, 3.0], [4.0, 6.0, 4.0]], dtype=torch.float64))
    assert naive_forecast(torch.tensor([[1.0, 2.0, nan]]), 1, 2).tolist() == [[2, 2]]


@pytest.mark.parametrize("cell", CELLS)
def test_quantiles_never_cross_and_follow_the_units_of_the_series(cell):
    model, batch = model_of(cell, **SIZES, quantiles=[0.05, 0.25, 0.5, 0.9]), windows()
    found = model.predict(**batch)
    assert found.shape == (3, 5, 4) and (found.diff(dim=2) > 0).all()
    other = model.predict(**{**batch, "past_values": 1000 * batch["past_values"] - 7e5})
    torch.testing.assert_close(other, 1000 * found - 7e5, rtol=1e-4, atol=1.0)
    positive = batch["past_values"].abs() + 20
    found, other = (model.predict(**{**batch, "past_values": times * positive}) for times in (1, 1000))
    torch.testing.assert_close(other, 1000 * found, rtol=1e-4, atol=1e-3)


@over(cell=CELLS, linear_size=(0, 9), last=(13, 33), members=(1, 3))
@torch.no_grad()
def test_a_stream_is_the_window_in_the_same_units(cell, linear_size, last, members):
    """One that begins with fewer steps than a season too."""
    model = model_of(cell, **SIZES, linear_size=linear_size, seasons=[4, 12], members=members)
    batch = windows()
    whole, known = model(**batch, labels=torch.randn(3, 5), origins=last + 1).quantiles, batch["known_covariates"]

    def steps(low, high):
        names = ("past_values", "known_covariates", "past_covariates")
        return {name: batch[name][:, low:high] for name in names}

    scale = Scale.of(batch["past_values"], logs=True)
    state, at_once = (model.start(**steps(0, 40 - last), static=batch["static"], scale=scale) for _ in range(2))
    for step, place in enumerate(range(40 - last, 40)):
        found = model.forecast(state, known[:, place : place + 5])
        assert_equal_within(found, whole[:, step], torch.float32, "forecast")
        model.update(state, *steps(place, place + 1).values())
    model.update(at_once, *steps(40 - last, 40).values())
    for one in (state, at_once):
        assert_equal_within(model.forecast(one, known[:, 40:]), whole[:, -1], torch.float32, "last forecast")
    fresh = model.forecast(model.renormalise(at_once), known[:, 40:])
    assert_equal_within(fresh, model.predict(**batch), torch.float32, "forecast")


@over(cell=CELLS, seasons=([4], [4, 12], [1], None), linear_size=(0, 9), last=(13, 38))
@torch.no_grad()
def test_a_stream_of_positive_values_is_the_window_of_its_units(cell, seasons, linear_size, last):
    model = model_of(cell, context=27, seasons=seasons, linear_size=linear_size)
    values = 50 + 10 * torch.randn(3, 40, dtype=torch.float64)
    values[1, 30] = values[0, 35] = torch.nan
    whole = model(values, origins=last + 1).quantiles
    state = model.start(values[:, : 40 - last], scale=Scale.of(values, logs=True))
    for step in range(last):
        assert_equal_within(model.forecast(state), whole[:, step], torch.float32, f"forecast after {step}")
        model.update(state, values[:, 40 - last + step : 40 - last + step + 1])
    assert_equal_within(model.forecast(state), whole[:, -1], torch.float32, "last forecast")
    fresh = model.forecast(model.renormalise(state))
    assert_equal_within(fresh, model.predict(values[:, -27:]), torch.float32, "forecast in units of the last context")
    below = model.forecast(model.update(state, torch.full((3, 1), -5.0)))
    assert below.isfinite().all() and (below > 0).all(), "a value that has no logarithm is the lowest that has one"


def alone(model, member):
    """A member of a forecaster as a forecaster of its own."""
    weights = model.networks[member].state_dict().items()
    found = GatedRNNForForecasting(GatedRNNForecastConfig(**model.config.to_dict() | {"members": 1})).eval()
    found.load_state_dict({name: value for name, value in weights if not name.startswith("others.")})
    return found


def test_members_forecast_the_mean_of_their_quantiles_in_units_of_the_window_and_learn_each_for_itself():
    model, labels = model_of("lstm,mingru", members=3, bands=[[0.1, 1.0, 0.2]] * 5), torch.randn(3, 5) * 100
    parts = [alone(model, member) for member in range(3)]
    for values in (windows()["past_values"], windows()["past_values"].abs() + 20):
        scale, found = model.scale_of(values), model.predict(values)
        each = [scale.normalise(one.predict(values)) for one in parts]
        torch.testing.assert_close(scale.normalise(found), sum(each) / 3, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(each[0], each[1]) and (found.diff(dim=2) > 0).all()
    training = model.train()(values, labels=labels).loss
    evaluated = model.eval()(values, labels=labels).loss
    losses = [one.train()(values, labels=labels).loss for one in parts]
    assert_equal_within(training, sum(losses) / 3, torch.float32, "loss in training")
    assert (evaluated - training).abs() > 1e-3, "that of the forecast of all"
    training.backward()
    for one, loss, network in zip(parts, losses, model.networks, strict=True):
        loss.backward()
        learned = dict(network.named_parameters())
        for name, parameter in one.named_parameters():
            assert_equal_within(learned[name].grad * 3, parameter.grad, torch.float32, name)
    counts, plain = count_parameters(model), count_parameters(parts[0])
    assert astuple(counts) == tuple(3 * count for count in astuple(plain))
    assert describe_structure(model).state_size == 3 * describe_structure(parts[0]).state_size


@pytest.mark.parametrize("dtype, within", [(torch.float64, 1e-5), (torch.bfloat16, 0.05)])
@torch.no_grad()
def test_a_model_of_another_dtype_forecasts_too(dtype, within):
    model, batch = model_of(**SIZES, linear_size=9), windows()
    expected = model.predict(**batch)
    model = model.to(dtype)
    found = model.predict(**batch)
    assert found.dtype == torch.float64 and (found - expected).abs().max() <= within * expected.abs().max()
    alone = model_of(seasons=[4]).to(dtype)
    state = alone.update(alone.start(batch["past_values"][:, :-1]), batch["past_values"][:, -1:])
    assert alone.forecast(state).isfinite().all()


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("cell", CELLS)
def test_a_stream_goes_on_in_and_out_of_inference_mode_and_after_it_was_copied_or_saved(cell):
    model, values = model_of(cell, context=20, members=2), torch.randn(2, 50)
    state, whole = model.start(values[:, :20]), model.start(values[:, :20])
    for step in range(20, 50):
        with torch.inference_mode(step % 2 == 0):
            model.update(state, values[:, step : step + 1])
        state = (lambda same: same, copy.deepcopy, saved)[step % 3](state)
    expected = model.forecast(model.update(whole, values[:, 20:]))
    assert_equal_within(model.forecast(state), expected, torch.float32, "forecast")


def test_a_stream_does_not_grow():
    model = model_of(seasons=[4], context=20, members=2)
    state, sizes = model.start(torch.randn(1, 20)), set()
    for steps in (0, 300, *[1] * 30):
        if steps:
            model.update(state, torch.randn(1, steps))
        tensors = [
            *state.hidden,
            *state.past.tensors().values(),
            *state.cache.tensors().values(),
            *state.recent.values(),
        ]
        sizes.add(sum(tensor.numel() for tensor in tensors if tensor is not None))
    assert len(sizes) == 1


@over(cell=CELLS, linear_size=(0, 9))
def test_forecasts_of_counts_are_ordered_and_not_below_0_in_windows_and_streams_and_have_the_same_gradient(
    cell, linear_size
):
    values = torch.poisson(torch.full((3, 40), 0.4, dtype=torch.float64))
    free, counting = (model_of(cell, linear_size=linear_size, non_negative=bound) for bound in (False, True))
    assert (free.predict(values) < 0).any()
    whole = counting(values, labels=values[:, :5], origins=21)
    assert (whole.quantiles >= 0).all() and (whole.quantiles.diff(dim=3) >= 0).all()
    unbounded = free(values, labels=values[:, :5], origins=21)
    assert torch.equal(whole.quantiles, unbounded.quantiles.clamp(min=0))
    for given in (whole, unbounded):
        given.loss.backward()
    for one, other in zip(counting.parameters(), free.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    state = counting.start(values[:, :20], scale=Scale.of(values, logs=True))
    for step in range(20):
        assert_equal_within(counting.forecast(state), whole.quantiles[:, step], torch.float32, f"forecast after {step}")
        counting.update(state, values[:, 20 + step : 21 + step])


def test_the_loss_counts_known_labels_alone_and_no_later_value_reaches_an_earlier_forecast():
    model, batch = model_of(**SIZES), windows()
    labels, losses = torch.randn(3, 5) * 100, []
    for known in (5, 3, 0):
        labels[:, known:] = torch.nan
        losses.append(model(**batch, labels=labels).loss)
    assert losses[0].isfinite() and losses[1].isfinite() and losses[0] != losses[1] and losses[2] == 0
    several = model(**batch, origins=10).quantiles
    batch["past_values"][:, -5:] += 1000
    batch["past_covariates"][:, -5:] += 1000
    later = model(**batch, origins=10).quantiles
    assert_equal_within(later[:, :5], several[:, :5], torch.float32, "forecasts before")
    assert (later[:, 5:] != several[:, 5:]).any()


def test_frozen_and_saved_weights_and_non_contiguous_values_are_read_alike(tmp_path):
    model, batch = model_of(**SIZES), windows()
    expected = model.predict(**batch)
    turned = {name: value.transpose(0, 1).contiguous().transpose(0, 1) for name, value in batch.items()}
    assert not turned["past_values"].is_contiguous()
    torch.testing.assert_close(model.predict(**turned), expected)
    model.save_pretrained(tmp_path)
    again = AutoModelForTimeSeriesPrediction.from_pretrained(tmp_path).eval()
    assert type(again) is GatedRNNForForecasting and torch.equal(again.predict(**batch), expected)
    saved = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in saved.items() if k != "non_negative"}))
    assert torch.equal(GatedRNNForForecasting.from_pretrained(tmp_path).predict(**batch), expected), "of older versions"
    model.model.requires_grad_(False)
    model(**turned, labels=torch.randn(3, 5)).loss.backward()
    assert all(parameter.grad is None for parameter in model.model.parameters())
    assert all(parameter.grad is not None for parameter in model.head.parameters())


def test_constant_and_empty_series_are_answered():
    model = model_of(seasons=[4])
    constant, zero, empty = model.predict(torch.tensor([[1e6], [0.0], [float("nan")]]).expand(3, 12))
    assert constant.isfinite().all() and zero.isfinite().all() and empty.isnan().all()
    assert (zero.diff(dim=1) > 0).all(), "the deviation of zeros is 1"
    loss = model(torch.full((1, 12), float("nan")), labels=torch.ones(1, 5)).loss
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_covariates_of_another_shape_a_configuration_that_cannot_be_and_streams_of_a_backbone_are_refused():
    for name, value in {"known_covariates": torch.randn(3, 40, 2), "static": None, "past_covariates": None}.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            model_of(**SIZES)(**{**windows(), name: value})
    for fields, said in (
        ({"quantiles": [0.1, 0.9]}, "hold 0.5"), ({"quantiles": [0.5, 0.1]}, "must rise"),
        ({"quantiles": [0.5, 1.0]}, "between 0 and 1"), ({"bidirectional": True}, "forwards alone"),
        ({"seasons": [0]}, "seasons must be at least 1"), ({"seasons": [7, 4]}, "the shortest first"),
        ({"horizon": 0}, "horizon must be at least 1"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=said):
            model_of(**fields)
    model = model_of("transformer", num_hidden_layers=1, hidden_size=8, embedding_size=8)
    assert model.predict(torch.randn(2, 20)).shape == (2, 5, 3)
    refused(ValueError, "no state of constant size", model.start, torch.randn(2, 20))


BATCH, STEPS, FEATURES = 3, 8, 4
NAN = float("nan")


def given():
    values = torch.randn(BATCH, STEPS, FEATURES, dtype=torch.float64)
    values[torch.rand(BATCH, STEPS, FEATURES) < 0.6] = NAN
    values[0, :, 0] = NAN
    gaps = 3 * torch.rand(BATCH, STEPS, dtype=torch.float64)
    gaps[:, 0] = 0
    return values, gaps


def imputed(values, gaps, weight, bias):
    """Che et al. 2018, equations of section 2, a step and a feature at a time, for a mean of 0."""
    x, delta = np.zeros(values.shape), np.zeros(values.shape)
    for row, feature in product(range(len(values)), range(values.shape[2])):
        last, since = 0.0, 0.0
        for t in range(values.shape[1]):
            delta[row, t, feature] = since = since + gaps[row, t]
            if np.isnan(values[row, t, feature]):
                x[row, t, feature] = last * np.exp(-max(0, weight[feature] * since + bias[feature]))
            else:
                x[row, t, feature], since = (last := values[row, t, feature]), 0.0
    return x, delta


def test_values_decay_towards_the_mean_by_the_time_since_they_were_seen():
    inputs, (values, gaps) = DecayedInputs(FEATURES, with_times=True).double(), given()
    with torch.no_grad():
        inputs.weight.copy_(torch.tensor([0.1, 0.7, -0.3, 2.0]))
        inputs.bias.copy_(torch.tensor([0.0, -0.2, 0.5, 0.1]))
    features, times = inputs(values, ~values.isnan(), gaps)
    weight, bias = inputs.weight.detach().numpy(), inputs.bias.detach().numpy()
    x, delta = imputed(values.numpy(), gaps.numpy(), weight, bias)
    expected = np.concatenate([x, ~np.isnan(values.numpy()), np.log1p(delta)], 2)
    assert_equal_within(features, expected, torch.float64, "imputed, seen, and times as inputs")
    assert_equal_within(times.since, delta, torch.float64, "times")
    # Until the next: the same in a series that runs the other way, whose gaps shift by one.
    turned = np.concatenate([np.zeros((BATCH, 1)), gaps.numpy()[:, :0:-1]], axis=1)
    _, delta = imputed(values.numpy()[:, ::-1], turned, weight, bias)
    assert_equal_within(times.until, delta[:, ::-1].copy(), torch.float64, "times until the next")
    new = DecayedInputs(FEATURES, with_times=False)
    assert (torch.exp(-7 * new.weight) - 0.5).abs().max() < 0.01 and not new.bias.any(), "half the way after seven gaps"
    features, _ = new(values.float(), ~values.isnan(), gaps.float())
    features.square().sum().backward()
    assert new.weight.grad.isfinite().all() and new.weight.grad[1:].any()


def config(cell, **further):
    return GatedRNNConfig(
        cell=cell, input_size=FEATURES, gap_unit=0.5, hidden_size=6, num_labels=2, pad_token_id=None,
        channel_means=[1.0, 2.0, 3.0, 4.0], channel_deviations=[1.0, 2.0, 1.0, 2.0], **{"embedding_size": 6, **further},
    )  # fmt: skip


@over(cell=("gru-d", "mingru", "signed-mingru", "gru", "transformer", "gru-d,mingru"), bidirectional=(False, True))
def test_padding_on_either_side_changes_nothing_and_other_times_change_all(cell, bidirectional):
    fields = {"num_hidden_layers": cell.count(",") + 1, "bidirectional": bidirectional, "pooling": "mean"}
    model = GatedRNNForSequenceClassification(config(cell, **fields)).eval()
    values, gaps = (tensor.float() for tensor in given())
    alone = model(input_values=values, gaps=gaps).logits
    parts = [(values, gaps, torch.ones(BATCH, STEPS)), (torch.randn(BATCH, 3, FEATURES), *torch.zeros(2, BATCH, 3))]
    for order in (parts, parts[::-1]) if cell != "transformer" else (parts,):
        longer, times, mask = (torch.cat(kind, dim=1) for kind in zip(*order, strict=True))
        padded = model(input_values=longer, gaps=times, attention_mask=mask.long()).logits
        assert_equal_within(padded, alone, torch.float32, f"{cell}, padded")
    gaps[:, 1:] /= 3
    assert (model(input_values=values, gaps=gaps).logits != alone).all(), "a cell sees the times"


def test_values_are_in_units_of_training_and_gaps_in_those_of_a_usual_one():
    inputs, (values, gaps) = UnevenInputs(config("mingru")), given()
    features, times = inputs(values.float(), None, gaps.float())
    scaled = (values - torch.tensor([1.0, 2.0, 3.0, 4.0])) / torch.tensor([1.0, 2.0, 1.0, 2.0])
    seen = ~values.isnan()
    assert_equal_within(features[..., :FEATURES][seen], scaled[seen].float(), torch.float32, "scaled")
    assert_equal_within(times.gaps, gaps.float() / 0.5, torch.float32, "gaps")


def test_without_an_embedding_the_first_layer_reads_the_inputs_as_they_are_and_a_time_for_each_feature():
    model = GatedRNNForSequenceClassification(config("gru-d", embedding_size=0)).eval()
    layer, (values, gaps) = model.model.parts[0].layer, (tensor.float() for tensor in given())
    assert layer.cell.gap_features == FEATURES and layer.weight_gap_l0.shape == (6, FEATURES)
    assert config("gru-d").input_features == 2 * FEATURES and config("mingru").input_features == 3 * FEATURES
    assert layer.input_size == 2 * FEATURES and not list(model.model.embeddings.parameters())
    features, times = model.model.uneven(values, None, gaps)
    output, _ = layer(features, gaps=times.since)
    assert_equal_within(model.model(input_values=values, gaps=gaps).last_hidden_state, output, torch.float32, "states")


def test_what_cannot_be_read_is_refused():
    for fields in ({"vocab_size": 5}, {"input_size": 3, "block": True}, {"input_size": 3, "cell": "transformer"}):
        refused(StrictDataclassError, "embedding_size 0 is for numbers", GatedRNNConfig, embedding_size=0, **fields)
    values, gaps = (tensor.float() for tensor in given())
    model = GatedRNNForSequenceClassification(config("gru-d"))
    refused(ValueError, "pass gaps, the time since the step before", model, input_values=values)
    refused(ValueError, "it reads whole series", model.model, input_values=values, gaps=gaps, use_cache=True)
    even = GatedRNNForSequenceClassification(GatedRNNConfig(input_size=FEATURES, pad_token_id=None))
    refused(ValueError, "leave out gaps", even, input_values=values.nan_to_num(), gaps=gaps)
    refused(StrictDataclassError, "gap_unit must be above 0", GatedRNNConfig, vocab_size=5, gap_unit=1.0)
