"""One law for every way of running a cell: whole, in chunks, step by step, reversed, in every layout."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from layer_laws import (
    BATCH,
    HIDDEN,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    every_cell,
    every_scan_cell,
    layer_of,
    packed_up,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.scan import linear_scan

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@every_cell
@pytest.mark.parametrize("proj_size", [0, 2])
@pytest.mark.parametrize("cuts", [(3,), (1, 2, 6), tuple(range(1, STEPS))])
def test_chunks_with_carried_state_equal_the_whole(name, proj_size, cuts):
    layer = layer_of(name, num_layers=2, **({"proj_size": proj_size} if name != "gru" else {}))
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)

    def in_chunks(x, hx):
        outputs = []
        for low, high in pairwise([0, *cuts, STEPS]):
            output, hx = layer(x[:, low:high], hx)
            outputs.append(output)
        return torch.cat(outputs, dim=1), hx

    assert_same(run(layer, x, states, grads, in_chunks), run(layer, x, states, grads))


def step_by_step(layer, x, hx):
    outputs = []
    for x_t in x.unbind(1):
        output, hx = layer.step(x_t, hx)
        outputs.append(output)
    return torch.stack(outputs, dim=1), hx


@every_cell
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_step_by_step_equals_the_whole(name, bias, proj_size):
    layer = layer_of(name, num_layers=2, bias=bias, **({"proj_size": proj_size} if name != "gru" else {}))
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)
    whole = run(layer, x, states, grads)
    assert_same(run(layer, x, states, grads, partial(step_by_step, layer)), whole)
    first, _ = layer.step(x[:, 0])
    assert_equal_within(first, layer(x)[0][:, 0], torch.float64, "first step without hx")
    alone, last = layer.step(x[0, 0], packed_up(tuple(s[:, 0] for s in states)))
    assert_equal_within(alone, whole["output"][0, 0], torch.float64, "step without a batch")
    _, expected = layer(x[:1, :1], packed_up(tuple(s[:, :1] for s in states)))
    for state, full in zip(as_tuple(last), as_tuple(expected), strict=True):
        assert_equal_within(state, full[:, 0], torch.float64, "state without a batch")


@every_cell
def test_step_by_step_equals_the_whole_in_float32(name):
    layer = layer_of(name, dtype=torch.float32)
    x, states = series(dtype=torch.float32), states_of(layer, dtype=torch.float32)
    grads = upstream(layer, x, states)
    steps = run(layer, x, states, grads, partial(step_by_step, layer))
    assert_same(steps, run(layer, x, states, grads), torch.float32)


@every_scan_cell
def test_a_bfloat16_layer_rounds_its_projection_and_its_output_and_nothing_between(name):
    layer = layer_of(name, 5, HIDDEN, dtype=torch.bfloat16)
    x, hx = torch.randint(-2, 3, (2, 200, 5)).bfloat16(), series(1, 2, HIDDEN).bfloat16()
    # Products of other shapes round in another order, unless every sum is a number that bfloat16 has.
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_((4 * weight).round() / 8)
    whole, last = layer(x, hx)
    projected = nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).float()
    decay, drive = layer.cell.coefficients(*projected.chunk(len(layer.cell.projections), dim=-1))
    h, expected = linear_scan(decay, drive, hx[0].float())
    assert whole.dtype == torch.bfloat16 and last.dtype == torch.float32
    assert torch.equal(whole, layer.cell.output(h).bfloat16()) and torch.equal(last[0], expected)
    first, state = layer(x[:, :90], hx.float())
    second, state = layer(x[:, 90:], state)
    steps, stepped = step_by_step(layer, x, hx)
    for way, output, final in (("chunks", torch.cat([first, second], dim=1), state), ("steps", steps, stepped)):
        assert final.dtype == torch.float32
        assert_equal_within(output, whole, torch.bfloat16, f"output in {way}")
        assert_equal_within(final, last, torch.float32, f"state in {way}")


@every_scan_cell
def test_a_reversed_direction_equals_the_flipped_sequence(name):
    both = layer_of(name, bidirectional=True)
    x, hx = series(), states_of(both)[0]
    output, last = both(x, hx)
    for direction, suffix in enumerate(("", "_reverse")):
        one = layer_of(name)
        one.load_state_dict(
            {k.removesuffix(suffix): v for k, v in both.state_dict().items() if k.endswith("l0" + suffix)}
        )
        flipped = x.flip(1) if direction else x
        expected, state = one(flipped, hx[direction : direction + 1])
        half = output[..., direction * HIDDEN : (direction + 1) * HIDDEN]
        assert_equal_within(half, expected.flip(1) if direction else expected, torch.float64, "output" + suffix)
        assert_equal_within(last[direction], state[0], torch.float64, "state" + suffix)


@every_scan_cell
@pytest.mark.parametrize("proj_size", [0, 6])
def test_the_axes_of_the_input_may_come_in_every_order_of_torch(name, proj_size):
    layer = layer_of(name, num_layers=2, bidirectional=True, proj_size=proj_size)
    time_first = layer_of(name, num_layers=2, bidirectional=True, proj_size=proj_size, batch_first=False)
    time_first.load_state_dict(layer.state_dict())
    x, hx = series(), states_of(layer)[0]
    flags = {"mask": torch.rand(BATCH, STEPS) < 0.7, "resets": torch.rand(BATCH, STEPS) < 0.3}
    expected, last = layer(x, hx, **flags)
    output, state = time_first(x.transpose(0, 1), hx, **{k: v.T for k, v in flags.items()})
    assert_equal_within(output.transpose(0, 1), expected, torch.float64, "output, time first")
    assert_equal_within(state, last, torch.float64, "state, time first")
    for way in (layer, time_first):
        output, state = way(x[1], hx[:, 1], **{k: v[1] for k, v in flags.items()})
        assert_equal_within(output, expected[1], torch.float64, "output, unbatched")
        assert_equal_within(state, last[:, 1], torch.float64, "state, unbatched")


@every_cell
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
        # torch's kernel keeps time in front, and the zeros are drawn in the order of memory.
        order = (lambda x: x.transpose(0, 1).contiguous()) if not masked and name in TORCH else (lambda x: x)
        between = order(nn.functional.dropout(order(layers[0](x, **flags)[0]), 0.5, training))
        assert_equal_within(output, layers[1](between, **flags)[0], torch.float64, "output")
