"""Every cell with every option equals the papers' formulas, written a second time in float64 numpy."""

import numpy as np
import pytest
import torch
from covering import over
from small_cells import BATCH, FEATURES, HIDDEN, STEPS, VARIANTS
from tolerances import assert_equal_within

from gatedrnn.equations import Recurrent
from gatedrnn.registry import CELLS
from gatedrnn.verify.oracle import ORACLES

WIDEST = {"lstm": 2, "cifg": 2}
"""Of a projection, torch's bound for its cell; that of any other may widen. Through a wide one `cifg` is chaotic with
weights as large as these: a rounding grows a thousandfold in seven steps."""


def has_projection(variant, projected):
    return not projected or VARIANTS[variant][0] != "gru"


def layer_of(variant, dtype=torch.float64, **kwargs):
    """A layer with weights large enough for every gate to leave its linear range, biases apart from each other."""
    name, options = VARIANTS[variant]
    layer = CELLS[name].layer(FEATURES, HIDDEN, batch_first=True, dtype=dtype, **options, **kwargs)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=1.5)
    return layer


def oracle_of(variant, layer, x, states):
    """Outputs and last states of the layer's weights in numpy."""
    name, options = VARIANTS[variant]
    weights = {k.removesuffix("_l0"): v.double().numpy() for k, v in layer.state_dict().items()}
    states = tuple(s.double().numpy() for s in states)
    return ORACLES[name](x.double().numpy(), weights, states, **options)


def iterated(layer, x, state):
    """The layer step by step: each step is the cell's own equation, whatever kernel runs the whole sequence."""
    outputs = []
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def assert_is(actual, expected, dtype=torch.float64):
    """Outputs and last states of a layer are the oracle's."""
    (output, last), (expected_output, expected_last) = actual, expected
    last = last if isinstance(last, tuple) else (last,)
    assert_equal_within(output, expected_output, dtype, "output")
    for i, (state, number) in enumerate(zip(last, expected_last, strict=True)):
        assert_equal_within(state[0], number, dtype, f"state {i}")


def test_every_cell_has_an_oracle():
    assert set(ORACLES) == set(CELLS)


@over(has_projection, variant=list(VARIANTS), bias=(True, False), projected=(True, False))
def test_every_cell_is_the_papers(variant, bias, projected):
    layer = layer_of(variant, bias=bias, proj_size=WIDEST.get(VARIANTS[variant][0], 9) if projected else 0)
    x = torch.randn(BATCH, STEPS, FEATURES).double()
    states = tuple(torch.randn(BATCH, size).double() for size in layer.state_sizes())
    learned = [p.detach().expand_as(states[0]) for name, p in layer.named_parameters() if name == "initial_state_l0"]
    anew = tuple(learned) or tuple(torch.zeros_like(s) for s in states)
    for before, start in ((states, states), (None, anew)):
        hx = before and tuple(s.unsqueeze(0) for s in before)
        hx = hx[0] if hx and len(hx) == 1 else hx
        expected = oracle_of(variant, layer, x, start)
        assert_is(layer(x, hx), expected)
        assert_is(iterated(layer, x, hx), expected)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v not in ("lstm", "gru")])
def test_one_step_in_bfloat16_keeps_a_float32_state_near_the_papers(variant):
    """Not torch's own two cells, which round the state and every number on the way to it."""
    layer = layer_of(variant, torch.bfloat16)
    # Sums that bfloat16 has exactly, so that the input projection is not rounded.
    x = torch.randint(-2, 3, (BATCH, FEATURES)).bfloat16()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_((4 * weight).round() / 8)
    states = tuple(torch.randn(1, BATCH, size) for size in layer.state_sizes())
    if len(states) > len(layer.cell.states):  # the last input is of the input's dtype
        states = (*states[:-1], states[-1].round())
    output, last = layer.step(x, states if len(states) > 1 else states[0])
    last = last if isinstance(last, tuple) else (last,)
    expected = oracle_of(variant, layer, x.unsqueeze(1), tuple(s[0] for s in states))
    assert output.dtype == torch.bfloat16 and {s.dtype for s in last} == {torch.float32}
    assert_is((output.unsqueeze(1), last), expected, torch.bfloat16)
    if not layer.cell.reads_state:
        assert_equal_within(last[0][0], expected[1][0], torch.float32, "a scan's state")


def test_gates_that_are_asked_for_by_name_are_the_rows_of_all():
    gates = ("reset", "update", "candidate")
    weights = {"weight_hh": torch.randn(3 * HIDDEN, HIDDEN).double(), "bias_hh": torch.randn(3 * HIDDEN).double()}
    h, dropped = torch.randn(BATCH, HIDDEN).double(), torch.rand(BATCH, HIDDEN).double()
    recurrent = Recurrent(gates, weights, dropped)
    blocks = np.split((h * dropped).numpy() @ weights["weight_hh"].numpy().T + weights["bias_hh"].numpy(), 3, axis=1)
    for asked, expected in ((gates, blocks), ((), blocks), (gates[:2], blocks[:2]), (gates[2:], blocks[2:])):
        for block, number in zip(recurrent(h, *asked), expected, strict=True):
            assert_equal_within(block, number, torch.float64, f"of {asked}")
    halves = Recurrent(gates, {k: w.bfloat16() for k, w in weights.items()})
    assert {block.dtype for block in halves(h.float())} == {torch.float32}
    with pytest.raises(AssertionError, match="no neighbours"):
        recurrent(h, "reset", "candidate")
