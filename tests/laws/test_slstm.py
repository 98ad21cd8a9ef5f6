"""sLSTM: what its four states mean, in blocks and for gates of any size."""

import numpy as np
import pytest
import torch
from layer_laws import assert_equal_within, layer_of, series

from gatedrnn import SLSTM
from gatedrnn.equations import Recurrent
from gatedrnn.inspect.trace import trace

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 5, 4


def after_some_steps(layer):
    """A state as it occurs."""
    return layer(series(BATCH, STEPS, FEATURES))[1]


def test_h_does_not_depend_on_what_c_and_n_are_divided_by():
    layer = layer_of("slstm", FEATURES, HIDDEN)
    h, c, n, m = after_some_steps(layer)
    x = series(BATCH, STEPS, FEATURES)
    output, (_, c_n, n_n, m_n) = layer(x, (h, c, n, m))
    # n must stay above 1, below which it is read as 1.
    again, (_, c_again, n_again, m_again) = layer(x, (h, 3 * c, 3 * n, m - np.log(3)))
    assert_equal_within(again, output, torch.float64, "output")
    for got, want in ((c_again, c_n), (n_again, n_n)):
        assert_equal_within(
            got * m_again.exp(), want * m_n.exp(), torch.float64, "states in their own units", gradient=True
        )


def test_the_decay_is_the_forget_gate_of_c_times_exp_m():
    layer = layer_of("slstm", FEATURES, HIDDEN)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
    x, (h, c, n, m) = series(BATCH, 1, FEATURES), after_some_steps(layer)
    more = c + 1
    _, (_, one, _, scale) = layer(x, (h, c, n, m))
    _, (_, two, _, _) = layer(x, (h, more, n, m))
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
        for x in (output, *last, *gradients):
            assert x.isfinite().all()


def test_heads_are_blocks_on_the_diagonal():
    heads = 4
    layer = layer_of("slstm", FEATURES, 8, heads=heads)
    assert tuple(layer.weight_hh_l0.shape) == (32, 8 // heads)
    dense = SLSTM(FEATURES, 8, batch_first=True, dtype=torch.float64)
    matrices = layer.weight_hh_l0.detach().view(4, heads, 8 // heads, 8 // heads)
    with torch.no_grad():
        for name, weight in dense.named_parameters():
            if name == "weight_hh_l0":
                weight.copy_(torch.cat([torch.block_diag(*gate) for gate in matrices]))
            else:
                weight.copy_(getattr(layer, name))
    x = series(BATCH, STEPS, FEATURES)
    assert_equal_within(layer(x)[0], dense(x)[0], torch.float64, "output")
    (found,) = Recurrent(("one",), {"weight_hh": layer.weight_hh_l0[:8]})(x[:, 0, :1].expand(-1, 8))
    (wanted,) = Recurrent(("one",), {"weight_hh": dense.weight_hh_l0[:8]})(x[:, 0, :1].expand(-1, 8))
    assert_equal_within(found, wanted, torch.float64, "one gate's product")


def test_heads_that_are_none_and_widths_that_they_do_not_divide_are_refused():
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="heads must be 1 or more"):
            SLSTM(3, 4, heads=wrong)
    with pytest.raises(ValueError, match="hidden_size of slstm must be a multiple"):
        SLSTM(3, 6, heads=4)
