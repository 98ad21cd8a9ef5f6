"""Left open by test_equivalence.py: a row or a step by itself, rows without a real step, fewer digits, dropout."""

import pytest
import torch
from covering import over
from layer_laws import (
    BATCH,
    EQUATIONS,
    FEATURES,
    HIDDEN,
    LOOP_CELL,
    NAN,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    assert_same_run,
    every_cell,
    every_scan_cell,
    flags_of,
    iterated,
    layer_of,
    own_weights,
    packed_up,
    problem,
    projection,
    results,
    run,
    series,
    states_of,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.equations import output_of
from gatedrnn.kinds.torch.path import _LACKS_BFLOAT16
from gatedrnn.ops import linear_scan
from gatedrnn.verify.definition import Sequences, run_by_definition


@every_cell
def test_a_row_alone_is_a_row_of_the_batch_with_its_flags(name):
    chosen = {"num_layers": 2, "bidirectional": True} | projection(name, 3)
    layer, time_first = layer_of(name, **chosen), layer_of(name, batch_first=False, **chosen)
    time_first.load_state_dict(layer.state_dict())
    x, states = series(), states_of(layer)
    flags = flags_of(("mask", "resets"))
    expected, last = layer(x, packed_up(states), **flags)
    alone, hx = (expected[1], tuple(s[:, 1] for s in as_tuple(last))), packed_up(tuple(s[:, 1] for s in states))
    for way in (layer, time_first):
        assert_same_run(way(x[1], hx, **{k: v[1] for k, v in flags.items()}), alone)


@every_cell
def test_a_layer_of_one_channel_over_one_feature_of_one_row_is_what_its_steps_define(name):
    layer, flags = layer_of(name, 1, EQUATIONS[name].block_size, bidirectional=True), flags_of(("mask", "resets"), 1)

    def defined(x, hx):
        output, last = run_by_definition(layer, Sequences(x, as_tuple(hx), **flags))
        return output, packed_up(last)

    given = problem(layer, 1, STEPS, 1)
    assert_same(run(layer, *given, **flags), run(layer, *given, defined))


@every_cell
def test_a_step_takes_a_row_alone_with_one_flag_and_begins_without_a_state(name):
    layer = layer_of(name, num_layers=2)
    x, states = series(), states_of(layer)
    first, _ = layer.step(x[:, 0])
    assert_equal_within(first, layer(x)[0][:, 0], torch.float64, "first step without hx")
    whole, last = layer(x[:1, :1], packed_up(tuple(s[:, :1] for s in states)))
    hx, step = packed_up(tuple(s[:, 0] for s in states)), x[0, 0]
    unbatched = results(*layer.step(step, hx))
    assert_same(unbatched, results(whole[0, 0], tuple(s[:, 0] for s in as_tuple(last))))
    for flag, expected in ((True, results(*layer.step(step))), (False, unbatched)):
        found = results(*layer.step(step, hx, resets=torch.tensor(flag)))
        assert all(torch.equal(found[what], value) for what, value in expected.items())


@pytest.mark.parametrize("others", ["real", "masked"])
@every_cell
def test_a_row_without_a_real_step_gives_its_state_back_or_begins_anew_and_puts_out_zeros(name, others):
    """Row 0 as it is, rows 1 to 3 without a real step: without a reset, with one at the first step, with one later."""
    layer = layer_of(name, num_layers=2, bidirectional=True)
    x, states, grads = problem(layer, 4, STEPS, FEATURES)
    mask, resets = torch.zeros(2, 4, STEPS, dtype=torch.bool)
    mask[0] = others == "real"
    resets[2, 0] = resets[3, 2] = True
    found = run(layer, x, states, grads, mask=mask, resets=resets)
    assert (found["output"][1:] == 0).all() and (found["gradient of input"][1:] == 0).all()
    assert (found["output"][0] != 0).any() == (others == "real")
    for i, state in enumerate(states):
        for index, suffix in enumerate(("_l0", "_l0_reverse", "_l1", "_l1_reverse")):
            anew = torch.zeros_like(state[index]) + getattr(layer, f"initial_state{suffix}", torch.zeros(()))
            # A reversed run ends before what a reset at the first step cuts off.
            kept = [True, bool(index % 2), False]
            for row, whole in enumerate(kept, start=1):
                assert torch.equal(found[f"state {i}"][index, row], (state[index] if whole else anew)[row])
                gradient = grads[1][i][index, row]
                assert torch.equal(found[f"gradient of hx{i}"][index, row], gradient if whole else 0 * gradient)


@every_cell
def test_a_reset_at_the_first_step_discards_hx_forwards_and_cuts_nothing_backwards(name):
    layer = layer_of(name, bidirectional=True)
    x, states = series(), states_of(layer)
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    resets[:, 0] = True
    broken, whole = tuple(s.clone() for s in states), tuple(s.clone() for s in states)
    for one, other in zip(broken, whole, strict=True):
        one[0], other[0] = NAN, getattr(layer, "initial_state_l0", torch.zeros(())).detach()
    assert_same_run(layer(x, packed_up(broken), resets=resets), layer(x, packed_up(whole)))


@torch.no_grad()
def exact_in_bfloat16(layer):
    """Products of other shapes round in another order, unless every sum is a number that bfloat16 has."""
    for weight in layer.parameters():
        weight.copy_((4 * weight).round() / 8)
    return layer


@every_scan_cell
def test_a_bfloat16_layer_rounds_its_projection_and_its_output_and_nothing_between(name):
    layer = exact_in_bfloat16(layer_of(name, 5, HIDDEN, dtype=torch.bfloat16))
    x, hx = torch.randint(-2, 3, (2, 200, 5)).bfloat16(), series(1, 2, HIDDEN).bfloat16()
    layer.backend = "reference"
    whole, last = layer(x, hx, wide_state=True)
    projected = nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).float()
    gates = projected.chunk(len(layer.cell.projections), dim=-1)
    decay, drive = layer.cell.coefficients(*gates, *own_weights(layer))
    h, expected = linear_scan(decay, drive, hx[0].float(), backend="reference")
    assert whole.dtype == torch.bfloat16 and last.dtype == torch.float32
    assert torch.equal(whole, output_of(layer.cell, (h,), gates).bfloat16()) and torch.equal(last[0], expected)
    layer.backend = "auto"
    first, state = layer(x[:, :90], hx.float(), wide_state=True)
    second, state = layer(x[:, 90:], state, wide_state=True)
    for output, final in (
        layer(x, hx, wide_state=True),
        (torch.cat([first, second], dim=1), state),
        iterated(layer, x, hx),
    ):
        assert final.dtype == torch.float32
        assert_equal_within(output, whole, torch.bfloat16, "output")
        assert_equal_within(final, last, torch.float32, "state")


@over(name=LOOP_CELL)
def test_a_bfloat16_loop_carries_its_state_in_float32_where_it_is_asked_for_and_torchs_kernel_a_narrow_one(name):
    layer = exact_in_bfloat16(layer_of(name, dtype=torch.bfloat16))
    x, states = torch.randint(-2, 3, (2, 40, FEATURES)).bfloat16(), states_of(layer, 2, torch.bfloat16)
    whole, last = layer(x, packed_up(states), wide_state=True)
    assert whole.dtype == torch.bfloat16 and {s.dtype for s in as_tuple(last)} == {torch.float32}
    in_torchs_kernel = name in TORCH and not (name == "lstm" and _LACKS_BFLOAT16)
    assert all(torch.equal(s, s.bfloat16()) == in_torchs_kernel for s in as_tuple(last))
    first, state = layer(x[:, :13], packed_up(tuple(s.float() for s in states)), wide_state=True)
    second, state = layer(x[:, 13:], state, wide_state=True)
    assert torch.equal(torch.cat([first, second], dim=1), whole)
    assert all(torch.equal(one, other) for one, other in zip(as_tuple(state), as_tuple(last), strict=True))


@pytest.mark.parametrize("name", [*TORCH, "mingru"])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout_stands_between_layers_and_not_after_the_last(name, masked):
    stack = layer_of(name, HIDDEN, HIDDEN, num_layers=2, dropout=0.5)
    layers = [layer_of(name, HIDDEN, HIDDEN) for _ in range(2)]
    for i, one in enumerate(layers):
        one.load_state_dict({k.replace("_l1", "_l0"): v for k, v in stack.state_dict().items() if k.endswith(f"_l{i}")})
    x = series(BATCH, STEPS, HIDDEN)
    flags = {"mask": torch.arange(STEPS) < torch.tensor([[7], [3], [5]])} if masked else {}
    for training in (True, False):
        stack.train(training)
        torch.manual_seed(1)
        output, _ = stack(x, **flags)
        torch.manual_seed(1)
        # torch's kernels keep time in front, and the zeros are drawn in the order of memory.
        order = (lambda x: x.transpose(0, 1).contiguous()) if name in TORCH else (lambda x: x)
        between = order(nn.functional.dropout(order(layers[0](x, **flags)[0]), 0.5, training))
        assert_equal_within(output, layers[1](between, **flags)[0], torch.float64, "output")
