"""Gates and scan, or projection, gates and scan, as one op, and the memory that they take; scans over logarithms."""

import math
from functools import partial

import layer_laws as laws
import pytest
import torch
from covering import over
from kernel_cells import FLAGS, SCAN_KERNEL, by_channel, flags_of, split_biases
from kernel_cells import SCAN_KERNELS as CELLS
from paths import axis
from tolerances import assert_equal_within

from gatedrnn import MinGRU
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kinds.scan import cpu, op
from gatedrnn.kinds.scan.definition import coefficients_of, gates_of, scan_in_torch, shown
from gatedrnn.ops import linear_scan, log_space_scan


def by_step_in_memory(x):
    return x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()


def problem(kernel, names=(), batch=3, steps=7, features=5, channels=4, dtype=torch.float64, biased=True):
    torch.manual_seed(0)
    size, flags = channels * len(CELLS[kernel].projections), flags_of(names, batch, steps)
    accumulation = torch.promote_types(dtype, torch.float32)
    given = {
        "x": torch.randn(batch, steps, features, dtype=dtype), "weight": torch.randn(size, features, dtype=dtype),
        "bias": by_channel(CELLS[kernel], channels, accumulation, biased),
        "h0": torch.rand(batch, channels, dtype=accumulation), "mask": flags.get("mask"), "resets": flags.get("resets"),
        "reset_state": torch.randn(channels, dtype=accumulation) if "resets" in names else None,
    }  # fmt: skip
    return {k: v.requires_grad_() if v is not None and v.is_floating_point() else v for k, v in given.items()}


def projected_scan(x, weight, bias, h0, mask, resets, reset_state, kernel, reverse):
    """Outputs, the last state, and the product that the op keeps."""
    return op.scan(x, None, weight, bias, h0, mask, resets, reset_state, kernel, reverse, True)


def in_torch(kernel, x, weight, bias, h0, mask, resets, reset_state, reverse):
    """Outputs and the last state by the cell's own equations and the plain loop."""
    bias, diagonals = split_biases(CELLS[kernel], h0.shape[1], bias)
    gates = gates_of(CELLS[kernel], torch.nn.functional.linear(x, weight, bias))
    h, last = scan_in_torch(*coefficients_of(CELLS[kernel], gates, diagonals, mask), h0, resets, reset_state, reverse)
    return shown(CELLS[kernel], h, gates, mask, x.dtype), last


def assert_equal_to_the_torch_form(kernel, arguments, reverse):
    # The product is rounded before the gates see it: the table has no line for that in float16, which is finer.
    dtype = torch.bfloat16 if arguments["x"].dtype == torch.float16 else arguments["x"].dtype
    output, last, _ = projected_scan(*arguments.values(), kernel, reverse)
    upstream = torch.randn_like(output), torch.randn_like(last)
    floating = {k: v for k, v in arguments.items() if v is not None and v.is_floating_point()}
    found = torch.autograd.grad((output, last), list(floating.values()), upstream)
    exact = {k: v.detach().double().requires_grad_() for k, v in floating.items()}
    expected = in_torch(kernel, **{**arguments, **exact}, reverse=reverse)
    wanted = torch.autograd.grad(expected, list(exact.values()), [g.double() for g in upstream])
    assert_equal_within(output, expected[0], dtype, "output")
    assert_equal_within(last, expected[1], dtype, "last")
    for name, got, want in zip(exact, found, wanted, strict=True):
        assert got.shape == want.shape and got.dtype == arguments[name].dtype
        assert_equal_within(got, want, dtype, name, gradient=True)


@pytest.mark.usefixtures("torchs_compiler")
@over(kernel=SCAN_KERNEL, projecting=(False, True), names=(FLAGS[0], FLAGS[-1]))
def test_the_op_is_registered_as_torch_wants_it_with_its_product_and_without(kernel, projecting, names):
    x, weight, *others = problem(kernel, names, biased=projecting == (not names)).values()
    projected = torch.randn(*x.shape[:2], len(weight), dtype=x.dtype, requires_grad=True)
    given = (x, None, weight) if projecting else (projected, None, None)
    torch.library.opcheck(op.scan, (*given, *others, kernel, bool(names), True))


PIECES = [(size, by_step) for by_step in (False, True) for size in (1, 100, 1 << 21)]
"""One step at a time; some steps, or some sequences; all at once; in memory by sequence, or by step."""


@over(kernel=SCAN_KERNEL, names=FLAGS, pieces=PIECES, reverse=(False, True))
def test_the_size_of_the_pieces_changes_nothing(kernel, names, pieces, reverse, monkeypatch):
    piece, by_step = pieces
    monkeypatch.setattr(cpu, "_PIECE", piece)
    for steps in (1, 7, 30):
        arguments = problem(kernel, names, steps=steps, biased=not reverse)
        if by_step:
            arguments["x"] = by_step_in_memory(arguments["x"])
        assert_equal_to_the_torch_form(kernel, arguments, reverse)


@pytest.mark.usefixtures("torchs_compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_outputs_and_gradients_lie_as_the_inputs_do(dtype):
    arguments = problem("minlstm", dtype=dtype)
    arguments["x"] = by_step_in_memory(arguments["x"])
    x, *others = arguments.values()
    torch.library.opcheck(op.scan, (x, None, *others, "minlstm", False, True))
    output, _, projected = projected_scan(*arguments.values(), "minlstm", False)
    (grad,) = torch.autograd.grad(output.sum(), arguments["x"])
    assert all(v.transpose(0, 1).is_contiguous() for v in (output, projected, grad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel", ["mingru", "lstm-normalized"])
def test_narrower_numbers_obey_the_same_equations(kernel, dtype, monkeypatch):
    monkeypatch.setattr(cpu, "_PIECE", 100)
    assert_equal_to_the_torch_form(kernel, problem(kernel, ("resets",), dtype=dtype), reverse=False)


def test_what_asks_for_no_gradient_gets_none_and_pieces_take_turns_in_the_same_memory(monkeypatch):
    monkeypatch.setattr(cpu, "_PIECE", 100)
    sizes, memory, arguments = [], cpu.scratch, problem("mingru", steps=40)
    monkeypatch.setattr(cpu, "scratch", lambda rows, *rest: (sizes.append(rows), memory(rows, *rest))[1])
    arguments["x"] = arguments["x"].detach()
    output, _, projected = projected_scan(*arguments.values(), "mingru", False)
    output.sum().backward()
    assert arguments["x"].grad is None and arguments["weight"].grad is not None and projected.shape == (3, 40, 8)
    assert sum(sizes) == 3 * 40 and max(sizes) * 8 <= 100
    assert len({memory(rows, 8, torch.float64).data_ptr() for rows in sizes}) == 1


FUSED = axis(laws.EQUATIONS, [name for name in laws.SCAN_CELLS if name != "own"])


@over(name=FUSED, names=(FLAGS[0], FLAGS[-1]))
def test_nothing_of_the_size_of_the_series_is_kept_but_projection_and_output(name, names):
    layer, x = laws.layer_of(name, 3, 16), laws.series(3, 64, 3)
    kept = {}

    def keep(tensor):
        if tensor.numel() >= 3 * 64 * 16:
            kept[tensor.untyped_storage().data_ptr()] = tensor.shape
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output, _ = layer(x, **flags_of(names, 3, 64))
    kept.pop(output.untyped_storage().data_ptr(), None)
    assert list(kept.values()) == [(3, 64, 16 * len(layer.cell.projections))]


def test_what_stands_between_gates_and_scan_takes_the_kernel_away_and_runs_on_says_so():
    plain, zoned, dropped = MinGRU(3, 4), MinGRU(3, 4, zoneout=0.1), MinGRU(3, 4, state_dropout=0.1)
    assert plain.backends == ("reference", "native") and plain.runs_on().name.startswith("one kernel")
    assert "zoneout" in zoned.runs_on().reason and zoned.runs_on().name.startswith("one linear_scan")
    assert "state_dropout" in dropped.runs_on().reason and dropped.runs_on(False).name.startswith("one kernel")
    assert dropped.training, "to ask changes no mode"
    with pytest.raises(BackendUnavailable, match="'torch' cannot run this MinGRU; choose one of auto, reference, nat"):
        zoned.backend = "torch"
    assert zoned.backend == "auto"
    for backend in ("auto", *plain.backends):
        plain.backend = backend
        assert torch.nn.Module.__getattribute__(plain, "backend") == backend


NAMES = ("minlstm", "mingru")
# Its rounding grows with the sums of log a: over 200 steps in float64 it still keeps what float32 is asked for.
LENGTHS = {"short": (laws.STEPS, torch.float64), "long": (200, torch.float32)}


def twins(name, **chosen):
    """One layer twice, by logarithms and without them."""
    by_logarithms, linear = laws.layer_of(name, log_space=True, **chosen), laws.layer_of(name, **chosen)
    linear.load_state_dict(by_logarithms.state_dict())
    return by_logarithms, linear


CHOSEN = {"one layer": {}, "a stack": {"num_layers": 2, "bidirectional": True, "proj_size": 3}}


@over(name=NAMES, length=LENGTHS, chosen=CHOSEN, begins=("positive", "at zero"))
def test_logarithms_give_the_linear_numbers_and_gradients(name, length, chosen, begins):
    variants, (steps, as_exact_as) = twins(name, **chosen), length
    x, hx = laws.series(laws.BATCH, steps, laws.FEATURES), (laws.states_of(variants[0])[0].exp(),)
    grads = laws.upstream(variants[0], x, hx)
    calls = [None if begins == "positive" else lambda x, _, layer=layer: layer(x) for layer in variants]
    found, expected = (laws.run(layer, x, hx, grads, call) for layer, call in zip(variants, calls, strict=True))
    assert all(value.isfinite().all() for value in found.values())
    laws.assert_same(found, expected, as_exact_as)


PLACES = {
    "right": [range(0, 5), range(0, 1), range(0, 7), ()],
    "left": [range(2, 7), range(6, 7), range(0, 7), ()],
    "holes": [(0, 2, 3, 5), (1, 4), range(0, 7), (3,)],
}


@over(name=NAMES, places=PLACES, garbage=(0.0, 1e3, math.nan), bidirectional=(False, True))
def test_a_mask_holds_the_state_in_logarithms_too(name, places, garbage, bidirectional):
    by_logarithms, linear = twins(name, num_layers=2, bidirectional=bidirectional)
    mask = torch.zeros(4, laws.STEPS, dtype=torch.bool)
    for row, steps in enumerate(places):
        mask[row, list(steps)] = True
    x, states = laws.series(4, laws.STEPS, laws.FEATURES), (laws.states_of(linear, 4)[0].exp(),)
    x[~mask] = garbage
    grads = laws.upstream(linear, x, states)
    laws.assert_same(*(laws.run(layer, x, states, grads, mask=mask) for layer in (by_logarithms, linear)))
    for one, other in zip(by_logarithms(x, mask=mask), linear(x, mask=mask), strict=True):
        assert_equal_within(one, other, torch.float64, "without hx")


@pytest.mark.parametrize("name", NAMES)
def test_a_state_carried_by_logarithms_or_step_by_step_makes_the_whole(name):
    layer, linear = twins(name, num_layers=2, proj_size=2)
    x = laws.series()
    whole, last = linear(x)
    first, state = layer(x[:, :3])
    second, carried = layer(x[:, 3:], state)
    assert_equal_within(torch.cat([first, second], dim=1), whole, torch.float64, "two halves")
    assert_equal_within(carried, last, torch.float64, "state")
    assert_equal_within(laws.iterated(layer, x, None)[0], whole, torch.float64, "steps")


@over(length=LENGTHS, reverse=(False, True))
def test_the_scan_over_logarithms_is_the_linear_scan_of_positive_numbers(length, reverse):
    steps, as_exact_as = length
    decay, drive = torch.rand(2, laws.BATCH, steps, 4, dtype=torch.float64) + 0.05
    h0, grads = torch.rand_like(decay[:, 0]) + 0.05, (torch.randn_like(decay), torch.randn_like(decay[:, 0]))
    results = []
    for scan in (
        partial(log_space_scan, reverse=reverse),
        partial(linear_scan, reverse=reverse),
    ):
        inputs = [v.clone().requires_grad_() for v in (decay, drive, h0)]
        h, last = scan(*inputs)
        found = torch.autograd.grad((h, last), inputs, grads)
        named = {f"gradient of {k}": v for k, v in zip(("decay", "drive", "h0"), found, strict=True)}
        results.append({"states": h, "last": last} | named)
    laws.assert_same(*results, as_exact_as)


def test_no_state_no_drive_and_no_decay_are_zeros_with_finite_gradients():
    """A row begins with a state or at 0; a drive of 0 adds nothing, and a row of nothing else stays at 0."""
    decay, drive = torch.rand(2, laws.BATCH, laws.STEPS, 4, dtype=torch.float64) + 0.05
    h0 = torch.rand(laws.BATCH, 4, dtype=torch.float64)
    decay[0, 3], drive[1, 2:4], drive[2], h0[[0, 2]] = 0, 0, 0, 0
    tensors = [each.requires_grad_() for each in (decay, drive, h0)]
    h, last = log_space_scan(*tensors)
    expected, expected_last = linear_scan(*tensors)
    assert_equal_within(h, expected, torch.float32, "states")
    assert_equal_within(last, expected_last, torch.float32, "last")
    found = torch.autograd.grad(h.sum() + last.sum(), tensors)
    assert (h[2] == 0).all() and all(gradient.isfinite().all() for gradient in found)
    assert (found[1][2] == 0).all() and (found[2][[0, 2]] == 0).all() and (found[2][1] != 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_float32_and_a_bfloat16_layer_run_by_logarithms_as_runs_on_says_and_the_rounding_shows(name):
    for dtype in (torch.float32, torch.bfloat16):
        by_logarithms, linear = twins(name, dtype=dtype)
        x, hx = laws.series(dtype=dtype), laws.states_of(linear, dtype=torch.float32)[0].exp()
        (output, last), (expected, expected_last) = (layer(x, hx, wide_state=True) for layer in (by_logarithms, linear))
        assert output.dtype == dtype and last.dtype == torch.float32
        assert_equal_within(output, expected, dtype, "output")
        assert_equal_within(last, expected_last, torch.float32, "state")
        assert by_logarithms.runs_on().name == "the scan over logarithms"
        assert linear.runs_on().name.startswith("one kernel") and not torch.equal(last, expected_last)
