"""block_scan: all states of h_t = A_t h_(t-1) + b_t at once, where A_t is made of small square blocks."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import applied
from gatedrnn.errors import BackendUnavailable
from gatedrnn.ops.graph import gradients_with_graph
from gatedrnn.ops.linear_scan import (
    Choice,
    accumulation_dtype,
    choose_backend,
    implementation,
    torch_alone,
    transforming,
)
from gatedrnn.ops.steps import over_time
from gatedrnn.shapes import Channels, Flags, Series, State

BLOCK_BACKENDS = ("auto", "reference", "tree", "cpu")


def choose_block_backend(device: torch.device | str) -> Choice:
    """The backend that `auto` stands for on `device`, with the reason in words."""
    if choose_backend(device).backend == "cpu":
        return Choice("cpu", "compiled loops over contiguous blocks (numba)")
    return Choice("tree", "an associative scan in torch, as deep as the logarithm of the length")


def block_scan(
    transition: Tensor, drive: Series, h0: State | None = None, *,
    resets: Flags | None = None, reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """All states of h_t = A_t h_(t-1) + b_t, and the last one; each A_t takes every block of k channels to itself.

    Channel i · blocks + n is component i of block n, so that what is alike lies together in memory. Linear in time and
    memory; differentiable to any order in everything but `resets`.

    Args:
        transition: A_t, (batch, time, k, k, blocks): the number in row i and column j of block n at [i, j, n]. float64
            or float32.
        drive: b_t, (batch, time, k · blocks), the same dtype and device.
        h0: the state before the first step walked, (batch, k · blocks); zeros if None. The same dtype.
        resets: bool, (batch, time). Where True, `reset_state` stands in the place of h_(t-1).
        reset_state: (k · blocks,), zeros if None.
        reverse: walk from the last step to the first; h_(t-1) then reads h_(t+1).
        backend: "reference" (a plain loop), "tree" (pairs of steps are joined, then pairs of pairs: any device, any
            transform), "cpu" (compiled), or "auto" (see `choose_block_backend`).

    Returns:
        h_1 … h_T, and a copy of the last state walked; h0 if T = 0.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, or an unknown backend.
        BackendUnavailable: a named backend cannot run here.
    """
    _check(transition, drive, h0, resets, reset_state, backend)
    if backend == "auto":
        # Only a loop can become one operator of a free length.
        there = "tree" if transforming() else "reference"
        backend = there if torch_alone() else choose_block_backend(drive.device).backend
    if backend == "cpu":
        if torch_alone():
            raise BackendUnavailable(
                "backend 'cpu' knows no transform of torch.func and no ONNX export; use 'auto', 'tree' or 'reference'"
            )
        return _block_scan(transition, drive, h0, resets, reset_state, reverse)
    return in_torch(transition, drive, h0, resets, reset_state, reverse, backend)


def in_torch(
    transition: Tensor, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, backend: str = "tree",
) -> tuple[Series, State]:  # fmt: skip
    """The scan in torch operations: "reference", step by step, or "tree"."""
    size, batch = transition.shape[2], len(drive)
    b, a = drive.unflatten(2, (size, -1)), transition
    start = (drive.new_zeros(batch, drive.shape[2]) if h0 is None else h0).unflatten(1, (size, -1))
    if not drive.shape[1]:
        return torch.zeros_like(drive), start.flatten(1).clone()
    if resets is not None:
        # A reset step forgets what was before it, and takes the initial state into its drive.
        cut = resets[..., None, None]
        if reset_state is not None:
            b = torch.where(cut, b + applied(a, reset_state.unflatten(0, (size, -1))), b)
        a = torch.where(cut.unsqueeze(-1), 0, a)
    if reverse:
        a, b = a.flip(1), b.flip(1)
    if backend == "reference":

        def step(state: tuple[Tensor, ...], a: Tensor, b: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
            after = applied(a, state[0]) + b
            return after, (after,)

        h, _ = over_time(step, (start,), (a, b))
    else:
        h = _tree(a, torch.cat([b[:, :1] + applied(a[:, :1], start.unsqueeze(1)), b[:, 1:]], dim=1))
    last = h[:, -1].flatten(1).clone()
    return (h.flip(1) if reverse else h).flatten(2), last


def _joined(later: Tensor, earlier: Tensor) -> Tensor:
    """The product of two steps' blocks."""
    size = later.shape[-2]
    return torch.stack([later[..., :, j, None, :] * earlier[..., None, j, :, :] for j in range(size)]).sum(0)


def _tree(a: Tensor, b: Tensor) -> Tensor:
    """States from zero: every second one by a scan of half the length over joined pairs, and from those the others."""
    steps = b.shape[1]
    if steps == 1:
        return b
    pairs = steps // 2
    first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    odd = _tree(_joined(a[:, second], a[:, first]), applied(a[:, second], b[:, first]) + b[:, second])
    even = applied(a[:, 2::2], odd[:, : (steps - 1) // 2]) + b[:, 2::2]
    even = torch.cat([b[:, :1], even], dim=1)
    woven = torch.stack([even[:, :pairs], odd], dim=2).flatten(1, 2)
    return woven if steps == 2 * pairs else torch.cat([woven, even[:, pairs:]], dim=1)


def kernels(device: torch.device) -> ModuleType:
    """The module of the compiled loops; BackendUnavailable where they cannot run."""
    return implementation("cpu", device)


@torch.library.custom_op("gatedrnn::block_scan", mutates_args=())
def _block_scan(
    transition: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    found: tuple[Tensor, Tensor] = kernels(drive.device).block_scan(transition, drive, h0, resets, reset_state, reverse)
    return found


@_block_scan.register_fake
def _(
    transition: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return drive.new_empty(drive.shape), drive.new_empty(drive.shape[0], drive.shape[2])


@torch.library.custom_op("gatedrnn::block_scan_gradient", mutates_args=())
def _block_scan_gradient(
    grad_h: Tensor, grad_last: Tensor, transition: Tensor, h: Tensor, h0: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    found: tuple[Tensor, Tensor, Tensor, Tensor] = kernels(h.device).block_scan_gradient(
        grad_h, grad_last, transition, h, h0, resets, reset_state, reverse
    )
    return found


@_block_scan_gradient.register_fake
def _(
    grad_h: Tensor, grad_last: Tensor, transition: Tensor, h: Tensor, h0: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    batch, _, channels = h.shape
    return (
        transition.new_empty(transition.shape), h.new_empty(h.shape), h.new_empty(batch, channels),
        h.new_empty(channels),
    )  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    transition, drive, h0, resets, reset_state, ctx.reverse = inputs
    ctx.save_for_backward(transition, drive, output[0], h0, resets, reset_state)


def _gradient(ctx: Any, grad_h: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
    transition, drive, h, h0, resets, reset_state = ctx.saved_tensors
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    if torch.is_grad_enabled():
        given = transition, drive, h0, reset_state

        def again(
            transition: Tensor, drive: Tensor, h0: Tensor | None, reset_state: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            return in_torch(transition, drive, h0, resets, reset_state, ctx.reverse)

        grads = gradients_with_graph(again, given, (grad_h, grad_last))
    else:
        grads = list(_block_scan_gradient(grad_h, grad_last, transition, h, h0, resets, reset_state, ctx.reverse))
        for i, x in ((2, h0), (3, reset_state)):
            grads[i] = None if x is None else grads[i]
    return grads[0], grads[1], grads[2], None, grads[3], None


_block_scan.register_autograd(_gradient, setup_context=_save)


def _check(
    transition: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    backend: str,
) -> None:  # fmt: skip
    if backend not in BLOCK_BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BLOCK_BACKENDS)}, got {backend!r}")
    if transition.dim() != 5 or transition.shape[2] != transition.shape[3]:
        raise ValueError(
            f"transition must have the axes (batch, time, k, k, blocks), got shape {tuple(transition.shape)}"
        )
    batch, steps, size, _, blocks = transition.shape
    channels = size * blocks
    expected = {"drive": (drive, (batch, steps, channels)), "h0": (h0, (batch, channels))}
    expected |= {"reset_state": (reset_state, (channels,)), "resets": (resets, (batch, steps))}
    for name, (value, shape) in expected.items():
        if value is None:
            continue
        if tuple(value.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
        wanted = torch.bool if name == "resets" else transition.dtype
        if value.dtype != wanted or value.device != transition.device:
            raise ValueError(f"{name} must be {wanted} on {transition.device}, got {value.dtype} on {value.device}")
    if transition.dtype != accumulation_dtype(transition.dtype):
        raise ValueError(f"transition must be float32 or float64, got {transition.dtype}")
    if reset_state is not None and resets is None:
        raise ValueError("reset_state is used only where resets are; pass resets too")
