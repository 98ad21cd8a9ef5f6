"""Operations of torch made from named tuples of arguments, and their gradients: those of the kernel, and for second
derivatives those of the plain torch form.

An operation is a `torch.library.custom_op` with a fake form; so is its gradient, which takes the upstream gradients and
then the same arguments. `register_gradient` ties the two together. Inside a backward, grad mode is on exactly with
`create_graph`: then the plain torch form is differentiated, whose gradients can be differentiated again.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias, get_type_hints

import torch
from torch import Tensor

from gatedrnn.kernels.backends import DTYPES, has_cpu_kernels, plain_torch_only

Gradients: TypeAlias = Sequence[Tensor | None]
Backward: TypeAlias = Callable[..., Gradients]
"""`backward(upstream, saved, needed, **arguments)`: gradients of an operation's differentiable arguments, in order.

upstream: gradients of the operation's outputs; None for an unused one.
saved: the tensors that `saves` returned.
needed: names of the arguments that require a gradient.
arguments: the arguments of the operation.
"""
Shape: TypeAlias = Sequence[int]
_SCHEMA = {Tensor: "Tensor", Tensor | None: "Tensor?", str: "str", bool: "bool"}


def operation(
    name: str, arguments: Sequence[type[Any]], results: int, run: Callable[..., Tensor | Sequence[Tensor]],
    fake: Callable[..., Tensor | Sequence[Tensor]], flops: Callable[..., int],
) -> Any:  # fmt: skip
    """Register `gatedrnn::name`, and return it: a function of all fields of the arguments, one after another.

    Args:
        arguments: classes of named tuples of tensors, words and flags; the functions take one of each.
        results: the number of tensors that the operation returns, one as itself and several as a tuple.
        run: computes them.
        fake: allocates tensors of the same shapes, dtypes and strides.
        flops: counts from shapes in the place of tensors, see `products`.
    """
    starts = [sum(len(one._fields) for one in arguments[:i]) for i in range(len(arguments))]
    parts = [(one._make, slice(low, low + len(one._fields))) for one, low in zip(arguments, starts, strict=True)]

    def grouped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **_: Any) -> Any:  # a counter of FLOPs says the shape of the result too
            return function(*[make(values[part]) for make, part in parts])

        return call

    fields = [f"{_SCHEMA[kind]} {field}" for one in arguments for field, kind in get_type_hints(one).items()]
    schema = f"({', '.join(fields)}) -> ({', '.join(['Tensor'] * results)})"
    registered: Any = torch.library.custom_op(f"gatedrnn::{name}", grouped(run), mutates_args=(), schema=schema)
    registered.register_fake(grouped(fake))
    _FLOPS[name] = grouped(flops)
    return registered


def has_kernel(x: Tensor) -> bool:
    """Whether an operation whose kernel is for a CPU alone can take x; elsewhere its form in plain torch runs."""
    return x.dtype in DTYPES and has_cpu_kernels(x.device) and not plain_torch_only()


def register_gradient(
    op: Any, differentiable: tuple[str, ...], saves: Callable[..., tuple[Tensor | None, ...]], backward: Backward,
    backward_with_graph: Backward,
) -> None:  # fmt: skip
    """Make an operation differentiable, to any order.

    Args:
        op: made by `operation` or `torch.library.custom_op`.
        differentiable: names of its arguments that have a gradient.
        saves: `saves(outputs, **arguments)`, the tensors that the backward reads beside the arguments.
        backward: computes gradients by a kernel.
        backward_with_graph: computes them by operations that can be differentiated again; see `through`.
    """
    schema = op._opoverload._schema.arguments
    names, tensors = [a.name for a in schema], [a.name for a in schema if "Tensor" in str(a.type)]

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arguments = dict(zip(names, inputs, strict=True))
        # An output that nobody uses then has None as its gradient, and no zeros are allocated and read for it.
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*map(arguments.__getitem__, tensors), *saves(output, **arguments))
        ctx.constants = {name: value for name, value in arguments.items() if name not in tensors}

    def gradient(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        unpacked = ctx.saved_tensors  # once: activation checkpointing computes them again, and refuses a second time
        inputs, saved = unpacked[: len(tensors)], unpacked[len(tensors) :]
        arguments = dict(zip(tensors, inputs, strict=True)) | ctx.constants
        needed = frozenset(name for name, needs in zip(names, ctx.needs_input_grad, strict=True) if needs)
        compute = backward_with_graph if torch.is_grad_enabled() else backward
        by_name = dict(zip(differentiable, compute(upstream, saved, needed, **arguments), strict=True))
        # Kernels sum gradients in float32 at least; that of a bfloat16 input must have the input's dtype.
        cast = {
            name: grad.to(arguments[name].dtype)
            for name, grad in by_name.items()
            if grad is not None and arguments[name] is not None
        }
        return tuple(cast.get(name) for name in names)

    op.register_autograd(gradient, setup_context=save)


def through(reference: Callable[..., tuple[Tensor, ...]], differentiable: tuple[str, ...]) -> Backward:
    """Return the backward that differentiates the operation's plain torch form.

    Args:
        reference: `reference(**arguments)`, the operation's outputs that have a gradient, first to last.
        differentiable: as in `register_gradient`.
    """

    def backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
        def plain(*tensors: Tensor | None) -> tuple[Tensor, ...]:
            return reference(**arguments | dict(zip(differentiable, tensors, strict=True)))

        return gradients_with_graph(plain, [arguments[name] for name in differentiable], upstream)

    return backward


def or_zeros(upstream: Gradients, outputs: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return gradients of outputs, zeros for an unused one; None where there is no such output."""
    pairs = zip(upstream, outputs, strict=True)
    return [None if x is None else torch.zeros_like(x) if grad is None else grad for grad, x in pairs]


def gradients_with_graph(
    function: Callable[..., tuple[Tensor, ...]], tensors: Sequence[Tensor | None], upstream: Gradients
) -> list[Tensor | None]:
    """Return gradients of the tensors that require one, by plain torch, so that they can be differentiated again.

    Args:
        function: takes `tensors`; its outputs come in the order of `upstream`, which may have more.
        upstream: their gradients; None for an unused one.
    """
    # One view for each argument: a tensor that is passed twice would get the whole gradient for both.
    aliases = [x.view_as(x) if x is not None and x.requires_grad else x for x in tensors]
    inputs = [x for x in aliases if x is not None and x.requires_grad]
    pairs = [(o, g) for o, g in zip(function(*aliases), upstream, strict=False) if g is not None and o.requires_grad]
    # An initial state that every sequence resets has no effect on outputs, and some outputs are constants.
    outputs, grads = [o for o, _ in pairs], [g for _, g in pairs]
    results = iter(torch.autograd.grad(outputs, inputs, grads, create_graph=True, materialize_grads=True))
    return [next(results) if x is not None and x.requires_grad else None for x in aliases]


# FLOPs as `torch.utils.flop_counter` counts those of torch's own operations: matrix products. Elementwise work
# (gates, scans) is not counted, as torch does not count it. A gradient is twice its forward: one product for the input
# or state, one for the weight; that an operation computes something again in the backward is not counted.


def products(x: Shape, *weights: Shape | None) -> int:
    """Count the product of each row of x (batch, time, …) with each of these matrices."""
    # torch counts a multiply-add as two FLOPs.
    return 2 * x[0] * x[1] * sum(prod(weight) for weight in weights if weight is not None)


def elementwise(*_: Any, **__: Any) -> int:
    """Count nothing."""
    return 0


_FLOPS: dict[str, Callable[..., int]] = {}
"""Formulas by the operation's name below `torch.ops.gatedrnn`, from the shapes of its arguments."""


@cache
def register_flop_formulas() -> None:
    """Register the formulas with `FlopCounterMode`, once; a counter knows those registered when it was made.

    Imported here: torch's module imports triton if installed, which `import gatedrnn` must not do.
    """
    from torch.utils.flop_counter import register_flop_formula

    for name, formula in _FLOPS.items():
        register_flop_formula(getattr(torch.ops.gatedrnn, name))(formula)
