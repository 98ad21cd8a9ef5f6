"""Times between steps: the decay raised to them, in numpy; what is refused; no loss over long or extreme times.

That all execution modes agree with gaps, masked steps pass theirs on, and two steps make one, is part of `verify`.
"""

import numpy as np
import pytest
import torch
from layer_laws import own_weights
from tolerances import assert_equal_within

from gatedrnn import MinGRU
from gatedrnn.equations import GappedEquations, GappedScanEquations
from gatedrnn.ops.masking import gaps_between_real_steps
from gatedrnn.registry import CELLS

TAKE = [name for name, cell in CELLS.items() if issubclass(cell.equations, GappedScanEquations)]
REFUSE = [name for name, cell in CELLS.items() if not issubclass(cell.equations, GappedEquations)]
GAPS = torch.tensor([[0.5, 0.0, 3.0, 1.0, 40.0], [1.0, 2.5, 0.1, 0.0, 1.0]], dtype=torch.float64)
DRIVES = {"lstm-input-gated": lambda raised, a: 1, "rg-lru": lambda raised, a: np.sqrt((1 - raised**2) / (1 - a**2))}
"""By what the drive of a step of 1 is multiplied over a gap."""
CONVEX = lambda raised, a: (1 - raised) / (1 - a)  # noqa: E731


def layer_of(name, **arguments):
    arguments |= {"window": 1} if name == "qrnn" else {}
    return CELLS[name].layer(3, 4, batch_first=True, dtype=torch.float64, **arguments)


def test_scan_cells_with_decays_between_0_and_1_take_gaps():
    convex = ["lstm-normalized", "minlstm", "gru-input-gated", "mingru", "hgrn", "rg-lru", "qrnn"]
    assert TAKE == ["lstm-input-gated", *convex]


@pytest.mark.parametrize("name", TAKE)
def test_a_decay_is_raised_to_the_gap(name):
    layer, x = layer_of(name), torch.randn(2, 5, 3, dtype=torch.float64)
    projected = (x @ layer.weight_ih_l0.T + layer.bias_ih_l0).detach()
    gates = projected.chunk(len(layer.cell.projections), dim=2)
    a, b = (part.detach().numpy() for part in layer.cell.coefficients(*gates, *own_weights(layer)))
    state, states = np.zeros((2, 4)), []
    for t in range(5):
        raised = a[:, t] ** GAPS[:, t, None].numpy()
        state = raised * state + DRIVES.get(name, CONVEX)(raised, a[:, t]) * b[:, t]
        states.append(state)
    output, last = layer(x, gaps=GAPS)
    assert_equal_within(last[0], states[-1], torch.float64, "state")
    expected = np.stack(states, axis=1)
    if name == "qrnn":
        expected = expected / (1 + np.exp(-gates[2].numpy()))
    elif hasattr(layer.cell, "output"):
        expected = np.tanh(expected)
    assert_equal_within(output, expected, torch.float64, "output")


@pytest.mark.parametrize("name", TAKE)
def test_gaps_of_1_change_nothing(name):
    layer, x = layer_of(name, num_layers=2, bidirectional=True), torch.randn(2, 5, 3, dtype=torch.float64)
    mask = torch.rand(2, 5) < 2  # all real
    for given, expected in zip(layer(x, mask=mask, gaps=torch.ones(2, 5)), layer(x), strict=True):
        assert_equal_within(given, expected, torch.float64, "with gaps of 1")


def test_a_reversed_direction_reads_the_gap_of_the_step_after_and_1_at_the_end():
    found = gaps_between_real_steps(GAPS, None, None, reverse=True)
    assert_equal_within(found, torch.cat([GAPS[:, 1:], GAPS.new_ones(2, 1)], dim=1), torch.float64, "gaps")
    mask = torch.tensor([[True, False, True, True, False], [True] * 5])
    resets = torch.tensor([[False] * 5, [False, False, True, False, False]])
    found = gaps_between_real_steps(GAPS, mask, resets, reverse=True)
    assert found[0, [0, 2, 3]].tolist() == pytest.approx([3.0, 1.0, 1.0]), "padding at the end has no time"
    assert found[1].tolist() == pytest.approx([2.5, 1.0, 0.0, 1.0, 1.0]), "a cut ends the time between two steps"


def test_masked_steps_and_cuts_add_up_or_begin_anew():
    mask = torch.tensor([[False, True, False, False, True], [True, False, False, True, True]])
    resets = torch.tensor([[False, False, False, True, False], [False] * 5])
    found = gaps_between_real_steps(GAPS, mask, resets, reverse=False)
    assert found[0, [1, 4]].tolist() == [0.5, 41.0]
    assert found[1, [0, 3, 4]].tolist() == pytest.approx([1.0, 2.6, 1.0])


def test_a_long_series_loses_no_time():
    gaps, mask = torch.full((1, 300_000), 0.1), torch.ones(1, 300_000, dtype=torch.bool)
    mask[:, ::2] = False
    found = gaps_between_real_steps(gaps, mask, None, reverse=False)
    assert (found[mask] - 0.2).abs().max() < 1e-6


@pytest.mark.parametrize("name", TAKE)
def test_extreme_gaps_and_gates_have_finite_values_and_gradients(name):
    layer = CELLS[name].layer(1, 2, batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
    x = torch.tensor([[-1e4], [1e4], [0.0], [30.0], [-30.0]]).repeat(4, 1).unsqueeze(0).requires_grad_()
    gaps = torch.tensor([0.0, 1e-30, 1.0, 1e6]).repeat_interleave(5).unsqueeze(0).requires_grad_()
    output, _ = layer(x, gaps=gaps)
    gradients = torch.autograd.grad(output.sum(), [x, gaps, *layer.parameters()])
    assert output.isfinite().all() and all(gradient.isfinite().all() for gradient in gradients)


def test_other_cells_refuse_gaps_before_they_run():
    x = torch.randn(2, 5, 3)
    for name in REFUSE:
        layer = CELLS[name].layer(3, 4, batch_first=True)
        with pytest.raises(ValueError, match=f"{name} takes no gaps"):
            layer(x, gaps=GAPS.float())
        with pytest.raises(ValueError, match=f"{name} takes no gaps"):
            layer.step(x[:, 0], gaps=GAPS[:, 0].float())
    with pytest.raises(ValueError, match="log_space takes no gaps"):
        MinGRU(3, 4, log_space=True)(torch.randn(5, 2, 3), gaps=torch.ones(5, 2))
    with pytest.raises(ValueError, match="lstm takes no gaps"):  # unbatched
        CELLS["lstm"].layer(3, 4)(torch.randn(5, 3), gaps=torch.ones(5))


@pytest.mark.parametrize(
    ("gaps", "error", "said"),
    [
        ([[1.0] * 5] * 2, TypeError, "gaps must be a tensor of times, got list"),
        (torch.ones(2, 5, dtype=torch.long), ValueError, "floating point, got torch.int64"),
        (torch.ones(5, 2), ValueError, r"first axes \(2, 5\), got shape \(5, 2\)"),
        (-GAPS, ValueError, "finite and 0 or more"),
        (GAPS * torch.nan, ValueError, "finite and 0 or more"),
        (GAPS / 0, ValueError, "finite and 0 or more"),
    ],
)
def test_what_are_no_times_is_refused(gaps, error, said):
    with pytest.raises(error, match=said):
        layer_of("mingru")(torch.randn(2, 5, 3, dtype=torch.float64), gaps=gaps)


def test_frozen_weights_unbatched_and_not_contiguous_input():
    layer = layer_of("mingru").requires_grad_(False)
    x = torch.randn(3, 5, 2, dtype=torch.float64).transpose(0, 2)
    output, last = layer(x, gaps=GAPS.T.contiguous().T)
    for row in range(2):
        alone, state = layer(x[row], gaps=GAPS[row])
        assert_equal_within(alone, output[row], torch.float64, "unbatched")
        assert_equal_within(state, last[:, row], torch.float64, "unbatched state")
    assert not output.requires_grad
