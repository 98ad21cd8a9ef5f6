"""torch's own fused LSTM and GRU, for one layer and direction, as a registered operation.

Dynamo refuses the calls themselves in a graph that is trained. In eager mode they are called directly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import _VF, Tensor

from gatedrnn.kernels.op import Gradients, operation, or_zeros, products, register_gradient, through


def call_kernel(
    x: Tensor, states: tuple[Tensor, ...], weights: list[Tensor], biases: bool, layers: int = 1, dropout: float = 0.0,
    training: bool = False, bidirectional: bool = False, batch_first: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Call torch's kernel over (batch, time, features), LSTM for two states, else GRU: output and last states."""
    if len(states) == 2:
        return _VF.lstm(x, states, weights, biases, layers, dropout, training, bidirectional, batch_first)
    return _VF.gru(x, states[0], weights, biases, layers, dropout, training, bidirectional, batch_first)


class TorchInputs(NamedTuple):
    """The inputs of torch's kernel for one layer and direction: an LSTM with a c, else a GRU."""

    x: Tensor
    """(batch, time, features)."""
    h: Tensor
    """(1, batch, channels), as c."""
    c: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None

    def run(self, training: bool = False) -> tuple[Tensor, ...]:
        """Call the kernel."""
        x, h, c, *weights = self
        present, states = [w for w in weights if w is not None], (h,) if c is None else (h, c)
        return call_kernel(x, states, present, self.bias_ih is not None, training=training)


class TorchUpstream(NamedTuple):
    """Gradients of output, h and c; None without a c."""

    grad_output: Tensor
    grad_h: Tensor
    grad_c: Tensor | None


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


def _run(inputs: TorchInputs) -> tuple[Tensor, ...]:
    """The output, (batch, time, channels), the last h, and the last c or nothing."""
    output, *last = inputs.run()
    # Results of an operation share no memory with each other: torch's last states may be views.
    return output.contiguous(), last[0].clone(), last[1].clone() if inputs.c is not None else output.new_empty(0)


def _fake(inputs: TorchInputs) -> tuple[Tensor, ...]:
    x, h, c = inputs.x, inputs.h, inputs.c
    output = x.new_empty(x.shape[0], x.shape[1], h.shape[2])
    return output, x.new_empty(h.shape), x.new_empty(0 if c is None else c.shape)


def _run_gradient(upstream: TorchUpstream, inputs: TorchInputs) -> tuple[Tensor, ...]:
    """Gradients of all inputs, empty for missing ones, through one more run of the kernel."""
    # Leaves of a graph of their own: the caller's graph ends at the operation.
    leaves: list[Any] = [None if x is None else x.detach().requires_grad_() for x in inputs]
    with recording():
        # In training mode, for cuDNN differentiates no other.
        outputs = TorchInputs(*leaves).run(training=True)
        gradients = iter(torch.autograd.grad(outputs, [x for x in leaves if x is not None], upstream[: len(outputs)]))
    return tuple(inputs.x.new_empty(0) if x is None else next(gradients).contiguous() for x in leaves)


def _fake_gradient(upstream: TorchUpstream, inputs: TorchInputs) -> tuple[Tensor, ...]:
    return tuple(inputs.x.new_empty(0) if x is None else x.new_empty(x.shape) for x in inputs)


def _flops(inputs: TorchInputs) -> int:
    return products(inputs.x, inputs.weight_ih, inputs.weight_hh, inputs.weight_hr)  # type: ignore[arg-type]  # shapes


torch_rnn = operation("torch_rnn", (TorchInputs,), 3, _run, _fake, _flops)
torch_rnn_gradient = operation(
    "torch_rnn_gradient", (TorchUpstream, TorchInputs), 8, _run_gradient, _fake_gradient,
    lambda upstream, inputs: 2 * _flops(inputs),
)  # fmt: skip


def _saved(output: tuple[Tensor, ...], **_: object) -> tuple[Tensor, ...]:
    # What torch's kernel needs for its gradient stays inside autograd: the backward runs it once more.
    return ()


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    inputs, (grad_output, *others) = TorchInputs(**arguments), upstream
    x, h, c = inputs.x, inputs.h, inputs.c
    if grad_output is None:
        grad_output = x.new_zeros(x.shape[0], x.shape[1], h.shape[2])
    gradients = torch_rnn_gradient(grad_output, *or_zeros(others, (h, c)), *inputs)
    return [None if x is None else gradient for x, gradient in zip(inputs, gradients, strict=True)]


def _reference(**arguments: Any) -> tuple[Tensor, ...]:
    return TorchInputs(**arguments).run(training=True)


register_gradient(torch_rnn, TorchInputs._fields, _saved, _backward, through(_reference, TorchInputs._fields))
