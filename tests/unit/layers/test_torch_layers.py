"""LSTM and GRU are `torch.nn`'s own: parameters, numbers, gradients, dropout, packing."""

import copy
from itertools import product

import layer_laws
import pytest
import torch
from covering import over
from layer_laws import FEATURES, HIDDEN, TORCH, assert_same, layer_of, projection, run, series, states_of, upstream
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.registry import CELLS

# torch's own remark on proj_size in float32, once per process.
BOTH = (False, True)


def projects(name, proj_size):
    return name == "lstm" or not proj_size


@over(
    projects, name=tuple(TORCH), proj_size=(0, 2), num_layers=(1, 2), bidirectional=BOTH, bias=BOTH, batch_first=BOTH,
)  # fmt: skip
def test_a_state_dict_of_torch_gives_torchs_numbers_and_gradients_and_is_saved_again(
    name, proj_size, num_layers, bidirectional, bias, batch_first
):
    chosen = {"num_layers": num_layers, "bidirectional": bidirectional, "bias": bias, "batch_first": batch_first}
    chosen |= projection(name, proj_size)
    torch.manual_seed(3)
    drawn = TORCH[name](FEATURES, HIDDEN, **chosen).state_dict()
    torch.manual_seed(3)
    same = CELLS[name].layer(FEATURES, HIDDEN, **chosen).state_dict()
    assert list(same) == list(drawn), "the same parameters in the same order, and from the same seed"
    assert all(torch.equal(same[key], drawn[key]) for key in drawn)
    for dtype, batched, with_hx in product((torch.float32, torch.float64), BOTH, BOTH):
        theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
        ours = CELLS[name].layer(FEATURES, HIDDEN, dtype=dtype, **chosen)
        ours.load_state_dict(theirs.state_dict())
        back = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
        back.load_state_dict(ours.state_dict())
        assert repr(ours) == repr(theirs) and {p.dtype for p in ours.parameters()} == {dtype}
        x, states = series(dtype=dtype), states_of(ours, dtype=dtype)
        if not batched:
            x, states = x[0], tuple(s[:, 0] for s in states)
        elif not batch_first:
            x = x.transpose(0, 1)
        if not with_hx:
            states = tuple(torch.zeros_like(s) for s in states)
        grads = upstream(ours, x, states)
        expected = run(theirs, x, states, grads)
        native = copy.deepcopy(ours)
        native.backend = "native" if "native" in ours.backends else "auto"
        for layer in (ours, back, native):
            assert_same(run(layer, x, states, grads), expected, dtype)
        if not with_hx:
            alone = layer_laws.results(*ours(x))
            assert_same(alone, {name: expected[name] for name in alone}, dtype)


@pytest.mark.parametrize("name", TORCH)
def test_the_same_seed_drops_the_same_outputs(name):
    chosen = {"num_layers": 3, "dropout": 0.5, "bidirectional": True}
    theirs, ours = TORCH[name](FEATURES, HIDDEN, **chosen), CELLS[name].layer(FEATURES, HIDDEN, **chosen)
    ours.load_state_dict(theirs.state_dict())
    x, found = series(dtype=torch.float32), []
    for layer in (theirs, ours, ours):
        torch.manual_seed(5)
        found.append(layer(x)[0])
        layer.eval()  # the third run drops nothing
    assert_equal_within(found[1], found[0], torch.float32, "output")
    assert not torch.equal(found[1], found[2])
    assert_equal_within(found[2], theirs(x)[0], torch.float32, "output without dropout")


@over(projects, name=tuple(TORCH), proj_size=(0, 2), bidirectional=BOTH)
def test_a_mask_equals_torchs_packed_sequence(name, proj_size, bidirectional):
    chosen = {"num_layers": 2, "bidirectional": bidirectional} | projection(name, proj_size)
    ours = layer_of(name, **chosen)
    theirs = TORCH[name](FEATURES, HIDDEN, batch_first=True, dtype=torch.float64, **chosen)
    theirs.load_state_dict(ours.state_dict())
    x, lengths = series(), torch.tensor([2, 7, 1])
    steps = x.shape[1]
    mask = torch.arange(steps) < lengths[:, None]

    def packed(x, hx):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, last = theirs(rows, hx)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=steps)[0], last

    states = states_of(ours)
    grads = upstream(ours, x, states)
    assert_same(run(ours, x, states, grads, mask=mask), run(theirs, x, states, grads, packed))


def test_a_layer_shows_the_options_of_its_cell():
    assert repr(CELLS["mgu"].layer(3, 4, keep=True)) == "MGU(3, 4, keep=True)"
