"""The scan of a cell without products in time, or of decays alone, as one registered operation, with its gradient.

`linear_scan` runs h_t = a_t * h_(t-1) + b_t alone. The gates and the scan of a cell are one pass, from the projections
W x or, on a CPU, from the inputs x; cells that read their states through diagonal weights run the same way.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.equations import ElementwiseLoopEquations, Recurrent, ScanEquations
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import BACKENDS, accumulation_dtype, choose_backend, native_kernels, plain_torch_only
from gatedrnn.kernels.op import Gradients, operation, products, register_gradient, through
from gatedrnn.kinds.definition import iterate
from gatedrnn.kinds.programs import EQUATIONS, program_of
from gatedrnn.kinds.scan.definition import (
    BARE,
    ScanInputs,
    ScanUpstream,
    coefficients_of,
    gates_of,
    scan_in_torch,
    shown,
)
from gatedrnn.kinds.scan.rows import CellProgram, TileProgram, bare_scan, bare_tiles, trace_cell, trace_tiles
from gatedrnn.shapes import Channels, Flags, Projections, Series, State

KERNELS = "gatedrnn.kinds.scan"


def linear_scan(
    decay: Series, drive: Series, h0: State | None = None, *,
    resets: Flags | None = None, reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
) -> tuple[Series, State]:  # fmt: skip
    """Return all states of h_t = decay_t * h_(t-1) + drive_t, elementwise, and the last one.

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

    Example:
        >>> decay, drive = torch.full((1, 3, 1), 0.5), torch.ones(1, 3, 1)
        >>> h, last = gatedrnn.linear_scan(decay, drive)
        >>> h.flatten().tolist(), last.tolist()
        ([1.0, 1.5, 1.75], [[1.75]])
    """
    _check(decay, drive, h0, resets, reset_state, backend)
    # Cast outside of the operation: a second derivative is then rounded once, not at each use.
    h0, reset_state = (None if x is None else x.to(accumulation_dtype(x.dtype)) for x in (h0, reset_state))
    if plain_torch_only():
        if backend == "native":
            raise BackendUnavailable(
                "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto' or "
                "'reference'"
            )
        h, last = _run_in_torch(ScanInputs(decay, drive, None, None, h0, None, resets, reset_state, BARE, reverse))
        return h.to(drive.dtype), last
    native = _is_native(backend, drive.device)
    h, last, _ = scan(decay, drive, None, None, h0, None, resets, reset_state, BARE, reverse, native)
    return h, last


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


def concat_by_channel(bias: Tensor | None, diagonals: Sequence[Channels]) -> Tensor | None:
    """Join the bias of all projections and the diagonal weights, in the dtype of accumulation; None if there are
    neither."""
    parts = [*diagonals] if bias is None else [bias, *diagonals]
    wide = [each.to(accumulation_dtype(each.dtype)) for each in parts]
    return torch.cat(wide) if len(wide) > 1 else next(iter(wide), None)


def split_by_channel(
    cell: ScanEquations | ElementwiseLoopEquations, projected: Projections, by_channel: Tensor | None
) -> tuple[Projections, dict[str, Channels]]:  # fmt: skip
    """Undo `concat_by_channel`: return the projections with their bias, summed as kernels do, in the dtype of
    accumulation, and the diagonal weights by the names of their parameters."""
    if by_channel is None:
        return projected, {}
    channels = projected.shape[-1] // len(cell.projections)
    parts = by_channel.split(channels)
    diagonals = parts[len(parts) - len(cell.diagonals) :] if cell.diagonals else ()
    bias = by_channel[: len(by_channel) - len(diagonals) * channels]
    biased = projected.to(accumulation_dtype(projected.dtype))
    named = {f"weight_{name}": weight for name, weight in zip(cell.diagonals, diagonals, strict=True)}
    return biased + bias if len(bias) else biased, named


def _is_native(backend: str, device: torch.device) -> bool:
    return (choose_backend(device).backend if backend == "auto" else backend) == "native"


def _program(word: str, device: torch.device) -> TileProgram | CellProgram:
    """Return the program that the kernels of a device run for a cell or the bare scan."""
    if device.type == "cuda":
        return bare_tiles() if word == BARE else program_of(word, trace_tiles)
    return bare_scan() if word == BARE else program_of(word, trace_cell)


def _channels(inputs: ScanInputs) -> int:
    """The channels of each state."""
    if inputs.drive is not None:
        return int(inputs.drive.shape[2])
    features = inputs.x.shape[2] if inputs.weight is None else inputs.weight.shape[0]
    return int(features) // len(EQUATIONS[inputs.cell].projections)


def _run(inputs: ScanInputs) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, the last states, and the product with `weight`."""
    nothing = inputs.x.new_empty(0)
    if not inputs.native:
        h, last = _run_in_torch(inputs)
        return h.to(inputs.x.dtype), last, nothing
    kernels = native_kernels(KERNELS, inputs.x.device)
    output, last, projected = kernels.scan(_program(inputs.cell, inputs.x.device), inputs)
    return output, last, nothing if projected is None else projected


def _fake(inputs: ScanInputs) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, channels = inputs.x, inputs.weight, _channels(inputs)
    batch, steps, _ = x.shape
    width = channels if inputs.starts is None else inputs.starts.shape[1]
    last = x.new_empty(batch, width, dtype=accumulation_dtype(x.dtype))
    if weight is None:
        return x.new_empty(batch, steps, channels), last, x.new_empty(0)
    if x.is_contiguous():
        return x.new_empty(batch, steps, channels), last, x.new_empty(batch, steps, len(weight))
    # The strides of the kernel's results: `torch.compile` plans memory by these.
    output, projected = (x.new_empty(steps, batch, size).transpose(0, 1) for size in (channels, len(weight)))
    return output, last, projected


def _run_gradient(upstream: ScanUpstream, inputs: ScanInputs) -> tuple[Tensor, ...]:
    """Gradients of what `_DIFFERENTIABLE` names; empty for missing ones, and for an x that is multiplied unless
    `of_x`. Gates are computed again."""
    x = inputs.x
    if not inputs.native:
        of_decay, of_drive, of_start, of_reset = _gradient_by_scan(upstream, inputs)
        return of_decay.to(x.dtype), of_drive.to(x.dtype), x.new_empty(0), x.new_empty(0), of_start, of_reset
    kernels = native_kernels(KERNELS, x.device)
    gradients = kernels.scan_gradient(_program(inputs.cell, x.device), upstream, inputs)
    return tuple(x.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _fake_gradient(upstream: ScanUpstream, inputs: ScanInputs) -> tuple[Tensor, ...]:
    x, grad_last, by_channel = inputs.x, upstream.grad_last, inputs.by_channel
    of_x = torch.empty_like(x) if inputs.weight is not None else x.new_empty(x.shape)
    if inputs.weight is not None and not upstream.of_x:
        of_x = x.new_empty(0)
    # A tensor for each result, though empty: torch refuses an operation whose results share memory.
    others = (x.new_empty(0 if each is None else each.shape) for each in (inputs.drive, inputs.weight))
    sizes = 0 if by_channel is None else len(by_channel), grad_last.shape, upstream.grad_output.shape[2]
    return of_x, *others, *(grad_last.new_empty(size) for size in sizes)


def _flops(inputs: ScanInputs) -> int:
    return 0 if inputs.weight is None else products(inputs.x, inputs.weight)  # type: ignore[arg-type]  # shapes


scan = operation("scan", (ScanInputs,), 3, _run, _fake, _flops)
scan_gradient = operation(
    "scan_gradient", (ScanUpstream, ScanInputs), 6, _run_gradient, _fake_gradient,
    lambda upstream, inputs: (1 + upstream.of_x) * _flops(inputs),
)  # fmt: skip


def _run_in_torch(inputs: ScanInputs) -> tuple[Tensor, Tensor]:
    """The bare scan's states and the last one, in the dtype of accumulation, by torch operations."""
    assert inputs.drive is not None
    wide = accumulation_dtype(inputs.x.dtype)
    decay, drive = inputs.x.to(wide), inputs.drive.to(wide)
    # Sizes by `shape`: an export takes `len` for a constant.
    h0 = drive.new_zeros(drive.shape[0], drive.shape[2]) if inputs.starts is None else inputs.starts
    return scan_in_torch(decay, drive, h0, inputs.resets, inputs.reset_state, inputs.reverse)


def _gradient_by_scan(upstream: ScanUpstream, inputs: ScanInputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient of the bare scan by torch operations around one scan in the other direction; itself differentiable.

    With delta_t the whole gradient that reaches h_t:  delta_t = grad_t + a_(t+1) delta_(t+1),
    grad b_t = delta_t,  grad a_t = delta_t h_(t-1),  and a_t delta_t is the gradient of the state before step t.
    """
    assert upstream.output is not None
    resets, reverse = inputs.resets, inputs.reverse
    wide, grad_last = accumulation_dtype(inputs.x.dtype), upstream.grad_last
    grad_h, decay, h = (x.to(wide) for x in (upstream.grad_output, inputs.x, upstream.output))
    start = h.new_zeros(h.shape[0], h.shape[2]) if inputs.starts is None else inputs.starts
    end = h.shape[1] - 1
    if end < 0:
        return torch.zeros_like(decay), torch.zeros_like(h), grad_last.clone(), h.new_zeros(h.shape[2])
    first, later = (end, slice(0, end)) if reverse else (0, slice(1, None))
    earlier = slice(1, None) if reverse else slice(0, end)

    def along_run(boundary: Tensor, series: Tensor, before: bool) -> Tensor:
        """Shift `series` by one step and fill the gap with `boundary`: the values before, or after, each step."""
        gap = boundary.unsqueeze(1)
        return torch.cat([gap, series] if before != reverse else [series, gap], dim=1)

    next_decay = along_run(torch.ones_like(start), decay[:, later], before=False)
    next_reset = None
    if resets is not None:
        next_reset = along_run(torch.zeros_like(resets[:, 0]), resets[:, later], before=False)
    delta, _ = linear_scan(
        next_decay, grad_h, grad_last, resets=next_reset, reverse=not reverse,
        backend="native" if inputs.native else "reference",
    )  # fmt: skip
    previous = along_run(start, h[:, earlier], before=True)
    reaching = decay * delta
    # A copy: a view would have strides that the fake form does not announce.
    grad_start, grad_reset_state = reaching[:, first].clone(), torch.zeros_like(start[:0].sum(0))
    if resets is not None:
        cut = resets.unsqueeze(2)
        reset_to = torch.zeros_like(start[:1, None]) if inputs.reset_state is None else inputs.reset_state
        previous = torch.where(cut, reset_to, previous)
        grad_start = torch.where(cut[:, first], 0, grad_start)
        grad_reset_state = torch.where(cut, reaching, 0).sum((0, 1))
    return delta * previous, delta, grad_start, grad_reset_state


def _saved(outputs: tuple[Tensor, ...], *, mask: Tensor | None, cell: str, **_: object) -> tuple[Tensor | None, Tensor]:
    """Keep the product, and the outputs if they are the states."""
    output, _last, projected = outputs
    shows = cell == BARE or (mask is None and program_of(cell, trace_cell).output_is_state)
    return output if shows else None, projected


def _backward(upstream: Gradients, saved: Gradients, needed: frozenset[str], **arguments: Any) -> Gradients:
    (output, projected), (grad_output, grad_last, *_), inputs = saved, upstream, ScanInputs(**arguments)
    x, channels = inputs.x, _channels(inputs)
    # Zeros of one element, expanded: a whole series of them would cost a pass over memory.
    if grad_output is None:
        grad_output = x.new_zeros(1, 1, 1).expand(*x.shape[:2], channels)
    if grad_last is None:
        width = channels if inputs.starts is None else inputs.starts.shape[1]
        grad_last = x.new_zeros(x.shape[0], width, dtype=accumulation_dtype(x.dtype))
    assert projected is not None
    before = ScanUpstream(grad_output, grad_last, projected, output, "x" in needed)
    # Grad mode is on in a backward exactly if the caller asked for `create_graph`. Only the bare scan comes here then:
    # the gradients of others go through their definition.
    if torch.is_grad_enabled():
        of_decay, of_drive, of_start, of_reset = _gradient_by_scan(before, inputs)
        gradients: Gradients = of_decay, of_drive, None, None, of_start, of_reset
    else:
        gradients = scan_gradient(*before, *inputs)
    present = [name in needed if name == "x" else arguments[name] is not None for name in _DIFFERENTIABLE]
    return [gradient if is_present else None for is_present, gradient in zip(present, gradients, strict=True)]


def _reference(**arguments: Any) -> tuple[Tensor, Tensor]:
    """The outputs and last states by the cell's definition."""
    inputs = ScanInputs(**arguments)
    equations, x, starts = EQUATIONS[inputs.cell], inputs.x, inputs.starts
    assert isinstance(equations, (ScanEquations, ElementwiseLoopEquations))
    projected = x if inputs.weight is None else linear(x, inputs.weight)
    biased, diagonals = split_by_channel(equations, projected, inputs.by_channel)
    if isinstance(equations, ScanEquations):
        gates = gates_of(equations, biased)
        decay, drive = coefficients_of(equations, gates, tuple(diagonals.values()), inputs.mask)
        reset_to = None if inputs.reset_state is None else inputs.reset_state.to(drive.dtype)
        h, last = linear_scan(
            decay, drive, starts, resets=inputs.resets, reset_state=reset_to, reverse=inputs.reverse
        )  # fmt: skip
        return shown(equations, h, gates, inputs.mask, biased.dtype).to(x.dtype), last
    assert starts is not None
    state, recurrent = starts.chunk(len(equations.states), dim=1), Recurrent(equations.projections, diagonals)
    output, states = iterate(equations, biased, state, recurrent, inputs.mask, inputs.resets, inputs.reverse)
    return output.to(x.dtype), torch.cat(states, dim=1)


_DIFFERENTIABLE = ("x", "drive", "weight", "by_channel", "starts", "reset_state")
_through = through(_reference, _DIFFERENTIABLE)


def _backward_with_graph(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, cell: str, **arguments: Any
) -> Gradients:
    return (_backward if cell == BARE else _through)(upstream, saved, needed, cell=cell, **arguments)


register_gradient(scan, _DIFFERENTIABLE, _saved, _backward, _backward_with_graph)
