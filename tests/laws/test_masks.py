"""A masked step leaves the state as it was, puts out zero, and its values reach nothing."""

from itertools import pairwise

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    INF,
    NAN,
    STEPS,
    as_tuple,
    assert_same,
    every_cell,
    layer_of,
    projection,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


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


@every_cell
@pytest.mark.parametrize("where", PLACES)
def test_a_masked_layer_with_projection_and_without_bias_equals_the_sequences_alone(name, where):
    layer = layer_of(name, num_layers=2, bidirectional=True, bias=False, **projection(name, 2))
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
    assert (results["output"][1] == 0).all() and (results["output"][[0, 2]] != 0).any(dim=-1).any(dim=-1).all()
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
