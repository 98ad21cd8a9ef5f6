"""The gradients of a registered operation: the kernel's own, and for a second derivative those of its plain torch form.

An operation is a `torch.library.custom_op` with a fake form; so is its gradient. `register_gradient` ties the two
together. Inside a backward, grad mode is on exactly when the caller asked for `create_graph`: then the plain torch form
is differentiated, whose gradients can be differentiated again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Gradients: TypeAlias = Sequence[Tensor | None]


Backward: TypeAlias = Callable[..., Gradients]
"""`backward(upstream, saved, needed, **arguments)`: gradients of an operation's differentiable arguments, in order.

upstream: gradients of the operation's outputs; None for one that nobody asked for.
saved: what `saves` returned.
needed: names of the arguments that require a gradient.
arguments: those of the operation.
"""


def register_gradient(
    op: Any, differentiable: tuple[str, ...], saves: Callable[..., tuple[Tensor | None, ...]], backward: Backward,
    backward_with_graph: Backward,
) -> None:  # fmt: skip
    """Make an operation differentiable, to any order.

    Args:
        op: made by `torch.library.custom_op`.
        differentiable: names of its arguments that have a gradient.
        saves: `saves(outputs, **arguments)`, the tensors that a backward reads beside the arguments.
        backward: by a kernel.
        backward_with_graph: by operations that can be differentiated again; see `through`.
    """
    schema = op._opoverload._schema.arguments
    names, tensors = [a.name for a in schema], [a.name for a in schema if "Tensor" in str(a.type)]

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        arguments = dict(zip(names, inputs, strict=True))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*(arguments[name] for name in tensors), *saves(output, **arguments))
        ctx.constants = {name: value for name, value in arguments.items() if name not in tensors}

    def gradient(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        unpacked = ctx.saved_tensors  # once: activation checkpointing computes them again, and refuses a second time
        inputs, saved = unpacked[: len(tensors)], unpacked[len(tensors) :]
        arguments = dict(zip(tensors, inputs, strict=True)) | ctx.constants
        needed = frozenset(name for name, needs in zip(names, ctx.needs_input_grad, strict=True) if needs)
        compute = backward_with_graph if torch.is_grad_enabled() else backward
        found = dict(zip(differentiable, compute(upstream, saved, needed, **arguments), strict=True))
        cast = {
            name: grad.to(arguments[name].dtype)
            for name, grad in found.items()
            if grad is not None and arguments[name] is not None
        }
        return tuple(cast.get(name) for name in names)

    op.register_autograd(gradient, setup_context=save)


def through(reference: Callable[..., tuple[Tensor, ...]], differentiable: tuple[str, ...]) -> Backward:
    """The backward that differentiates the operation's plain torch form.

    Args:
        reference: `reference(**arguments)`, the operation's outputs that have a gradient, first to last.
        differentiable: as in `register_gradient`.
    """

    def backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
        def plain(*given: Tensor | None) -> tuple[Tensor, ...]:
            return reference(**arguments | dict(zip(differentiable, given, strict=True)))

        return gradients_with_graph(plain, [arguments[name] for name in differentiable], upstream)

    return backward


def gradients_with_graph(
    function: Callable[..., tuple[Tensor, ...]], given: Sequence[Tensor | None], upstream: Gradients
) -> list[Tensor | None]:
    """Gradients of those `given` that require one, through plain torch, to be differentiated again.

    Args:
        function: takes `given`; its outputs come in the order of `upstream`, which may have more.
        upstream: their gradients; None for one that nobody asked for.
    """
    again = [x.view_as(x) if x is not None and x.requires_grad else x for x in given]
    inputs = [x for x in again if x is not None and x.requires_grad]
    pairs = [(o, g) for o, g in zip(function(*again), upstream, strict=False) if g is not None and o.requires_grad]
    # An initial state that every sequence resets takes part in nothing, and so do outputs that are constants.
    outputs, grads = [o for o, _ in pairs], [g for _, g in pairs]
    found = iter(torch.autograd.grad(outputs, inputs, grads, create_graph=True, materialize_grads=True))
    return [next(found) if x is not None and x.requires_grad else None for x in again]
