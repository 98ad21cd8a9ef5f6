"""A reset equals a new sequence, in both directions."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    NAN,
    STEPS,
    assert_same,
    every_scan_cell,
    layer_of,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within

# torch's own remark on proj_size in float32, once per process.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


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
