"""The activations and shares of the minimal cells, their logarithms, and where either would be 0 / 0 or log 0."""

import numpy as np
import pytest
import torch
from small_cells import CELLS, MINIMAL, PRE_ACTIVATIONS
from tolerances import assert_equal_within

from gatedrnn.cells.activations import ACTIVATIONS, g, log_g
from gatedrnn.verify import oracle

NUMBERS = PRE_ACTIVATIONS.numpy()


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def log_of_g(x):
    return np.where(x >= 0, np.log(np.maximum(x, 0) + 0.5), log_sigmoid(x))


def test_g_is_the_papers_and_g_is_the_default():
    assert_equal_within(g(PRE_ACTIVATIONS), oracle.g(NUMBERS), torch.float64, "g")
    assert g(torch.zeros(1)) == 0.5 and (g(PRE_ACTIVATIONS[1:]) > 0).all()
    for name in MINIMAL:
        assert CELLS[name].activation == "g"


def test_log_g_is_the_logarithm_of_g_also_where_g_underflows():
    assert g(PRE_ACTIVATIONS)[0] == 0
    assert_equal_within(log_g(PRE_ACTIVATIONS), log_of_g(NUMBERS), torch.float64, "log g")
    assert_equal_within(log_g(PRE_ACTIVATIONS[1:]), g(PRE_ACTIVATIONS[1:]).log(), torch.float64, "log of g")


def test_gradients_of_g_and_log_g_are_finite_everywhere():
    s = oracle.sigmoid(NUMBERS)
    slopes = {
        g: np.where(NUMBERS >= 0, 1.0, s * (1 - s)),
        log_g: np.where(NUMBERS >= 0, 1 / (np.maximum(NUMBERS, 0) + 0.5), 1 - s),
    }
    for function, expected in slopes.items():
        x = PRE_ACTIVATIONS.clone().requires_grad_()
        function(x).sum().backward()
        assert_equal_within(x.grad, expected, torch.float64, f"gradient of {function.__name__}", gradient=True)


@pytest.mark.parametrize("name", MINIMAL)
def test_an_unknown_activation_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=f"{', '.join(ACTIVATIONS)}, got 'relu'"):
        type(CELLS[name])("relu")


@pytest.mark.parametrize(
    "name, candidate", [("minlstm-identity", 1.0), ("minlstm", 1.5), ("lstm-normalized", np.tanh(1.0))]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_gates_shut_take_the_limit(name, candidate, dtype):
    """f / (f + i) is 0 / 0 there; its limit is the ratio of exponentials, sigmoid(forget - input)."""
    cell = CELLS[name]
    forget = torch.tensor([-1000.0, -1000.0, -1001.0], dtype=dtype, requires_grad=True)
    input_ = torch.tensor([-1000.0, -1001.0, -1000.0], dtype=dtype, requires_grad=True)
    given = {"forget": forget, "input": input_, "candidate": torch.ones(3, dtype=dtype)}
    decay, drive = cell.coefficients(*(given[p] for p in cell.projections))
    expected = oracle.sigmoid(np.array([0.0, 1.0, -1.0]))
    assert_equal_within(decay, expected, dtype, "decay")
    assert_equal_within(drive, (1 - expected) * candidate, dtype, "drive")
    decay.sum().backward()
    for gate, sign in ((forget, 1), (input_, -1)):
        slope = sign * expected * (1 - expected)
        assert_equal_within(gate.grad, slope, dtype, "gradient of a shut gate", gradient=True)


def logs(name, v, *gates):
    """log a and log b of a minimal cell in numpy, from sums of exponentials."""
    if name == "mingru":
        return log_sigmoid(-gates[0]), log_sigmoid(gates[0]) + log_of_g(v)
    log_ratio = log_sigmoid(gates[0]) - log_sigmoid(gates[1])
    return log_sigmoid(log_ratio), log_sigmoid(-log_ratio) + log_of_g(v)


@pytest.mark.parametrize("name", MINIMAL)
def test_log_coefficients_are_the_logarithms_of_the_coefficients_and_finite_everywhere(name):
    cell = CELLS[name]
    count = len(cell.projections)
    grid = torch.cartesian_prod(*[PRE_ACTIVATIONS] * count).requires_grad_()
    found = cell.log_coefficients(*grid.unbind(1))
    expected = logs(name, *grid.detach().numpy().T)
    coefficients = cell.coefficients(*grid.detach().unbind(1))
    for what, log, exact, plain in zip(("decay", "drive"), found, expected, coefficients, strict=True):
        assert log.isfinite().all()
        assert_equal_within(log, exact, torch.float64, f"log {what}")
        assert_equal_within(log.exp(), plain, torch.float64, what)
    sum(log.sum() for log in found).backward()
    assert grid.grad.isfinite().all()
