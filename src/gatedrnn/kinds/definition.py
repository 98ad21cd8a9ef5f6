"""Any cell over time by its equations in plain torch, one step after another; masked steps, resets to zeros, gaps.

A masked step leaves the state unchanged, its output is 0, and its gap is added to that of the next real step, also of
the next call. A reset cuts between a step and the one before it, in both directions.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from gatedrnn.equations import Equations, GappedEquations, Recurrent, output_of, split_gates
from gatedrnn.kernels.backends import accumulation_dtype, exporting_to_onnx
from gatedrnn.shapes import Flags, Gaps, Projections, Series, StateTuple, Step

ZoneoutMask: TypeAlias = tuple[Tensor | float, ...]
"""One per state tensor. bool: True leaves the old value; float: the share of the old value, zoneout's expectation."""
OneStep: TypeAlias = tuple[Step, StateTuple]
"""The output and the states of a step; here, for `torch.compile` makes no type within a function."""


def iterate(
    cell: Equations, projected: Projections, state: StateTuple, recurrent: Recurrent, mask: Flags | None = None,
    resets: Flags | None = None, reverse: bool = False, zoneout: ZoneoutMask | None = None, gaps: Gaps | None = None,
) -> tuple[Series, StateTuple]:  # fmt: skip
    """Return the outputs and the last states of any cell.

    Args:
        projected: W x + b, (batch, time, gates · channels).
        mask: a masked step leaves the states unchanged; its output is 0.
        resets: a reset returns the states to zeros.
        gaps: from the state that a step reads to the step, or a time for each of `gap_features`; None for 1 everywhere.
    """
    wide = accumulation_dtype(projected.dtype)

    def step(
        state: StateTuple,
        projected: Tensor,
        reset: Tensor | None,
        real: Tensor | None,
        gap: Tensor | None,
        *drawn: Tensor | None,
    ) -> OneStep:
        if reset is not None:
            # Selected, not multiplied by 0: a NaN of the state before must not get past a reset.
            state = tuple(torch.where(reset.unsqueeze(1), 0, s) for s in state)
        now = None if zoneout is None else tuple(z if t is None else t for z, t in zip(zoneout, drawn, strict=True))
        after = one_step(cell, projected, state, recurrent, now, gap)
        if real is not None:
            after = tuple(torch.where(real.unsqueeze(1), a, s) for a, s in zip(after, state, strict=True))
        return output_of(cell, after, split_gates(len(cell.projections), projected.to(wide))), after

    drawn = [z if isinstance(z, Tensor) else None for z in zoneout or ()]
    output, state = over_time(step, state, (projected, resets, mask, gaps, *drawn), reverse)
    # One operation for all steps, where clearing inside `step` would be one a step.
    return output if mask is None else zero_masked_steps(output, mask), state


def one_step(
    cell: Equations, projected: Tensor, state: StateTuple, recurrent: Recurrent,
    zoneout: ZoneoutMask | None = None, gaps: Tensor | None = None,
) -> StateTuple:  # fmt: skip
    """Return the next state, in the dtype of the state before, from a step's projections (batch, gates · channels).

    Args:
        zoneout: Krueger et al. 2017 (arXiv:1606.01305).
        gaps: (batch,) or (batch, gap_features), of a cell that takes them; None for 1.
    """
    # Computed in at least float32, as torch's kernels do it, and rounded to the state's dtype at the end of the step.
    wide = accumulation_dtype(projected.dtype)
    gates, before = split_gates(len(cell.projections), projected.to(wide)), tuple(s.to(wide) for s in state)
    if gaps is None:
        after = cell.step(gates, before, recurrent)
    else:
        assert isinstance(cell, GappedEquations)
        after = cell.step_over((gaps.unsqueeze(1) if gaps.dim() == 1 else gaps).to(wide), gates, before, recurrent)
    if zoneout is not None:
        # Before the rounding below: the expectation in evaluation is a weighted mean, in float32 as all else.
        after = tuple(zone_out(mask, b, a) for mask, b, a in zip(zoneout, before, after, strict=True))
    return tuple(a.to(s.dtype) for a, s in zip(after, state, strict=True))


def zone_out(mask: Tensor | float, old: Tensor, new: Tensor) -> Tensor:
    """Mix an old and a new value by one tensor of a zoneout mask."""
    return torch.where(mask, old, new) if isinstance(mask, Tensor) else mask * old + (1 - mask) * new


# Time


def over_time(
    step: Callable[..., tuple[Tensor, tuple[Tensor, ...]]], state: tuple[Tensor, ...],
    series: Sequence[Tensor | None], reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Return all outputs of a step, (batch, time, …), and the last state. One step at least.

    In an export to ONNX with `dynamo=True` the loop is one operator, Scan, and the length is free; a single step needs
    none. With `dynamo=False` it is unrolled for the length of the example.

    Args:
        step: `step(state, *series_t)` returns the output and the next state, in the shapes and dtypes of the state.
        series: the series that a step reads, each (batch, time, …), or None.
        reverse: run from the last step to the first.
    """
    if torch.compiler.is_exporting() and exporting_to_onnx() and not _is_one_step(series):
        return _onnx_scan(step, state, series, reverse)
    if _is_one_step(series):  # without a loop, for streams
        output, state = step(state, *(None if x is None else x.squeeze(1) for x in series))
        return torch.stack([output], dim=1), state  # a copy: the output may be a state
    # unbind, not indexing: the gradient of an index is a whole series of zeros for each step.
    present = [x is not None for x in series]
    steps = list(zip(*(x.unbind(1) for x in series if x is not None), strict=True))
    outputs = []
    for read in reversed(steps) if reverse else steps:
        output, state = step(state, *_fill_missing(present, read))
        outputs.append(output)
    return torch.stack(outputs[::-1] if reverse else outputs, dim=1), state


def _is_one_step(series: Sequence[Tensor | None]) -> bool:
    """Whether a series has one step, whatever the input of an exported graph."""
    length = next(x.shape[1] for x in series if x is not None)
    # A free length is a SymInt: comparing it with 1 would fix it in the exported graph.
    return isinstance(length, int) and length == 1


def _onnx_scan(
    step: Callable[..., tuple[Tensor, tuple[Tensor, ...]]], state: tuple[Tensor, ...],
    series: Sequence[Tensor | None], reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    from torch._higher_order_ops.scan import scan  # torch has no public name for it

    present = [x is not None for x in series]  # `body` must not close over the series themselves: see below

    def body(state: tuple[Tensor, ...], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        output, after = step(state, *_fill_missing(present, read))
        return after, output.clone()  # an output must be no view of a state

    if not torch.compiler.is_dynamo_compiling():  # `scan` compiles: what it keeps has the sizes of an earlier export
        torch.compiler.reset()
    # Detached: a graph of ONNX has no gradients, and torch's rule for those of `scan` fails where the batch is free.
    # Laid out anew: of a view that is one batch or one step long, the strides would fix that size.
    begin = tuple(s.detach().clone(memory_format=torch.contiguous_format) for s in state)
    by_step = (x.detach().transpose(0, 1) for x in series if x is not None)
    read = tuple(x.clone(memory_format=torch.contiguous_format) for x in by_step)
    last, outputs = scan(body, begin, read, reverse=reverse)
    return outputs.transpose(0, 1).clone(memory_format=torch.contiguous_format), last


def _fill_missing(present: Sequence[bool], read: Sequence[Tensor]) -> list[Tensor | None]:
    """Return a step of each present series, and None for the others."""
    values = iter(read)
    return [next(values) if is_present else None for is_present in present]


# Masked steps, resets, gaps


def zero_masked_steps(output: Series, mask: Flags) -> Series:
    """Return 0 at masked steps, even for a NaN."""
    return torch.where(mask.unsqueeze(2), output, 0)


def reversed_resets(resets: Flags) -> Flags:
    """Return the same cuts for a run from the last step to the first: a cut between t-1 and t comes before step t-1.

    Args:
        resets: (batch, time).
    """
    # No cut comes after the last step, so that the run in reverse begins without one.
    return torch.cat([resets[:, 1:], torch.zeros_like(resets[:, :1])], dim=1)


def gaps_between_real_steps(gaps: Gaps, mask: Flags | None, resets: Flags | None, reverse: bool) -> Gaps:
    """Return the time from the state that a step reads to the step itself.

    Forward, that is its own gap and those of the masked steps before it, since the last real step, cut or beginning.
    Reversed, gaps shift by one: the state comes from the next real step, later by the gaps in between; 1 if there is
    none before the end or a cut.

    Args:
        gaps: (batch, time), from the step before to each step; at the first one, since the state that is passed in.
        mask: True for real steps.
        resets: True at t for a cut between t-1 and t, whatever the direction.
    """
    batch, steps = gaps.shape
    if not reverse and mask is None:
        return gaps
    positions = torch.arange(steps, device=gaps.device).expand(batch, steps)
    # Differences of sums in float64: long series lose nothing. clock[t] is the time before the gap of step t.
    clock = pad(gaps.to(torch.float64).cumsum(1), (1, 0))
    if not reverse:
        assert mask is not None
        since = _clock_start(positions, mask, resets)[:, :-1]
        return (clock[:, 1:] - clock.gather(1, since)).to(gaps.dtype)
    # Without a mask by a shift: ONNX has no running minimum.
    next_real = positions + 1 if mask is None else _next_position(torch.where(mask, positions, steps), steps)
    is_joined = next_real < steps
    if resets is not None:
        is_joined &= next_real < _next_position(torch.where(resets, positions, steps), steps)
    # The clamp only makes the index valid: `torch.where` drops what is read there.
    later = clock.gather(1, (next_real + 1).clamp(max=steps))
    return torch.where(is_joined, later - clock[:, 1:], 1).to(gaps.dtype)


def time_after_real_steps(gaps: Gaps, mask: Flags, resets: Flags | None) -> Gaps:
    """Return the gaps of the masked steps at the end of each row, (batch,): the time since its last real step, its last
    cut or its beginning; arguments as in `gaps_between_real_steps`."""
    positions = torch.arange(gaps.shape[1], device=gaps.device).expand_as(gaps)
    clock = pad(gaps.to(torch.float64).cumsum(1), (1, 0))
    since = _clock_start(positions, mask, resets)[:, -1:]
    return (clock[:, -1] - clock.gather(1, since)[:, 0]).to(gaps.dtype)


def _clock_start(positions: Tensor, mask: Flags, resets: Flags | None) -> Tensor:
    """Return the position from which each step's time counts, and that of a step after the last: (batch, time + 1)."""
    since = pad(torch.where(mask, positions + 1, 0), (1, 0)).cummax(1).values
    if resets is None:
        return since
    return torch.maximum(since, pad(torch.where(resets, positions, 0), (0, 1)).cummax(1).values)


def _next_position(positions: Tensor, none: int) -> Tensor:
    """Return the smallest position after each step."""
    return pad(positions[:, 1:], (0, 1), value=none).flip(1).cummin(1).values.flip(1)
