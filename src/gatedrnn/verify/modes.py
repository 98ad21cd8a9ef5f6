"""The execution modes of a layer on the same sequences. All agree with `run_by_definition`."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gatedrnn.equations import Equations
from gatedrnn.kinds import kind_of
from gatedrnn.laws import modes
from gatedrnn.layers import RecurrentLayer, Wrapper
from gatedrnn.names import REGULARISERS
from gatedrnn.shapes import Flags, Hidden, Series, StateTuple
from gatedrnn.verify.definition import Sequences

ExecutionMode: TypeAlias = Callable[[RecurrentLayer, Sequences], tuple[Series, StateTuple]]
"""Output (batch, time, features) and last states, from a layer with batch_first=True."""
Run: TypeAlias = Callable[..., tuple[Series, Hidden]]


class Case(NamedTuple):
    """A layer, its sequences, and the modes that can run them."""

    name: str
    arguments: dict[str, Any]
    """Arguments of the layer beside sizes, dtype and batch_first."""
    modes: dict[str, ExecutionMode]
    hx: bool = True
    """Whether a state is passed in."""
    positive_hx: bool = False
    lengths: tuple[int, ...] | None = None
    """Real steps of each row, padded on the right; None if all are real."""
    holes: bool = False
    """Whether steps in between are masked, where the input is NaN."""
    left: bool = False
    """Whether padding is on the left instead."""
    resets: bool = False
    gaps: bool = False
    """Whether there are times between steps; for cells that read them."""
    gap_features: bool = False
    """Whether there is a time for each feature; for cells that learn the effect of a gap."""
    convex: bool = False
    """Whether only cells qualify that mix their state with a value and read only the step's input."""
    narrow: bool = False
    """Whether the case is for half precision alone, where the state between two calls is rounded."""
    regularisers: tuple[str, ...] = ()
    """Rates of the layer that are above 0; their masks are the same in every mode."""


def calls(layer: RecurrentLayer, wide_state: bool = False) -> Run:
    """Return `run(s, state)`, which calls the layer; None begins with the sequences' own state."""

    def run(s: Sequences, state: Hidden | None = None) -> tuple[Series, Hidden]:
        hx = packed(s.hx) if state is None else state
        return layer(s.x, hx, mask=_mask(s), wide_state=wide_state, **_optional_arguments(s))

    return run


def steps_of(layer: RecurrentLayer) -> Run:
    """Return `run(s, state)`, which calls the layer's `step`."""

    def run(s: Sequences, state: Hidden | None = None) -> tuple[Series, Hidden]:
        hx, gaps = packed(s.hx) if state is None else state, None if s.gaps is None else s.gaps[:, 0]
        resets = s.resets[:, 0] if s.resets.any() else None
        output, after = layer.step(s.x[:, 0], hx, resets=resets, gaps=gaps, dropout_masks=s.masks, wide_state=True)
        return output.unsqueeze(1), after

    return run


def whole(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    output, state = modes.whole(calls(layer), s)
    return output, _without_time(layer, state)


def without_hx(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    output, state = layer(s.x)
    return output, as_tuple(state)


def time_first(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    # On the same layer: a new one would have other weights.
    layer.batch_first = False
    flags = (_mask(s), _resets(s), s.gaps)
    mask, resets, gaps = (None if x is None else x.transpose(0, 1) for x in flags)
    output, state = layer(s.x.transpose(0, 1), packed(s.hx), mask=mask, resets=resets, gaps=gaps, dropout_masks=s.masks)
    layer.batch_first = True
    return output.transpose(0, 1), _without_time(layer, state)


def steps(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    output, state = modes.in_chunks(steps_of(layer), s, range(1, s.shape[1]))
    return output, as_tuple(state)


def chunks(layer: RecurrentLayer, s: Sequences, wide_state: bool = True) -> tuple[Series, StateTuple]:
    output, state = modes.in_chunks(calls(layer, wide_state), s, (1, s.shape[1] // 2))
    return output, _without_time(layer, state)


def narrow_chunks(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    """Run chunks with the default state, which in half precision is rounded at the end of each chunk."""
    return chunks(layer, s, wide_state=False)


def packed_unsorted(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    sequence = pack_padded_sequence(s.x, s.mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    output, state = layer(sequence, packed(s.hx), **_optional_arguments(s))
    return pad_packed_sequence(output, batch_first=True, total_length=s.x.shape[1])[0], as_tuple(state)


def masked_between(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    """Insert a masked step before each step, with a part of its gap."""
    assert s.gaps is not None
    nothing, part = torch.full_like(s.x, torch.nan), 0.3 * s.gaps
    longer = s._replace(
        x=_interleaved(nothing, s.x), mask=_interleaved(torch.zeros_like(s.mask), s.mask),
        resets=_interleaved(s.resets, torch.zeros_like(s.resets)), gaps=_interleaved(part, s.gaps - part),
    )  # fmt: skip
    output, state = whole(layer, longer)
    return output[:, 1::2], state


def at_no_time(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    """Insert a step with other inputs and no gap after each step."""
    assert s.gaps is not None
    longer = s._replace(
        x=_interleaved(s.x, s.x.flip(1)), mask=_interleaved(s.mask, torch.ones_like(s.mask)),
        resets=_interleaved(s.resets, torch.zeros_like(s.resets)), gaps=_interleaved(s.gaps, torch.zeros_like(s.gaps)),
    )  # fmt: skip
    output, state = whole(layer, longer)
    return output[:, ::2], state


def in_two_steps(layer: RecurrentLayer, s: Sequences) -> tuple[Series, StateTuple]:
    """Run each step twice, each time with a part of its gap; one layer, one direction."""
    assert s.gaps is not None
    part = 0.3 * s.gaps
    longer = s._replace(
        x=_interleaved(s.x, s.x), mask=_interleaved(s.mask, s.mask),
        resets=_interleaved(s.resets, torch.zeros_like(s.resets)), gaps=_interleaved(part, s.gaps - part),
    )  # fmt: skip
    output, state = whole(layer, longer)
    return output[:, 1::2], state


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    """Interleave the steps of two series: (batch, 2 · time, …)."""
    return torch.stack((first, second), dim=2).flatten(1, 2)


_ONE_DIRECTION = {"num_layers": 2, "proj_size": 2}
_TWO_DIRECTIONS = {"num_layers": 2, "bidirectional": True}
_RAGGED = (5, 9, 1)

CASES = (
    Case("plain", _ONE_DIRECTION, {
        "whole sequence": whole, "step by step": steps, "in chunks": chunks, "time first": time_first,
    }),
    Case("narrow state", _ONE_DIRECTION, {"in chunks, narrow state": narrow_chunks}, narrow=True),
    Case("no hx", _ONE_DIRECTION, {"no hx": without_hx}, hx=False),
    Case("padded right", _ONE_DIRECTION, {
        "mask, padded right": whole, "packed, unsorted": packed_unsorted,
    }, lengths=_RAGGED),
    Case("padded left", _ONE_DIRECTION, {"mask, padded left": whole}, lengths=_RAGGED, left=True),
    Case("holes", {**_ONE_DIRECTION, "bias": False}, {"mask with holes": whole}, holes=True),
    Case("resets", {"num_layers": 1}, {
        "resets": whole, "resets, step by step": steps, "resets, in chunks": chunks,
    }, resets=True),
    Case("packed resets", {**_ONE_DIRECTION, "bias": False}, {
        "packed, resets": packed_unsorted,
    }, lengths=_RAGGED, resets=True),
    Case("both directions", {**_TWO_DIRECTIONS, "bias": False}, {
        "both directions": whole,
    }),
    Case("both directions, ragged", _TWO_DIRECTIONS, {
        "both directions, mask": whole, "both directions, packed": packed_unsorted,
    }, lengths=_RAGGED),
    Case("both directions, resets", _TWO_DIRECTIONS, {
        "both directions, resets": whole, "both directions, resets, time first": time_first,
    }, holes=True, resets=True),
    Case("gaps", _ONE_DIRECTION, {
        "gaps": whole, "gaps, step by step": steps, "gaps, in chunks": chunks, "gaps, time first": time_first,
        "gaps, masked steps between": masked_between,
    }, gaps=True),
    Case("gaps, holes", _TWO_DIRECTIONS, {
        "both directions, gaps": whole, "both directions, gaps, time first": time_first,
        "both directions, gaps, masked steps between": masked_between,
    }, holes=True, resets=True, gaps=True),
    Case("gaps, holes in chunks", _ONE_DIRECTION, {"gaps with holes, in chunks": chunks}, holes=True, gaps=True),
    Case("gaps, holes and resets in chunks", _ONE_DIRECTION, {
        "gaps with holes and resets, in chunks": chunks,
    }, holes=True, resets=True, gaps=True),
    Case("gaps, packed", _TWO_DIRECTIONS, {"gaps, packed": packed_unsorted}, lengths=_RAGGED, gaps=True),
    Case("gaps, mixed", {"num_layers": 1}, {
        "gaps, each step in two": in_two_steps, "gaps, steps at no time": at_no_time,
    }, resets=True, gaps=True, convex=True),
    Case("gaps of features", {"num_layers": 2, "gap_features": 3}, {
        "gaps of features": whole, "gaps of features, step by step": steps, "gaps of features, in chunks": chunks,
        "gaps of features, time first": time_first,
    }, resets=True, gap_features=True),
    Case("gaps of features, both directions", {**_TWO_DIRECTIONS, "gap_features": 3}, {
        "both directions, gaps of features": whole, "both directions, gaps of features, time first": time_first,
    }, holes=True, resets=True, gap_features=True),
    Case("gaps of features, packed", {"gap_features": 3}, {
        "gaps of features, mask": whole, "gaps of features, packed": packed_unsorted,
    }, lengths=_RAGGED, gap_features=True),
    Case("locked", _ONE_DIRECTION, {
        "dropped inputs and weights": whole, "dropped inputs and weights, step by step": steps,
    }, regularisers=("input_dropout", "weight_dropout")),
    Case("normalised", {"num_layers": 1, "layer_norm": True}, {
        "normalised": whole, "normalised, step by step": steps,
    }),
    Case("regularised", {"num_layers": 2, "layer_norm": True}, {
        "regularised": whole, "regularised, step by step": steps,
    }, regularisers=REGULARISERS),
)  # fmt: skip

LOG_SPACE = Case("log_space", {"num_layers": 2, "log_space": True}, {
    "mask, padded right": whole, "packed, unsorted": packed_unsorted,
}, positive_hx=True, lengths=_RAGGED)  # fmt: skip
"""The case of the paper's scan; informative, for it is not held to the law."""


def cases_for(cell: Equations, wrapper: Wrapper, dtype: str) -> list[Case]:
    """Return the cases of a cell in a dtype: with gaps only if it reads them."""
    gaps = kind_of(cell).facts(cell).gaps
    has = {
        "narrow": dtype == "bfloat16", "gaps": gaps is not None,
        "gap_features": gaps is not None and gaps.features > 0,
        "convex": gaps is not None and gaps.mixes and wrapper.inputs == 1,
    }  # fmt: skip
    return [case for case in CASES if all(qualifies or not getattr(case, name) for name, qualifies in has.items())]


def packed(states: StateTuple) -> Hidden:
    """Return states in the form of `hx`."""
    return states if len(states) > 1 else states[0]


def as_tuple(state: Tensor | StateTuple) -> StateTuple:
    return state if isinstance(state, tuple) else (state,)


def _without_time(layer: RecurrentLayer, state: Tensor | StateTuple) -> StateTuple:
    """Drop the time since the last real step, which mask and gaps add."""
    return as_tuple(state)[: len(layer.state_names)]


def _resets(s: Sequences) -> Flags | None:
    """Return the resets; None if there are none, which takes another path through the code."""
    return s.resets if bool(s.resets.any()) else None


def _mask(s: Sequences) -> Flags | None:
    return None if bool(s.mask.all()) else s.mask


def _optional_arguments(s: Sequences) -> dict[str, Any]:
    return {"resets": _resets(s), "gaps": s.gaps, "dropout_masks": s.masks}
