"""A reset equals a new sequence, in every cell and in both directions."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    NAN,
    STEPS,
    as_tuple,
    assert_same,
    begun_anew,
    every_cell,
    layer_of,
    packed_up,
    projection,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch.func import functional_call

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

both_directions = pytest.mark.parametrize("bidirectional", [False, True])

RESETS = {
    "some": [(3, 4), (), (0, 5), (6,), (1, 2), ()],
    "at the first step": [(0,)] * 6,
    "everywhere": [range(STEPS)] * 6,
    "nowhere": [()] * 6,
}
# Row by row the real steps. Some resets stand on masked steps; the last two rows have no real step, one of them resets.
MASKS = {
    "none": None,
    "right": [range(0, 4), range(0, 2), range(0, 7), range(0, 6), (), ()],
    "left": [range(4, 7), range(5, 7), range(0, 7), range(6, 7), (), ()],
    "holes": [(0, 2, 5, 6), (1, 4), (0, 1, 4, 6), (3,), (), ()],
}
ROWS = 6


def flags_of(places):
    flags = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    for row, steps in enumerate(places):
        flags[row, list(steps)] = True
    return flags


def each_segment_alone(name, layer, x, hx, resets, mask=None):
    """Layer by layer, direction by direction, row by row: every segment between resets as a call of its own.

    Only the real steps of a segment are handed to the call, so neither resets nor masks are the layer's here.
    """
    mask = torch.ones_like(resets) if mask is None else mask
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    finals = []
    for i in range(layer.num_layers):
        halves = []
        for direction, suffix in enumerate(directions):
            alone, anew = one_direction(name, layer, i, suffix, x.shape[2])
            before = tuple(s[len(finals)] for s in as_tuple(hx))
            rows = [
                one_row(alone, anew, x[row], tuple(s[row] for s in before), resets[row], mask[row], direction == 1)
                for row in range(len(x))
            ]
            halves.append(torch.stack([output for output, _ in rows]))
            finals.append([torch.stack(kind) for kind in zip(*(state for _, state in rows), strict=True)])
        x = torch.cat(halves, dim=2)
    return x, packed_up(tuple(torch.stack(kind) for kind in zip(*finals, strict=True)))


def one_direction(name, layer, i, suffix, features):
    """One layer and direction of the stack, its own parameters in it: (x, states) -> (output, states), unbatched."""
    single = layer_of(name, features, HIDDEN, bias=layer.bias, **projection(name, layer.proj_size))
    end = f"_l{i}{suffix}"
    weights = {k.removesuffix(end) + "_l0": p for k, p in layer.named_parameters() if k.endswith(end)}

    def call(x, states):
        output, last = functional_call(single, weights, (x, packed_up(tuple(s.unsqueeze(0) for s in states))))
        return output, tuple(s.squeeze(0) for s in as_tuple(last))

    return call, partial(begun_anew, {k.removesuffix("_l0"): p for k, p in weights.items()})


def one_row(alone, anew, x, state, resets, mask, backwards):
    """The segments of one sequence, in the order of the walk. A reset cuts between t-1 and t."""
    outputs = [None] * STEPS
    segments = list(pairwise([0, *(t for t in range(1, STEPS) if resets[t]), STEPS]))
    for low, high in reversed(segments) if backwards else segments:
        if high < STEPS if backwards else low > 0 or resets[0]:
            state = anew(state)
        steps = [t for t in range(low, high) if mask[t]]
        if backwards:
            steps.reverse()
        if steps:
            output, state = alone(x[steps], state)
            for t, y in zip(steps, output, strict=True):
                outputs[t] = y
    width = next((len(y) for y in outputs if y is not None), None) or alone(x, state)[0].shape[1]
    return torch.stack([x.new_zeros(width) if y is None else y for y in outputs]), state


def compare(name, layer, resets, mask=None):
    x, states = series(ROWS, STEPS, FEATURES), states_of(layer, ROWS)
    grads = upstream(layer, x, states)
    flags = {"resets": resets} | ({} if mask is None else {"mask": mask})
    expected = run(layer, x, states, grads, partial(each_segment_alone, name, layer, **flags))
    assert_same(run(layer, x, states, grads, **flags), expected)


@every_cell
@both_directions
@pytest.mark.parametrize("where", RESETS)
def test_resets_equal_separate_sequences(name, bidirectional, where):
    compare(name, layer_of(name, num_layers=2, bidirectional=bidirectional), flags_of(RESETS[where]))


@every_cell
@both_directions
@pytest.mark.parametrize("masked", [where for where in MASKS if where != "none"])
def test_resets_and_a_mask_equal_separate_sequences_of_the_real_steps(name, bidirectional, masked):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional)
    compare(name, layer, flags_of(RESETS["some"]), flags_of(MASKS[masked]))


@every_cell
@pytest.mark.parametrize("masked", ["none", "holes"])
def test_resets_with_projection_and_without_bias_equal_separate_sequences(name, masked):
    layer = layer_of(name, num_layers=2, bidirectional=True, bias=False, **projection(name, 2))
    mask = None if MASKS[masked] is None else flags_of(MASKS[masked])
    compare(name, layer, flags_of(RESETS["some"]), mask)


@every_cell
@both_directions
def test_resets_where_no_step_is_real_only_end_the_state(name, bidirectional):
    layer = layer_of(name, bidirectional=bidirectional)
    nothing = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    compare(name, layer, flags_of(RESETS["some"]), nothing)
    states = states_of(layer, ROWS)
    output, last = layer(series(ROWS, STEPS, FEATURES), packed_up(states), resets=nothing, mask=nothing)
    assert (output == 0).all()
    assert all(torch.equal(one, other) for one, other in zip(as_tuple(last), states, strict=True))


@every_cell
def test_a_reset_at_the_first_step_discards_hx_forwards_and_cuts_nothing_backwards(name):
    layer = layer_of(name, bidirectional=True)
    x, states = series(), states_of(layer)
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    resets[:, 0] = True
    broken, whole = tuple(s.clone() for s in states), tuple(s.clone() for s in states)
    forwards = begun_anew({k.removesuffix("_l0"): p.detach() for k, p in layer.named_parameters()}, states)
    for one, other, fresh in zip(broken, whole, forwards, strict=True):
        one[0], other[0] = NAN, fresh[0]
    output, last = layer(x, packed_up(broken), resets=resets)
    expected, expected_last = layer(x, packed_up(whole))
    assert_equal_within(output, expected, torch.float64, "output")
    for one, other in zip(as_tuple(last), as_tuple(expected_last), strict=True):
        assert_equal_within(one, other, torch.float64, "state")


@every_cell
@pytest.mark.parametrize("proj_size", [0, 2])
def test_step_by_step_with_resets_equals_the_whole(name, proj_size):
    layer = layer_of(name, num_layers=2, **projection(name, proj_size))
    resets = flags_of(RESETS["some"])
    x, states = series(ROWS, STEPS, FEATURES), states_of(layer, ROWS)
    grads = upstream(layer, x, states)

    def steps(x, hx):
        outputs = []
        for t in range(STEPS):
            output, hx = layer.step(x[:, t], hx, resets=resets[:, t])
            outputs.append(output)
        return torch.stack(outputs, dim=1), hx

    assert_same(run(layer, x, states, grads, steps), run(layer, x, states, grads, resets=resets))


@every_cell
def test_a_step_without_a_batch_takes_one_flag(name):
    layer = layer_of(name)
    x, hx = series(FEATURES), packed_up(tuple(s[:, 0] for s in states_of(layer, 1)))
    for flag, before in ((True, None), (False, hx)):
        output, last = layer.step(x, hx, resets=torch.tensor(flag))
        expected, expected_last = layer.step(x, before)
        assert torch.equal(output, expected)
        assert all(torch.equal(a, b) for a, b in zip(as_tuple(last), as_tuple(expected_last), strict=True))
    with pytest.raises(ValueError, match="resets must have the input's first axes"):
        layer.step(x, hx, resets=torch.tensor([True]))


@every_cell
def test_resets_without_a_batch_and_with_time_first_are_the_same_resets(name):
    layer = layer_of(name, bidirectional=True)
    time_first = layer_of(name, bidirectional=True, batch_first=False)
    time_first.load_state_dict(layer.state_dict())
    resets = flags_of(RESETS["some"])
    x, states = series(ROWS, STEPS, FEATURES), states_of(layer, ROWS)
    expected, _ = layer(x, packed_up(states), resets=resets)
    turned, _ = time_first(x.transpose(0, 1), packed_up(states), resets=resets.T)
    assert_equal_within(turned.transpose(0, 1), expected, torch.float64, "time first")
    for way in (layer, time_first):
        alone, _ = way(x[0], packed_up(tuple(s[:, 0] for s in states)), resets=resets[0])
        assert_equal_within(alone, expected[0], torch.float64, "without a batch")
