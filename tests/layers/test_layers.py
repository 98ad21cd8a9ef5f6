"""Every way of running a layer gives the same numbers and gradients, and LSTM and GRU are `torch.nn`'s own."""

import copy
import pickle
from functools import partial
from itertools import pairwise, product

import pytest
import torch
from tolerances import assert_equal_within
from torch import nn

from gatedrnn.cells import ScanCell
from gatedrnn.layers import GRU, LAYERS, LSTM, MinGRU, MinLSTM, ScanLayer
from gatedrnn.scan import linear_scan

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 3, 4
NAN, INF = float("nan"), float("inf")
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


class Signed(ScanCell):
    """A cell in a few lines, with a decay of either sign and an output that is not its state."""

    name = "signed"
    projections = ("keep", "value")
    decay_gates = {"keep": 1}

    def coefficients(self, keep, value):
        return torch.tanh(keep), (1 - torch.tanh(keep).abs()) * value

    def output(self, state):
        return torch.sin(state)


CELLS = LAYERS | {"own": partial(ScanLayer, Signed())}
SCAN_CELLS = ("minlstm", "mingru", "own")
every_cell = pytest.mark.parametrize("name", CELLS)
every_scan_cell = pytest.mark.parametrize("name", SCAN_CELLS)


def layer_of(name, *args, dtype=torch.float64, batch_first=True, **kwargs):
    """A small layer with weights large enough for every gate to leave its linear range."""
    layer = CELLS[name](*(args or (FEATURES, HIDDEN)), batch_first=batch_first, dtype=dtype, **kwargs)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    return layer


def series(*shape, dtype=torch.float64):
    return torch.randn(*(shape or (BATCH, STEPS, FEATURES)), dtype=dtype)


def states_of(layer, batch=BATCH, dtype=torch.float64):
    """A random hx as a tuple, one tensor or two."""
    leading = layer.num_layers * (2 if layer.bidirectional else 1), batch
    sizes = (layer.proj_size or HIDDEN, HIDDEN) if isinstance(layer, LSTM) else (HIDDEN,)
    return tuple(torch.randn(*leading, size, dtype=dtype) for size in sizes)


def packed_up(states):
    return states if len(states) > 1 else states[0]


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def upstream(layer, x, states):
    """Random gradients for an output of every step of x, and for every final state."""
    width = (layer.proj_size or HIDDEN) * (2 if layer.bidirectional else 1)
    return torch.randn(*x.shape[:-1], width, dtype=x.dtype), tuple(torch.randn_like(s) for s in states)


def run(layer, x, states, grads, way=None, **flags):
    """Output, final states, and all gradients by name; `way(x, hx)` takes the place of calling the layer."""
    x, states = x.detach().requires_grad_(), tuple(s.detach().requires_grad_() for s in states)
    output, last = (way or partial(layer, **flags))(x, packed_up(states))
    last = as_tuple(last)
    wanted = {"input": x} | {f"hx{i}": s for i, s in enumerate(states)} | dict(layer.named_parameters())
    loss = (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(last, grads[1], strict=True))
    found = torch.autograd.grad(loss, list(wanted.values()))
    results = {"output": output} | {f"state {i}": s for i, s in enumerate(last)}
    return results | {f"gradient of {k}": g for k, g in zip(wanted, found, strict=True)}


def assert_same(actual, expected, dtype=torch.float64):
    assert actual.keys() == expected.keys()
    for what, value in expected.items():
        assert_equal_within(actual[what], value, dtype, what, gradient=what.startswith("gradient"))


# LSTM and GRU are torch's.


def options(**values):
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


SHAPES = options(num_layers=[1, 2], bias=[True, False], batch_first=[True, False], bidirectional=[True, False])
AS_TORCH = [("gru", o) for o in SHAPES] + [("lstm", o | {"proj_size": p}) for o in SHAPES for p in (0, 2)]


@pytest.mark.parametrize("name, chosen", AS_TORCH, ids=lambda x: x if isinstance(x, str) else str([*x.values()]))
def test_a_state_dict_of_torch_gives_torchs_numbers_and_gradients_and_goes_back(name, chosen):
    for dtype, batched, with_hx in product((torch.float32, torch.float64), (True, False), (True, False)):
        theirs = TORCH[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
        ours = LAYERS[name](FEATURES, HIDDEN, dtype=dtype, **chosen)
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
    ours = LAYERS[name](FEATURES, HIDDEN, **chosen).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[k], theirs[k]) for k in theirs)


@pytest.mark.parametrize("name", TORCH)
def test_the_same_seed_drops_the_same_outputs(name):
    chosen = {"num_layers": 3, "dropout": 0.5, "bidirectional": True}
    theirs, ours = TORCH[name](FEATURES, HIDDEN, **chosen), LAYERS[name](FEATURES, HIDDEN, **chosen)
    ours.load_state_dict(theirs.state_dict())
    x = series(dtype=torch.float32)
    results = []
    for layer in (theirs, ours, ours):
        torch.manual_seed(5)
        results.append(layer(x)[0])
        layer.eval()  # the third run drops nothing
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[1], results[2])
    assert torch.equal(results[2], theirs(x)[0])


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


# One law for every way of running a cell.


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


# Masks.


LENGTHS = (5, 2, 7, 1)
PLACES = {
    "right": [range(0, 5), range(0, 2), range(0, 7), range(0, 1)],
    "left": [range(2, 7), range(5, 7), range(0, 7), range(6, 7)],
    "holes": [(0, 2, 3, 5, 6), (1, 4), range(0, 7), (3,)],
}


def each_row_alone(layer, x, states, grads, places):
    """The rows' real steps as sequences of their own, put back into the rectangle; what a mask must equal."""
    output, last = torch.zeros_like(grads[0]), tuple(torch.zeros_like(s) for s in states)
    gradients = {"input": torch.zeros_like(x)} | {f"hx{i}": torch.zeros_like(s) for i, s in enumerate(states)}
    gradients |= {k: torch.zeros_like(p) for k, p in layer.named_parameters()}
    for row, steps in enumerate(map(list, places)):
        own = tuple(s[:, row : row + 1] for s in states)
        own_grads = grads[0][row : row + 1, steps], tuple(g[:, row : row + 1] for g in grads[1])
        results = run(layer, x[row : row + 1, steps], own, own_grads)
        output[row, steps] = results["output"][0]
        gradients["input"][row, steps] = results["gradient of input"][0]
        for i in range(len(states)):
            last[i][:, row] = results[f"state {i}"][:, 0]
            gradients[f"hx{i}"][:, row] = results[f"gradient of hx{i}"][:, 0]
        for k, _ in layer.named_parameters():
            gradients[k] += results[f"gradient of {k}"]
    named = {"output": output} | {f"state {i}": s for i, s in enumerate(last)}
    return named | {f"gradient of {k}": g for k, g in gradients.items()}


def mask_of(places):
    mask = torch.zeros(len(places), STEPS, dtype=torch.bool)
    for row, steps in enumerate(places):
        mask[row, list(steps)] = True
    return mask


@every_cell
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("garbage", [0.0, 1e3, NAN, INF])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_mask_equals_the_sequences_alone_whatever_stands_at_masked_steps(name, where, garbage, bidirectional):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional)
    x, mask = series(len(LENGTHS), STEPS, FEATURES), mask_of(PLACES[where])
    x[~mask] = garbage
    states = states_of(layer, len(LENGTHS))
    grads = upstream(layer, x, states)
    masked = run(layer, x, states, grads, mask=mask)
    assert_same(masked, each_row_alone(layer, x, states, grads, PLACES[where]))
    assert (masked["output"][~mask] == 0).all() and (masked["gradient of input"][~mask] == 0).all()


@pytest.mark.parametrize("where", PLACES)
def test_a_masked_projected_lstm_equals_the_sequences_alone(where):
    layer = layer_of("lstm", num_layers=2, bidirectional=True, proj_size=2, bias=False)
    x, states = series(len(LENGTHS), STEPS, FEATURES), states_of(layer, len(LENGTHS))
    grads = upstream(layer, x, states)
    masked = run(layer, x, states, grads, mask=mask_of(PLACES[where]))
    assert_same(masked, each_row_alone(layer, x, states, grads, PLACES[where]))


@every_cell
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_row_without_a_real_step_gives_its_state_back_and_zeros(name, bidirectional):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional)
    x, states = series(), states_of(layer)
    mask = torch.ones(BATCH, STEPS, dtype=torch.bool)
    mask[1] = False
    grads = upstream(layer, x, states)
    results = run(layer, x, states, grads, mask=mask)
    assert (results["output"][1] == 0).all() and (results["output"][[0, 2]] != 0).all()
    for i, state in enumerate(states):
        assert torch.equal(results[f"state {i}"][:, 1], state[:, 1])
        assert torch.equal(results[f"gradient of hx{i}"][:, 1], grads[1][i][:, 1])


@every_cell
def test_a_carried_state_crosses_a_mask_between_chunks(name):
    """A stream of rows of unequal pace: each chunk is masked, and the state waits where a row has nothing to say."""
    layer = layer_of(name)
    x, mask = series(BATCH, 12, FEATURES), torch.rand(BATCH, 12) < 0.5
    whole, last = layer(x, mask=mask)
    state, outputs = None, []
    for low, high in pairwise((0, 4, 5, 12)):
        output, state = layer(x[:, low:high], state, mask=mask[:, low:high])
        outputs.append(output)
    assert_equal_within(torch.cat(outputs, dim=1), whole, torch.float64, "output")
    for one, all_ in zip(as_tuple(state), as_tuple(last), strict=True):
        assert_equal_within(one, all_, torch.float64, "state")


# Resets.


def segments_apart(layer, x, hx, resets, mask=None):
    """Each segment between resets as a call of its own; walked forwards, and for the second direction backwards.

    The first segment begins forwards with hx, unless a reset stands at t = 0; the last one begins backwards with hx.
    """
    directions = 2 if layer.bidirectional else 1
    outputs, finals = [], []
    for row in range(len(x)):
        cuts = [t for t in range(STEPS) if resets[row, t] and t > 0]
        pieces, ends = [], []
        for low, high in pairwise([0, *cuts, STEPS]):
            keep = torch.zeros(layer.num_layers * directions, 1, 1, dtype=x.dtype)
            if low == 0 and not resets[row, 0]:
                keep[::directions] = 1
            if high == STEPS and directions == 2:
                keep[1::2] = 1
            flags = {} if mask is None else {"mask": mask[row : row + 1, low:high]}
            output, last = layer(x[row : row + 1, low:high], keep * hx[:, row : row + 1], **flags)
            pieces.append(output)
            ends.append(last)
        outputs.append(torch.cat(pieces, dim=1))
        own = [ends[-1 if i % directions == 0 else 0][i] for i in range(layer.num_layers * directions)]
        finals.append(torch.stack(own))
    return torch.cat(outputs), torch.cat(finals, dim=1)


@every_scan_cell
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_resets_equal_separate_sequences(name, bidirectional, masked):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional, proj_size=2)
    resets = torch.zeros(4, STEPS, dtype=torch.bool)
    resets[0, [3, 4]] = True
    resets[2, [0, 5]] = True
    resets[3] = True
    mask = torch.rand(4, STEPS) < 0.6 if masked else None
    x, states = series(4, STEPS, FEATURES), states_of(layer, 4)
    grads = upstream(layer, x, states)
    flags = {"resets": resets} | ({"mask": mask} if masked else {})
    expected = run(layer, x, states, grads, partial(segments_apart, layer, resets=resets, mask=mask))
    assert_same(run(layer, x, states, grads, **flags), expected)


@every_scan_cell
def test_a_reset_at_the_first_step_discards_hx_forwards_and_cuts_nothing_backwards(name):
    layer = layer_of(name, bidirectional=True)
    x, hx = series(), states_of(layer)[0]
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    resets[:, 0] = True
    broken = hx.clone()
    broken[0] = NAN
    output, last = layer(x, broken, resets=resets)
    hx[0] = 0
    expected, expected_last = layer(x, hx)
    assert_equal_within(output, expected, torch.float64, "output")
    assert_equal_within(last, expected_last, torch.float64, "state")


# Errors.


def raised_by(call):
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value)


WRONG_ARGUMENTS = [
    {"input_size": 0}, {"input_size": -3}, {"hidden_size": 0}, {"hidden_size": -1}, {"num_layers": 0},
    {"input_size": 3.0}, {"hidden_size": 4.0}, {"num_layers": 1.0}, {"dropout": 2}, {"dropout": -0.1},
    {"dropout": True}, {"proj_size": -1},
]  # fmt: skip


@every_cell
@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS, ids=str)
def test_a_wrong_argument_raises_what_torch_raises(name, wrong):
    arguments = {"input_size": FEATURES, "hidden_size": HIDDEN, "num_layers": 2} | wrong
    expected = raised_by(lambda: nn.LSTM(**arguments))
    assert raised_by(lambda: CELLS[name](**arguments)) is expected


@pytest.mark.parametrize("name, proj_size", [("lstm", HIDDEN), ("lstm", HIDDEN + 1), ("gru", 2)])
def test_a_projection_that_torch_refuses_is_refused(name, proj_size):
    expected = raised_by(lambda: TORCH[name](FEATURES, HIDDEN, proj_size=proj_size))
    assert raised_by(lambda: LAYERS[name](FEATURES, HIDDEN, proj_size=proj_size)) is expected is ValueError


WRONG_CALLS = {
    "features": (series(STEPS, BATCH, FEATURES + 1), None),
    "one axis": (series(FEATURES), None),
    "four axes": (series(1, STEPS, BATCH, FEATURES), None),
    "no step": (series(0, BATCH, FEATURES), None),
    "no step, unbatched": (series(0, FEATURES), None),
    "dtype": (series(STEPS, BATCH, FEATURES).float(), None),
    "state of another size": (series(STEPS, BATCH, FEATURES), (1, BATCH, HIDDEN + 1)),
    "state of another batch": (series(STEPS, BATCH, FEATURES), (1, BATCH + 1, HIDDEN)),
    "state of more layers": (series(STEPS, BATCH, FEATURES), (2, BATCH, HIDDEN)),
    "state without a batch": (series(STEPS, BATCH, FEATURES), (1, HIDDEN)),
    "state with a batch": (series(STEPS, FEATURES), (1, 1, HIDDEN)),
}


@every_cell
@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_wrong_call_raises_what_torch_raises(name, wrong):
    x, shape = WRONG_CALLS[wrong]
    theirs = TORCH.get(name, nn.GRU)(FEATURES, HIDDEN, dtype=torch.float64)
    ours = layer_of(name, batch_first=False)
    hx = None if shape is None else torch.zeros(shape, dtype=torch.float64)
    hx = (hx, hx) if name == "lstm" and hx is not None else hx
    assert raised_by(lambda: ours(x, hx)) is raised_by(lambda: theirs(x, hx))


@every_cell
def test_a_state_with_the_wrong_number_of_tensors_is_refused(name):
    layer = layer_of(name)
    state = torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)
    with pytest.raises(TypeError, match="hx must hold"):
        layer(series(), state if name == "lstm" else (state, state))


# LSTM and GRU take no resets in this version.
@pytest.mark.parametrize(
    "name, flag", [*((name, "mask") for name in CELLS), *((name, "resets") for name in SCAN_CELLS)]
)
@pytest.mark.parametrize("wrong", [torch.ones(BATCH, STEPS), torch.ones(STEPS, BATCH).bool(), torch.ones(BATCH).bool()])
def test_flags_of_another_dtype_or_shape_are_refused_by_name(name, flag, wrong):
    with pytest.raises(ValueError, match=f"{flag} must be bool with the input's first axes"):
        layer_of(name)(series(), **{flag: wrong})


@every_cell
def test_step_refuses_two_directions_and_a_whole_sequence(name):
    with pytest.raises(ValueError, match="one direction"):
        layer_of(name, bidirectional=True).step(series(BATCH, FEATURES))
    with pytest.raises(ValueError, match="step expects"):
        layer_of(name).step(series())
    with pytest.raises(RuntimeError, match="input_size"):
        layer_of(name).step(series(BATCH, FEATURES + 1))


@every_cell
@pytest.mark.parametrize("masked", [False, True])
def test_no_sequence_gives_an_empty_output_and_gradients_of_zero(name, masked):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    flags = {"mask": torch.ones(0, STEPS, dtype=torch.bool)} if masked else {}
    output, last = layer(series(0, STEPS, FEATURES), **flags)
    assert output.shape == (0, STEPS, 2 * HIDDEN)
    assert all(state.shape == (4, 0, HIDDEN) for state in as_tuple(last))
    output.sum().backward()
    assert all((p.grad == 0).all() for p in layer.parameters())


# Parameters.


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
