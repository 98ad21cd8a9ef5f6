"""Parameters: names, counts, copies, initial values."""

import copy
import pickle

import pytest
import torch
from layer_laws import CELLS, FEATURES, HIDDEN, every_cell, every_scan_cell, layer_of, series
from torch import nn

from gatedrnn.layers import GRU, LAYERS, LSTM, MinGRU, MinLSTM

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@every_cell
def test_copies_keep_the_numbers_and_go_their_own_way(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    x = series()
    expected = layer(x)[0]
    copies = [copy.deepcopy(layer)]
    if name != "own":  # a partial of a test's class is nothing that a user pickles
        copies.append(pickle.loads(pickle.dumps(layer)))
    for twin in copies:
        assert torch.equal(twin(x)[0], expected)
        nn.init.zeros_(twin.weight_ih_l0)
        assert not torch.equal(twin(x)[0], expected)
    assert torch.equal(layer(x)[0], expected)


@pytest.mark.parametrize(
    "layer, count",
    [
        (GRU(50, 100), 45_600),
        (LSTM(10, 32), 5_504 + 4 * 32),  # one bias a gate, and torch's second one
        (MinLSTM(10, 32, bias=False, proj_size=10), 1_280),
        (MinGRU(10, 32, bias=False, proj_size=10), 960),
    ],
)
def test_parameters_count_as_published(layer, count):
    assert sum(p.numel() for p in layer.parameters()) == count


@every_scan_cell
def test_a_scan_layer_names_its_parameters_as_torch_does(name):
    layer = CELLS[name](FEATURES, HIDDEN, num_layers=2, bidirectional=True, proj_size=2)
    theirs = nn.LSTM(FEATURES, HIDDEN, num_layers=2, bidirectional=True, proj_size=2).state_dict()
    assert list(layer.state_dict()) == [k for k in theirs if "_hh_" not in k]
    gates = len(layer.cell.projections)
    for key, value in layer.state_dict().items():
        rows = HIDDEN * gates if "_ih_" in key else 2
        assert value.shape == (rows, *theirs[key].shape[1:])


@pytest.mark.parametrize("name", ["minlstm", "mingru"])
def test_time_scales_at_zero_input_are_spread_from_2_to_64_steps(name):
    layer = LAYERS[name](FEATURES, 1000)
    decay, _ = layer.cell.coefficients(*layer.bias_ih_l0.chunk(len(layer.cell.projections)))
    scales = 1 / (1 - decay.detach())
    assert scales.min() >= 2 - 1e-4 and scales.max() <= 64 + 1e-3
    assert scales.min() < 4 and scales.max() > 32
    assert (layer.bias_ih_l0[:1000] == 0).all()  # the candidate's


@every_scan_cell
def test_weights_start_within_one_over_the_root_of_their_inputs(name):
    layer = CELLS[name](100, 400, num_layers=2, proj_size=25)
    for weight in (layer.weight_ih_l0, layer.weight_ih_l1, layer.weight_hr_l0):
        bound = weight.shape[1] ** -0.5
        assert 0.95 * bound < weight.detach().abs().max() <= bound
        assert weight.detach().mean().abs() < 0.1 * bound
