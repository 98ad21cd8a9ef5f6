"""Tracing of a function of tensors to a graph, which is checked in float64 against the function itself.

Operations of `torch.autograd` are recorded too, so that a gradient is traced by calling it.
"""

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gatedrnn.codegen.graph import COMPARISONS, Expressions, Graph, Value
from gatedrnn.codegen.row import error_mask, evaluate, rounding_spread, sample_inputs
from gatedrnn.errors import CannotBeTraced

Result = TypeVar("Result")
CHANNELS = 3
"""The size of the tensors on which equations are traced."""
_TOLERANCE = 1e-7
"""The error of a graph in float64, relative to 1: torch's softplus returns a large argument unchanged."""
_IDENTITIES = ("detach", "clone", "alias", "lift_fresh", "lift_fresh_copy", "view", "contiguous", "expand")
_FILLED = {"zeros_like": 0.0, "ones_like": 1.0, "zeros": 0.0, "ones": 1.0, "new_zeros": 0.0, "new_ones": 1.0}
ELEMENTWISE = {
    "neg": "neg", "abs": "abs", "sgn": "sign", "sign": "sign", "exp": "exp", "expm1": "expm1", "log": "log",
    "log1p": "log1p", "tanh": "tanh", "sin": "sin", "cos": "cos",
    "sqrt": "sqrt", "minimum": "minimum", "maximum": "maximum", "mul": "mul",
    "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne",
}  # fmt: skip
"""Operations of torch that are operations of the graph."""
_LOGICAL = {
    "logical_and": "and", "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or", "logical_not": "not",
    "bitwise_not": "not",
}  # fmt: skip
FULL = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
"""Operations that fill with one number, and the index of that number among their arguments."""
_FORMULAS: dict[str, Callable[..., Value]] = {
    "reciprocal": lambda e, x: e.apply("div", e.number(1), x),
    "sigmoid": Expressions.sigmoid,
    "log_sigmoid_forward": Expressions.logsigmoid,
    "silu": lambda e, x: e.apply("mul", x, e.sigmoid(x)),
    "relu": lambda e, x: e.apply("maximum", x, e.number(0)),
    "rsqrt": lambda e, x: e.apply("div", e.number(1), e.apply("sqrt", x)),
    "copy": lambda e, before, x, *_: x,
    "silu_backward": Expressions.times_slope_of_silu,
    "threshold_backward": lambda e, gradient, x, threshold: e.apply(
        "where", e.apply("le", x, threshold), e.number(0), gradient
    ),
    "hardtanh_backward": lambda e, gradient, x, low, high: e.apply(
        "where", e.apply("and", e.apply("gt", x, low), e.apply("lt", x, high)), gradient, e.number(0)
    ),
}
"""Operations of torch as expressions of their tensors and numbers."""
_GRADIENTS: dict[str, Callable[..., Value]] = {
    "sigmoid_backward": Expressions.times_slope_of_sigmoid,
    "tanh_backward": lambda e, gradient, y: e.apply("mul", gradient, e.complement(e.apply("mul", y, y))),
    "softplus_backward": lambda e, gradient, x: e.apply("mul", gradient, e.sigmoid(x)),
    "log_sigmoid_backward": lambda e, gradient, x: e.apply("mul", gradient, e.sigmoid(e.apply("neg", x))),
}
"""Gradients of which only the first two arguments are read."""
_MAX_POWER = 8


def in_a_clean_thread(function: Callable[[], Result]) -> Result:
    """Call a function with no mode, no autocast and gradients on: these belong to the caller's thread."""
    # Anomaly detection is global, and reads every gradient.
    with torch.autograd.set_detect_anomaly(False), ThreadPoolExecutor(1, "gatedrnn-trace") as thread:
        return thread.submit(function).result()


def trace(
    function: Callable[..., Sequence[Tensor]], names: Sequence[str], sources: Sequence[str], gradient: bool = False,
    differences: bool = False,
) -> tuple[Graph, list[Value]]:  # fmt: skip
    """Trace a function of rows to a graph, and return the graph and the values of the results.

    Args:
        function: takes one tensor for each name, each of the same shape; returns some of that shape.
        names: names of its arguments, the graph's inputs.
        sources: files of the equations; messages name their lines.
        gradient: whether it computes gradients (`Graph`).
        differences: as in `Expressions`.

    Raises:
        CannotBeTraced: it is not elementwise, reads values, or changes its inputs.
    """
    generator = torch.Generator().manual_seed(0)
    # Away from 0, where logarithms and quotients are infinite.
    inputs = [torch.rand(CHANNELS, dtype=torch.float64, generator=generator) + 0.25 for _ in names]
    recorder = _Recorder(sources, gradient, differences)
    for name, tensor in zip(names, inputs, strict=True):
        recorder.input(name, tensor)
    before = [x.clone() for x in inputs]
    try:
        with recorder, _MetadataGuard(recorder):
            outputs = function(*(x.detach().requires_grad_() for x in inputs))
        for name, x, original in zip(names, inputs, before, strict=True):
            if not torch.equal(x, original):
                raise CannotBeTraced(f"the equations change their input {name!r} in place")
        values = [recorder.value_of(output) for output in outputs]
        _check(function, recorder.graph, values, names)
    except CannotBeTraced:
        raise
    except Exception as error:  # equations written for tensors of a sequence may raise anything
        line = _line_of(error, sources)
        raise CannotBeTraced(
            f"{line + ': ' if line else ''}the equations of a single step raise {type(error).__name__}: {error}"
        ) from error
    return recorder.graph, values


def _line_of(error: Exception, sources: Sequence[str]) -> str:
    """Return the line of the equations that an exception comes from."""
    line, entry = "", error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename in sources:
            line = f"{Path(entry.tb_frame.f_code.co_filename).name}:{entry.tb_lineno}"
        entry = entry.tb_next
    return line


def gradients(results: Sequence[tuple[Tensor, Tensor]], of: Sequence[Tensor]) -> list[Tensor]:
    """Compute gradients of these tensors from pairs of a result and its gradient."""
    # torch imports a package of algebra for gradients passed to it, but not for the gradient of a number.
    number = _LossWithGradients.apply([gradient for _, gradient in results], *(result for result, _ in results))
    return list(torch.autograd.grad(number, of, materialize_grads=True))


class _LossWithGradients(torch.autograd.Function):
    """A number with set gradients by some tensors."""

    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor], *results: Tensor) -> Tensor:
        ctx.gradients = gradients
        return results[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients


def _check(
    function: Callable[..., Sequence[Tensor]], graph: Graph, values: Sequence[Value], names: Sequence[str]
) -> None:  # fmt: skip
    """Compare the graph with the function on other numbers than those of the trace."""
    inputs = sample_inputs(names, edges=True)
    expected = function(*(torch.from_numpy(x).requires_grad_() for x in inputs.values()))
    for value, actual, exact in zip(values, evaluate(graph, values, inputs), expected, strict=True):
        wrong = error_mask(actual, exact.detach().numpy(), _TOLERANCE)
        if wrong.any():  # rounding may do this too, where a gradient has no bound
            (spread,) = rounding_spread(graph, [value], inputs, np.float64)
            wrong = error_mask(actual, exact.detach().numpy(), _TOLERANCE, spread)
        if wrong.any():
            numbers = ", ".join(f"{name} = {x[wrong][0]:g}" for name, x in inputs.items())
            raise CannotBeTraced(
                f"the equations give {exact[wrong][0].item():g} for {numbers}, and {actual[wrong][0]:g} by the kernel "
                "that was made of them: they depend on more than their arguments"
            )


class _MetadataGuard(TorchFunctionMode):
    """Refuses equations that ask a tensor for its dtype, its axes or its number of channels."""

    def __init__(self, recorder: "_Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: dict[str, Any] | None = None
    ) -> Any:  # fmt: skip
        result = function(*arguments, **options or {})
        # torch's own code and ours ask for shapes and dtypes too, and decide nothing by them.
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not _has_tensors_only(result) and not caller.startswith(
            ("torch.", "gatedrnn.codegen.", "gatedrnn.equations", "gatedrnn.kinds.")
        ):
            name = function.__self__.__name__ if function.__name__ == "__get__" else function.__name__
            raise self._recorder.error(f"asks for {name} of a tensor, and a kernel is the same for all")
        return result


def _has_tensors_only(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return all(map(_has_tensors_only, result))
    return result is None or isinstance(result, Tensor)


class _Recorder(TorchDispatchMode):
    """Records every operation that runs inside it in a graph."""

    def __init__(self, sources: Sequence[str], gradient: bool, differences: bool) -> None:
        super().__init__()
        self.graph, self._sources = Graph(gradient), set(sources)
        self._expressions = Expressions(self.graph, differences)
        self._values: dict[int, Value] = {}
        self._alive: list[Tensor] = []  # an id is unique only while its tensor lives

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch would otherwise import its whole compiler, which takes a second."""
        return False

    def input(self, name: str, tensor: Tensor) -> Value:
        """Add an input to the graph, represented by that tensor."""
        return self._set(tensor, self.graph.input(name))

    def value_of(self, operand: Any) -> Value:
        """Return the expression of a tensor or a number."""
        if isinstance(operand, Tensor):
            if id(operand) in self._values:
                return self._values[id(operand)]
            if operand.numel() != 1 or operand.requires_grad:
                raise self.error("reads a tensor that is no argument of it")
            if operand.dtype == torch.bool:  # a constant made by torch.tensor
                return self.graph.apply("ne", self.graph.constant(float(operand)), self.graph.constant(0))
        number = complex(operand)
        if number.imag or math.isnan(number.real):
            raise self.error(f"has the number {operand} in it")
        return self.graph.constant(number.real)

    def _as_number(self, operand: Any) -> Value:
        """Return the expression of a tensor or a number as a number: a comparison is 1 where it holds."""
        e, value = self._expressions, self.value_of(operand)
        if not isinstance(operand, Tensor) or operand.dtype != torch.bool:
            return value
        return e.apply("where", value, e.number(1), e.number(0))

    def _as_condition(self, operand: Any) -> Value:
        """Return the expression of a tensor or a number as a condition: a number holds where it is not 0."""
        value = self.value_of(operand)
        if isinstance(operand, Tensor) and operand.dtype == torch.bool:
            return value
        return self._expressions.apply("ne", value, self._expressions.number(0))

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:  # fmt: skip
        name, options = operation.name().partition("::")[2].partition(".")[0], options or {}
        # `__and__` and the like end with two underscores and change nothing.
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place:  # a constant that it changes is recorded as it was
            value = self._expression(name.rstrip("_"), arguments, options, arguments[0].dtype == torch.bool)
            result = operation(*arguments, **options)
        else:
            result = operation(*arguments, **options)
            is_condition = isinstance(result, Tensor) and result.dtype == torch.bool
            value = self._expression(name, arguments, options, is_condition)
        if isinstance(result, Tensor):
            self._check_result(result, name)
            self._set(result, value)
        # It returns a buffer for the gradient as well.
        elif isinstance(result, tuple) and name == "log_sigmoid_forward":
            self._set(result[0], value)
            self._alive.append(result[1])
        return result

    def _set(self, tensor: Tensor, value: Value) -> Value:
        self._values[id(tensor)] = value
        self._alive.append(tensor)
        if value not in self.graph.lines and (line := self._line()):
            self.graph.lines[value] = line
        return value

    def _check_result(self, result: Tensor, name: str) -> None:
        if result.numel() not in (1, CHANNELS) or result.dim() > 1:
            raise self.error(f"gives {name} another shape: {tuple(result.shape)} of ({CHANNELS},)")
        if result.is_complex():
            raise self.error(f"gives complex numbers by {name}")

    def _expression(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any], as_condition: bool) -> Value:
        """Return the expression of an operation; as a condition with `as_condition`."""
        e, apply = self._expressions, self._expressions.apply
        if name in _FILLED or name in FULL:
            number = self._as_number(_FILLED[name] if name in _FILLED else arguments[FULL[name]])
            return apply("ne", number, e.number(0)) if as_condition else number
        if name == "_to_copy":
            return self._cast(arguments[0], options)
        if name in _IDENTITIES:
            return self.value_of(arguments[0])
        if name in _LOGICAL:
            if name.startswith("bitwise") and not as_condition:
                raise self.error(f"uses {name} of numbers")
            return apply(_LOGICAL[name], *map(self._as_condition, arguments))
        value = self._numeric_expression(name, arguments, options)
        return apply("ne", value, e.number(0)) if as_condition and name not in COMPARISONS else value

    def _cast(self, tensor: Tensor, options: dict[str, Any]) -> Value:
        """Return the expression of `_to_copy`: a condition may become numbers, and numbers stay unchanged."""
        dtype = options.get("dtype") or tensor.dtype
        if tensor.dtype == torch.bool:
            return self.value_of(tensor) if dtype == torch.bool else self._as_number(tensor)
        if dtype == torch.bool:
            return self._as_condition(tensor)
        if tensor.is_floating_point() and dtype != tensor.dtype:
            raise self.error(f"turns {tensor.dtype} into {dtype}")
        return self.value_of(tensor)

    def _numeric_expression(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Value:
        e, apply = self._expressions, self._expressions.apply
        if name in ("where", "masked_fill"):
            condition, x, y = arguments if name == "where" else (arguments[1], arguments[2], arguments[0])
            return apply("where", self._as_condition(condition), self._as_number(x), self._as_number(y))
        if name in _GRADIENTS:
            return _GRADIENTS[name](e, *map(self._as_number, arguments[:2]))
        numbers = [self._as_number(x) for x in arguments if isinstance(x, (Tensor, int, float, complex))]
        if name in _FORMULAS:
            return _FORMULAS[name](e, *numbers)
        if name in ("clamp", "clamp_min", "clamp_max", "hardtanh"):
            return self._clamp(name, arguments, options)
        if name == "pow":
            return self._power(numbers[0], self.graph.number(numbers[1]))
        if name in ELEMENTWISE:
            return apply(ELEMENTWISE[name], *numbers)
        if name in ("add", "sub", "rsub"):
            return self._sum(name, numbers[:2], float(options.get("alpha", arguments[2] if len(arguments) > 2 else 1)))
        if name == "div" and options.get("rounding_mode") is None:
            return apply("div", *numbers)
        if name == "softplus":
            x, *others = numbers
            if [self.graph.number(other) for other in others] not in ([], [1], [1, 20]):
                raise self.error("uses softplus with another beta or threshold than 1 and 20")
            return e.softplus(x)
        raise self.error(_reason(name))

    def _sum(self, name: str, numbers: list[Value], alpha: float) -> Value:
        apply = self._expressions.apply
        left, right = numbers[::-1] if name == "rsub" else numbers
        return apply("add" if name == "add" else "sub", left, apply("mul", right, self._expressions.number(alpha)))

    def _clamp(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Value:
        apply, x = self._expressions.apply, self.value_of(arguments[0])
        bounds = [*arguments[1:3], None, None]
        low, high = options.get("min", bounds[0]), options.get("max", bounds[1])
        if name == "clamp_max":
            low, high = None, arguments[1]
        # The lower bound first: torch.clamp gives the upper one where the bounds cross.
        if low is not None:
            x = apply("maximum", x, self.value_of(low))
        return x if high is None else apply("minimum", x, self.value_of(high))

    def _power(self, x: Value, exponent: float | None) -> Value:
        e, apply = self._expressions, self._expressions.apply
        if exponent is None or not (2 * exponent).is_integer() or abs(exponent) > _MAX_POWER:
            raise self.error(f"raises to another power than whole and half ones up to {_MAX_POWER}")
        size = abs(exponent)
        power = apply("sqrt", x) if size % 1 else e.number(1)
        # Repeated products: kernels have no vectorised power.
        for _ in range(int(size)):
            power = apply("mul", power, x)
        return apply("div", e.number(1), power) if exponent < 0 else power

    def _line(self) -> str:
        """Return the line of the equations that Python executes."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self._sources:
                return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def error(self, what: str) -> CannotBeTraced:
        """Return the error to raise, with the line of the equations."""
        line = self._line()
        return CannotBeTraced(f"{line + ': ' if line else 'an equation '}{what}")


_READS_VALUES = {"_local_scalar_dense", "item", "is_nonzero", "equal"}
_MIXES_CHANNELS = set(
    "sum mean prod roll flip cat stack slice select index gather mm bmm amax amin max min cumsum split chunk unsqueeze "
    "permute t addmm mv dot _softmax sort topk std var".split()
)
_CREATES_TENSOR = set("arange linspace rand randn bernoulli rand_like randn_like eye".split())


def _reason(name: str) -> str:
    """Return why an operation is in no kernel."""
    if name in _READS_VALUES:
        return "decides by a value of its tensors, which a kernel for many channels cannot; use torch.where"
    if name in _MIXES_CHANNELS:
        return f"mixes or picks channels ({name}), which an elementwise kernel cannot"
    if name in _CREATES_TENSOR:
        return f"makes a tensor of its own ({name})"
    return f"uses {name}, which is none of the operations that kernels are generated from"
