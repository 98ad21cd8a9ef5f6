"""From a function of tensors to a graph: every operation that torch runs is written down as it comes.

Works on values and on what `torch.autograd` computes from them alike, so that a gradient is traced by calling it.
"""

import math
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gatedrnn.codegen.evaluate import differing, evaluate, trials
from gatedrnn.codegen.expressions import Expressions
from gatedrnn.codegen.graph import Graph, Value
from gatedrnn.errors import CannotBeTraced

Result = TypeVar("Result")
CHANNELS = 3
"""Of the tensors on which equations are traced."""
TOLERANCE = 1e-7
"""Of what a graph computes in float64, beside 1: torch's softplus takes its argument itself for a large one."""
SAME = ("detach", "clone", "alias", "lift_fresh", "lift_fresh_copy", "view", "_to_copy", "contiguous", "expand")
FILLED = {"zeros_like": 0.0, "ones_like": 1.0, "zeros": 0.0, "ones": 1.0, "new_zeros": 0.0, "new_ones": 1.0}
PLAIN = {
    "neg": "neg", "abs": "abs", "sgn": "sign", "sign": "sign", "exp": "exp", "expm1": "expm1", "log": "log",
    "log1p": "log1p", "tanh": "tanh", "sqrt": "sqrt", "minimum": "minimum",
    "maximum": "maximum", "where": "where", "logical_and": "and", "bitwise_and": "and", "logical_or": "or",
    "bitwise_or": "or", "logical_not": "not", "bitwise_not": "not", "mul": "mul", "lt": "lt", "le": "le", "gt": "gt",
    "ge": "ge", "eq": "eq", "ne": "ne",
}  # fmt: skip
"""Operations of torch that are operations of the graph."""


def in_a_clean_thread(function: Callable[[], Result]) -> Result:
    """The result of a call with no mode, no autocast and gradients on: all that is the caller's thread's own."""
    found: list[Result] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            found.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, name="gatedrnn-trace")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def trace(
    function: Callable[..., Sequence[Tensor]], names: Sequence[str], sources: Sequence[str]
) -> tuple[Graph, list[Value]]:
    """The graph of a function of rows, and the values that it returns.

    Args:
        function: takes one tensor for each name, each of the same shape; returns some of that shape.
        names: of its arguments, which are the graph's inputs.
        sources: files of the equations, the nearest first; a message names a line of them.

    Raises:
        CannotBeTraced: it is not elementwise, reads values, or changes what it was given.
    """
    generator = torch.Generator().manual_seed(0)
    given = [torch.rand(CHANNELS, dtype=torch.float64, generator=generator) + 0.25 for _ in names]
    recorder = _Recorder(sources)
    for name, tensor in zip(names, given, strict=True):
        recorder.input(name, tensor)
    before = [x.clone() for x in given]
    with recorder:
        outputs = function(*(x.detach().requires_grad_() for x in given))
    for name, x, was in zip(names, given, before, strict=True):
        if not torch.equal(x, was):
            raise CannotBeTraced(f"the equations change their input {name!r} in place")
    values = [recorder.value_of(output) for output in outputs]
    _check(function, recorder.graph, values, names)
    return recorder.graph, values


def _check(
    function: Callable[..., Sequence[Tensor]], graph: Graph, values: Sequence[Value], names: Sequence[str]
) -> None:  # fmt: skip
    """Hold the graph to the function on other numbers than those that it was traced on."""
    given = trials(names, edges=True)
    expected = function(*(torch.from_numpy(x).requires_grad_() for x in given.values()))
    for found, right in zip(evaluate(graph, values, given), expected, strict=True):
        wrong = differing(found, right.detach().numpy(), TOLERANCE)
        if wrong.any():
            numbers = ", ".join(f"{name} = {x[wrong][0]:g}" for name, x in given.items())
            raise CannotBeTraced(
                f"the equations give {right[wrong][0].item():g} for {numbers}, and {found[wrong][0]:g} by the kernel "
                "that was made of them: they depend on more than their arguments"
            )


class _Recorder(TorchDispatchMode):
    """Writes every operation that runs inside it into a graph."""

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__()
        self.graph, self._sources = Graph(), set(sources)
        self._expressions = Expressions(self.graph)
        self._values: dict[int, Value] = {}
        self._kept: list[Tensor] = []  # an address is that of one tensor for as long as it lives

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its whole compiler for that, which takes a second."""
        return False

    def input(self, name: str, tensor: Tensor) -> Value:
        """A new input of the graph, which that tensor stands for."""
        return self._set(tensor, self.graph.input(name))

    def value_of(self, given: Any) -> Value:
        """The expression that a tensor or a number stands for."""
        if isinstance(given, Tensor):
            if id(given) in self._values:
                return self._values[id(given)]
            if given.numel() == 1:  # a constant of the equations, made outside
                return self.graph.constant(float(given))
            raise self._error("reads a tensor that is no argument of it")
        return self.graph.constant(float(given))

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:  # fmt: skip
        name, options = operation._schema.name.partition("::")[2], options or {}
        in_place = name.endswith("_") and not name.endswith("__")
        found = self._expression(name.rstrip("_") if in_place else name, arguments, options)
        result = operation(*arguments, **options)
        if isinstance(result, Tensor):
            self._check_shape(result, name)
            self._set(result, found)
        elif isinstance(result, tuple) and name == "log_sigmoid_forward":
            self._set(result[0], found)
            self._kept.append(result[1])
        return result

    def _set(self, tensor: Tensor, value: Value) -> Value:
        self._values[id(tensor)] = value
        self._kept.append(tensor)
        if value not in self.graph.lines and (line := self._line()):
            self.graph.lines[value] = line
        return value

    def _check_shape(self, result: Tensor, name: str) -> None:
        if result.numel() not in (1, CHANNELS) or result.dim() > 1:
            raise self._error(f"gives {name} another shape: {tuple(result.shape)} of ({CHANNELS},)")

    def _expression(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Value:
        e, apply = self._expressions, self._expressions.apply
        if name in FILLED:
            return e.number(FILLED[name])
        if name in ("full", "full_like", "new_full", "scalar_tensor"):
            return e.number(float(given[0] if name == "scalar_tensor" else given[1]))
        if name in SAME:
            return self.value_of(given[0])
        if name == "copy":
            return self.value_of(given[1])
        if name in ("log_sigmoid_backward", "softplus_backward", "sigmoid_backward", "tanh_backward"):
            return self._gradient(name, *(self.value_of(x) for x in given[:2]))
        if name == "threshold_backward":
            gradient, x = (self.value_of(x) for x in given[:2])
            return apply("where", apply("le", x, e.number(float(given[2]))), e.number(0), gradient)
        if name == "masked_fill":
            x, mask, filled = (self.value_of(x) for x in given)
            return apply("where", mask, filled, x)
        if name in ("clamp", "clamp_min", "clamp_max", "hardtanh"):
            return self._clamped(name, given, options)
        if name == "pow":
            return self._power(self.value_of(given[0]), given[1])
        numbers = [self.value_of(x) for x in given if isinstance(x, (Tensor, int, float))]
        if name in PLAIN:
            return apply(PLAIN[name], *numbers)
        if name in ("add", "sub", "rsub"):
            return self._sum(name, numbers[:2], float(options.get("alpha", given[2] if len(given) > 2 else 1)))
        if name == "div" and options.get("rounding_mode") is None:
            return apply("div", *numbers)
        match name, numbers:
            case "reciprocal", [x]:
                return apply("div", e.number(1), x)
            case "sigmoid", [x]:
                return e.sigmoid(x)
            case "log_sigmoid_forward", [x]:
                return e.logsigmoid(x)
            case "softplus", [x, *others] if not others or self.graph.number(others[0]) == 1:
                return e.softplus(x)
            case "silu", [x]:
                return apply("mul", x, e.sigmoid(x))
            case "relu", [x]:
                return apply("maximum", x, e.number(0))
            case "rsqrt", [x]:
                return apply("div", e.number(1), apply("sqrt", x))
            case "silu_backward", [gradient, x]:
                s = e.sigmoid(x)
                slope = apply("mul", s, apply("add", e.number(1), apply("mul", x, e.complement(s))))
                return apply("mul", gradient, slope)
        raise self._error(_reason(name))

    def _gradient(self, name: str, gradient: Value, of: Value) -> Value:
        e, apply = self._expressions, self._expressions.apply
        if name == "sigmoid_backward":
            return e.times_slope_of_sigmoid(gradient, of)
        if name == "tanh_backward":
            return apply("mul", gradient, e.complement(apply("mul", of, of)))
        return apply("mul", gradient, e.sigmoid(of if name == "softplus_backward" else apply("neg", of)))

    def _sum(self, name: str, numbers: list[Value], alpha: float) -> Value:
        apply = self._expressions.apply
        left, right = numbers[::-1] if name == "rsub" else numbers
        return apply("add" if name == "add" else "sub", left, apply("mul", right, self._expressions.number(alpha)))

    def _clamped(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Value:
        apply, x = self._expressions.apply, self.value_of(given[0])
        bounds = [*given[1:3], None, None]
        low, high = options.get("min", bounds[0]), options.get("max", bounds[1])
        if name == "clamp_max":
            low, high = None, given[1]
        if low is not None:
            x = apply("maximum", x, self.value_of(low))
        return x if high is None else apply("minimum", x, self.value_of(high))

    def _power(self, x: Value, exponent: Any) -> Value:
        e, apply = self._expressions, self._expressions.apply
        if isinstance(exponent, Tensor):
            exponent = self.graph.number(self.value_of(exponent))
        if exponent is None or float(exponent) not in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0):
            raise self._error("raises to a power other than -2, -1, -1/2, 1/2, 2 and 3")
        size, found = abs(float(exponent)), e.number(1)
        for _ in range(math.floor(size)):
            found = apply("mul", found, x)
        if size == 0.5:
            found = apply("sqrt", x)
        return apply("div", e.number(1), found) if exponent < 0 else found

    def _line(self) -> str:
        """Where in the equations' file Python is."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self._sources:
                return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def _error(self, what: str) -> CannotBeTraced:
        line = self._line()
        return CannotBeTraced(f"{line + ': ' if line else 'an equation '}{what}")


_DECIDES = {"_local_scalar_dense", "item", "is_nonzero", "equal"}
_PICKS = set(
    "sum mean prod roll flip cat stack slice select index gather mm bmm amax amin max min cumsum split chunk unsqueeze "
    "permute t addmm mv dot _softmax sort topk std var".split()
)
_MAKES = set("arange linspace rand randn bernoulli rand_like randn_like eye".split())


def _reason(name: str) -> str:
    """Why an operation is in no kernel."""
    if name in _DECIDES:
        return "decides by a value of its tensors, which a kernel for many channels cannot; use torch.where"
    if name in _PICKS:
        return f"mixes or picks channels ({name}), which an elementwise kernel cannot"
    if name in _MAKES:
        return f"makes a tensor of its own ({name})"
    return f"uses {name}, which is none of the operations that kernels are generated from"
