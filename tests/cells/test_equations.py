"""Every cell's equations against the papers' formulas in float64 numpy, and the signs that the docstrings promise."""

import numpy as np
import oracle
import pytest
import torch
from tolerances import assert_equal_within

from gatedrnn.cells import GRUEquations, LSTMEquations, MinGRUEquations, MinLSTMEquations, ScanCell
from gatedrnn.cells.activations import CANDIDATE_ACTIVATIONS, g
from gatedrnn.layers import LAYERS

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 4, 5
MINIMAL = {"mingru": MinGRUEquations, "minlstm": MinLSTMEquations}
PRE_ACTIVATIONS = torch.tensor([-1000.0, -30.0, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, 30.0, 1000.0], dtype=torch.float64)


def layer_of(name, **kwargs):
    """A layer with weights large enough for every gate to leave its linear range, biases apart from each other."""
    layer = LAYERS[name](FEATURES, HIDDEN, batch_first=True, dtype=torch.float64, **kwargs)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=1.5)
    return layer, {k: v.numpy() for k, v in layer.state_dict().items()}


def series():
    return torch.randn(BATCH, STEPS, FEATURES, dtype=torch.float64)


def walked(layer, x, state):
    """The layer step by step: each step is the cell's own equation, whatever kernel runs the whole sequence."""
    outputs = []
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def assert_same(actual, expected, what):
    assert_equal_within(actual, expected, torch.float64, what)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_lstm_is_the_papers(bias, proj_size):
    layer, weights = layer_of("lstm", bias=bias, proj_size=proj_size)
    x = series()
    h, c = torch.randn(1, BATCH, proj_size or HIDDEN).double(), torch.randn(1, BATCH, HIDDEN).double()
    expected, expected_h, expected_c = oracle.lstm(x.numpy(), weights, h[0].numpy(), c[0].numpy())
    for way in (layer, lambda *arguments: walked(layer, *arguments)):
        output, (last_h, last_c) = way(x, (h, c))
        assert_same(output, expected, "output")
        assert_same(last_h[0], expected_h, "h")
        assert_same(last_c[0], expected_c, "c")


@pytest.mark.parametrize("bias", [True, False])
def test_gru_is_torchs_with_the_reset_gate_after_the_product(bias):
    layer, weights = layer_of("gru", bias=bias)
    x, h = series(), torch.randn(1, BATCH, HIDDEN).double()
    expected, expected_h = oracle.gru(x.numpy(), weights, h[0].numpy())
    for way in (layer, lambda *arguments: walked(layer, *arguments)):
        output, last = way(x, h)
        assert_same(output, expected, "output")
        assert_same(last[0], expected_h, "h")


@pytest.mark.parametrize("name", MINIMAL)
@pytest.mark.parametrize("activation", ["g", "identity"])
@pytest.mark.parametrize("bias, proj_size", [(True, 0), (False, 2), (True, 9)])
def test_the_minimal_cells_are_the_papers(name, activation, bias, proj_size):
    layer, weights = layer_of(name, activation=activation, bias=bias, proj_size=proj_size)
    x, h = series(), torch.randn(1, BATCH, HIDDEN).double()
    expected, expected_h = getattr(oracle, name)(x.numpy(), weights, h[0].numpy(), activation)
    for way in (layer, lambda *arguments: walked(layer, *arguments)):
        output, last = way(x, h)
        assert_same(output, expected, "output")
        assert_same(last[0], expected_h, "h")


def test_g_is_the_papers_and_g_is_the_default():
    assert_same(g(PRE_ACTIVATIONS), oracle.g(PRE_ACTIVATIONS.numpy()), "g")
    assert g(torch.zeros(1)) == 0.5 and (g(PRE_ACTIVATIONS[1:]) > 0).all()
    for equations in MINIMAL.values():
        assert equations().activation == "g"


def test_gradients_of_g_are_finite_everywhere():
    x = PRE_ACTIVATIONS.clone().requires_grad_()
    g(x).sum().backward()
    s = oracle.sigmoid(PRE_ACTIVATIONS.numpy())
    expected = np.where(PRE_ACTIVATIONS.numpy() >= 0, 1.0, s * (1 - s))
    assert_equal_within(x.grad, expected, torch.float64, "gradient of g", gradient=True)


@pytest.mark.parametrize("equations", MINIMAL.values())
def test_an_unknown_activation_is_refused_with_the_known_ones(equations):
    with pytest.raises(ValueError, match=f"{', '.join(CANDIDATE_ACTIVATIONS)}, got 'relu'"):
        equations("relu")


def test_minlstm_with_both_gates_shut_takes_the_limit():
    """f / (f + i) is 0 / 0 there; its limit is the ratio of exponentials, sigmoid(forget - input)."""
    for dtype in (torch.float32, torch.float64):
        forget = torch.tensor([-1000.0, -1000.0, -1001.0], dtype=dtype, requires_grad=True)
        input_ = torch.tensor([-1000.0, -1001.0, -1000.0], dtype=dtype, requires_grad=True)
        decay, drive = MinLSTMEquations("identity").coefficients(torch.ones(3, dtype=dtype), forget, input_)
        expected = oracle.sigmoid(np.array([0.0, 1.0, -1.0]))
        assert_equal_within(decay, expected, dtype, "decay")
        assert_equal_within(drive, 1 - expected, dtype, "drive")
        decay.sum().backward()
        for gate, sign in ((forget, 1), (input_, -1)):
            slope = sign * expected * (1 - expected)
            assert_equal_within(gate.grad, slope, dtype, "gradient of a shut gate", gradient=True)


@pytest.mark.parametrize("name", MINIMAL)
def test_coefficients_are_convex_and_finite_for_every_pre_activation(name):
    """With the candidate at one, decay and drive are two shares of one whole, and no gradient is a NaN."""
    gates = len(MINIMAL[name].projections) - 1
    grid = torch.cartesian_prod(*[PRE_ACTIVATIONS] * gates).reshape(-1, gates).requires_grad_()
    decay, drive = MINIMAL[name]("identity").coefficients(torch.ones(len(grid)).double(), *grid.unbind(1))
    assert_same(decay + drive, torch.ones(len(grid)), "decay + drive")
    assert (decay >= 0).all() and (drive >= 0).all()
    (decay + 2 * drive).sum().backward()
    assert grid.grad.isfinite().all()


OPEN, SHUT = 40.0, -40.0


def share_kept(cell, **gates):
    """How much of a state of one a step keeps, the candidate and every other pre-activation at zero."""
    projected = tuple(torch.full((1, 1), gates.get(p, 0.0), dtype=torch.float64) for p in cell.projections)
    one = torch.ones(1, 1, dtype=torch.float64)
    if isinstance(cell, ScanCell):
        return float(cell.step(projected, one)[1])
    # No recurrent weights: the gates read nothing but `projected`. The kept state stands last in (h,) and (h, c).
    states = (one,) if cell.states == 1 else (0 * one, one)
    return float(cell.step(projected, states, lambda h: (0 * h,) * len(projected))[1][-1])


@pytest.mark.parametrize(
    "cell, gate, kept_when_open, kept_when_shut",
    [
        (LSTMEquations(), "forget", 1.0, 0.0),
        (GRUEquations(), "update", 1.0, 0.0),
        (MinGRUEquations("identity"), "update", 0.0, 1.0),
        # The other gate stands at one half, and the two share one whole.
        (MinLSTMEquations("identity"), "forget", 2 / 3, 0.0),
        (MinLSTMEquations("identity"), "input", 1 / 3, 1.0),
    ],
)
def test_a_gate_keeps_or_replaces_as_its_docstring_says(cell, gate, kept_when_open, kept_when_shut):
    assert_same(share_kept(cell, **{gate: OPEN}), kept_when_open, "state kept by an open gate")
    assert_same(share_kept(cell, **{gate: SHUT}), kept_when_shut, "state kept by a shut gate")


@pytest.mark.parametrize("cell", [MinGRUEquations(), MinLSTMEquations()])
def test_the_sign_of_a_decay_gate_is_the_sign_of_its_slope(cell):
    projected = {p: torch.zeros(1, requires_grad=True) for p in cell.projections}
    decay, _ = cell.coefficients(*projected.values())
    decay.backward()
    slopes = {p: int(x.grad.sign()) for p, x in projected.items() if x.grad is not None}
    assert slopes == dict(cell.decay_gates)


@pytest.mark.parametrize("name", MINIMAL)
def test_a_positive_state_stays_positive_under_g(name):
    layer, _ = layer_of(name)
    output, _ = layer(series(), torch.rand(1, BATCH, HIDDEN).double())
    assert (output > 0).all()


@pytest.mark.parametrize("name", MINIMAL)
def test_a_bfloat16_cell_carries_its_state_in_float32(name):
    cell = MINIMAL[name]()
    projected = tuple(torch.randn(2, 3).bfloat16() for _ in cell.projections)
    state = torch.randn(2, 3)
    output, last = cell.step(projected, state)
    expected, expected_last = cell.step(tuple(p.float() for p in projected), state)
    assert last.dtype == torch.float32
    assert torch.equal(last, expected_last) and torch.equal(output, expected)
