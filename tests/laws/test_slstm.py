"""sLSTM: what its four states mean, in blocks and for gates of any size."""

import numpy as np
import pytest
import torch
from layer_laws import assert_equal_within, layer_of, series
from refusals import refused

from gatedrnn import SLSTM
from gatedrnn.inspect.trace import trace
from gatedrnn.layers import Wrapper

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 5, 4


def after_some_steps(layer):
    """A state as it occurs."""
    return layer(series(BATCH, STEPS, FEATURES))[1]


def test_h_does_not_depend_on_what_c_and_n_are_divided_by():
    layer = layer_of("slstm", FEATURES, HIDDEN)
    h, c, n, m = after_some_steps(layer)
    x = series(BATCH, STEPS, FEATURES)
    # n must stay above 1, below which it is read as 1.
    both = layer(x, (h, c, n, m)), layer(x, (h, 3 * c, 3 * n, m - np.log(3)))
    assert_equal_within(both[1][0], both[0][0], torch.float64, "output")
    expected, found = (torch.stack((c, n)) * m.exp() for _, (_, c, n, m) in both)
    assert_equal_within(found, expected, torch.float64, "states in their own units", gradient=True)


def test_the_decay_is_the_forget_gate_of_c_times_exp_m():
    layer = layer_of("slstm", FEATURES, HIDDEN)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
    x, (h, c, n, m) = series(BATCH, 1, FEATURES), after_some_steps(layer)
    _, (_, one, _, scale) = layer(x, (h, c, n, m))
    _, (_, two, _, _) = layer(x, (h, c + 1, n, m))
    kept = (two - one) * scale.exp() / m.exp()
    (traced,) = trace(layer, x)
    assert traced.gates.keys() == {"forget", "output"}
    assert_equal_within(kept[0], traced.decay[:, 0], torch.float64, "decay", gradient=True)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("bias", [-1000.0, 1000.0])
def test_gates_of_any_size_give_numbers(backend, bias):
    for gate in range(4):
        layer = layer_of("slstm", FEATURES, HIDDEN, dtype=torch.float32)
        layer.backend = backend
        with torch.no_grad():
            layer.bias_ih_l0[gate * HIDDEN : (gate + 1) * HIDDEN] += bias
        output, last = layer(series(BATCH, 40, FEATURES, dtype=torch.float32))
        gradients = torch.autograd.grad(output.sum() + sum(s.sum() for s in last[:3]), list(layer.parameters()))
        assert all(x.isfinite().all() for x in (output, *last, *gradients))


def test_heads_are_blocks_on_the_diagonal_and_none_or_a_width_that_they_do_not_divide_are_refused():
    heads = 4
    layer = layer_of("slstm", FEATURES, 8, heads=heads)
    assert tuple(layer.weight_hh_l0.shape) == (32, 8 // heads)
    dense = SLSTM(FEATURES, 8, batch_first=True, dtype=torch.float64)
    matrices = layer.weight_hh_l0.detach().view(4, heads, 8 // heads, 8 // heads)
    whole = torch.cat([torch.block_diag(*gate) for gate in matrices])
    dense.load_state_dict(layer.state_dict() | {"weight_hh_l0": whole})
    x = series(BATCH, STEPS, FEATURES)
    assert_equal_within(layer(x)[0], dense(x)[0], torch.float64, "output")
    assert torch.equal(Wrapper(blocks=heads).whole(layer.weight_hh_l0, 4), whole)
    assert torch.equal(Wrapper(blocks=heads).whole(layer.weight_hh_l0[:8], 1), whole[:8]), "one gate alone"
    for wrong in (0, -1):
        refused(ValueError, "heads must be 1 or more", SLSTM, 3, 4, heads=wrong)
    refused(ValueError, "hidden_size of slstm:heads=4 must be a multiple of 4", SLSTM, 3, 6, heads=4)
