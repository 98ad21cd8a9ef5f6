"""block_scan: all states of h_t = A_t h_(t-1) + b_t at once, where A_t consists of small square blocks."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.equations import BlockScanEquations, applied
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import (
    Choice,
    accumulation_dtype,
    exporting_to_onnx,
    has_cpu_kernels,
    native_kernels,
    plain_torch_only,
    traced,
    transforming,
)
from gatedrnn.kernels.op import Gradients, operation, register_gradient, through
from gatedrnn.kinds.definition import over_time
from gatedrnn.kinds.programs import CLASSES
from gatedrnn.shapes import Channels, Flags, InputStep, Series, State, Step

KERNELS = "gatedrnn.kinds.block"
_BLOCK_BACKENDS = ("auto", "reference", "torch", "native")


def choose_block_backend(device: torch.device | str) -> Choice:
    """Return the backend that "auto" takes for block scans on `device`."""
    if has_cpu_kernels(torch.device(device)):
        return Choice("native", "compiled loops over contiguous blocks (numba)")
    return Choice("torch", "an associative scan by torch operations, as deep as the logarithm of the length")


def block_scan(
    transition: Tensor, drive: Series, h0: State | None = None, *,
    resets: Flags | None = None, reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """All states of h_t = A_t h_(t-1) + b_t, and the last one; each A_t maps every block of k channels to itself.

    Channel i · blocks + n is component i of block n: the same component of neighbouring blocks is contiguous.
    Linear in time and memory; differentiable to any order in everything but `resets`.

    Args:
        transition: A_t, (batch, time, k, k, blocks): the element in row i and column j of block n at [i, j, n]. float64
            or float32.
        drive: b_t, (batch, time, k · blocks), the same dtype and device.
        h0: the state before the first step, (batch, k · blocks); zeros if None. The same dtype.
        resets: bool, (batch, time). Where True, h_(t-1) is `reset_state`.
        reset_state: (k · blocks,), zeros if None.
        reverse: run from the last step to the first; h_(t-1) then reads h_(t+1).
        backend: "reference" (a loop in torch), "torch" (an associative scan by torch operations, on any device and in
            any transform), "native" (our kernel for a CPU), or "auto" (see `choose_block_backend`).

    Returns:
        h_1 … h_T, and a copy of the state after the last step run; h0 if T = 0.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, or an unknown backend.
        BackendUnavailable: a named backend cannot run here.
    """
    _check(transition, drive, h0, resets, reset_state, backend)
    if backend == "auto":
        # Only a loop can become one operator of a free length.
        plain = "torch" if transforming() else "reference"
        backend = plain if plain_torch_only() else choose_block_backend(drive.device).backend
    if backend == "torch" and traced() and not exporting_to_onnx():
        raise BackendUnavailable("backend 'torch' fixes the length of a traced graph; use 'auto'")
    if backend != "native":
        return block_diagonal_scan_in_torch(transition, drive, h0, resets, reset_state, reverse, backend)
    if plain_torch_only():
        raise BackendUnavailable(
            "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto', 'torch' or "
            "'reference'"
        )
    return _block_scan(transition, drive, h0, resets, reset_state, reverse)


def block_diagonal_scan_in_torch(
    transition: Tensor, drive: Series, h0: State | None, resets: Flags | None, reset_state: Channels | None,
    reverse: bool, backend: str = "torch",
) -> tuple[Series, State]:  # fmt: skip
    """Scan by torch operations: "reference", step by step, or "torch", an associative scan."""
    size, batch = transition.shape[2], drive.shape[0]  # `len` would fix the batch of an exported graph
    b, a = drive.unflatten(2, (size, -1)), transition
    start = (drive.new_zeros(batch, drive.shape[2]) if h0 is None else h0).unflatten(1, (size, -1))
    if not drive.shape[1]:
        return torch.zeros_like(drive), start.flatten(1).clone()
    if resets is not None:
        # A reset drops the state before its step and adds that of the reset state to the drive.
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

        h, (last,) = over_time(step, (start,), (a, b))
    else:
        # The initial state enters the first drive, so that the scan itself begins from zero.
        h = _tree_scan(a, torch.cat([b[:, :1] + applied(a[:, :1], start.unsqueeze(1)), b[:, 1:]], dim=1))
        # A view would keep all states of the sequence in memory as long as the last one is carried.
        last = h[:, -1].clone()
    return (h.flip(1) if reverse else h).flatten(2), last.flatten(1)


def _multiply_blocks(later: Tensor, earlier: Tensor) -> Tensor:
    """Multiply two steps' blocks."""
    size = later.shape[-2]
    # No matmul, as in `applied`: blocks are the last axis.
    return torch.stack([later[..., :, j, None, :] * earlier[..., None, j, :, :] for j in range(size)]).sum(0)


def _tree_scan(a: Tensor, b: Tensor) -> Tensor:
    """Scan from zero: every second state by a scan of half the length over joined pairs, and from those the others."""
    steps = b.shape[1]
    if steps == 1:
        return b
    pairs = steps // 2
    first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    odd = _tree_scan(_multiply_blocks(a[:, second], a[:, first]), applied(a[:, second], b[:, first]) + b[:, second])
    even = applied(a[:, 2::2], odd[:, : (steps - 1) // 2]) + b[:, 2::2]
    even = torch.cat([b[:, :1], even], dim=1)
    woven = torch.stack([even[:, :pairs], odd], dim=2).flatten(1, 2)
    return woven if steps == 2 * pairs else torch.cat([woven, even[:, pairs:]], dim=1)


class BlockInputs(NamedTuple):
    """The inputs of a block scan: arguments of its operation and of the kernel."""

    transition: Tensor
    drive: Tensor
    h0: Tensor | None
    resets: Tensor | None
    reset_state: Tensor | None
    reverse: bool


class BlockUpstream(NamedTuple):
    """The tensors that the gradient of a block scan reads beside its inputs."""

    grad_h: Tensor
    grad_last: Tensor
    h: Tensor


def _run(inputs: BlockInputs) -> tuple[Tensor, ...]:
    states: tuple[Tensor, ...] = native_kernels(KERNELS, inputs.drive.device).block_scan(inputs)
    return states


def _fake(inputs: BlockInputs) -> tuple[Tensor, ...]:
    drive = inputs.drive
    return drive.new_empty(drive.shape), drive.new_empty(drive.shape[0], drive.shape[2])


def _run_gradient(upstream: BlockUpstream, inputs: BlockInputs) -> tuple[Tensor, ...]:
    """Gradients of what `_DIFFERENTIABLE` names."""
    kernels = native_kernels(KERNELS, inputs.drive.device)
    gradients: tuple[Tensor, ...] = kernels.block_scan_gradient(upstream, inputs)
    return gradients


def _fake_gradient(upstream: BlockUpstream, inputs: BlockInputs) -> tuple[Tensor, ...]:
    (batch, _, channels), new = upstream.h.shape, upstream.h.new_empty
    return new(inputs.transition.shape), new(upstream.h.shape), new(batch, channels), new(channels)


def _flops(inputs: BlockInputs) -> int:
    return 2 * prod(inputs.transition)  # a shape: each small block by the state


_block_scan = operation("block_scan", (BlockInputs,), 2, _run, _fake, _flops)
_block_scan_gradient = operation(
    "block_scan_gradient", (BlockUpstream, BlockInputs), 4, _run_gradient, _fake_gradient,
    lambda upstream, inputs: 2 * _flops(inputs),
)  # fmt: skip


def _saved(output: tuple[Tensor, Tensor], **_: object) -> tuple[Tensor]:
    return (output[0],)


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    (h,), (grad_h, grad_last) = saved, upstream
    assert h is not None
    # torch passes None for an output that the loss does not read; the kernel reads numbers.
    grad_h = torch.zeros_like(h) if grad_h is None else grad_h
    grad_last = h.new_zeros(h.shape[0], h.shape[2]) if grad_last is None else grad_last
    gradients: Gradients = _block_scan_gradient(grad_h, grad_last, h, *BlockInputs(**arguments))
    return gradients


_DIFFERENTIABLE = ("transition", "drive", "h0", "reset_state")
register_gradient(
    _block_scan, _DIFFERENTIABLE, _saved, _backward, through(block_diagonal_scan_in_torch, _DIFFERENTIABLE)
)


def _check(
    transition: Tensor, drive: Tensor, h0: Tensor | None, resets: Tensor | None, reset_state: Tensor | None,
    backend: str,
) -> None:  # fmt: skip
    if backend not in _BLOCK_BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(_BLOCK_BACKENDS)}, got {backend!r}")
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
    # A rotation rounded to bfloat16 is off by up to 0.4 %, and the scan repeats that at every step.
    if transition.dtype != accumulation_dtype(transition.dtype):
        raise ValueError(f"transition must be float32 or float64, got {transition.dtype}")
    if reset_state is not None and resets is None:
        raise ValueError("reset_state is used only where resets are; pass resets too")


def has_block_step(cell: BlockScanEquations, device: torch.device) -> bool:
    """Whether `block_step` can run the cell on this device."""
    # The class itself: one derived from it may have other equations under the same name.
    return cell.kernel is not None and CLASSES.get(cell.name) is type(cell) and has_cpu_kernels(device)


def block_step(
    cell: BlockScanEquations, x: InputStep, weights: Sequence[Tensor | None], before: State, after: State
) -> Step:  # fmt: skip
    """Run one step without gradients: the product, then gates and state in one kernel call. Return the output.

    Args:
        weights: the matrix, the bias if there is one, and the diagonal weights.
        after: receives the next state.
    """
    others = len(weights) - len(cell.diagonals)
    matrix, *bias = weights[:others]
    assert matrix is not None
    projected, output = linear(x, matrix, *bias), torch.empty_like(after)
    native_kernels(KERNELS, x.device).block_step(
        cell.kernel, cell.block_size, projected, weights[others:], before, after, output
    )
    return output
