"""What test_equivalence.py leaves open: a row or a step by itself, fewer digits, dropout between layers."""

import pytest
import torch
from by_name import results
from covering import over
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    LOOP_CELL,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    every_cell,
    every_scan_cell,
    layer_of,
    own_weights,
    packed_up,
    projection,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.equations import output_of
from gatedrnn.ops import linear_scan
from gatedrnn.verify.tolerances import ROUNDED

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@every_cell
def test_a_row_alone_and_time_first_are_rows_of_the_batch_with_their_flags(name):
    chosen = {"num_layers": 2, "bidirectional": True} | projection(name, 3)
    layer, time_first = layer_of(name, **chosen), layer_of(name, batch_first=False, **chosen)
    time_first.load_state_dict(layer.state_dict())
    x, states = series(), states_of(layer)
    flags = {"mask": torch.rand(BATCH, STEPS) < 0.7, "resets": torch.rand(BATCH, STEPS) < 0.3}
    expected, last = layer(x, packed_up(states), **flags)
    output, state = time_first(x.transpose(0, 1), packed_up(states), **{k: v.T for k, v in flags.items()})
    assert_same(results(output.transpose(0, 1), state), results(expected, last))
    alone = results(expected[1], tuple(s[:, 1] for s in as_tuple(last)))
    for way in (layer, time_first):
        output, state = way(x[1], packed_up(tuple(s[:, 1] for s in states)), **{k: v[1] for k, v in flags.items()})
        assert_same(results(output, state), alone)


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


def step_by_step(layer, x, hx):
    outputs = []
    for x_t in x.unbind(1):
        output, hx = layer.step(x_t, hx)
        outputs.append(output)
    return torch.stack(outputs, dim=1), hx


@every_cell
def test_step_by_step_equals_the_whole_in_float32(name):
    layer = layer_of(name, dtype=torch.float32)
    x, states = series(dtype=torch.float32), states_of(layer, dtype=torch.float32)
    grads = upstream(layer, x, states)
    steps = run(layer, x, states, grads, lambda x, hx: step_by_step(layer, x, hx))
    assert_same(steps, run(layer, x, states, grads), torch.float32)


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
    whole, last = layer(x, hx)
    projected = nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).float()
    gates = projected.chunk(len(layer.cell.projections), dim=-1)
    decay, drive = layer.cell.coefficients(*gates, *own_weights(layer))
    h, expected = linear_scan(decay, drive, hx[0].float(), backend="reference")
    assert whole.dtype == torch.bfloat16 and last.dtype == torch.float32
    assert torch.equal(whole, output_of(layer.cell, (h,), gates).bfloat16()) and torch.equal(last[0], expected)
    layer.backend = "auto"
    kernel, final = layer(x, hx)
    assert_equal_within(kernel, whole, torch.bfloat16, "output of one kernel")
    assert_equal_within(final, last, torch.float32, "state of one kernel")
    first, state = layer(x[:, :90], hx.float())
    second, state = layer(x[:, 90:], state)
    steps, stepped = step_by_step(layer, x, hx)
    for way, output, final in (("chunks", torch.cat([first, second], dim=1), state), ("steps", steps, stepped)):
        assert final.dtype == torch.float32
        assert_equal_within(output, whole, torch.bfloat16, f"output in {way}")
        assert_equal_within(final, last, torch.float32, f"state in {way}")


@over(name=LOOP_CELL)
def test_a_bfloat16_loop_carries_its_state_in_float32_and_torchs_own_in_bfloat16(name):
    layer = exact_in_bfloat16(layer_of(name, dtype=torch.bfloat16))
    x, states = torch.randint(-2, 3, (2, 40, FEATURES)).bfloat16(), states_of(layer, 2, torch.bfloat16)
    whole, last = layer(x, packed_up(states))
    carried = torch.bfloat16 if name in TORCH else torch.float32
    assert whole.dtype == torch.bfloat16 and {s.dtype for s in as_tuple(last)} == {carried}
    if carried == torch.float32:
        assert not any(torch.equal(s, s.bfloat16()) for s in as_tuple(last))
    first, state = layer(x[:, :13], packed_up(tuple(s.to(carried) for s in states)))
    second, state = layer(x[:, 13:], state)
    assert torch.equal(torch.cat([first, second], dim=1), whole)
    assert all(torch.equal(one, other) for one, other in zip(as_tuple(state), as_tuple(last), strict=True))


@every_cell
def test_one_step_in_bfloat16_equals_the_first_of_the_whole(name):
    layer = exact_in_bfloat16(layer_of(name, dtype=torch.bfloat16))
    x, states = torch.randint(-2, 3, (20, 1, FEATURES)).bfloat16(), states_of(layer, 20, torch.bfloat16)
    whole, last = layer(x, packed_up(states))
    output, state = layer.step(x[:, 0], packed_up(states))
    # torch's own kernels round inside a step too: theirs is the table's row for a whole computation in bfloat16.
    row = ROUNDED if name in TORCH else None
    assert_equal_within(output, whole[:, 0], row or torch.bfloat16, "output")
    for one, other in zip(as_tuple(state), as_tuple(last), strict=True):
        assert one.dtype == other.dtype
        assert_equal_within(one, other, row or one.dtype, "state")


@pytest.mark.parametrize("name", [*TORCH, "mingru"])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout_stands_between_layers_and_not_after_the_last(name, masked):
    stack = layer_of(name, HIDDEN, HIDDEN, num_layers=2, dropout=0.5)
    layers = [layer_of(name, HIDDEN, HIDDEN) for _ in range(2)]
    for i, one in enumerate(layers):
        state_dict = {k.replace("_l1", "_l0"): v for k, v in stack.state_dict().items() if k.endswith(f"_l{i}")}
        one.load_state_dict(state_dict)
    x = series(BATCH, STEPS, HIDDEN)
    flags = {"mask": torch.arange(STEPS) < torch.tensor([[7], [3], [5]])} if masked else {}
    for training in (True, False):
        stack.train(training)
        torch.manual_seed(1)
        output, _ = stack(x, **flags)
        torch.manual_seed(1)
        # torch's kernels keep time in front, and the zeros are drawn in the order of memory.
        like_torch = stack.cell.torch_kernel is not None
        order = (lambda x: x.transpose(0, 1).contiguous()) if like_torch else (lambda x: x)
        between = order(nn.functional.dropout(order(layers[0](x, **flags)[0]), 0.5, training))
        assert_equal_within(output, layers[1](between, **flags)[0], torch.float64, "output")
