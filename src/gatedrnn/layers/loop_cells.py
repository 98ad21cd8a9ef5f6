"""A loop cell over a whole sequence, from its projections: walked step by step in torch, or in one kernel."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.cells.gru import GRUEquations
from gatedrnn.cells.gru_ladder import NoResetGateGRUEquations
from gatedrnn.cells.lstm import LSTMEquations
from gatedrnn.cells.lstm_ladder import NoOutputGateLSTMEquations
from gatedrnn.cells.mgu import MGUEquations
from gatedrnn.cells.peephole_lstm import PeepholeLSTMEquations
from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers.kernel_records import LOOP
from gatedrnn.layers.one_step import one_step
from gatedrnn.layers.ragged import zero_masked_steps
from gatedrnn.layers.regularise import Keep
from gatedrnn.ops import accumulation_dtype, choose_backend, gradients_with_graph, implementation, over_time
from gatedrnn.shapes import Flags, Series, State, Step, empty_series, time_first

CELLS: dict[str, LoopEquations] = {
    cell.kernel: cell
    for cell in (
        PeepholeLSTMEquations(), NoOutputGateLSTMEquations(), GRUEquations(), GRUEquations(reset_after=False),
        NoResetGateGRUEquations(), MGUEquations(), MGUEquations(keep=True),
    )
    if cell.kernel is not None
}  # fmt: skip
"""The cells that have a kernel, by its name."""
PARAMETERS = ("weight_hh", "bias_hh", "weight_ci", "weight_cf", "weight_co", "weight_hr")
"""What multiplies a state, in the order in which the op takes it."""


def walk_in_torch(
    cell: LoopEquations, projected: Series, state: tuple[State, ...], recurrent: Recurrent, mask: Flags | None,
    resets: Flags | None, reverse: bool, keep: Keep | None = None,
) -> tuple[Series, tuple[State, ...]]:  # fmt: skip
    """Outputs and the last states of any loop cell.

    A masked step leaves the states as they were; its output is 0. A reset brings them back to zeros.
    """

    def step(
        state: tuple[State, ...], projected: Step, reset: Tensor | None, real: Tensor | None, *kept: Tensor | None
    ) -> tuple[Step, tuple[State, ...]]:
        if reset is not None:
            state = tuple(torch.where(reset.unsqueeze(1), 0, s) for s in state)
        keep_now = None if keep is None else tuple(k if t is None else t for k, t in zip(keep, kept, strict=True))
        after = one_step(cell, projected, state, recurrent, keep_now)
        if real is not None:
            after = tuple(torch.where(real.unsqueeze(1), a, s) for a, s in zip(after, state, strict=True))
        return cell.output(*after), after

    drawn = [k if isinstance(k, Tensor) else None for k in keep or ()]
    output, state = over_time(step, state, (projected, resets, mask, *drawn), reverse)
    return output if mask is None else zero_masked_steps(output, mask), state


def has_kernel(cell: LoopEquations, device: torch.device) -> bool:
    """Whether `walk_in_kernel` can run the cell on this device."""
    # The very class: one derived from it may have other equations.
    known = cell.kernel in CELLS and type(cell) in (type(CELLS[cell.kernel]), LSTMEquations)
    return known and choose_backend(device).backend == "cpu"


def walk_in_kernel(
    cell: LoopEquations, projected: Series, state: tuple[State, ...], recurrent: Recurrent, mask: Flags | None,
    resets: Flags | None, reverse: bool,
) -> tuple[Series, tuple[State, ...]]:  # fmt: skip
    """`walk_in_torch` of a cell that has a kernel: no graph of steps, and each weight's gradient one product."""
    wide = accumulation_dtype(projected.dtype)
    # The kernel's h is what gates read: of a cell whose state is c alone, its output.
    h0 = cell.output(state[0].to(wide)) if cell.kernel == "lstm-no-output-gate" else state[0].to(wide)
    c0 = state[-1].to(wide) if cell.kernel in ("lstm", "lstm-no-output-gate") else None
    names = PARAMETERS if cell.projects_state else PARAMETERS[:-1]  # elsewhere W_hr is no part of the state
    there = {name: recurrent.weights[name].to(wide) for name in names if name in recurrent.weights}
    weights = [there.get(name) for name in PARAMETERS]
    dropped = None if recurrent.dropped is None else recurrent.dropped.to(wide)
    assert cell.kernel is not None
    h, last_h, last_c, _, _ = loop_cells(
        projected.to(wide), h0, c0, mask, resets, *weights, dropped, cell.kernel, reverse
    )
    last = {"lstm": (last_h, last_c), "lstm-no-output-gate": (last_c,)}.get(cell.kernel, (last_h,))
    output = h if mask is None else zero_masked_steps(h, mask)
    return output, tuple(s.to(given.dtype) for s, given in zip(last, state, strict=True))


@torch.library.custom_op("gatedrnn::loop_cells", mutates_args=())
def loop_cells(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Every h, the last h and c, every c, and what else the gradient needs; c of no size where there is none."""
    kernels = implementation("auto", projected.device)
    peepholes = (weight_ci, weight_cf, weight_co)
    recurrence = _recurrence(kernels, weight_hh, bias_hh, peepholes, weight_hr, dropped)
    states, last_h, last_c = kernels.loop_cells(LOOP[kernel], projected, recurrence, h0, c0, mask, resets, reverse)
    return states.h, last_h, last_c, states.c, states.saved


@loop_cells.register_fake
def _(
    projected: Tensor, h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    batch, _, features = projected.shape
    size, new = features // len(CELLS[kernel].projections), projected.new_empty
    c, last_c = (new(0), new(0)) if c0 is None else (empty_series(projected, size), new(batch, size))
    kept = empty_series(projected, features + (size if kernel == "gru" else 0))
    return empty_series(projected, h0.shape[1]), new(h0.shape), last_c, c, kept


@torch.library.custom_op("gatedrnn::loop_cells_gradient", mutates_args=())
def loop_cells_gradient(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of projected, h0, c0 and the weights, in order; of no size for what is not there.

    A tuple, not a list: jacobians map the ops of a backward, and torch maps no op that returns a list.
    """
    kernels = implementation("auto", h.device)
    peepholes = (weight_ci, weight_cf, weight_co)
    recurrence = _recurrence(kernels, weight_hh, bias_hh, peepholes, weight_hr, dropped)
    found = kernels.loop_cells_gradient(
        LOOP[kernel], grad_h, grad_last_h, grad_last_c, kernels.LoopStates(h, c, kept), recurrence, h0, c0, mask,
        resets, reverse,
    )  # fmt: skip
    read = _before_each_step(h, h0, resets, reverse)
    if dropped is not None:
        read = read * dropped.unsqueeze(1)
    size = kept.shape[2] // (len(CELLS[kernel].projections) + (kernel == "gru"))
    of_u = found.projected
    if kernel in ("gru-reset-before", "mgu", "mgu-keep"):
        first, last = of_u[..., :-size], of_u[..., -size:]
        gated = read * kept[..., :size]
        of_weight = _products(weight_hh, [(first, read), (last, gated)])
    elif kernel == "gru":
        of_weight = _products(weight_hh, [(of_u[..., :-size], read), (found.candidate, read)])
    else:
        of_weight = _products(weight_hh, [(of_u, read)])
    of_bias, of_peepholes, of_projection = h.new_empty(0), h.new_empty(3, 0), h.new_empty(0)
    if bias_hh is not None:
        of_bias = of_u.sum((0, 1))
        if kernel == "gru":
            of_bias = torch.cat([of_bias[:-size], found.candidate.sum((0, 1))])
    if weight_ci is not None:
        of_peepholes = found.peepholes.view(3, -1)
    if weight_hr is not None:
        of_projection = _products(weight_hr, [(found.h, kept[..., -size:] * torch.tanh(c))])
    of_ci, of_cf, of_co = (part.clone() for part in of_peepholes)
    return found.projected, found.h0, found.c0, of_weight, of_bias, of_ci, of_cf, of_co, of_projection


@loop_cells_gradient.register_fake
def _(
    grad_h: Tensor, grad_last_h: Tensor, grad_last_c: Tensor | None, h: Tensor, c: Tensor, kept: Tensor,
    h0: Tensor, c0: Tensor | None, mask: Tensor | None, resets: Tensor | None,
    weight_hh: Tensor, bias_hh: Tensor | None, weight_ci: Tensor | None, weight_cf: Tensor | None,
    weight_co: Tensor | None, weight_hr: Tensor | None, dropped: Tensor | None, kernel: str, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    others = (h0, c0, weight_hh, bias_hh, weight_ci, weight_cf, weight_co, weight_hr)
    projected = empty_series(h, weight_hh.shape[0])
    return projected, *(h.new_empty(0 if v is None else v.shape) for v in others)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    projected, *others, ctx.kernel, ctx.reverse = inputs
    h, _, _, c, kept = output
    ctx.set_materialize_grads(False)
    # The projection itself is kept for a second derivative alone, and only its layer's product keeps it anyway.
    ctx.save_for_backward(projected, *others, h, c, kept)


def _gradient(
    ctx: Any, grad_h: Tensor | None, grad_last_h: Tensor | None, grad_last_c: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    projected, h0, c0, mask, resets, *weights, dropped, h, c, kept = ctx.saved_tensors
    given = projected, h0, c0, *weights
    # Grad mode is on inside a backward exactly when the caller asked for create_graph.
    if torch.is_grad_enabled():

        def in_torch(*given: Tensor | None) -> tuple[Tensor, ...]:
            return _loop_in_torch(given, mask, resets, dropped, ctx.kernel, ctx.reverse)

        # A state without c has the two gradients of h alone.
        upstream = (grad_h, grad_last_h, grad_last_c)[: 2 if c0 is None else 3]
        grads = gradients_with_graph(in_torch, given, upstream)
    else:
        grad_h = torch.zeros_like(h) if grad_h is None else grad_h
        grad_last_h = torch.zeros_like(h0) if grad_last_h is None else grad_last_h
        if c0 is not None and grad_last_c is None:
            grad_last_c = torch.zeros_like(c0)
        found = loop_cells_gradient(
            grad_h, grad_last_h, None if c0 is None else grad_last_c, h, c, kept, h0, c0, mask, resets, *weights,
            dropped, ctx.kernel, ctx.reverse,
        )  # fmt: skip
        grads = [None if v is None else grad for v, grad in zip(given, found, strict=True)]
    return (*grads[:3], None, None, *grads[3:], None, None, None)


def _loop_in_torch(
    given: tuple[Tensor | None, ...], mask: Tensor | None, resets: Tensor | None, dropped: Tensor | None, kernel: str,
    reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Every h and the last states, as `loop_cells` returns them, step by step in torch."""
    projected, h0, c0, *weights = given
    named = {name: w for name, w in zip(PARAMETERS, weights, strict=True) if w is not None}
    cell = LSTMEquations() if kernel == "lstm" and "weight_ci" not in named else CELLS[kernel]
    assert projected is not None and h0 is not None
    h_is_output = kernel == "lstm-no-output-gate"  # its h follows from c, and is no state of its own
    states = (c0,) if h_is_output else (h0, c0)
    state = tuple(s for s in states if s is not None)
    h, last = walk_in_torch(cell, projected, state, Recurrent(cell.projections, named, dropped), mask, resets, reverse)
    return (h, cell.output(*last), *last) if h_is_output else (h, *last)


loop_cells.register_autograd(_gradient, setup_context=_save)


def _recurrence(
    kernels: Any, weight_hh: Tensor, bias_hh: Tensor | None, peepholes: tuple[Tensor | None, ...],
    weight_hr: Tensor | None, dropped: Tensor | None,
) -> Any:  # fmt: skip
    there = [p for p in peepholes if p is not None]
    return kernels.Recurrence(weight_hh, bias_hh, torch.cat(there) if there else None, weight_hr, dropped)


def _before_each_step(h: Series, h0: State, resets: Flags | None, reverse: bool) -> Series:
    """h as it stood before each step."""
    start, before = h0.unsqueeze(1), empty_series(h, h.shape[2])
    torch.cat([h[:, 1:], start] if reverse else [start, h[:, :-1]], dim=1, out=before)
    return before if resets is None else before.masked_fill_(resets.unsqueeze(2), 0)


def _products(weight: Tensor, pairs: list[tuple[Series, Series]]) -> Tensor:
    """The gradient of a weight, for each pair a block of rows: the sum over batch and time of left^T right."""
    found = torch.empty_like(weight, memory_format=torch.contiguous_format)
    begin = 0
    for left, right in pairs:
        if time_first(right):
            left, right = left.transpose(0, 1), right.transpose(0, 1)
        end = begin + left.shape[2]
        torch.mm(left.flatten(0, 1).t(), right.flatten(0, 1), out=found[begin:end])
        begin = end
    return found
