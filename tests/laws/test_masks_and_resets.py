"""Rows where no step is real, to the last bit, and a state that a reset discards; for the rest see test_equivalence."""

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    NAN,
    STEPS,
    as_tuple,
    begun_anew,
    every_cell,
    layer_of,
    packed_up,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@pytest.mark.parametrize("others", ["real", "masked"])
@every_cell
def test_a_row_without_a_real_step_gives_its_state_back_or_begins_anew_and_puts_out_zeros(name, others):
    """Row 0 as it is, rows 1 to 3 without a real step: without a reset, with one at the first step, with one later."""
    layer = layer_of(name, num_layers=2, bidirectional=True)
    x, states = series(4, STEPS, FEATURES), states_of(layer, 4)
    mask, resets = torch.zeros(2, 4, STEPS, dtype=torch.bool)
    mask[0] = others == "real"
    resets[2, 0] = resets[3, 2] = True
    grads = upstream(layer, x, states)
    found = run(layer, x, states, grads, mask=mask, resets=resets)
    assert (found["output"][1:] == 0).all() and (found["gradient of input"][1:] == 0).all()
    assert (found["output"][0] != 0).any() == (others == "real")
    for i, state in enumerate(states):
        for index, suffix in enumerate(("_l0", "_l0_reverse", "_l1", "_l1_reverse")):
            weights = {k.removesuffix(suffix): p.detach() for k, p in layer.named_parameters() if k.endswith(suffix)}
            anew = begun_anew(weights, (state[index],))[0]
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
    forwards = begun_anew({k.removesuffix("_l0"): p.detach() for k, p in layer.named_parameters()}, states)
    for one, other, fresh in zip(broken, whole, forwards, strict=True):
        one[0], other[0] = NAN, fresh[0]
    output, last = layer(x, packed_up(broken), resets=resets)
    expected, expected_last = layer(x, packed_up(whole))
    assert_equal_within(output, expected, torch.float64, "output")
    for one, other in zip(as_tuple(last), as_tuple(expected_last), strict=True):
        assert_equal_within(one, other, torch.float64, "state")
