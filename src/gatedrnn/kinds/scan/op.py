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
from gatedrnn.kernels.op import FLOPS, Gradients, products, register_gradient, through
from gatedrnn.kinds.definition import iterate
from gatedrnn.kinds.programs import EQUATIONS, program_of
from gatedrnn.kinds.scan.definition import coefficients_of, gates_of, scan_in_torch, shown
from gatedrnn.kinds.scan.rows import BARE, CellProgram, TileProgram, bare_scan, bare_tiles, trace_cell, trace_tiles
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
    if plain_torch_only():
        if backend == "native":
            raise BackendUnavailable(
                "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto' or "
                "'reference'"
            )
        start = drive.new_zeros(drive.shape[0], drive.shape[2]) if h0 is None else h0
        a, b, start, reset_to = _wide(drive, decay, drive, start, reset_state)
        h, last = scan_in_torch(a, b, start, resets, reset_to, reverse)
        return h.to(drive.dtype), last
    native = _native(backend, drive.device)
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


def joined_by_channel(bias: Tensor | None, diagonals: Sequence[Channels]) -> Tensor | None:
    """Join the bias of all projections and the diagonal weights as operations read them; None if there are neither."""
    if not diagonals:
        return bias
    wide = accumulation_dtype(diagonals[0].dtype)
    return torch.cat([each.to(wide) for each in (*(() if bias is None else (bias,)), *diagonals)])


def biased_and_diagonals(
    cell: ScanEquations | ElementwiseLoopEquations, projected: Projections, by_channel: Tensor | None
) -> tuple[Projections, dict[str, Channels]]:  # fmt: skip
    """Undo `joined_by_channel`: return the projections with their bias, summed as kernels do, in the dtype of
    accumulation, and the diagonal weights by the names of their parameters."""
    if by_channel is None:
        return projected, {}
    channels = projected.shape[-1] // len(cell.projections)
    parts = by_channel.split(channels)
    diagonals = parts[len(parts) - len(cell.diagonals) :] if cell.diagonals else ()
    bias = by_channel[: len(by_channel) - len(diagonals) * channels]
    whole = projected.to(accumulation_dtype(projected.dtype))
    named = {f"weight_{name}": weight for name, weight in zip(cell.diagonals, diagonals, strict=True)}
    return whole + bias if len(bias) else whole, named


def _native(backend: str, device: torch.device) -> bool:
    return (choose_backend(device).backend if backend == "auto" else backend) == "native"


def _wide(like: Tensor, *tensors: Tensor | None) -> list[Any]:
    """Return the tensors in the dtype of states and sums; None stays None."""
    return [None if x is None else x.to(accumulation_dtype(like.dtype)) for x in tensors]


def _program(word: str, device: torch.device) -> TileProgram | CellProgram:
    """Return the program that the kernels of a device run for a cell or the bare scan."""
    if device.type == "cuda":
        return bare_tiles() if word == BARE else program_of(word, trace_tiles)
    return bare_scan() if word == BARE else program_of(word, trace_cell)


def _channels(x: Tensor, drive: Tensor | None, weight: Tensor | None, cell: str) -> int:
    """The channels of each state."""
    if drive is not None:
        return int(drive.shape[2])
    return int(x.shape[2] if weight is None else weight.shape[0]) // len(EQUATIONS[cell].projections)


def _states(joined: Tensor | None, channels: int) -> list[Tensor | None]:
    """Split states that are joined by channel; one None, for zeros, if there are none."""
    return [None] if joined is None else [x.contiguous() for x in joined.split(channels, dim=1)]


def _side_by_side(states: tuple[Tensor, ...]) -> Tensor:
    return states[0] if len(states) == 1 else torch.cat(states, dim=1)


@torch.library.custom_op("gatedrnn::scan", mutates_args=())
def scan(
    x: Tensor, drive: Tensor | None, weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None,
    mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str, reverse: bool, native: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run the cell of this word in one pass: outputs, last states, and the product with `weight`.

    Args:
        x: the input projections W x, (batch, time, gates · channels); of the bare scan the decay, beside its drive.
        weight: multiplied with x, the inputs, on a CPU; x is then contiguous as (batch, time, features) or as (time,
            batch, features), and outputs and product have the same layout. The product is empty without it.
        by_channel: biases and diagonal weights (`joined_by_channel`).
        starts: the states before the first step side by side, (batch, states · channels); zeros if None.
        native: run kernels; only the bare scan has another form.
    """
    starts, by_channel, reset_state = _wide(x, starts, by_channel, reset_state)
    channels, nothing = _channels(x, drive, weight, cell), x.new_empty(0)
    if not native:
        assert drive is not None
        a, b, h0 = _wide(x, x, drive, drive.new_zeros(len(x), channels) if starts is None else starts)
        h, last_state = scan_in_torch(a, b, h0, resets, reset_state, reverse)
        return h.to(x.dtype), last_state, nothing
    output, last, projected = native_kernels(KERNELS, x.device).scan(
        _program(cell, x.device), x, drive, weight, by_channel, _states(starts, channels), mask, resets, reset_state,
        reverse,
    )  # fmt: skip
    return output, _side_by_side(last), nothing if projected is None else projected


@scan.register_fake
def _(
    x: Tensor, drive: Tensor | None, weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None,
    mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str, reverse: bool, native: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (batch, steps, _), channels = x.shape, _channels(x, drive, weight, cell)
    width = channels if starts is None else starts.shape[1]
    last = x.new_empty(batch, width, dtype=accumulation_dtype(x.dtype))
    if weight is None:
        return x.new_empty(batch, steps, channels), last, x.new_empty(0)
    if x.is_contiguous():
        return x.new_empty(batch, steps, channels), last, x.new_empty(batch, steps, len(weight))
    output, projected = (x.new_empty(steps, batch, size).transpose(0, 1) for size in (channels, len(weight)))
    return output, last, projected


@torch.library.custom_op("gatedrnn::scan_gradient", mutates_args=())
def scan_gradient(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, output: Tensor | None, x: Tensor, drive: Tensor | None,
    weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None, mask: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, cell: str, reverse: bool, native: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x, drive, weight, by_channel, starts and reset_state; empty for missing ones, and for x unless
    `of_x`. Gates are computed again, and so are states if `output` is None."""
    starts, by_channel, reset_state = _wide(x, starts, by_channel, reset_state)
    if not native:
        assert drive is not None and output is not None
        gradients = _gradient_by_scan(grad_output, grad_last, x, output, starts, resets, reset_state, reverse, native)
        of_decay, of_drive, of_start, of_reset = gradients
        return of_decay.to(x.dtype), of_drive.to(x.dtype), x.new_empty(0), x.new_empty(0), of_start, of_reset
    channels = grad_output.shape[2]
    gradients = native_kernels(KERNELS, x.device).scan_gradient(
        _program(cell, x.device), grad_output, _states(grad_last, channels), x, drive, weight,
        None if weight is None else projected, by_channel, output, _states(starts, channels), mask, resets,
        reset_state, reverse, of_x,
    )  # fmt: skip
    of_tensors = (x.new_empty(0) if each is None else each for each in (gradients.x, gradients.drive, gradients.weight))
    return *of_tensors, gradients.by_channel, _side_by_side(gradients.starts), gradients.reset_state


@scan_gradient.register_fake
def _(
    grad_output: Tensor, grad_last: Tensor, projected: Tensor, output: Tensor | None, x: Tensor, drive: Tensor | None,
    weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None, mask: Tensor | None,
    resets: Tensor | None, reset_state: Tensor | None, cell: str, reverse: bool, native: bool, of_x: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    nothing = x.new_empty(0)
    if weight is not None:
        of_tensors = torch.empty_like(x) if of_x else nothing, nothing, weight.new_empty(weight.shape)
    else:
        of_tensors = x.new_empty(x.shape), nothing if drive is None else x.new_empty(x.shape), nothing
    sizes = 0 if by_channel is None else len(by_channel), grad_last.shape, grad_output.shape[2]
    of_channels, of_starts, of_reset = (grad_last.new_empty(size) for size in sizes)
    return *of_tensors, of_channels, of_starts, of_reset


def _gradient_by_scan(
    grad_h: Tensor, grad_last: Tensor, decay: Tensor, h: Tensor, h0: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, reverse: bool, native: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradient of the bare scan by torch operations around one scan in the other direction; itself differentiable.

    With delta_t the whole gradient that reaches h_t:  delta_t = grad_t + a_(t+1) delta_(t+1),
    grad b_t = delta_t,  grad a_t = delta_t h_(t-1),  and a_t delta_t is the gradient of the state before step t.
    """
    start = h.new_zeros(len(h), h.shape[2], dtype=accumulation_dtype(h.dtype)) if h0 is None else h0
    grad_h, decay, h, start, reset_to = _wide(grad_h, grad_h, decay, h, start, reset_state)
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
        backend="native" if native else "reference",
    )  # fmt: skip
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


def _saves(outputs: tuple[Tensor, ...], *, mask: Tensor | None, cell: str, **_: object) -> tuple[Tensor | None, Tensor]:
    """Keep the product, and the outputs if they are the states."""
    output, _last, projected = outputs
    shows = cell == BARE or (mask is None and program_of(cell, trace_cell).output_is_state)
    return output if shows else None, projected


def _backward(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, x: Tensor, drive: Tensor | None,
    weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None, resets: Tensor | None,
    reset_state: Tensor | None, cell: str, reverse: bool, native: bool, mask: Tensor | None,
) -> Gradients:  # fmt: skip
    (output, projected), (grad_output, grad_last, *_) = saved, upstream
    channels = _channels(x, drive, weight, cell)
    if grad_output is None:  # zeros, of no size in memory
        grad_output = x.new_zeros(1, 1, 1).expand(*x.shape[:2], channels)
    if grad_last is None:
        width = channels if starts is None else starts.shape[1]
        grad_last = x.new_zeros(len(x), width, dtype=accumulation_dtype(x.dtype))
    if torch.is_grad_enabled():  # only the bare scan comes here: others go through their definition
        assert output is not None
        of_decay, of_drive, of_start, of_reset = _gradient_by_scan(
            grad_output, grad_last, x, output, starts, resets, reset_state, reverse, native
        )
        gradients: Gradients = of_decay, of_drive, None, None, of_start, of_reset
    else:
        assert projected is not None
        gradients = scan_gradient(
            grad_output, grad_last, projected, output, x, drive, weight, by_channel, starts, mask, resets, reset_state,
            cell, reverse, native, "x" in needed,
        )  # fmt: skip
    of_x = gradients[0] if "x" in needed else None
    pairs = zip((x, drive, weight, by_channel, starts, reset_state), (of_x, *gradients[1:]), strict=True)
    return [None if value is None else gradient for value, gradient in pairs]


def _plain(
    x: Tensor, drive: Tensor | None, weight: Tensor | None, by_channel: Tensor | None, starts: Tensor | None,
    mask: Tensor | None, resets: Tensor | None, reset_state: Tensor | None, cell: str, reverse: bool, native: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The outputs and last states by the cell's definition."""
    equations, projected = EQUATIONS[cell], x if weight is None else linear(x, weight)
    assert isinstance(equations, (ScanEquations, ElementwiseLoopEquations))
    whole, diagonals = biased_and_diagonals(equations, projected, by_channel)
    if isinstance(equations, ScanEquations):
        gates = gates_of(equations, whole)
        decay, driven = coefficients_of(equations, gates, tuple(diagonals.values()), mask)
        reset_to = None if reset_state is None else reset_state.to(driven.dtype)
        h, last = linear_scan(decay, driven, starts, resets=resets, reset_state=reset_to, reverse=reverse)
        return shown(equations, h, gates, mask, whole.dtype).to(x.dtype), last
    assert starts is not None
    state = starts.chunk(len(equations.states), dim=1)
    output, states = iterate(
        equations, whole, state, Recurrent(equations.projections, diagonals), mask, resets, reverse
    )
    return output.to(x.dtype), _side_by_side(states)


_DIFFERENTIABLE = ("x", "drive", "weight", "by_channel", "starts", "reset_state")
_through = through(_plain, _DIFFERENTIABLE)


def _backward_with_graph(
    upstream: Gradients, saved: Gradients, needed: frozenset[str], *, cell: str, **arguments: Any
) -> Gradients:
    return (_backward if cell == BARE else _through)(upstream, saved, needed, cell=cell, **arguments)


register_gradient(scan, _DIFFERENTIABLE, _saves, _backward, _backward_with_graph)


def _count(x: Any, drive: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 0 if weight is None else products(x, weight)


def _count_gradient(
    grad_output: Any,
    grad_last: Any,
    projected: Any,
    output: Any,
    x: Any,
    drive: Any,
    weight: Any,
    *others: Any,
    **_: Any,
) -> int:
    of_x: bool = others[-1]
    return (2 if of_x else 1) * _count(x, drive, weight)


FLOPS |= {"scan": _count, "scan_gradient": _count_gradient}
