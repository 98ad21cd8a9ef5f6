"""Times between steps: the decay raised to them and GRU-D's equations in numpy, what is refused, extreme times.

That masked steps pass theirs on, cuts begin anew and two steps make one, in all execution modes, is part of `verify`.
"""

from copy import deepcopy

import numpy as np
import pytest
import torch
from layer_laws import assert_same_run, own_weights
from refusals import refused
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import GRUD, GRUDCell, MinGRU
from gatedrnn.equations import GappedEquations, GappedScanEquations
from gatedrnn.kinds.definition import gaps_between_real_steps
from gatedrnn.registry import CELLS
from gatedrnn.verify.definition import Sequences, run_by_definition

TAKE = [name for name, cell in CELLS.items() if issubclass(cell.equations, GappedScanEquations)]
REFUSE = [name for name, cell in CELLS.items() if not issubclass(cell.equations, GappedEquations)]
GAPS = torch.tensor([[0.5, 0.0, 3.0, 1.0, 40.0], [1.0, 2.5, 0.1, 0.0, 1.0]], dtype=torch.float64)
DRIVES = {"lstm-input-gated": lambda raised, a: 1, "rg-lru": lambda raised, a: np.sqrt((1 - raised**2) / (1 - a**2))}
"""The factor of a drive over a gap, beside that of a step of 1."""
CONVEX = lambda raised, a: (1 - raised) / (1 - a)  # noqa: E731
TIMES = 3  # of features of GRU-D


def layer_of(name, **arguments):
    arguments |= {"qrnn": {"window": 1}, "gru-d": {"gap_features": TIMES}}.get(name, {})
    return CELLS[name].layer(3, 4, batch_first=True, dtype=torch.float64, **arguments)


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
    expected = np.stack(states, axis=1)
    if name == "qrnn":
        expected = expected / (1 + np.exp(-gates[2].numpy()))
    elif layer.cell.output is not None:
        expected = np.tanh(expected)
    assert_same_run(layer(x, gaps=GAPS), (expected, states[-1][None]))


def test_a_reversed_direction_reads_the_gap_of_the_step_after_and_1_at_the_end_and_a_long_series_loses_no_time():
    found = gaps_between_real_steps(GAPS, None, None, reverse=True)
    assert_equal_within(found, torch.cat([GAPS[:, 1:], GAPS.new_ones(2, 1)], dim=1), torch.float64, "gaps")
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
    x, gaps = torch.randn(2, 5, 3), GAPS.float()
    for name in REFUSE:
        layer = CELLS[name].layer(3, 4, batch_first=True)
        refused(ValueError, f"{name} takes no gaps", layer, x, gaps=gaps)
        refused(ValueError, f"{name} takes no gaps", layer.step, x[:, 0], gaps=gaps[:, 0])
    refused(ValueError, "log_space takes no gaps", MinGRU(3, 4, log_space=True), x.transpose(0, 1), gaps=gaps.T)
    refused(ValueError, "lstm takes no gaps", CELLS["lstm"].layer(3, 4), x[0], gaps=gaps[0])  # unbatched


def test_what_are_no_times_or_times_of_another_type_or_shape_is_refused():
    x, gaps = torch.randn(2, 5, 3, dtype=torch.float64), torch.ones(2, 5, TIMES)
    for wrong in (-GAPS, GAPS * torch.nan, GAPS / 0):
        refused(ValueError, "finite and 0 or more", layer_of("mingru"), x, gaps=wrong)
    refused(TypeError, "gaps must be a tensor of times, got list", layer_of("mingru"), x, gaps=[[1.0] * 5] * 2)
    refused(ValueError, "floating point, got torch.int64", layer_of("mingru"), x, gaps=torch.ones(2, 5).long())
    refused(ValueError, r"first axes \(2, 5\), got shape \(5, 2\)", layer_of("mingru"), x, gaps=torch.ones(5, 2))
    refused(ValueError, "gap_features must be at least 1, got 0", GRUD, 3, 4, gap_features=0)
    said = r"first axes \(2, 5\), or \(2, 5, 3\) with a time for each feature"
    refused(ValueError, said, layer_of("gru-d"), x, gaps=gaps[..., :2])
    said = r"or \(2, 5, 6\) with a time for each feature"
    refused(ValueError, said, layer_of("gru-d", bidirectional=True), x, gaps=gaps)
    refused(ValueError, "finite and 0 or more", layer_of("gru-d"), x, gaps=-gaps)


@pytest.mark.parametrize("name", ["mingru", "gru-d"])
def test_frozen_weights_unbatched_and_not_contiguous_input(name):
    layer, x = layer_of(name).requires_grad_(False), torch.randn(3, 5, 2, dtype=torch.float64).transpose(0, 2)
    gaps = GAPS.T.contiguous().T if name == "mingru" else 3 * torch.rand(TIMES, 5, 2).double().transpose(0, 2)
    output, last = layer(x, gaps=gaps)
    for row in range(2):
        assert_same_run(layer(x[row], gaps=gaps[row]), (output[row], last[:, row]))
    assert not output.requires_grad


def of_features(bias=True):
    """GRU-D and what it is given, among it gaps of 0."""
    layer, x = layer_of("gru-d", bias=bias), torch.randn(2, 5, 3, dtype=torch.float64)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    gaps = 3 * torch.rand(2, 5, TIMES, dtype=torch.float64)
    gaps[0, 2] = 0
    return layer, x, torch.randn(1, 2, 4, dtype=torch.float64), gaps


def in_numpy(layer, x, h, gaps=None):
    """Outputs and last state of GRU-D, a step after another, each over its gaps."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    return run_by_definition(layer, Sequences(x, (h,), real, ~real, gaps=gaps), in_numpy=True)


@pytest.mark.parametrize("bias", [True, False])
def test_values_of_gru_d_are_those_of_the_paper_with_a_time_for_each_feature(bias):
    layer, x, h, gaps = of_features(bias)
    output, (last,) = in_numpy(layer, x, h, gaps)
    assert_same_run(layer(x, h, gaps=gaps), (output, last))


def test_a_gap_of_0_leaves_the_state_of_gru_d_and_without_gaps_each_is_1_as_in_a_single_step():
    layer, x, h, _ = of_features()
    cell = GRUDCell(3, 4, dtype=torch.float64, gap_features=TIMES)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in layer.state_dict().items()})
    assert_equal_within(cell(x[:, 0], h[0]), layer.step(x[:, 0], h)[1][0], torch.float64, "state")
    with torch.no_grad():
        layer.bias_gap_l0.fill_(-1.0)
    nothing = torch.zeros(2, 5, dtype=torch.float64)
    plain = deepcopy(layer)
    nn.init.zeros_(plain.weight_gap_l0)
    nn.init.zeros_(plain.bias_gap_l0)
    expected, _ = in_numpy(plain, x, h)
    assert_equal_within(layer(x, h, gaps=nothing)[0], expected, torch.float64, "gap of 0")
    assert_equal_within(layer(x, h)[0], layer(x, h, gaps=nothing + 1)[0], torch.float64, "no gaps")
