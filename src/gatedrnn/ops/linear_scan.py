"""linear_scan: all states of h_t = a_t * h_(t-1) + b_t at once. The contract, the checks, the backend, the gradient."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gatedrnn.errors import BackendUnavailable
from gatedrnn.ops import reference
from gatedrnn.ops.steps import exporting_to_onnx
from gatedrnn.shapes import Channels, Flags, Series, State

BACKENDS = ("auto", "reference", "cpu", "gpu")


class Choice(NamedTuple):
    """What `backend="auto"` takes for a device, and why."""

    backend: str
    reason: str


def installed(package: str) -> bool:
    """Whether it can be imported; asked at every step of a stream, so by the shorter way where that says yes."""
    return sys.modules.get(package) is not None or find_spec(package) is not None


def choose_backend(device: torch.device | str) -> Choice:
    """The backend that `auto` stands for on `device`, with the reason in words."""
    kind = torch.device(device).type
    if kind == "cuda":
        if not installed("triton"):
            return Choice("reference", "triton is not installed")
        return Choice("gpu", "tiles of time and channels (triton)")
    if kind != "cpu":
        return Choice("reference", f"there is no kernel for {kind} tensors")
    if not installed("numba"):
        return Choice("reference", "numba is not installed")
    return Choice("cpu", "compiled loops over contiguous channels (numba)")


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
        h0: the state before the first step walked, (batch, channels); zeros if None. In the dtype of `drive`
            or in the dtype of accumulation: float64 for float64, else float32.
        resets: bool, (batch, time). Where True, `reset_state` stands in the place of h_(t-1).
        reset_state: (channels,), zeros if None; dtype as for `h0`.
        reverse: walk from the last step to the first; h_(t-1) then reads h_(t+1).
        backend: "reference", "cpu", "gpu", or "auto" (see `choose_backend`). Under `torch.func` (vmap, grad, jvp) and
            in an export to ONNX "auto" is the plain torch loop, which they know; they know no kernel.

    Returns:
        h_1 … h_T in the dtype of `drive`, and the last state walked in the dtype of accumulation (the one at the first
        step when reversed; h0 if T = 0). Carry that one: a state rounded to bfloat16 would make two halves differ
        from the whole.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, or an unknown backend.
        BackendUnavailable: a named backend cannot run here.
    """
    _check(decay, drive, h0, resets, reset_state, backend)
    if torch_alone():
        if backend not in ("auto", "reference"):
            raise BackendUnavailable(
                f"backend {backend!r} knows no torch.func transform and no export to ONNX; use 'auto' or 'reference'"
            )
        a, b, start, onset = _accumulate(decay, drive, _initial(h0, drive), reset_state)
        h, last = reference.scan(a, b, start, resets, onset, reverse)
        return h.to(drive.dtype), last
    return _linear_scan(decay, drive, h0, resets, reset_state, reverse, backend)


def torch_alone() -> bool:
    """Whether what calls knows torch's operations alone and none of our ops."""
    return transforming() or exporting_to_onnx()


def transforming() -> bool:
    """Whether a `torch.func` transform or forward-mode differentiation is active, whose tensors no kernel can read."""
    if torch.compiler.is_compiling():
        return False
    # torch has no public function for it.
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_mode()


def forward_mode() -> bool:
    """Whether forward-mode differentiation is active (`torch.func.jvp`, `torch.autograd.forward_ad`)."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@torch.library.custom_op("gatedrnn::linear_scan", mutates_args=())
def _linear_scan(
    decay: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    reverse: bool, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    kernels, dtype = implementation(backend, drive.device), accumulation_dtype(drive.dtype)
    if kernels is not reference:
        start, onset = (None if x is None else x.to(dtype) for x in (h0, reset_state))
        return kernels.scan(decay, drive, start, resets, onset, reverse)
    a, b, start, onset = _accumulate(decay, drive, _initial(h0, drive), reset_state)
    h, last = reference.scan(a, b, start, resets, onset, reverse)
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
    kernels = implementation(backend, h.device)
    if kernels is reference:
        grad_decay, grad_drive, grad_start, grad_onset = _gradient_by_scan(
            grad_h, grad_last, decay, h, h0, resets, reset_state, reverse, backend
        )
        return grad_decay.to(h.dtype), grad_drive.to(h.dtype), grad_start, grad_onset
    start, onset = (None if x is None else x.to(accumulation_dtype(h.dtype)) for x in (h0, reset_state))
    return kernels.scan_gradient(grad_h, grad_last, decay, h, start, resets, onset, reverse)


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
    """The gradient in torch operations around one scan against the walk; itself differentiable.

    With delta_t the whole gradient that reaches h_t:  delta_t = grad_t + a_(t+1) delta_(t+1),
    grad b_t = delta_t,  grad a_t = delta_t h_(t-1),  and a_t delta_t goes to whatever stood before step t.
    """
    grad_h, decay, h, start, onset = _accumulate(grad_h, decay, h, _initial(h0, h), reset_state)
    end = h.shape[1] - 1
    if end < 0:
        return torch.zeros_like(decay), torch.zeros_like(h), grad_last.clone(), torch.zeros_like(h[0, :0].sum(0))
    first, later = (end, slice(0, end)) if reverse else (0, slice(1, None))
    earlier = slice(1, None) if reverse else slice(0, end)

    def along_walk(boundary: Tensor, series: Tensor, before: bool) -> Tensor:
        """`series` moved by one step, `boundary` filling the gap: what stood before each step, or what comes after."""
        gap = boundary.unsqueeze(1)
        return torch.cat([gap, series] if before != reverse else [series, gap], dim=1)

    next_decay = along_walk(torch.ones_like(start), decay[:, later], before=False)
    next_reset = None
    if resets is not None:
        next_reset = along_walk(torch.zeros_like(resets[:, 0]), resets[:, later], before=False)
    delta, _ = linear_scan(next_decay, grad_h, grad_last, resets=next_reset, reverse=not reverse, backend=backend)
    previous = along_walk(start, h[:, earlier], before=True)
    reaching = decay * delta
    # A copy: a view would carry strides that the registered gradient does not announce.
    grad_start, grad_onset = reaching[:, first].clone(), torch.zeros_like(start[:0].sum(0))
    if resets is not None:
        cut = resets.unsqueeze(2)
        previous = torch.where(cut, torch.zeros_like(start[:1, None]) if onset is None else onset, previous)
        grad_start = torch.where(cut[:, first], 0, grad_start)
        grad_onset = torch.where(cut, reaching, 0).sum((0, 1))
    return delta * previous, delta, grad_start, grad_onset


def _save_for_gradient(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    decay, _, h0, resets, reset_state, ctx.reverse, ctx.backend = inputs
    ctx.save_for_backward(decay, output[0], h0, resets, reset_state)


def _gradient(ctx: Any, grad_h: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
    decay, h, h0, resets, reset_state = ctx.saved_tensors
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    compute = _gradient_by_scan if torch.is_grad_enabled() else _linear_scan_gradient
    grad_decay, grad_drive, grad_h0, grad_onset = compute(
        grad_h, grad_last, decay, h, h0, resets, reset_state, ctx.reverse, ctx.backend
    )
    return (
        grad_decay.to(decay.dtype), grad_drive.to(decay.dtype),
        None if h0 is None else grad_h0.to(h0.dtype), None,
        None if reset_state is None else grad_onset.to(reset_state.dtype), None, None,
    )  # fmt: skip


_linear_scan.register_autograd(_gradient, setup_context=_save_for_gradient)


def implementation(backend: str, device: torch.device) -> ModuleType:
    """The module that runs scans for a backend's name.

    Raises:
        BackendUnavailable: it cannot run here.
    """
    if backend == "auto":
        backend = choose_backend(device).backend
    if backend == "reference":
        return reference
    if backend == "gpu":
        if not installed("triton"):
            raise BackendUnavailable("backend 'gpu' needs triton, which is not installed; use 'auto' or 'reference'")
        # triton's interpreter runs the same kernels on the CPU, for tests alone.
        if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
            raise BackendUnavailable(f"backend 'gpu' needs CUDA tensors, got {device}; move them or use 'auto'")
        return import_module("gatedrnn.kernels.gpu")
    if device.type != "cpu":
        raise BackendUnavailable(f"backend 'cpu' needs tensors on the CPU, got {device}; move them or use 'auto'")
    if not installed("numba"):
        raise BackendUnavailable("backend 'cpu' needs numba, which is not installed; use 'auto' or 'reference'")
    return import_module("gatedrnn.kernels.cpu")


def _initial(h0: State | None, like: Series) -> State:
    batch, _, channels = like.shape
    return like.new_zeros(batch, channels, dtype=accumulation_dtype(like.dtype)) if h0 is None else h0


def _accumulate(first: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """The tensors in the dtype in which states are summed up; None stays None."""
    dtype = accumulation_dtype(first.dtype)
    return tuple(x if x is None else x.to(dtype) for x in (first, *others))  # type: ignore[misc]


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
