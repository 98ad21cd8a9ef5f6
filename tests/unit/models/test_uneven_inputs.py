"""What a model of uneven series reads: Che et al.'s imputation and times against loops in numpy; padding; refusals."""

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from tolerances import assert_equal_within

from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification
from gatedrnn.models.inputs import DecayedInputs, UnevenInputs

BATCH, STEPS, FEATURES = 3, 8, 4
NAN = float("nan")


def given() -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.randn(BATCH, STEPS, FEATURES, dtype=torch.float64)
    values[torch.rand(BATCH, STEPS, FEATURES) < 0.6] = NAN
    values[0, :, 0] = NAN
    gaps = 3 * torch.rand(BATCH, STEPS, dtype=torch.float64)
    gaps[:, 0] = 0
    return values, gaps


def imputed(values: np.ndarray, gaps: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
    """Che et al. 2018, equations of section 2, a step and a feature at a time, for a mean of 0."""
    x, delta = np.zeros(values.shape), np.zeros(values.shape)
    for row in range(len(values)):
        for feature in range(values.shape[2]):
            last, since = 0.0, 0.0
            for t in range(values.shape[1]):
                since += gaps[row, t]
                delta[row, t, feature] = since
                if np.isnan(values[row, t, feature]):
                    x[row, t, feature] = last * np.exp(-max(0, weight[feature] * since + bias[feature]))
                else:
                    x[row, t, feature] = last = values[row, t, feature]
                    since = 0.0
    return x, delta


def test_values_decay_towards_the_mean_by_the_time_since_they_were_seen() -> None:
    inputs, (values, gaps) = DecayedInputs(FEATURES, with_times=True).double(), given()
    with torch.no_grad():
        inputs.weight.copy_(torch.tensor([0.1, 0.7, -0.3, 2.0]))
        inputs.bias.copy_(torch.tensor([0.0, -0.2, 0.5, 0.1]))
    features, times = inputs(values, ~values.isnan(), gaps)
    weight, bias = inputs.weight.detach().numpy(), inputs.bias.detach().numpy()
    x, delta = imputed(values.numpy(), gaps.numpy(), weight, bias)
    assert_equal_within(features[..., :FEATURES], x, torch.float64, "imputed")
    assert_equal_within(features[..., FEATURES : 2 * FEATURES], (~values.isnan()).double(), torch.float64, "seen")
    assert_equal_within(features[..., 2 * FEATURES :], np.log1p(delta), torch.float64, "times as inputs")
    assert_equal_within(times.since, delta, torch.float64, "times")
    # Until the next: the same in a series that runs the other way, whose gaps shift by one.
    turned = np.concatenate([np.zeros((BATCH, 1)), gaps.numpy()[:, :0:-1]], axis=1)
    _, delta = imputed(values.numpy()[:, ::-1], turned, weight, bias)
    assert_equal_within(times.until, delta[:, ::-1].copy(), torch.float64, "times until the next")


def test_a_new_decay_is_half_the_way_after_seven_gaps_and_its_gradients_are_finite() -> None:
    inputs, (values, gaps) = DecayedInputs(FEATURES, with_times=False), given()
    assert (torch.exp(-7 * inputs.weight) - 0.5).abs().max() < 0.01 and not inputs.bias.any()
    features, _ = inputs(values.float(), ~values.isnan(), gaps.float())
    features.square().sum().backward()
    assert inputs.weight.grad is not None and inputs.weight.grad.isfinite().all() and inputs.weight.grad[1:].any()


def config(cell: str, **further: object) -> GatedRNNConfig:
    return GatedRNNConfig(
        cell=cell, input_size=FEATURES, gap_unit=0.5, hidden_size=6, num_labels=2, pad_token_id=None,
        channel_means=[1.0, 2.0, 3.0, 4.0], channel_deviations=[1.0, 2.0, 1.0, 2.0], **{"embedding_size": 6, **further},
    )  # fmt: skip


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["gru-d", "mingru", "lstm", "transformer", "gru-d,mingru"])
def test_padding_on_either_side_changes_nothing(cell: str, bidirectional: bool) -> None:
    layers = cell.count(",") + 1
    fields = {"num_hidden_layers": layers, "bidirectional": bidirectional, "pooling": "mean"}
    model = GatedRNNForSequenceClassification(config(cell, **fields)).eval()
    values, gaps = (tensor.float() for tensor in given())
    alone = model(input_values=values, gaps=gaps).logits
    pad_values = torch.randn(BATCH, 3, FEATURES)
    for side in ("left", "right") if cell != "transformer" else ("right",):
        parts = [(pad_values, torch.zeros(BATCH, 3), torch.zeros(BATCH, 3)), (values, gaps, torch.ones(BATCH, STEPS))]
        parts = parts if side == "left" else parts[::-1]
        longer, times, mask = (torch.cat(kind, dim=1) for kind in zip(*parts, strict=True))
        padded = model(input_values=longer, gaps=times, attention_mask=mask.long()).logits
        assert_equal_within(padded, alone, torch.float32, f"{cell}, padded {side}")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["gru-d", "mingru", "gru", "signed-mingru"])
def test_every_cell_sees_the_times(cell: str, bidirectional: bool) -> None:
    model = GatedRNNForSequenceClassification(config(cell, bidirectional=bidirectional)).eval()
    values, gaps = (tensor.float() for tensor in given())
    faster = gaps.clone()
    faster[:, 1:] /= 3
    assert (model(input_values=values, gaps=gaps).logits != model(input_values=values, gaps=faster).logits).all()


def test_a_cell_that_learns_what_times_do_reads_one_for_each_feature() -> None:
    (layer,) = (part.layer for part in GatedRNNForSequenceClassification(config("gru-d")).model.parts)
    assert layer.cell.gap_features == FEATURES and layer.weight_gap_l0.shape == (6, FEATURES)
    assert config("gru-d").input_features == 2 * FEATURES and config("mingru").input_features == 3 * FEATURES


def test_values_are_in_units_of_training_and_gaps_in_those_of_a_usual_one() -> None:
    inputs, (values, gaps) = UnevenInputs(config("mingru")), given()
    features, times = inputs(values.float(), None, gaps.float())
    scaled = (values - torch.tensor([1.0, 2.0, 3.0, 4.0])) / torch.tensor([1.0, 2.0, 1.0, 2.0])
    seen = ~values.isnan()
    assert_equal_within(features[..., :FEATURES][seen], scaled[seen].float(), torch.float32, "scaled")
    assert_equal_within(times.gaps, gaps.float() / 0.5, torch.float32, "gaps")


def test_without_an_embedding_the_first_layer_reads_the_inputs_as_they_are() -> None:
    model = GatedRNNForSequenceClassification(config("gru-d", embedding_size=0)).eval()
    layer, (values, gaps) = model.model.parts[0].layer, (tensor.float() for tensor in given())
    assert layer.input_size == 2 * FEATURES and not list(model.model.embeddings.parameters())
    features, times = model.model.uneven(values, None, gaps)
    output, _ = layer(features, gaps=times.since)
    assert_equal_within(model.model(input_values=values, gaps=gaps).last_hidden_state, output, torch.float32, "states")
    for refused in ({"vocab_size": 5}, {"input_size": 3, "block": True}, {"input_size": 3, "cell": "transformer"}):
        with pytest.raises(StrictDataclassError, match="embedding_size 0 is for numbers"):
            GatedRNNConfig(embedding_size=0, **refused)


def test_what_cannot_be_read_is_refused() -> None:
    values, gaps = (tensor.float() for tensor in given())
    model = GatedRNNForSequenceClassification(config("gru-d"))
    with pytest.raises(ValueError, match="pass gaps, the time since the step before"):
        model(input_values=values)
    with pytest.raises(ValueError, match="it reads whole series"):
        model.model(input_values=values, gaps=gaps, use_cache=True)
    even = GatedRNNForSequenceClassification(GatedRNNConfig(input_size=FEATURES, pad_token_id=None))
    with pytest.raises(ValueError, match="leave out gaps"):
        even(input_values=values.nan_to_num(), gaps=gaps)
    with pytest.raises(StrictDataclassError, match="gap_unit must be above 0"):
        GatedRNNConfig(vocab_size=5, gap_unit=1.0)
