"""Cells drawn at random from a grammar of elementwise equations: kernels that come from them give what they give."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from kernel_cells import FLAGS, flags_of, forget, results
from properties import few
from tolerances import assert_equal_within
from torch.nn.functional import logsigmoid, silu, softplus

from gatedrnn import RecurrentLayer, register
from gatedrnn.codegen.row import ADD, Row
from gatedrnn.codegen.source import numba_source
from gatedrnn.codegen.trace import trace
from gatedrnn.equations import ScanEquations
from gatedrnn.errors import WrongKernel
from gatedrnn.kernels.cpu import rows
from gatedrnn.kernels.cpu.rows import CompiledRow
from gatedrnn.kinds.scan.rows import trace_cell
from gatedrnn.registry import CELLS

UNARY = {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "sin": torch.sin,
    "cos": torch.cos, "negative": torch.neg, "silu": silu, "softplus": softplus,
    "logsigmoid": logsigmoid, "abs": torch.abs, "clamp": lambda x: x.clamp(-1, 1), "half": lambda x: 0.5 * x,
    "square": lambda x: x * x, "root": lambda x: (1 + x * x).sqrt(), "rest": lambda x: 1 - x,
}  # fmt: skip
BINARY = {
    "sum": torch.add, "product": torch.mul, "difference": torch.sub, "larger": torch.maximum,
    "choice": lambda x, y: torch.where(x >= 0, x, y), "mean": lambda x, y: 0.5 * (x + y),
    "ratio": lambda x, y: x / (1 + y * y),
}  # fmt: skip
UNARY_NAME, BINARY_NAME = st.sampled_from(sorted(UNARY)), st.sampled_from(sorted(BINARY))
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "c"]),
    lambda inner: st.tuples(UNARY_NAME, inner) | st.tuples(BINARY_NAME, inner, inner),
    max_leaves=6,
)


def value(expression, named):
    if isinstance(expression, str):
        return named[expression]
    operation, *parts = expression
    return {**UNARY, **BINARY}[operation](*(value(part, named) for part in parts))


def cell_of(decay, drive, output):
    class DrawnEquations(ScanEquations):
        """Drawn at random."""

        name = "drawn"
        projections = ("a", "b", "c")

        def coefficients(self, *projected):
            named = dict(zip("abc", projected, strict=True))
            # Bounded, so that a product of many steps stays a number; every projection is read, as a layer asks.
            return torch.tanh(value(decay, named)), torch.tanh(value(drive, named) + 0.01 * sum(projected))

    def shown(self, state, projected):
        return value(output, {"a": state[0], "b": state[0], "c": torch.tanh(projected[2])})

    if output is not None:
        DrawnEquations.output = shown
    return type("Drawn", (RecurrentLayer,), {"cell_class": DrawnEquations})


@pytest.fixture
def room():
    """Register a cell that goes after each test."""
    yield
    forget("drawn")


def check(dtypes):
    torch.manual_seed(0)
    for dtype in dtypes:
        layer = CELLS["drawn"].layer(4, 19, batch_first=True, dtype=dtype)
        assert layer.runs_on(training=True).name.startswith("one kernel for gates and scan"), layer.runs_on()
        x, hx = torch.randn(3, 11, 4, dtype=dtype), (torch.full((1, 3, 19), 0.3, dtype=dtype),)
        for flags in ({}, flags_of(FLAGS[-1], 3, 11)):
            both = (results(layer, way, x, hx, flags, dtype == torch.float64) for way in ("auto", "reference"))
            for place, (found, right) in enumerate(zip(*both, strict=True)):
                assert_equal_within(found, right, dtype, f"{dtype} {place}", gradient=place > 1)


DTYPES = (torch.float64, torch.float32, torch.bfloat16)
GATED = ("sigmoid", "a"), ("product", ("rest", ("sigmoid", "a")), ("silu", "b")), None
SHOWN = ("rest", ("root", "a")), ("ratio", "b", ("softplus", "c")), ("product", "a", ("sigmoid", "c"))


@pytest.fixture
def compiled(room, parts, dtype):
    """A drawn cell whose kernels are there: to compile them is no part of a test's budget."""
    register(cell_of(*parts))
    CELLS["drawn"].layer(4, 19, dtype=dtype)(torch.randn(2, 1, 4, dtype=dtype))[0].sum().backward()


@pytest.mark.parametrize("parts, dtype", [(GATED, torch.float32), (SHOWN, torch.float64), (SHOWN, torch.bfloat16)])
def test_a_cell_of_ones_own_runs_by_a_generated_kernel(parts, dtype, compiled):
    check([dtype])


@pytest.mark.slow
@given(st.tuples(EXPRESSIONS, EXPRESSIONS, st.none() | EXPRESSIONS))
@few(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_elementwise_cell_runs_by_a_generated_kernel(room, drawn):
    forget("drawn")
    register(cell_of(*drawn))
    check(DTYPES)


def test_a_kernel_that_computes_something_else_is_never_run(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    source = numba_source("broken", ADD, {"given": "float32", "to": "float32"})
    broken = dataclasses.replace(source, text=source.text.replace("+", "-"))
    for _ in range(2):
        with pytest.raises(WrongKernel, match=r"broken_add gives .* for to where given = .*: it should be "):
            CompiledRow(broken).compile()
    assert not [file for file in tmp_path.rglob("*.compiled") if "broken" in file.name]
    CompiledRow(source).compile()


HARD = {
    "clamp at a rounded edge": lambda x, y: x * torch.sigmoid(y).clamp(0.7, 0.99),
    "cancels": lambda x, y: (1 + x * x) - (1 + x * x + 1e-3 * y),
    "changes sign by rounding": lambda x, y: (0.1 * x * 3 - 0.3 * x).sign() * y,
    "ill-conditioned": lambda x, y: torch.exp(10 * x) * torch.tanh(100 * y) / (1e-6 + x * x),
    "leaves float32": lambda x, y: torch.log(torch.exp(60 * x)) + y,
    "threshold": lambda x, y: torch.where(0.1 * x > 0.07, x, y),
}


@pytest.mark.parametrize("name, dtype", [*((name, "float32") for name in HARD), ("cancels", "float64")])
def test_rounding_is_not_taken_for_a_wrong_kernel(name, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    graph, (value,) = trace(lambda x, y: [HARD[name](x, y)], ["x", "y"], [])
    row = Row("hard", graph, {"to": value}, {})
    CompiledRow(numba_source("test", row, dict.fromkeys(row.rows, dtype))).compile()


class SingularEquations(ScanEquations):
    """A gradient without a bound where |a| is |b|, which edges are."""

    name = "singular"
    projections = ("a", "b")

    def coefficients(self, *projected):
        a, b = projected
        return torch.sigmoid(a), (1 + b) ** 2 - 1 - 2 * b - b * b + torch.sqrt(torch.relu(b * b - a * a))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_singular_gradient_is_not_taken_for_a_wrong_kernel(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    row = trace_cell(SingularEquations()).biased.backward
    CompiledRow(numba_source("test", row, dict.fromkeys(row.rows, dtype))).compile()


def test_names_of_projections_need_be_no_names_of_python_and_comments_do_not_make_another_kernel():
    graph, (value,) = trace(lambda x, y, z: [x - y / (1 + z * z)], ["x_forget-gate", "x_forget gate", "x_2d"], [])
    row = Row("forward", graph, {"output": value}, {})
    source = numba_source("2d-leaky", row, dict.fromkeys(row.rows, "float64"))
    assert source.name == "_2d_leaky_forward" and len(set(source.identifiers)) == 4
    CompiledRow(source).compile()
    dtypes = {"given": "float32", "to": "float32"}
    assert numba_source("one", ADD, dtypes).key == numba_source("one", ADD, dtypes, comment="to + given").key


def test_every_number_of_a_row_is_written_whatever_its_length(tmp_path):
    address = rows.row_address(ADD, "test", ("float64", "float64"))
    call = rows.as_callable(address)
    for n in (0, 1, 7, 16, 33):
        given, to = np.arange(40.0), np.ones(40)
        call(n, np.array([given.ctypes.data, to.ctypes.data]))
        assert np.array_equal(to, np.where(np.arange(40) < n, 1 + np.arange(40.0), 1)) and not given[:n].any()
