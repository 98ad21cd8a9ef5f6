"""Under autocast a layer carries on with its own state, and gives one dtype however it is run."""

import pytest
import torch
from layer_laws import TORCH, as_tuple, every_cell, layer_of, packed_up, series
from tolerances import assert_equal_within

from gatedrnn.verify.tolerances import ROUNDED

MASK = torch.arange(7) < torch.tensor([[7], [3], [5]])
RESETS = torch.zeros(3, 7, dtype=torch.bool).index_fill(1, torch.tensor([2, 5]), True)


@every_cell
def test_a_layer_under_autocast_carries_on_with_its_own_state_and_gives_bfloat16(name):
    for flags in ({}, {"mask": MASK}, {"resets": RESETS}):
        layer, x = layer_of(name, dtype=torch.float32), series(dtype=torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            output, last = layer(x, **flags)
            again, _ = layer(x, last, **flags)
            narrow, _ = layer(x.bfloat16(), packed_up(tuple(s.float() for s in as_tuple(last))), **flags)
        assert output.dtype == again.dtype == narrow.dtype == torch.bfloat16
        expected, state = layer(x, **flags)
        assert_equal_within(output, expected, ROUNDED, "output")
        for got, want in zip(as_tuple(last), as_tuple(state), strict=True):
            assert_equal_within(got, want, ROUNDED, "state")
        assert_equal_within(again, layer(x, packed_up(as_tuple(state)), **flags)[0], ROUNDED, "output after it")


@pytest.mark.parametrize("name", TORCH)
def test_torchs_own_layers_carry_on_alike(name):
    ours, theirs = layer_of(name, dtype=torch.float32), TORCH[name](3, 4, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x = series(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        (got, state), (want, same) = ours(x), theirs(x)
        assert_equal_within(ours(x, state)[0], theirs(x, same)[0], ROUNDED, "output")
    assert_equal_within(got, want, ROUNDED, "output")
