"""Products by oneDNN are those of `torch.nn.functional.linear`, with their gradients, in any layout and transform."""

from itertools import product

import pytest
import torch
from tolerances import assert_equal_within
from torch.nn import functional

from gatedrnn.kernels import matmul

pytestmark = pytest.mark.skipif(matmul.ONEDNN_LINEAR is None, reason="this build of torch has no oneDNN")
LAYOUTS = {
    "rows": lambda: torch.randn(300, 96),
    "series": lambda: torch.randn(4, 75, 96),
    "time first": lambda: torch.randn(75, 4, 96).transpose(0, 1),
    "every other feature": lambda: torch.randn(300, 192)[:, ::2],
    "one row again and again": lambda: torch.randn(1, 96).expand(300, 96),
}


asked = matmul.has_faster.__wrapped__


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Shapes of the products that oneDNN made; it is asked on any processor."""
    made, multiply = [], matmul._onednn_linear
    monkeypatch.setattr(matmul, "has_faster", lambda: True)
    monkeypatch.setattr(matmul, "_onednn_linear", lambda x, *others: made.append(x.shape) or multiply(x, *others))
    return made


def gradients(function, *tensors):
    """Outputs and gradients of a sum of squares, and the gradients of their squares: twice through the product."""
    asked = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    output = function(*asked)
    first = torch.autograd.grad(output.square().sum(), asked, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), asked)
    return output, *first, *second


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [False, True])
def test_outputs_first_and_second_gradients_are_those_of_a_linear_map(layout, bias, calls):
    tensors = [LAYOUTS[layout]() / 9, torch.randn(80, 96) / 9, *([torch.randn(80)] if bias else [])]
    found = gradients(matmul.linear, *tensors)
    assert len(calls) >= 3, "forward, input and weight"
    exact = gradients(functional.linear, *(tensor.double() for tensor in tensors))
    for number, (one, other) in enumerate(zip(found, exact, strict=True)):
        assert_equal_within(one, other, torch.float32, f"result {number}", gradient=number > 0)


@pytest.mark.parametrize("wide", [False, True])
def test_products_over_rows_add_up_in_whatever_has_more_columns(wide):
    left, right = torch.randn(5_000, 40 if wide else 90), torch.randn(5_000, 90 if wide else 40)
    exact, total = left.double().t() @ right.double(), torch.ones(left.shape[1], right.shape[1])
    matmul.add_weight_grad(total, left, right)
    assert_equal_within(matmul.weight_grad(left, right), exact, torch.float32, "product", gradient=True)
    assert_equal_within(total - 1, exact, torch.float32, "sum", gradient=True)
    out = torch.empty(5_000, 70)
    matmul.product_into(out, left, matrix := torch.randn(70, left.shape[1]))
    assert_equal_within(out, left.double() @ matrix.double().t(), torch.float32, "product")


PARTS = {
    "whole": lambda rows, columns: torch.randn(rows, columns),
    "columns": lambda rows, columns: torch.randn(rows, 3 * columns)[:, columns : 2 * columns],
    "every other row": lambda rows, columns: torch.randn(2 * rows, columns)[::2],
    "one row again and again": lambda rows, columns: torch.randint(9, (1, columns)).float().expand(rows, columns),
    "turned": lambda rows, columns: torch.randn(columns, rows).t(),
    "columns, turned": lambda rows, columns: torch.randn(columns, 3 * rows)[:, rows : 2 * rows].t(),
}


@pytest.mark.parametrize(("first", "second"), [*product(PARTS, PARTS)])
def test_parts_of_tensors_are_multiplied_right_by_factors_whose_rows_or_columns_are_dense(first, second, monkeypatch):
    factors, multiply = [], matmul.ONEDNN_LINEAR
    monkeypatch.setattr(matmul, "ONEDNN_LINEAR", lambda x, *rest: factors.append(rest[0]) or multiply(x, *rest))
    x, weight, narrow = PARTS[first](2_000, 96), PARTS[second](80, 96), PARTS[second](2_000, 80)
    works = {
        "rows": (matmul.product, lambda one, other: one @ other.t(), x, weight),
        "gradient": (matmul.weight_grad, lambda one, other: one.t() @ other, x, narrow),
        "gradient, turned": (matmul.weight_grad, lambda one, other: one.t() @ other, narrow, x),
    }
    for name, (ours, torchs, one, other) in works.items():
        exact = torchs(one.double(), other.double())
        assert_equal_within(ours(one, other), exact, torch.float32, name, gradient=True)
    # A factor whose rows and columns both lie apart is multiplied by a loop over elements.
    assert len(factors) == 3 and all(each.is_contiguous() or each.t().is_contiguous() for each in factors)


def test_what_is_frozen_gets_no_product_and_no_gradient(calls):
    x, weight = torch.randn(300, 96), torch.randn(80, 96, requires_grad=True)
    matmul.linear(x, weight).sum().backward()
    assert len(calls) == 2 and weight.grad is not None and x.grad is None
    with torch.no_grad():
        assert not matmul.linear(x, weight).requires_grad


def test_small_products_other_dtypes_transforms_and_a_switched_off_library_are_left_to_torch(calls, monkeypatch):
    x, weight = torch.randn(300, 96), torch.randn(80, 96)
    matmul.linear(x[:10], weight), matmul.linear(x.double(), weight.double()), matmul.linear(x[0], weight)
    torch.func.vmap(matmul.linear, (0, None))(x.view(3, 100, 96), weight)
    _, change = torch.func.jvp(lambda w: matmul.linear(x, w), (weight,), (weight,))
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul.linear(x, weight).dtype == torch.bfloat16
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    matmul.linear(x, weight)
    assert calls == []
    assert_equal_within(change, x.double() @ weight.double().t(), torch.float32, "change")


def test_a_torch_without_the_operation_another_maker_and_fewer_instructions_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(matmul, "processor", lambda: "AMD EPYC")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert asked()
    for module, name, other in (
        (matmul, "processor", lambda: "Intel(R) Xeon(R) Processor"),
        (torch.backends.cpu, "get_cpu_capability", lambda: "AVX2"),
        (matmul, "ONEDNN_LINEAR", None),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, other)
            assert not asked()
            changed.setattr(matmul, "has_faster", asked)
            x, weight = torch.randn(300, 96), torch.randn(80, 96)
            assert torch.equal(matmul.linear(x, weight), functional.linear(x, weight))
