"""The paper's scan over logarithms gives the numbers of the linear one, as far as its rounding lets it."""

import math
from functools import partial

import pytest
import torch
from covering import over
from layer_laws import BATCH, FEATURES, STEPS, assert_same, layer_of, run, series, states_of, upstream
from tolerances import assert_equal_within
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gatedrnn.cells import MinGRUEquations, MinLSTMEquations
from gatedrnn.cells.activations import g, log_g
from gatedrnn.ops import linear_scan, log_space_scan
from gatedrnn.ops.log_space import LOG_ZERO

NAMES = ("minlstm", "mingru")
every_log_space_cell = pytest.mark.parametrize("name", NAMES)
# Its rounding grows with the sums of log a: over 200 steps in float64 it still keeps what float32 is asked for.
LENGTHS = {"short": (STEPS, torch.float64), "long": (200, torch.float32)}


def twins(name, **chosen):
    """The same layer twice, by logarithms and without them."""
    by_logarithms, linear = layer_of(name, log_space=True, **chosen), layer_of(name, **chosen)
    linear.load_state_dict(by_logarithms.state_dict())
    return by_logarithms, linear


CHOSEN = {"one layer": {}, "a stack": {"num_layers": 2, "bidirectional": True, "proj_size": 3}}


@over(name=NAMES, length=LENGTHS, chosen=CHOSEN, begins=("positive", "at zero"))
def test_logarithms_give_the_linear_numbers_and_gradients(name, length, chosen, begins):
    variants, (steps, as_exact_as) = twins(name, **chosen), length
    x, hx = series(BATCH, steps, FEATURES), (states_of(variants[0])[0].exp(),)
    grads = upstream(variants[0], x, hx)
    calls = [None if begins == "positive" else lambda x, _, layer=layer: layer(x) for layer in variants]
    found, expected = (run(layer, x, hx, grads, call) for layer, call in zip(variants, calls, strict=True))
    assert all(value.isfinite().all() for value in found.values())
    assert_same(found, expected, as_exact_as)


PLACES = {
    "right": [range(0, 5), range(0, 1), range(0, 7), ()],
    "left": [range(2, 7), range(6, 7), range(0, 7), ()],
    "holes": [(0, 2, 3, 5), (1, 4), range(0, 7), (3,)],
}


@over(name=NAMES, places=PLACES, garbage=(0.0, 1e3, math.nan), bidirectional=(False, True))
def test_a_mask_holds_the_state_in_logarithms_too(name, places, garbage, bidirectional):
    by_logarithms, linear = twins(name, num_layers=2, bidirectional=bidirectional)
    mask = torch.zeros(4, STEPS, dtype=torch.bool)
    for row, steps in enumerate(places):
        mask[row, list(steps)] = True
    x, states = series(4, STEPS, FEATURES), (states_of(linear, 4)[0].exp(),)
    x[~mask] = garbage
    grads = upstream(linear, x, states)
    got = run(by_logarithms, x, states, grads, mask=mask)
    assert_same(got, run(linear, x, states, grads, mask=mask))
    none = {"mask": mask}
    for one, other in zip(by_logarithms(x, **none), linear(x, **none), strict=True):
        assert_equal_within(one, other, torch.float64, "without hx")


@every_log_space_cell
def test_a_packed_sequence_runs_by_logarithms(name):
    by_logarithms, linear = twins(name, num_layers=2, bidirectional=True)
    lengths = torch.tensor([2, 7, 1, 5])
    x, mask = series(4, STEPS, FEATURES), torch.arange(STEPS) < lengths.unsqueeze(1)
    rows = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    for hx in (states_of(linear, 4)[0].exp(), None):
        (output, last), (expected, expected_last) = by_logarithms(rows, hx), linear(x, hx, mask=mask)
        assert_equal_within(pad_packed_sequence(output, batch_first=True)[0], expected, torch.float64, "output")
        assert_equal_within(last, expected_last, torch.float64, "state")


@every_log_space_cell
def test_a_state_carried_by_logarithms_or_step_by_step_makes_the_whole(name):
    layer, linear = twins(name, num_layers=2, proj_size=2)
    x = series()
    whole, last = linear(x)
    first, state = layer(x[:, :3])
    second, carried = layer(x[:, 3:], state)
    assert_equal_within(torch.cat([first, second], dim=1), whole, torch.float64, "two halves")
    assert_equal_within(carried, last, torch.float64, "state")
    state, outputs = None, []
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    assert_equal_within(torch.stack(outputs, dim=1), whole, torch.float64, "steps")


@every_log_space_cell
def test_runs_on_says_which_scan_it_is_and_the_rounding_shows_it(name):
    by_logarithms, linear = twins(name)
    x = series(BATCH, 200, FEATURES)
    assert not torch.equal(by_logarithms(x)[0], linear(x)[0])
    assert by_logarithms.runs_on().name == "the scan over logarithms"
    assert linear.runs_on().name.startswith("one kernel")


def test_log_g_is_the_logarithm_of_g_with_its_gradient_and_finite_where_g_underflows():
    x = torch.cat([torch.linspace(-30, 30, 121, dtype=torch.float64), torch.tensor([-1e-9, 0.0, 1e-9]).double()])
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = log_g(ours), torch.log(g(theirs))
    assert_equal_within(actual, expected, torch.float64, "log g")
    got, wanted = torch.autograd.grad(actual.sum(), ours)[0], torch.autograd.grad(expected.sum(), theirs)[0]
    assert_equal_within(got, wanted, torch.float64, "gradient", gradient=True)
    far = torch.tensor([-1e4, -800, 1e30], dtype=torch.float64, requires_grad=True)
    wanted = torch.tensor([-1e4, -800, math.log(1e30)], dtype=torch.float64)
    assert_equal_within(log_g(far), wanted, torch.float64, "log g far out")
    assert torch.autograd.grad(log_g(far).sum(), far)[0].isfinite().all()


@pytest.mark.parametrize("cell", [MinLSTMEquations(), MinGRUEquations()], ids=lambda cell: cell.name)
def test_log_coefficients_are_the_logarithms_of_the_coefficients_and_finite_with_their_gradients(cell):
    projected = [3 * series() for _ in cell.projections]
    for logarithm, value in zip(cell.log_coefficients(*projected), cell.coefficients(*projected), strict=True):
        assert_equal_within(logarithm, value.log(), torch.float64, "logarithm")
    for size in (800.0, -800.0):  # exp of it is infinite or 0
        shut = [torch.full((1, 3, 2), size * sign, dtype=torch.float64, requires_grad=True) for sign in (1, -1, 1)]
        shut = shut[: len(cell.projections)]
        log_decay, log_drive = cell.log_coefficients(*shut)
        found = torch.autograd.grad((log_decay + log_drive).sum(), shut)
        assert all(value.isfinite().all() for value in (log_decay, log_drive, *found))


@over(length=LENGTHS, reverse=(False, True))
def test_the_scan_over_logarithms_is_the_linear_scan_of_positive_numbers(length, reverse):
    steps, as_exact_as = length
    decay, drive = torch.rand(2, BATCH, steps, 4, dtype=torch.float64) + 0.05
    h0, grads = torch.rand(BATCH, 4, dtype=torch.float64) + 0.05, (series(BATCH, steps, 4), series(BATCH, 4))
    results = []
    for scan in (lambda a, b, h: log_space_scan(a.log(), b.log(), h, reverse), partial(linear_scan, reverse=reverse)):
        inputs = [v.clone().requires_grad_() for v in (decay, drive, h0)]
        h, last = scan(*inputs)
        found = torch.autograd.grad((h, last), inputs, grads)
        named = {f"gradient of {k}": v for k, v in zip(("decay", "drive", "h0"), found, strict=True)}
        results.append({"states": h, "last": last} | named)
    assert_same(*results, as_exact_as)


def test_no_state_and_no_drive_are_zeros_without_a_gradient():
    """A row begins with a state or at 0; a drive of LOG_ZERO adds nothing, and a row of nothing else stays at 0."""
    log_decay = torch.log(torch.rand(BATCH, STEPS, 4, dtype=torch.float64)).requires_grad_()
    log_drive = series(BATCH, STEPS, 4)
    log_drive[1, 2:4] = log_drive[2] = LOG_ZERO
    log_drive.requires_grad_()
    h0 = torch.rand(BATCH, 4, dtype=torch.float64)
    h0[[0, 2]] = 0
    h0.requires_grad_()
    h, last = log_space_scan(log_decay, log_drive, h0)
    expected, expected_last = linear_scan(log_decay.exp(), log_drive.exp(), h0)
    assert_equal_within(h, expected, torch.float64, "states")
    assert_equal_within(last, expected_last, torch.float64, "last")
    assert (h[2] == 0).all()
    found = torch.autograd.grad(h.sum() + last.sum(), [log_decay, log_drive, h0])
    assert all(gradient.isfinite().all() for gradient in found)
    assert (found[1][2] == 0).all() and (found[2][[0, 2]] == 0).all() and (found[2][1] != 0).all()


@every_log_space_cell
def test_a_float32_and_a_bfloat16_layer_run_by_logarithms(name):
    for dtype in (torch.float32, torch.bfloat16):
        by_logarithms, linear = (layer_of(name, log_space=space, dtype=dtype) for space in (True, False))
        linear.load_state_dict(by_logarithms.state_dict())
        x, hx = series(dtype=dtype), states_of(linear, dtype=torch.float32)[0].exp()
        (output, last), (expected, expected_last) = by_logarithms(x, hx), linear(x, hx)
        assert output.dtype == dtype and last.dtype == torch.float32
        assert_equal_within(output, expected, dtype, "output")
        assert_equal_within(last, expected_last, torch.float32, "state")
