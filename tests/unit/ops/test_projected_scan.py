"""Projection, gates and scan as one op: the numbers and gradients of the three, however small its pieces."""

from importlib import import_module

import pytest
import torch
from covering import over
from kernel_cells import FLAGS, SCAN_KERNEL, apart, by_channel, flags_of
from kernel_cells import SCAN_KERNELS as CELLS
from tolerances import assert_equal_within

from gatedrnn.ops.gated_scan import projected_scan, scan_in_torch

scan = import_module("gatedrnn.kernels.cpu.scan")  # the package has a function of that name


def problem(kernel, names=(), batch=3, steps=7, features=5, channels=4, dtype=torch.float64, biased=True):
    torch.manual_seed(0)
    size = channels * len(CELLS[kernel].projections)
    accumulation = torch.float64 if dtype == torch.float64 else torch.float32
    bias = by_channel(CELLS[kernel], channels, dtype, biased)
    flags = flags_of(names, batch, steps)
    return {
        "x": torch.randn(batch, steps, features, dtype=dtype).requires_grad_(),
        "weight": torch.randn(size, features, dtype=dtype).requires_grad_(),
        "bias": None if bias is None else bias.requires_grad_(),
        "h0": torch.rand(batch, channels, dtype=accumulation).requires_grad_(),
        "mask": flags.get("mask"),
        "resets": flags.get("resets"),
        "reset_state": torch.randn(channels, dtype=accumulation).requires_grad_() if "resets" in names else None,
    }


def assert_equal_to_the_torch_form(kernel, arguments, reverse):
    # The product is rounded before the gates see it: the table has no line for that in float16, which is finer.
    dtype = torch.bfloat16 if arguments["x"].dtype == torch.float16 else arguments["x"].dtype
    inputs = [v for v in arguments.values() if v is not None and v.requires_grad]
    output, last, _ = projected_scan(*arguments.values(), kernel, reverse)
    upstream = torch.randn_like(output), torch.randn_like(last)
    found = torch.autograd.grad((output, last), inputs, upstream)
    exact = {
        k: v.detach().double().requires_grad_() for k, v in arguments.items() if v is not None and v.is_floating_point()
    }
    bias, diagonals = apart(CELLS[kernel], exact["h0"].shape[1], exact.get("bias"))
    whole = torch.nn.functional.linear(exact["x"], exact["weight"], bias)
    expected = scan_in_torch(
        CELLS[kernel], whole, exact["h0"], arguments["mask"], arguments["resets"], exact.get("reset_state"), reverse,
        diagonals=diagonals, backend="reference",
    )  # fmt: skip
    wanted = torch.autograd.grad(expected, list(exact.values()), [g.double() for g in upstream])
    assert_equal_within(output, expected[0], dtype, "output")
    assert_equal_within(last, expected[1], dtype, "last")
    for name, got, want in zip(exact, found, wanted, strict=True):
        assert got.shape == want.shape and got.dtype == arguments[name].dtype
        assert_equal_within(got, want, dtype, name, gradient=True)


@pytest.mark.usefixtures("torchs_compiler")
@over(kernel=SCAN_KERNEL)
def test_the_op_is_registered_as_torch_wants_it(kernel):
    for names in (FLAGS[0], FLAGS[-1]):
        arguments = problem(kernel, names, biased=not names)
        torch.library.opcheck(projected_scan, (*arguments.values(), kernel, bool(names)))


ORDERS = {"by sequence": False, "by step": True}
PIECES = {f"{order}, pieces of {size}": (size, ORDERS[order]) for order in ORDERS for size in (1, 100, 1 << 21)}
"""In memory by sequence, or by step; one step at a time; some steps, or some sequences; all at once."""


@over(kernel=SCAN_KERNEL, names=FLAGS, pieces=PIECES, reverse=(False, True))
def test_the_size_of_the_pieces_changes_nothing(kernel, names, pieces, reverse, monkeypatch):
    piece, by_step = pieces
    monkeypatch.setattr(scan, "PIECE", piece)
    for steps in (1, 7, 30):
        arguments = problem(kernel, names, steps=steps, biased=not reverse)
        if by_step:
            arguments["x"] = by_step_in_memory(arguments["x"])
        assert_equal_to_the_torch_form(kernel, arguments, reverse)


def by_step_in_memory(x):
    return x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()


@pytest.mark.usefixtures("torchs_compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_outputs_and_gradients_lie_as_the_inputs_do(dtype):
    arguments = problem("minlstm", dtype=dtype)
    arguments["x"] = by_step_in_memory(arguments["x"])
    torch.library.opcheck(projected_scan, (*arguments.values(), "minlstm", False))
    output, _, projected = projected_scan(*arguments.values(), "minlstm", False)
    (grad,) = torch.autograd.grad(output.sum(), arguments["x"])
    assert all(v.transpose(0, 1).is_contiguous() for v in (output, projected, grad))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel", ["mingru", "lstm-normalized"])
def test_narrower_numbers_obey_the_same_equations(kernel, dtype, monkeypatch):
    monkeypatch.setattr(scan, "PIECE", 100)
    assert_equal_to_the_torch_form(kernel, problem(kernel, ("resets",), dtype=dtype), reverse=False)


def test_what_asks_for_no_gradient_gets_none_and_costs_none():
    arguments = problem("mingru")
    arguments["x"] = arguments["x"].detach()
    output, _, projected = projected_scan(*arguments.values(), "mingru", False)
    output.sum().backward()
    assert arguments["x"].grad is None and arguments["weight"].grad is not None
    assert projected.shape == (3, 7, 8)


def test_pieces_take_turns_in_the_same_memory(monkeypatch):
    monkeypatch.setattr(scan, "PIECE", 100)
    sizes = []
    memory = scan._piece_memory
    monkeypatch.setattr(scan, "_piece_memory", lambda rows, *rest: (sizes.append(rows), memory(rows, *rest))[1])
    output, _, _ = projected_scan(*problem("mingru", steps=40).values(), "mingru", False)
    output.sum().backward()
    assert sum(sizes) == 3 * 40 and max(sizes) * 8 <= 100
    assert len({memory(rows, 8, torch.float64).data_ptr() for rows in sizes}) == 1
