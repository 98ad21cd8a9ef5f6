"""A window of 2: projections read the input of the real step before, which is part of the state."""

from functools import partial

import layer_laws
import torch
from layer_laws import BATCH, FEATURES, HIDDEN, STEPS, assert_same_run, series, states_of
from refusals import refused
from tolerances import assert_equal_within

from gatedrnn import QRNN, QRNNCell
from gatedrnn.kinds.scan import step as scan_step

layer_of = partial(layer_laws.layer_of, "qrnn", window=2)


def test_a_loop_over_the_module_is_the_layer():
    cell, layer = QRNNCell(FEATURES, HIDDEN, dtype=torch.float64), layer_of()
    layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
    x, states = series(), states_of(layer)
    whole, last = layer(x, states)
    hx, outputs = tuple(s[0] for s in states), []
    for x_t in x.unbind(1):
        before, hx = hx, cell(x_t, hx)
        outputs.append(cell.output(hx, x_t, before))
        assert_equal_within(cell.output(hx, x_t[0], tuple(s[0] for s in before))[0], outputs[-1][0], x.dtype, "a row")
    assert_same_run((torch.stack(outputs, dim=1), hx), (whole, tuple(s[0] for s in last)))
    (c, last), (c_n, last_n) = cell(x[:, 0]), layer(x[:, :1])[1]
    assert_same_run((c, last), (c_n[0], last_n[0]))


def test_the_state_is_as_wide_as_the_widest_input_and_is_not_zoned():
    for arguments, width in (
        ({}, FEATURES), ({"num_layers": 2}, HIDDEN), ({"num_layers": 2, "proj_size": 2}, FEATURES),
        ({"num_layers": 2, "bidirectional": True}, 2 * HIDDEN),
    ):  # fmt: skip
        layer = layer_of(zoneout=0.3, **arguments)
        masks = layer.draw_dropout_masks(BATCH, STEPS)
        assert {z.shape[2] for one in masks.directions for z in one.zoneout} == {HIDDEN}
        assert layer.state_sizes() == (HIDDEN, width)
        _, (c, last) = layer(series())
        assert c.shape[2] == HIDDEN and last.shape == (len(c), BATCH, width)
        assert not last[0, :, FEATURES:].any()


def test_a_stream_is_a_kernels_and_keeps_its_own_copy_of_the_input(monkeypatch):
    seen, step = [], scan_step.stack_step
    monkeypatch.setattr(scan_step, "stack_step", lambda *given: (seen.append(given), step(*given))[1])
    layer, x = layer_of(), series()
    whole, _ = layer(x)
    with torch.no_grad():
        state, outputs = None, []
        for t in range(STEPS):
            one = x[:, t].clone()
            output, state = layer.step(one, state)
            one.zero_()
            outputs.append(output)
        called, _ = layer(x[:, :1])
    assert len(seen) == STEPS + 1
    assert_equal_within(torch.stack(outputs, dim=1), whole, x.dtype, "output")
    assert_equal_within(called, whole[:, :1], x.dtype, "a call of one step")


def test_what_does_not_fit_is_refused():
    layer, x = layer_of(), series()
    refused(ValueError, "window is the number of inputs that a gate reads, 1 or 2, got 3", QRNN, 3, 4, window=3)
    refused(TypeError, "hx must hold 2 tensors, got 1", layer, x, torch.zeros(1, BATCH, HIDDEN, dtype=x.dtype))
    refused(RuntimeError, r"Expected hidden\[0\] size", layer, x, (torch.zeros(1, BATCH, HIDDEN + 1).double(),) * 2)
