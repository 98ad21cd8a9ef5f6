"""A gate keeps or replaces as its docstring and its `decay_gates` say, in every cell."""

import re

import pytest
import torch
from small_cells import BATCH, CELLS, FEATURES, HIDDEN, MINIMAL, PRE_ACTIVATIONS, STEPS, step_without_recurrence
from tolerances import assert_equal_within

from gatedrnn import registry

OPEN, SHUT = 40.0, -40.0
SUBJECTS = {"z": "update", "f": "forget", "the forget gate": "forget", "a": "decay", "d": "decay", "r": "recurrence"}
KEEPS, REPLACES = (1.0, 0.0), (0.0, 1.0)  # the share of a state kept by an open gate, and by a shut one
# Where two gates share one whole, the other stands at one half.
OF_TWO = {"forget": (2 / 3, 0.0), "input": (1 / 3, 1.0)}
SHARES = {
    "lstm-normalized": OF_TWO, "minlstm": OF_TWO, "minlstm-identity": OF_TWO, "signed-mingru": {"decay": (1.0, -1.0)},
    "hgrn": {"forget": (1.0, 0.5)}, "rg-lru": {"recurrence": (2.0**-8, 1.0)},
}  # fmt: skip
"""Of cells in which an open gate, or a shut one, does something else than keep all and replace all."""
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


@every_cell
def test_the_sign_of_a_decay_gate_is_the_sign_of_its_slope(variant):
    cell = CELLS[variant]
    projected = {p: number(0.0, cell).requires_grad_() for p in cell.projections}
    state = number(0.5, cell).requires_grad_()
    after = step_without_recurrence(cell, projected.values(), state)[0, 0]
    (kept,) = torch.autograd.grad(after, state, create_graph=True)
    if not kept.requires_grad:  # whatever the input
        assert not cell.decay_gates
        return
    slopes = torch.autograd.grad(kept[0, 0], list(projected.values()), materialize_grads=True)
    signs = {p: int(slope[0, 0].sign()) for p, slope in zip(projected, slopes, strict=True) if slope[0, 0]}
    for gate in cell.exponential:  # what it lets in, states are measured in
        signs.pop(gate)
    assert signs == dict(cell.decay_gates)


def test_a_docstring_says_the_sign_in_its_first_line():
    for variant, cell in CELLS.items():
        first = cell.__doc__.splitlines()[0]
        said = re.findall(rf"({'|'.join(SUBJECTS)}) \*(keeps|replaces)\*", first)
        assert len(said) == bool(cell.decay_gates), variant
        for subject, word in said:
            if variant == "mgu-keep":
                assert "(with keep=True it keeps)" in first and word == "replaces"
                word = "keeps"
            assert cell.decay_gates[SUBJECTS[subject]] == {"keeps": 1, "replaces": -1}[word], variant


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


@pytest.mark.parametrize("variant", ["lstm-normalized", *MINIMAL])
def test_a_positive_state_stays_positive_where_the_candidate_is_positive(variant):
    layer = registry.CELLS[variant].layer(FEATURES, HIDDEN, batch_first=True, dtype=torch.float64)
    for name, weight in layer.named_parameters():
        torch.nn.init.normal_(weight, std=3)
        if variant == "lstm-normalized":  # the last block is the candidate's, and tanh has a sign
            weight.data[2 * HIDDEN :] = 0 if "weight" in name else 1
    output, last = layer(torch.randn(BATCH, STEPS, FEATURES).double(), torch.rand(1, BATCH, HIDDEN).double())
    assert (output > 0).all() and (last > 0).all()
