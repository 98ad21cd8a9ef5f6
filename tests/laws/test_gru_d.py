"""GRU-D: Che et al.'s equations in numpy with the times of each feature, and what other implementations get wrong.

That all execution modes agree, with gaps of steps and of features, is part of `verify`.
"""

import numpy as np
import pytest
import torch
from tolerances import assert_equal_within

from gatedrnn import GRUD, GRUDCell
from gatedrnn.verify.oracle import gru_d

BATCH, STEPS, FEATURES, HIDDEN, TIMES = 2, 6, 4, 5, 3


def layer_of(**arguments):
    layer = GRUD(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64, gap_features=TIMES, **arguments)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    return layer


def given():
    x = torch.randn(BATCH, STEPS, FEATURES, dtype=torch.float64)
    gaps = 3 * torch.rand(BATCH, STEPS, TIMES, dtype=torch.float64)
    gaps[0, 2] = 0
    return x, torch.randn(1, BATCH, HIDDEN, dtype=torch.float64), gaps


def weights_of(layer):
    return {name.removesuffix("_l0"): weight.detach().numpy() for name, weight in layer.named_parameters()}


@pytest.mark.parametrize("bias", [True, False])
def test_values_are_those_of_the_paper_with_a_time_for_each_feature(bias):
    layer, (x, h, gaps) = layer_of(bias=bias), given()
    output, last = layer(x, h, gaps=gaps)
    expected, (state,) = gru_d(x.numpy(), weights_of(layer), (h[0].numpy(),), gap_features=TIMES, gaps=gaps.numpy())
    assert_equal_within(output, expected, torch.float64, "output")
    assert_equal_within(last[0], state, torch.float64, "state")


def test_a_gap_of_0_leaves_the_state_and_without_gaps_each_is_1():
    layer, (x, h, _) = layer_of(), given()
    with torch.no_grad():
        layer.bias_gap_l0.fill_(-1.0)
    nothing = torch.zeros(BATCH, STEPS, dtype=torch.float64)
    plain = {**weights_of(layer), "weight_gap": np.zeros((HIDDEN, TIMES)), "bias_gap": np.zeros(HIDDEN)}
    expected, _ = gru_d(x.numpy(), plain, (h[0].numpy(),), gap_features=TIMES)
    assert_equal_within(layer(x, h, gaps=nothing)[0], expected, torch.float64, "gap of 0")
    assert_equal_within(layer(x, h)[0], layer(x, h, gaps=nothing + 1)[0], torch.float64, "no gaps")


def test_what_cannot_be_read_is_refused():
    x, h, gaps = given()
    with pytest.raises(ValueError, match="gap_features must be at least 1, got 0"):
        GRUD(FEATURES, HIDDEN, gap_features=0)
    with pytest.raises(ValueError, match=r"first axes \(2, 6\), or \(2, 6, 3\) with a time for each feature"):
        layer_of()(x, h, gaps=gaps[..., :2])
    with pytest.raises(ValueError, match=r"or \(2, 6, 6\) with a time for each feature"):
        layer_of(bidirectional=True)(x, gaps=gaps)
    with pytest.raises(ValueError, match="finite and 0 or more"):
        layer_of()(x, h, gaps=-gaps)


def test_frozen_weights_unbatched_and_not_contiguous_times():
    layer, (x, _, gaps) = layer_of().requires_grad_(False), given()
    turned = gaps.transpose(0, 2).contiguous().transpose(0, 2)
    output, last = layer(x, gaps=turned)
    assert not output.requires_grad
    for row in range(BATCH):
        alone, state = layer(x[row], gaps=gaps[row])
        assert_equal_within(alone, output[row], torch.float64, "unbatched")
        assert_equal_within(state, last[:, row], torch.float64, "unbatched state")


def test_a_single_step_module_takes_a_gap_of_1():
    layer, (x, h, _) = layer_of(), given()
    cell = GRUDCell(FEATURES, HIDDEN, dtype=torch.float64, gap_features=TIMES)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in layer.state_dict().items()})
    assert_equal_within(cell(x[:, 0], h[0]), layer.step(x[:, 0], h)[1][0], torch.float64, "state")
