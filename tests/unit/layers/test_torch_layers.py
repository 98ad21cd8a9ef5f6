"""LSTM and GRU are `torch.nn`'s own: parameters, numbers, gradients, dropout, packing."""

from itertools import product

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    layer_of,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.registry import CELLS

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def options(**values):
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


SHAPES = options(num_layers=[1, 2], bias=[True, False], batch_first=[True, False], bidirectional=[True, False])
AS_TORCH = [("gru", o) for o in SHAPES] + [("lstm", o | {"proj_size": p}) for o in SHAPES for p in (0, 2)]


@pytest.mark.parametrize("name, chosen", AS_TORCH, ids=lambda x: x if isinstance(x, str) else str([*x.values()]))
def test_a_state_dict_of_torch_gives_torchs_numbers_and_gradients_and_is_saved_again(name, chosen):
    for dtype, batched, with_hx in product((torch.float32, torch.float64), (True, False), (True, False)):
        theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
        ours = CELLS[name].layer(FEATURES, HIDDEN, dtype=dtype, **chosen)
        ours.load_state_dict(theirs.state_dict())
        back = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
        back.load_state_dict(ours.state_dict())
        x = series(BATCH, STEPS, FEATURES, dtype=dtype) if batched else series(STEPS, FEATURES, dtype=dtype)
        if batched and not chosen["batch_first"]:
            x = x.transpose(0, 1)
        states = states_of(ours, dtype=dtype) if batched else tuple(s[:, 0] for s in states_of(ours, 1, dtype))
        if not with_hx:
            states = tuple(torch.zeros_like(s) for s in states)
        grads = upstream(ours, x, states)
        expected = run(theirs, x, states, grads)
        assert_same(run(ours, x, states, grads), expected, dtype)
        assert_same(run(back, x, states, grads), expected, dtype)
        if not with_hx:
            output, last = ours(x)
            assert_equal_within(output, expected["output"], dtype, "output without hx")
            for i, state in enumerate(as_tuple(last)):
                assert_equal_within(state, expected[f"state {i}"], dtype, "state without hx")


@pytest.mark.parametrize("name, chosen", AS_TORCH, ids=lambda x: x if isinstance(x, str) else str([*x.values()]))
def test_the_same_seed_draws_the_same_parameters_in_the_same_order(name, chosen):
    torch.manual_seed(3)
    theirs = TORCH[name](FEATURES, HIDDEN, **chosen).state_dict()
    torch.manual_seed(3)
    ours = CELLS[name].layer(FEATURES, HIDDEN, **chosen).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[k], theirs[k]) for k in theirs)


@pytest.mark.parametrize("name", TORCH)
def test_the_same_seed_drops_the_same_outputs(name):
    chosen = {"num_layers": 3, "dropout": 0.5, "bidirectional": True}
    theirs, ours = TORCH[name](FEATURES, HIDDEN, **chosen), CELLS[name].layer(FEATURES, HIDDEN, **chosen)
    ours.load_state_dict(theirs.state_dict())
    x = series(dtype=torch.float32)
    results = []
    for layer in (theirs, ours, ours):
        torch.manual_seed(5)
        results.append(layer(x)[0])
        layer.eval()  # the third run drops nothing
    assert_equal_within(results[1], results[0], torch.float32, "output")
    assert not torch.equal(results[1], results[2])
    assert_equal_within(results[2], theirs(x)[0], torch.float32, "output without dropout")


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_a_mask_equals_torchs_packed_sequence(name, bidirectional, proj_size):
    chosen = {"num_layers": 2, "bidirectional": bidirectional} | ({"proj_size": proj_size} if name == "lstm" else {})
    ours = layer_of(name, **chosen)
    theirs = TORCH[name](FEATURES, HIDDEN, batch_first=True, dtype=torch.float64, **chosen)
    theirs.load_state_dict(ours.state_dict())
    x, lengths = series(), torch.tensor([2, 7, 1])
    mask = torch.arange(STEPS) < lengths[:, None]

    def packed(x, hx):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, last = theirs(rows, hx)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=STEPS)[0], last

    states = states_of(ours)
    grads = upstream(ours, x, states)
    assert_same(run(ours, x, states, grads, mask=mask), run(theirs, x, states, grads, packed))
