"""A window of 2: projections read the input of the real step before, which is part of the state."""

import pytest
import torch
from layer_laws import BATCH, FEATURES, HIDDEN, STEPS, assert_same, run, series, states_of, upstream
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import QRNN, QRNNCell
from gatedrnn.kernels import cpu
from gatedrnn.layers.window import beside_the_last


def layer_of(**kwargs):
    layer = QRNN(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64, **kwargs)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    return layer


def beside_by_hand(x, before, mask, resets):
    """One row after the other, one step after the other."""
    found, lasts = torch.zeros(*x.shape[:2], 2 * x.shape[2], dtype=x.dtype), []
    for row in range(len(x)):
        last = before[row, : x.shape[2]]
        for t in range(x.shape[1]):
            if resets[row, t]:
                last = torch.zeros_like(last)
            found[row, t] = torch.cat([x[row, t], last])
            if mask[row, t]:
                last = x[row, t]
        lasts.append(torch.cat([last, torch.zeros(before.shape[1] - len(last), dtype=x.dtype)]))
    return found, torch.stack(lasts)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wider", [0, 2])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_input_before_is_that_of_the_last_real_step_after_the_last_cut(reverse, wider, share):
    x, before = series(20, STEPS, FEATURES), torch.randn(20, FEATURES + wider, dtype=torch.float64)
    mask, resets = torch.rand(20, STEPS) >= share, torch.rand(20, STEPS) < share
    x = torch.where(mask.unsqueeze(2), x, 0)
    found, last = beside_the_last(x, before, mask, resets, reverse)
    if not reverse:
        expected, expected_last = beside_by_hand(x, before, mask, resets)
    else:  # a cut before step t is met after it
        cuts = torch.cat([resets[:, 1:], torch.zeros(20, 1, dtype=torch.bool)], dim=1)
        expected, expected_last = beside_by_hand(x.flip(1), before, mask.flip(1), cuts.flip(1))
        expected = expected.flip(1)
    assert torch.equal(found[mask], expected[mask]) and torch.equal(last, expected_last)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_layer_is_one_that_reads_both_inputs_side_by_side(layers):
    layer = layer_of(num_layers=layers)
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)

    def by_hand(x, hx):
        cells, inputs = [], []
        for number in range(layers):
            plain = QRNN(2 * x.shape[2], HIDDEN, batch_first=True, dtype=x.dtype, window=1)
            weights = {f"{k}_l0": getattr(layer, f"{k}_l{number}") for k in ("weight_ih", "bias_ih")}
            before = hx[1][number, :, : x.shape[2]]
            inputs.append(nn.functional.pad(x[:, -1], (0, states[1].shape[2] - x.shape[2])))
            doubled = torch.cat([x, torch.cat([before[:, None], x[:, :-1]], dim=1)], dim=2)
            x, last = torch.func.functional_call(plain, weights, (doubled, hx[0][number : number + 1]))
            cells.append(last)
        return x, (torch.cat(cells), torch.stack(inputs))

    assert_same(run(layer, x, states, grads), run(layer, x, states, grads, by_hand))


def test_a_loop_over_the_module_is_the_layer():
    cell = QRNNCell(FEATURES, HIDDEN, dtype=torch.float64)
    layer = layer_of()
    layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
    x, states = series(), states_of(layer)
    whole, last = layer(x, states)
    hx, outputs = tuple(s[0] for s in states), []
    for x_t in x.unbind(1):
        before, hx = hx, cell(x_t, hx)
        outputs.append(cell.output(hx, x_t, before))
        assert_equal_within(cell.output(hx, x_t[0], tuple(s[0] for s in before))[0], outputs[-1][0], x.dtype, "a row")
    assert_equal_within(torch.stack(outputs, dim=1), whole, x.dtype, "output")
    for found, expected in zip(hx, last, strict=True):
        assert_equal_within(found, expected[0], x.dtype, "state")
    for found, expected in zip(cell(x[:, 0]), layer(x[:, :1])[1], strict=True):
        assert_equal_within(found, expected[0], x.dtype, "state from None")


@pytest.mark.parametrize(
    ("arguments", "width"), [({}, FEATURES), ({"num_layers": 2}, HIDDEN), ({"num_layers": 2, "proj_size": 2}, FEATURES),
                             ({"num_layers": 2, "bidirectional": True}, 2 * HIDDEN)]
)  # fmt: skip
def test_the_state_is_as_wide_as_the_widest_input(arguments, width):
    layer = layer_of(**arguments)
    assert layer.state_sizes() == (HIDDEN, width)
    _, (c, last) = layer(series())
    assert c.shape[2] == HIDDEN and last.shape == (len(c), BATCH, width)
    assert not last[0, :, FEATURES:].any()


def test_a_stream_is_a_kernels_and_keeps_its_own_copy_of_the_input(monkeypatch):
    seen, step = [], cpu.stack_step
    monkeypatch.setattr(cpu, "stack_step", lambda *given: (seen.append(given), step(*given))[1])
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


@pytest.mark.parametrize("training", [False, True])
def test_regularisers_in_steps_are_those_of_the_whole(training):
    layer = layer_of(num_layers=2, zoneout=0.3, input_dropout=0.4, state_dropout=0.2, layer_norm=True).train(training)
    x, masks = series(), layer.draw_dropout_masks(BATCH, STEPS)
    assert [z.shape[2] for one in masks.directions for z in one.zoneout] == [HIDDEN, HIDDEN]
    whole, last = layer(x, dropout_masks=masks)
    state, outputs = None, []
    for t in range(STEPS):
        output, state = layer.step(x[:, t], state, dropout_masks=masks.at(t))
        outputs.append(output)
    assert_equal_within(torch.stack(outputs, dim=1), whole, x.dtype, "output")
    for found, expected in zip(state, last, strict=True):
        assert_equal_within(found, expected, x.dtype, "state")


def test_what_does_not_fit_is_refused():
    layer, x = layer_of(), series()
    with pytest.raises(ValueError, match="window is the number of inputs that a gate reads, 1 or 2, got 3"):
        QRNN(3, 4, window=3)
    with pytest.raises(TypeError, match="hx must hold 2 tensors, got 1"):
        layer(x, torch.zeros(1, BATCH, HIDDEN, dtype=x.dtype))
    state = tuple(torch.zeros(1, BATCH, HIDDEN + 1, dtype=x.dtype) for _ in range(2))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size"):
        layer(x, state)


def test_frozen_weights_and_input_that_is_not_contiguous():
    layer = layer_of().requires_grad_(False)
    wide = series(BATCH, STEPS, 2 * FEATURES).requires_grad_()
    (found,) = torch.autograd.grad(layer(wide[..., ::2])[0].square().sum(), wide)
    x = wide.detach()[..., ::2].contiguous().requires_grad_()
    (expected,) = torch.autograd.grad(layer(x)[0].square().sum(), x)
    assert_equal_within(found[..., ::2], expected, x.dtype, "gradient", gradient=True)
    assert not found[..., 1::2].any()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_compute_the_same(threads):
    layer, x = layer_of(), series(1, 3000, FEATURES)
    before = torch.get_num_threads()
    expected, _ = layer(x)
    try:
        torch.set_num_threads(threads)
        assert_equal_within(layer(x)[0], expected, x.dtype, "output")
    finally:
        torch.set_num_threads(before)
