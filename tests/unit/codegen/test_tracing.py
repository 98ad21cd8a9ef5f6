"""Equations become graphs: what is traced computes the same, and what cannot be traced is refused with its line."""

import inspect

import numpy as np
import pytest
import torch
from torch.nn.functional import hardtanh, logsigmoid, relu6, silu, softplus

from gatedrnn.codegen.row import error_mask, evaluate, sample_inputs
from gatedrnn.codegen.trace import trace
from gatedrnn.equations import ScanEquations
from gatedrnn.errors import CannotBeTraced
from gatedrnn.kinds.scan.rows import bare_scan, trace_cell

HERE = [__file__]
FUNCTIONS = {
    "sigmoid": torch.sigmoid, "softplus": softplus, "logsigmoid": logsigmoid, "silu": silu, "tanh": torch.tanh,
    "sin": torch.sin, "cos": torch.cos, "turn": lambda x: torch.cos(3 * x) * torch.sin(x),
    "relu": torch.relu, "exp": torch.exp, "expm1": torch.expm1, "abs": torch.abs, "square": torch.square,
    "clamp": lambda x: x.clamp(-1, 0.5), "clamp_min": lambda x: x.clamp(min=0.1), "power": lambda x: x**3,
    "reciprocal": lambda x: 1 / (1 + x * x), "sqrt": lambda x: (1 + x * x).sqrt(), "log": lambda x: (1 + x * x).log(),
    "rsqrt": lambda x: torch.rsqrt(1 + x * x), "log1p": lambda x: torch.log1p(x * x), "sign": lambda x: x * x.sign(),
    "maximum": lambda x: torch.maximum(x, 1 - x), "where": lambda x: torch.where((x > 0) & (x < 1), x, -2 * x),
    "rsub": lambda x: torch.rsub(x, 2, alpha=3), "constant": lambda x: x * torch.tensor(0.25) + torch.ones_like(x),
    "shares": lambda x: torch.sigmoid(softplus(-x) - softplus(2 * x)),
    "mask": lambda x: x * (x > 0).double() + (x < 1).float() * (x > -1), "not": lambda x: torch.where(~(x > 0), x, 1.0),
    "logical": lambda x: torch.where(torch.logical_and(x, x - 1), x, 2 * x), "full": lambda x: x * x.new_full((), 3.0),
    "relu6": relu6, "hardtanh": lambda x: hardtanh(x, -0.5, 2.0), "root of cube": lambda x: (1 + x * x) ** 1.5,
    "inverse square": lambda x: (1 + x * x) ** -2, "inverse root": lambda x: (1 + x * x) ** -0.5,
    "bool product": lambda x: x * ((x > 0) * (x < 1)), "both ways": lambda x: torch.where((x > 0) == (x < 1), x, -x),
    "changed constant": lambda x: x * x.new_tensor(0.25).add_(1).mul_(2),
    "any": lambda x: x * torch.zeros((), dtype=torch.bool), "clamped twice": lambda x: x.clamp(0.7, 0.99) ** 0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_its_gradient_are_those_of_torch(name):
    function = FUNCTIONS[name]

    def both(x, upstream):
        y = function(x)
        return [y, *torch.autograd.grad(y, x, upstream)]

    graph, values = trace(both, ["x", "upstream"], HERE)
    given = sample_inputs(["x", "upstream"], edges=True)
    expected = both(*(torch.from_numpy(v).requires_grad_() for v in given.values()))
    for found, right in zip(evaluate(graph, values, given), expected, strict=True):
        assert not error_mask(found, right.detach().numpy(), 1e-9).any()


def test_one_exponential_serves_both_signs_and_the_gradient():
    def gate(x, upstream):
        z = torch.sigmoid(-x)
        return [z, 1 - z, softplus(x), torch.sigmoid(x), *torch.autograd.grad(z, x, upstream)]

    graph, values = trace(gate, ["x", "upstream"], HERE)
    operations = [graph.nodes[value].operation for value in graph.needed(values)]
    assert operations.count("shrinking") == 1 and operations.count("div") == 1 and "sub" not in operations


def value_of(function, **given):
    """The results of a function's graph for these numbers."""
    graph, (value,) = trace(lambda *args: [function(*args)], list(given), HERE)
    return evaluate(graph, [value], {name: np.array(numbers) for name, numbers in given.items()})[0]


def test_extreme_numbers_lose_no_digit_and_hide_no_nan():
    assert value_of(lambda x: 1 - torch.sigmoid(x), x=[40.0])[0] == pytest.approx(np.exp(-40.0), rel=1e-12)
    shut = {"f": [-2000.0, -3000.0, 5.0], "i": [-2001.0, -3000.0, -np.inf]}  # shares are those of their distance
    shares = value_of(lambda f, i: torch.sigmoid(softplus(-i) - softplus(-f)), **shut)
    np.testing.assert_allclose(shares, [1 / (1 + np.exp(-1)), 0.5, 1], rtol=1e-12)
    assert np.isnan(value_of(lambda x, y: x * torch.where(y > 0, 0.0, y), x=[np.inf, np.nan], y=np.ones(2))).all()


class Of(ScanEquations):
    """Coefficients of a function of two projections, and of how often it was called."""

    name = "of-a-function"
    projections = ("a", "b")

    def __init__(self, function):
        self.function, self.calls = function, []

    def coefficients(self, *projected):
        self.calls.append(projected)
        return self.function(*projected, len(self.calls))


MIXES = "mixes or picks channels .{}., which an elementwise kernel cannot"
REFUSED = {
    "mixes": (lambda a, b, _: (a, b.roll(1, -1)), MIXES.format("roll")),
    "sums": (lambda a, b, _: (a, b * a.mean(-1, keepdim=True)), MIXES.format("mean")),
    "decides": (lambda a, b, _: (-a if a.sum() > 0 else a, b), "(mixes or picks channels|decides by a value)"),
    "draws": (lambda a, b, _: (a, b * torch.rand_like(b)), "makes a tensor of its own .rand_like."),
    "series": (lambda a, b, _: (a, b * [1][2]), "the equations of a single step raise IndexError"),
    "nan": (lambda a, b, _: (a, b * float("nan")), "has the number nan in it"),
    "complex": (lambda a, b, _: (a, (b * 1j).real), "(has the number|gives complex numbers)"),
    "rounds": (lambda a, b, _: (a.to(torch.bfloat16), b), "turns torch.float64 into torch.bfloat16"),
    "threshold": (lambda a, b, _: (a, softplus(b, threshold=3)), "uses softplus with another beta or threshold than 1"),
    "power": (lambda a, b, _: (a, b**0.3), "raises to another power than whole and half ones up to 8"),
    "erf": (lambda a, b, _: (a, torch.erf(b)), "uses erf, which is none of the operations that kernels are generated"),
}  # fmt: skip
REFUSED = {name: (function, f"test_tracing.py:[0-9]+: {said}") for name, (function, said) in REFUSED.items()} | {
    "counts": (lambda a, b, count: (a, b * count), "they depend on more than their arguments"),
    "in place": (lambda a, b, _: (a.data.mul_(0.5), b), "test_tracing.py|change their input"),
}


@pytest.mark.parametrize("function, said", REFUSED.values(), ids=REFUSED)
def test_what_no_kernel_does_is_refused_with_its_line(function, said):
    with pytest.raises(CannotBeTraced, match=said):
        trace_cell(Of(function))


def test_an_expression_has_its_line_a_part_without_a_gradient_one_of_zero_and_a_bare_scan_its_state():
    graph, (value,) = trace(lambda x: [torch.tanh(x)], ["x"], HERE)
    assert graph.lines[value] == f"test_tracing.py:{inspect.currentframe().f_lineno - 1}"
    assert bare_scan().output_is_state and bare_scan().is_light
    row = trace_cell(Of(lambda a, b, _: (a.detach() * 0 + 0.5, b.detach()))).plain.backward
    assert row.graph.number(row.writes["gx_b"]) == 0 and row.graph.number(row.writes["gx_a"]) == 0


def test_tracing_does_not_depend_on_the_callers_modes_nor_on_a_hunt_for_nan():
    gated = Of(lambda a, b, _: (torch.sigmoid(a), b))
    with torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        assert set(trace_cell(gated).plain.backward.writes) == {"delta_h", "gx_a", "gx_b"}
    with torch.autograd.set_detect_anomaly(True):
        assert trace_cell(Of(gated.function)).gates == 2
