"""Parts beside and before the cells of a series classifier: random convolutions by scipy, batch normalisation by torch,
and that padding and other rows change nothing."""

import numpy as np
import pytest
import torch
from covering import over
from refusals import refused
from scipy.ndimage import correlate1d
from torch import nn

from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification, GatedRNNForTokenClassification
from gatedrnn.models.convolution import StepNorm
from gatedrnn.models.random_convolutions import _EDGE, KERNELS, RandomConvolutions, dilations_for, log_mean_probability
from gatedrnn.models.structure import count_parameters

STEPS, CHANNELS = 17, 3
PARTS = {"random_convolutions": 2000, "longest_steps": STEPS, "convolution_size": 6}


def model_of(**fields):
    torch.manual_seed(0)
    scale = {"channel_means": [1.0, -2.0, 0.5], "channel_deviations": [1.0, 2.0, 0.1], "flagged_channels": [1]}
    config = {
        "cell": "mingru", "input_size": CHANNELS, "hidden_size": 5, "embedding_size": 4, "num_labels": 3,
        "bidirectional": True, "pooling": "mean", **scale, **PARTS,
    }  # fmt: skip
    model = GatedRNNForSequenceClassification(GatedRNNConfig(**config | fields)).eval()
    if model.linear_path is not None:
        path, random = model.linear_path, torch.Generator().manual_seed(0)
        path.convolutions.fit([path.scaled(row[None], None) for row in series(8)], random)
        nn.init.normal_(path.weight, std=0.05)
    for module in model.modules():
        if isinstance(module, StepNorm):
            nn.init.normal_(module.running_mean, std=0.2)
    return model


def series(rows=4):
    values = torch.randn(rows, STEPS, CHANNELS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values[0, 3, 1] = torch.nan
    return values


def test_dilations_span_the_longest_series():
    assert dilations_for(5) == dilations_for(9) == [1] and dilations_for(26) == [1, 2, 3]
    for steps in (60, 500, 4000):
        assert (steps - 1) / 8 - 1 < dilations_for(steps)[-1] <= (steps - 1) / 8


def by_hand(convolutions, values):
    """Shares of time above thresholds, of one series (time, channels) and of its differences, in float64."""
    views = values, np.diff(values, axis=0, prepend=values[:1])
    found = []
    for place, (dilation, thresholds) in enumerate(zip(convolutions.dilations, convolutions.thresholds, strict=True)):
        view = views[place >= len(dilations_for(STEPS))]
        weights = np.full((len(KERNELS), 1 + 8 * dilation), 0.0)
        weights[:, ::dilation] = -1
        for kernel, taps in enumerate(KERNELS):
            weights[kernel, dilation * np.array(taps)] = 2
        read = view @ convolutions.channels[place].double().numpy().T
        convolved = np.stack([correlate1d(one, w, mode="constant") for one, w in zip(read.T, weights, strict=True)])
        edge = _EDGE * np.sqrt(view.var(0).mean())
        for threshold in thresholds.double().numpy().T:
            found.append(np.clip((convolved - threshold[:, None]) / edge + 0.5, 0, 1).mean(1))
    return np.concatenate(found)


@pytest.mark.parametrize("channels", [1, CHANNELS])
def test_features_are_shares_of_time_above_thresholds(channels):
    values = torch.nan_to_num(series(6)).float()[..., :channels]
    convolutions = RandomConvolutions(channels, 3000, STEPS)
    convolutions.fit(list(values.split(1)), torch.Generator().manual_seed(0))
    found = convolutions(values, None).double().numpy()
    assert found.shape == (6, convolutions.size) and abs(convolutions.size - 3000) <= 84 * 4
    expected = np.stack([by_hand(convolutions, row) for row in values.double().numpy()])
    np.testing.assert_allclose(found, expected, atol=2e-4)  # float32 over an edge of a thousandth
    assert 0.3 < found.mean() < 0.7 and (found.std(0) > 0.01).mean() > 0.9
    chosen = convolutions.channels.sum(2)
    assert chosen.min() == 1 and (chosen.max() > 1) == (channels > 1)


def test_the_two_answers_weigh_alike():
    one, other = torch.randn(4, 3), torch.randn(4, 3)
    expected = (one.softmax(1) + other.softmax(1)) / 2
    torch.testing.assert_close(log_mean_probability(one, other).softmax(1), expected)
    model, values = model_of(), series()
    whole = model(input_values=values).logits.softmax(1)
    path = model.linear_path(values, None).softmax(1)
    model.linear_path = None
    network = model(input_values=values).logits.softmax(1)
    torch.testing.assert_close(whole, (network + path) / 2)
    assert (network - path).abs().max() > 0.05


@torch.no_grad()
@over(pooling=("mean", "max"), parts=({}, {"convolution_size": 0}, {"random_convolutions": 0}), left=(0, 4))
def test_padding_and_other_rows_change_nothing(pooling, parts, left):
    model, values = model_of(pooling=pooling, **parts), series()
    alone = torch.cat([model(input_values=row[None]).logits for row in values])
    padded = torch.full((4, STEPS + 7, CHANNELS), 1e3, dtype=torch.float64)
    padded[:, left : left + STEPS] = values
    mask = torch.zeros(4, STEPS + 7, dtype=torch.long)
    mask[:, left : left + STEPS] = 1
    torch.testing.assert_close(model(input_values=padded, attention_mask=mask).logits, alone, rtol=1e-4, atol=1e-5)
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    expected = model(input_values=values).logits
    padded[mask == 0] = 7.0
    found = model(input_values=padded, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_series_that_does_not_vary_has_a_gradient():
    model = model_of(random_convolutions=0).train()
    model(input_values=torch.full((2, STEPS, CHANNELS), 3.0)).logits.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_normalisation_is_torchs_over_real_steps():
    torch.manual_seed(0)
    own, theirs, x = StepNorm(5), nn.BatchNorm1d(5), torch.randn(3, 5, 11) * 3 + 1
    real = torch.ones(3, 1, 11)
    real[1, 0, 4:] = 0
    packed = torch.cat([x[0], x[1, :, :4], x[2]], dim=1)[None]
    for _ in range(3):
        expected = theirs(packed)
        found = own(x, real)
        torch.testing.assert_close(torch.cat([found[0], found[1, :, :4], found[2]], dim=1)[None], expected)
    torch.testing.assert_close(own.running_mean.data, theirs.running_mean)
    count = packed.shape[2]
    biased = 1 + (theirs.running_var - 0.9**3) * (count - 1) / count - (1 - 0.9**3)  # torch's are unbiased
    torch.testing.assert_close(own.running_variance.data, biased, rtol=1e-4, atol=1e-4)


def test_each_part_is_counted():
    counts = count_parameters(model_of())
    assert counts.convolution == 6 * (2 * 4 * 9 + 6 * 5 + 6 * 3) + 3 * 6 + 3 * 4 * 6
    path = model_of().linear_path
    assert counts.linear_path == 3 * path.convolutions.size + 3 + path.convolutions.size + 2 * 84 * CHANNELS
    assert counts.total == sum(parameter.numel() for parameter in model_of().parameters())
    plain = count_parameters(model_of(convolution_size=0, random_convolutions=0))
    assert plain.convolution == plain.linear_path == 0


def test_parts_that_do_not_fit_are_refused():
    refused(Exception, "leave it at 0", model_of, pooling="last")
    refused(Exception, "leave it at 0", model_of, block=True)
    refused(Exception, "longest_steps", model_of, longest_steps=None)
    config = model_of(bidirectional=False).config
    steps = GatedRNNForTokenClassification(config).model
    refused(ValueError, "read steps to come", steps, input_values=series(), use_cache=True)


@pytest.mark.parametrize("how", ["folder", "bfloat16"])
def test_a_folder_has_every_part(how, tmp_path):
    model, values = model_of(), series()
    expected = model(input_values=values).logits
    if how == "bfloat16":
        found = model.bfloat16()(input_values=values).logits.float()
        assert (found.exp() - expected.exp()).abs().max() < 0.1
        return
    model.save_pretrained(tmp_path)
    again = GatedRNNForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(input_values=values).logits, expected, rtol=0, atol=0)


@pytest.mark.parametrize("left", [0, 4])
def test_differences_of_a_single_channel_do_not_reach_into_padding(left):
    values = series(6).nan_to_num()[..., :1].float() + 3
    convolutions = RandomConvolutions(1, 2000, STEPS)
    convolutions.fit(list(values.split(1)), torch.Generator().manual_seed(0))
    padded, mask = torch.full((6, STEPS + 7, 1), 50.0), torch.zeros(6, STEPS + 7, dtype=torch.bool)
    padded[:, left : left + STEPS], mask[:, left : left + STEPS] = values, True
    torch.testing.assert_close(convolutions(padded, mask), convolutions(values, None), rtol=1e-4, atol=1e-4)
