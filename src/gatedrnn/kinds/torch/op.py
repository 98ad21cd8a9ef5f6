"""torch's own fused LSTM and GRU, for one layer and direction, as a registered operation.

Dynamo refuses the calls themselves in a graph that is trained. In eager mode they are called directly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import _VF, Tensor

from gatedrnn.kernels.op import FLOPS, Gradients, Shape, products, register_gradient, through


def call_kernel(
    x: Tensor, states: tuple[Tensor, ...], weights: list[Tensor], biases: bool, layers: int = 1, dropout: float = 0.0,
    training: bool = False, bidirectional: bool = False, batch_first: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Call torch's kernel over (batch, time, features), LSTM for two states, else GRU: output and last states."""
    if len(states) == 2:
        return _VF.lstm(x, states, weights, biases, layers, dropout, training, bidirectional, batch_first)
    return _VF.gru(x, states[0], weights, biases, layers, dropout, training, bidirectional, batch_first)


@torch.library.custom_op("gatedrnn::torch_rnn", mutates_args=())
def torch_rnn(
    x: Tensor, h: Tensor, c: Tensor | None, weight_ih: Tensor, weight_hh: Tensor,
    bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run one layer in one direction, LSTM with a c, else GRU: (B, T, P), (1, B, P), and (1, B, H) or nothing."""
    output, *last = _run(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)
    return output.contiguous(), last[0].clone(), last[1].clone() if c is not None else x.new_empty(0)


@torch_rnn.register_fake
def _(
    x: Tensor, h: Tensor, c: Tensor | None, weight_ih: Tensor, weight_hh: Tensor,
    bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    output = x.new_empty(x.shape[0], x.shape[1], h.shape[2])
    return output, x.new_empty(h.shape), x.new_empty(0 if c is None else c.shape)


@torch.library.custom_op("gatedrnn::torch_rnn_gradient", mutates_args=())
def torch_rnn_gradient(
    grad_output: Tensor, grad_h: Tensor, grad_c: Tensor, x: Tensor, h: Tensor, c: Tensor | None, weight_ih: Tensor,
    weight_hh: Tensor, bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """Gradients of the inputs that are present, in order, through one more run of the kernel."""
    arguments = (x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)
    inputs: list[Any] = [v.detach().requires_grad_() if v is not None else None for v in arguments]
    grads = [grad_output, grad_h] if c is None else [grad_output, grad_h, grad_c]
    with recording():
        outputs = _run(*inputs, training=True)  # cuDNN differentiates no other
        gradients = torch.autograd.grad(outputs, [v for v in inputs if v is not None], grads)
    return [g.contiguous() for g in gradients]


@contextmanager
def recording() -> Iterator[None]:
    """Record for autograd inside an op, where its dispatch keys are excluded whatever the grad mode.

    Other exclusions stay: one of them switches autocast off.
    """
    keys, excluded = torch._C.DispatchKey, torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradFunctionality, keys.AutogradOther, keys.AutogradNestedTensor):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield


@torch_rnn_gradient.register_fake
def _(
    grad_output: Tensor, grad_h: Tensor, grad_c: Tensor, x: Tensor, h: Tensor, c: Tensor | None, weight_ih: Tensor,
    weight_hh: Tensor, bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    arguments = (x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)
    return [v.new_empty(v.shape) for v in arguments if v is not None]


def _run(
    x: Tensor, h: Tensor, c: Tensor | None, weight_ih: Tensor, weight_hh: Tensor,
    bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None, *,
    training: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    weights = [w for w in (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) if w is not None]
    return call_kernel(x, (h,) if c is None else (h, c), weights, bias_ih is not None, training=training)


def _saves(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    return ()


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, x: Tensor, h: Tensor, c: Tensor | None,
    weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor | None, bias_hh: Tensor | None, weight_hr: Tensor | None,
) -> Gradients:  # fmt: skip
    grad_output, grad_h, grad_c = upstream
    if grad_output is None:
        grad_output = x.new_zeros(x.shape[0], x.shape[1], h.shape[2])
    if grad_h is None:
        grad_h = torch.zeros_like(h)
    if grad_c is None:
        grad_c = x.new_zeros(0) if c is None else torch.zeros_like(c)
    arguments = (x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)
    gradients = iter(torch_rnn_gradient(grad_output, grad_h, grad_c, *arguments))
    return [None if v is None else next(gradients) for v in arguments]


def _plain(**arguments: Any) -> tuple[Tensor, ...]:
    return _run(**arguments, training=True)


_DIFFERENTIABLE = ("x", "h", "c", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
register_gradient(torch_rnn, _DIFFERENTIABLE, _saves, _backward, through(_plain, _DIFFERENTIABLE))


def _count(
    x: Shape, h: Shape, c: Shape | None, weight_ih: Shape, weight_hh: Shape, bias_ih: Shape | None,
    bias_hh: Shape | None, weight_hr: Shape | None, **_: Any,
) -> int:  # fmt: skip
    return products(x, weight_ih, weight_hh, weight_hr)


def _count_gradient(grad_output: Shape, grad_h: Shape, grad_c: Shape, *forward: Any, **_: Any) -> int:
    return 2 * _count(*forward)


FLOPS |= {"torch_rnn": _count, "torch_rnn_gradient": _count_gradient}
