"""linear_scan: all states of h_t = a_t * h_(t-1) + b_t, elementwise, at once; its gradient, that of resets too."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.errors import BackendUnavailable
from gatedrnn.ops._op import Gradients, register_gradient
from gatedrnn.ops._time import over_time
from gatedrnn.ops.backends import BACKENDS, accumulation_dtype, choose_backend, native_kernels, plain_torch_only
from gatedrnn.shapes import Channels, Flags, Series, State


def linear_scan(
    decay: Series, drive: Series, h0: State | None = None, *,
    resets: Flags | None = None, reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """All states of h_t = decay_t * h_(t-1) + drive_t, elementwise, and the last one.

    Linear in time and memory, any T (0 and 1 too), never divides by a decay and never takes a logarithm, so a decay may
    be negative, zero or above one. Differentiable to any order in everything but `resets`.

    Args:
        decay: a_t, any real. Shape (batch, time, channels); float64, float32, bfloat16 or float16.
        drive: b_t, same shape, dtype and device as `decay`.
        h0: the state before the first step, (batch, channels); zeros if None. In the dtype of `drive`
            or in the dtype of accumulation: float64 for float64, else float32.
        resets: bool, (batch, time). Where True, h_(t-1) is `reset_state`.
        reset_state: (channels,), zeros if None; dtype as for `h0`.
        reverse: run from the last step to the first; h_(t-1) then reads h_(t+1).
        backend: "reference" (a loop in torch), "native" (our kernels for the device), or "auto" (see `choose_backend`).
            In a `torch.func` transform (vmap, grad, jvp) and in an export to ONNX "auto" is "reference": no kernel can
            take part in them.

    Returns:
        h_1 … h_T in the dtype of `drive`, and the state after the last step run, in the dtype of accumulation (the one
        at the first step when reversed; h0 if T = 0). Carry that one to the next chunk: a state rounded to
        bfloat16 would make two halves differ from the whole.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, or an unknown backend.
        BackendUnavailable: a named backend cannot run here.
    """
    _check(decay, drive, h0, resets, reset_state, backend)
    if plain_torch_only():
        if backend == "native":
            raise BackendUnavailable(
                "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto' or "
                "'reference'"
            )
        a, b, start, reset_to = _accumulate(decay, drive, _initial(h0, drive), reset_state)
        h, last = scan_in_torch(a, b, start, resets, reset_to, reverse)
        return h.to(drive.dtype), last
    return _linear_scan(decay, drive, h0, resets, reset_state, reverse, backend)


def scan_in_torch(
    decay: Series, drive: Series, h0: State, resets: Flags | None, reset_state: Channels | None, reverse: bool
) -> tuple[Series, State]:
    """All states of h_t = decay_t * h_(t-1) + drive_t and the last one, by a loop: the definition of every kernel."""
    if not drive.shape[1]:
        return torch.zeros_like(drive), h0.clone()
    reset_to = drive.new_zeros(drive.shape[2]) if reset_state is None else reset_state

    def step(
        state: tuple[Tensor, ...], decay: Tensor, drive: Tensor, reset: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        previous = state[0] if reset is None else torch.where(reset.unsqueeze(1), reset_to, state[0])
        h = decay * previous + drive
        return h, (h,)

    h, (last,) = over_time(step, (h0,), (decay, drive, resets), reverse)
    return h, last.clone()


@torch.library.custom_op("gatedrnn::linear_scan", mutates_args=())
def _linear_scan(
    decay: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    reverse: bool, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if _is_native(backend, drive.device):
        dtype = accumulation_dtype(drive.dtype)
        start, reset_to = (None if x is None else x.to(dtype) for x in (h0, reset_state))
        return native_kernels(drive.device).scan(decay, drive, start, resets, reset_to, reverse)
    a, b, start, reset_to = _accumulate(decay, drive, _initial(h0, drive), reset_state)
    h, last = scan_in_torch(a, b, start, resets, reset_to, reverse)
    return h.to(drive.dtype), last


@_linear_scan.register_fake
def _(
    decay: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    reverse: bool, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch, _, channels = drive.shape
    h = torch.empty_like(drive, memory_format=torch.contiguous_format)
    return h, drive.new_empty(batch, channels, dtype=accumulation_dtype(drive.dtype))


@torch.library.custom_op("gatedrnn::linear_scan_gradient", mutates_args=())
def _linear_scan_gradient(
    grad_h: Tensor, grad_last: Tensor, decay: Tensor, h: Tensor, h0: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, reverse: bool, backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    if _is_native(backend, h.device):
        start, reset_to = (None if x is None else x.to(accumulation_dtype(h.dtype)) for x in (h0, reset_state))
        return native_kernels(h.device).scan_gradient(grad_h, grad_last, decay, h, start, resets, reset_to, reverse)
    grad_decay, grad_drive, grad_h0, grad_reset_state = _gradient_by_scan(
        grad_h, grad_last, decay, h, h0, resets, reset_state, reverse, backend
    )
    return grad_decay.to(h.dtype), grad_drive.to(h.dtype), grad_h0, grad_reset_state


@_linear_scan_gradient.register_fake
def _(
    grad_h: Tensor, grad_last: Tensor, decay: Tensor, h: Tensor, h0: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, reverse: bool, backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    batch, _, channels = h.shape
    first, second = (torch.empty_like(h, memory_format=torch.contiguous_format) for _ in range(2))
    third, fourth = (h.new_empty(size, dtype=accumulation_dtype(h.dtype)) for size in ((batch, channels), (channels,)))
    return first, second, third, fourth


def _gradient_by_scan(
    grad_h: Tensor, grad_last: Tensor, decay: Tensor, h: Tensor, h0: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, reverse: bool, backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradient by torch operations around one scan in the other direction; itself differentiable.

    With delta_t the whole gradient that reaches h_t:  delta_t = grad_t + a_(t+1) delta_(t+1),
    grad b_t = delta_t,  grad a_t = delta_t h_(t-1),  and a_t delta_t is the gradient of the state before step t.
    """
    grad_h, decay, h, start, reset_to = _accumulate(grad_h, decay, h, _initial(h0, h), reset_state)
    end = h.shape[1] - 1
    if end < 0:
        return torch.zeros_like(decay), torch.zeros_like(h), grad_last.clone(), h.new_zeros(h.shape[2])
    first, later = (end, slice(0, end)) if reverse else (0, slice(1, None))
    earlier = slice(1, None) if reverse else slice(0, end)

    def along_run(boundary: Tensor, series: Tensor, before: bool) -> Tensor:
        """`series` shifted by one step, `boundary` filling the gap: the values before each step, or those after it."""
        gap = boundary.unsqueeze(1)
        return torch.cat([gap, series] if before != reverse else [series, gap], dim=1)

    next_decay = along_run(torch.ones_like(start), decay[:, later], before=False)
    next_reset = None
    if resets is not None:
        next_reset = along_run(torch.zeros_like(resets[:, 0]), resets[:, later], before=False)
    delta, _ = linear_scan(next_decay, grad_h, grad_last, resets=next_reset, reverse=not reverse, backend=backend)
    previous = along_run(start, h[:, earlier], before=True)
    reaching = decay * delta
    # A copy: a view would have strides that the fake form does not announce.
    grad_start, grad_reset_state = reaching[:, first].clone(), torch.zeros_like(start[:0].sum(0))
    if resets is not None:
        cut = resets.unsqueeze(2)
        previous = torch.where(cut, torch.zeros_like(start[:1, None]) if reset_to is None else reset_to, previous)
        grad_start = torch.where(cut[:, first], 0, grad_start)
        grad_reset_state = torch.where(cut, reaching, 0).sum((0, 1))
    return delta * previous, delta, grad_start, grad_reset_state


def _saves(output: tuple[Tensor, Tensor], **_: object) -> tuple[Tensor]:
    return (output[0],)


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, decay: Tensor, drive: Tensor, h0: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, reverse: bool, backend: str,
) -> Gradients:  # fmt: skip
    (h,), (grad_h, grad_last) = saved, upstream
    assert h is not None
    if grad_h is None:
        grad_h = torch.zeros_like(h)
    if grad_last is None:
        grad_last = h.new_zeros(len(h), h.shape[2], dtype=accumulation_dtype(h.dtype))
    # Inside a backward, grad mode is on exactly when the caller asked for a graph.
    compute = _gradient_by_scan if torch.is_grad_enabled() else _linear_scan_gradient
    return compute(grad_h, grad_last, decay, h, h0, resets, reset_state, reverse, backend)


register_gradient(_linear_scan, ("decay", "drive", "h0", "reset_state"), _saves, _backward, _backward)


def _is_native(backend: str, device: torch.device) -> bool:
    return (choose_backend(device).backend if backend == "auto" else backend) == "native"


def _initial(h0: State | None, like: Series) -> State:
    batch, _, channels = like.shape
    return like.new_zeros(batch, channels, dtype=accumulation_dtype(like.dtype)) if h0 is None else h0


def _accumulate(first: Tensor, *others: Tensor | None) -> tuple[Any, ...]:
    """The tensors in the dtype in which states are summed up; None stays None."""
    dtype = accumulation_dtype(first.dtype)
    return tuple(x if x is None else x.to(dtype) for x in (first, *others))


def _check(
    decay: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, backend: str
) -> None:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if drive.dim() != 3:
        raise ValueError(f"drive must have the axes (batch, time, channels), got shape {tuple(drive.shape)}")
    if decay.shape != drive.shape:
        raise ValueError(f"decay and drive must have one shape, got {tuple(decay.shape)} and {tuple(drive.shape)}")
    if decay.dtype != drive.dtype or not drive.dtype.is_floating_point:
        raise ValueError(f"decay and drive must have one floating dtype, got {decay.dtype} and {drive.dtype}")
    batch, steps, channels = drive.shape
    for name, value, shape in (("h0", h0, (batch, channels)), ("reset_state", reset_state, (channels,))):
        if value is None:
            continue
        if tuple(value.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
        if value.dtype not in (drive.dtype, accumulation_dtype(drive.dtype)):
            raise ValueError(f"{name} must be {drive.dtype} or {accumulation_dtype(drive.dtype)}, got {value.dtype}")
    if resets is not None and (resets.dtype != torch.bool or tuple(resets.shape) != (batch, steps)):
        raise ValueError(
            f"resets must be bool of shape {(batch, steps)}, got {resets.dtype} of shape {tuple(resets.shape)}"
        )
    if reset_state is not None and resets is None:
        raise ValueError("reset_state is used only where resets are; pass resets too")
    for name, value in (("decay", decay), ("h0", h0), ("resets", resets), ("reset_state", reset_state)):
        if value is not None and value.device != drive.device:
            raise ValueError(f"{name} is on {value.device} and drive on {drive.device}; put both on one device")
