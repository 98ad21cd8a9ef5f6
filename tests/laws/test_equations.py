"""Gates keep or replace as they say; limits where a formula would be 0 / 0 or log 0. See also test_equivalence.py."""

import re
from copy import deepcopy

import numpy as np
import pytest
import torch
from layer_laws import as_tuple, assert_same_run, packed_up
from refusals import refused
from small_cells import BATCH, CELLS, FEATURES, HIDDEN, MINIMAL, PRE_ACTIVATIONS, VARIANTS, step_without_recurrence
from tolerances import assert_equal_within

from gatedrnn import registry
from gatedrnn.cells.functions import ACTIVATIONS, g, numpy_g, sigmoid
from gatedrnn.equations import Recurrent
from gatedrnn.kinds import kind_of
from gatedrnn.verify.definition import Sequences, run_by_definition

NUMBERS = PRE_ACTIVATIONS.numpy()
OPEN, SHUT = 40.0, -40.0
KEEPS, REPLACES = (1.0, 0.0), (0.0, 1.0)  # the share of a state kept by an open gate, and by a shut one
# Where two gates share one whole, the other stands at one half.
OF_TWO = {"forget": (2 / 3, 0.0), "input": (1 / 3, 1.0)}
SHARES = {
    "lstm-normalized": OF_TWO, "minlstm": OF_TWO, "minlstm-identity": OF_TWO, "signed-mingru": {"decay": (1.0, -1.0)},
    "hgrn": {"forget": (1.0, 0.5)}, "rg-lru": {"recurrence": (2.0**-8, 1.0)},
}  # fmt: skip
"""The cells in which an open gate, or a shut one, does something else than keep all and replace all."""
# The cells whose new state is a mixture of old state and candidate, and the pre-activation of a candidate of 1.
CANDIDATE_OF_ONE = {
    "lstm-normalized": 1000.0, "minlstm": 0.5, "minlstm-identity": 1.0, "gru": 1000.0, "gru-reset-before": 1000.0,
    "gru-d": 1000.0, "mgu": 1000.0, "mgu-keep": 1000.0, "gru-no-reset-gate": 1000.0, "gru-input-gated": 1000.0,
    "mingru": 0.5, "mingru-identity": 1.0, "para-gru": 1000.0,
}  # fmt: skip
every_cell = pytest.mark.parametrize("variant", CELLS)


def number(value, cell=None):
    """One channel; of a cell of blocks a block, whose first channel no mirror turns."""
    return torch.full((1, 1 if cell is None else cell.block_size), value, dtype=torch.float64)


@every_cell
def test_a_gate_keeps_or_replaces_as_it_is_declared(variant):
    cell = CELLS[variant]
    plain = {gate: KEEPS if sign > 0 else REPLACES for gate, sign in cell.decay_gates.items()}
    for gate, shares in SHARES.get(variant, plain).items():
        for value, share in zip((OPEN, SHUT), shares, strict=True):
            projected = [number(value if p == gate else 0.0, cell) for p in cell.projections]
            one, zero = (step_without_recurrence(cell, projected, number(state, cell)) for state in (1.0, 0.0))
            kept = (one - zero)[:, :1]
            assert_equal_within(kept, number(share), torch.float64, f"share kept with {gate} at {value}")


def test_a_docstring_says_the_sign_in_its_first_line():
    for variant, cell in CELLS.items():
        first = cell.__doc__.splitlines()[0]
        said = re.findall(r"(?:\bthe (\w+) gate|\b\w) \*(keeps|replaces)\*", first)
        rule = "the first line of the docstring says one gate's sign, as in: z *keeps*, the update gate *replaces*"
        assert len(said) == bool(cell.decay_gates), f"{variant}: {rule}"
        for gate, word in said:
            if variant == "mgu-keep":
                assert "(with keep=True it keeps)" in first and word == "replaces"
                word = "keeps"
            (of_letter, *others), sign = cell.decay_gates, {"keeps": 1, "replaces": -1}[word]
            assert gate or not others, f"{variant}: the gate by its name, for there are several"
            assert cell.decay_gates[gate or of_letter] == sign, variant


@pytest.mark.parametrize("variant", CANDIDATE_OF_ONE)
def test_the_new_state_lies_between_the_old_one_and_the_candidate_for_every_pre_activation(variant):
    cell = CELLS[variant]
    gates = len(cell.projections) - 1
    grid = torch.cartesian_prod(*[PRE_ACTIVATIONS] * gates).reshape(-1, gates).requires_grad_()
    columns = iter(grid.split(1, dim=1))
    one, zero = torch.ones(len(grid), 1).double(), torch.zeros(len(grid), 1).double()
    projected = [CANDIDATE_OF_ONE[variant] * one if p == "candidate" else next(columns) for p in cell.projections]
    stays, written = (step_without_recurrence(cell, projected, state) for state in (one, zero))
    assert_equal_within(stays, one, torch.float64, "a state of 1 under a candidate of 1")
    assert (written >= 0).all() and (written <= 1).all() and written.max() == 1 and written.min() < 1e-13
    written.sum().backward()
    assert grid.grad.isfinite().all() and (grid.grad != 0).any()


def test_g_is_the_papers_and_the_default_and_its_gradient_is_finite_everywhere():
    assert_equal_within(g(PRE_ACTIVATIONS), numpy_g(NUMBERS), torch.float64, "g")
    assert g(torch.zeros(1)) == 0.5 and (g(PRE_ACTIVATIONS[1:]) > 0).all() and g(PRE_ACTIVATIONS)[0] == 0
    assert {CELLS[name].activation for name in MINIMAL} == {"g"}
    x, s = PRE_ACTIVATIONS.clone().requires_grad_(), sigmoid(NUMBERS)
    g(x).sum().backward()
    assert_equal_within(x.grad, np.where(NUMBERS >= 0, 1.0, s * (1 - s)), torch.float64, "gradient", gradient=True)
    for name in MINIMAL:
        refused(ValueError, f"{', '.join(ACTIVATIONS)}, got 'relu'", type(CELLS[name]), "relu")


CANDIDATES = [("minlstm-identity", 1.0), ("minlstm", 1.5), ("lstm-normalized", np.tanh(1.0))]


@pytest.mark.parametrize("name, candidate", CANDIDATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_gates_shut_take_the_limit(name, candidate, dtype):
    """f / (f + i) is 0 / 0 there; its limit is the ratio of exponentials, sigmoid(forget - input)."""
    cell = CELLS[name]
    forget = torch.tensor([-1000.0, -1000.0, -1001.0], dtype=dtype, requires_grad=True)
    input_ = torch.tensor([-1000.0, -1001.0, -1000.0], dtype=dtype, requires_grad=True)
    given = {"forget": forget, "input": input_, "candidate": torch.ones(3, dtype=dtype)}
    decay, drive = cell.coefficients(*(given[p] for p in cell.projections))
    expected = sigmoid(np.array([0.0, 1.0, -1.0]))
    assert_equal_within(decay, expected, dtype, "decay")
    assert_equal_within(drive, (1 - expected) * candidate, dtype, "drive")
    decay.sum().backward()
    for gate, sign in ((forget, 1), (input_, -1)):
        slope = sign * expected * (1 - expected)
        assert_equal_within(gate.grad, slope, dtype, "gradient of a shut gate", gradient=True)


def test_every_cell_is_written_a_second_time_in_numpy():
    assert [name for name, cell in registry.CELLS.items() if cell.equations.numpy is None] == []


# Not torch's own two cells in bfloat16, which round the state and every number on the way to it.
STEP = [(v, dtype) for v in VARIANTS for dtype in (torch.float64, torch.bfloat16)[: 2 - (v in ("lstm", "gru"))]]


@pytest.mark.parametrize("variant, dtype", STEP)
def test_one_step_is_the_papers_and_in_bfloat16_keeps_a_float32_state_near_it(variant, dtype):
    (name, options), of_state = VARIANTS[variant], torch.promote_types(dtype, torch.float32)
    layer = registry.CELLS[name].layer(FEATURES, HIDDEN, batch_first=True, dtype=dtype, **options)
    # Sums that bfloat16 has exactly, so that the input projection is not rounded.
    x = torch.randint(-2, 3, (BATCH, FEATURES)).to(dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_((6 * torch.randn(weight.shape)).round() / 8)
    states = tuple(torch.randn(1, BATCH, size).to(of_state) for size in layer.state_sizes())
    if len(states) > len(layer.cell.states):  # the last input is of the input's dtype
        states = (*states[:-1], states[-1].round())
    output, last = layer.step(x, packed_up(states), wide_state=True)
    real, wide = torch.ones(BATCH, 1, dtype=torch.bool), tuple(s.double() for s in states)
    sequences = Sequences(x.unsqueeze(1).double(), wide, real, ~real)
    expected, after = run_by_definition(deepcopy(layer).double(), sequences, in_numpy=True)
    assert output.dtype == dtype and {s.dtype for s in as_tuple(last)} == {of_state}
    found = as_tuple(last)
    assert_same_run((output.unsqueeze(1), found), (expected, after), dtype)
    if dtype == torch.bfloat16 and not kind_of(layer.cell).facts(layer.cell).iterates:
        assert_equal_within(found[0], after[0], torch.float32, "a scan's state")


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
    refused(AssertionError, "no neighbours", recurrent, h, "reset", "candidate")
