"""The laws: each says in one sentence which two ways of feeding the same sequences are equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gatedrnn.laws import modes


class CaseSizes(NamedTuple):
    """The sizes of which a law's case is made."""

    batch: int = 3
    steps: int = 12
    cut: int = 5
    pad: int = 3


ONE, TWO_STEPS, TWO_ROWS = CaseSizes(1, 1, 1, 1), CaseSizes(1, 2, 1, 1), CaseSizes(2, 2, 1, 1)
Way: TypeAlias = Callable[..., Any]
"""A way of feeding sequences."""


@dataclass(frozen=True)
class Law:
    """One law.

    Two ways of feeding the same sequences, `way` and `reference`, give equal outputs, and equal states where both
    return one that is a tensor or a container of tensors.
    """

    name: str
    says: str
    way: Way
    reference: Way
    needs: tuple[str, ...] = ()
    """Uses for which the subject must be made."""
    arguments: Callable[[CaseSizes], dict[str, Any]] = lambda sizes: {}
    """The arguments of both ways beside the inputs, from the sizes."""
    more: bool = False
    """Whether steps are fed after the masked ones."""
    given_state: bool = False
    """Whether the first call is given a state, which sequences before have left."""
    gradients: bool = False
    """Whether it holds for gradients too."""
    least: CaseSizes = ONE
    """The smallest sizes of which it says something."""
    of_module: bool = False
    """Whether the ways take the module, to run a copy of it."""
    lengths: tuple[int, ...] = ()
    """Numbers of steps of which each is a case; none for the usual one."""


def _at_cut(sizes: CaseSizes) -> dict[str, Any]:
    return {"cut": sizes.cut}


def _cut_once(sizes: CaseSizes) -> dict[str, Any]:
    return {"cuts": (sizes.cut,)}


def _cut_every_step(sizes: CaseSizes) -> dict[str, Any]:
    return {"cuts": tuple(range(1, sizes.steps))}


def _cut_after_prefill(sizes: CaseSizes) -> dict[str, Any]:
    return {"cuts": tuple(range(sizes.cut, sizes.steps))}


def _cut_unevenly(sizes: CaseSizes) -> dict[str, Any]:
    """Cuts after the first step, at the cut, and before the last step."""
    return {"cuts": tuple(sorted({1, sizes.cut, max(sizes.cut, sizes.steps - 1)}))}


def _left_mask(sizes: CaseSizes) -> dict[str, Any]:
    return {"mask": (torch.arange(sizes.steps) >= sizes.pad).expand(sizes.batch, -1)}


def _right_mask(sizes: CaseSizes) -> dict[str, Any]:
    return {"mask": (torch.arange(sizes.steps) < sizes.steps - sizes.pad).expand(sizes.batch, -1)}


def _lengths(sizes: CaseSizes) -> Tensor:
    """Return the real steps of each row: all, and fewer by one padding or two, out of order."""
    rows = torch.arange(sizes.batch).roll(1)
    return (sizes.steps - rows * sizes.pad).clamp(min=1)


def _ragged_left(sizes: CaseSizes) -> dict[str, Any]:
    return {"mask": torch.arange(sizes.steps) >= sizes.steps - _lengths(sizes)[:, None]}


def _ragged_right(sizes: CaseSizes) -> dict[str, Any]:
    return {"mask": torch.arange(sizes.steps) < _lengths(sizes)[:, None]}


def _reset_flags(sizes: CaseSizes) -> dict[str, Any]:
    """A reset at the cut in the first row, and by one step earlier in each row after it."""
    return {"resets": torch.arange(sizes.steps) == (sizes.cut - torch.arange(sizes.batch)).clamp(min=1)[:, None]}


def _row_order(sizes: CaseSizes) -> dict[str, Any]:
    return {"cut": sizes.cut, "order": torch.arange(sizes.batch).roll(1)}


FINITE = Law(
    "finite", "Finite inputs give finite outputs.", modes.whole, modes.whole,
)  # fmt: skip
SAME_AGAIN = Law(
    "the same again", "The same inputs give the same outputs when they are fed again.", modes.whole, modes.whole,
)  # fmt: skip
PRECISION = "float32 against float64"
FIRST = (FINITE, SAME_AGAIN)
"""Laws without which no other can be judged."""

LAWS = (
    Law(
        "step by step", "One step after another, with the state carried, gives what the whole sequence gives.",
        modes.in_chunks, modes.whole, ("state",), _cut_every_step, gradients=True, least=TWO_STEPS,
    ),
    Law(
        "in two chunks", "Two chunks, with the state carried, give what the whole sequence gives.",
        modes.in_chunks, modes.whole, ("state",), _cut_once, gradients=True, least=TWO_STEPS,
    ),
    Law(
        "prefill, then steps", "A first chunk, and then one step after another, gives what the whole sequence gives.",
        modes.in_chunks, modes.whole, ("state",), _cut_after_prefill, least=TWO_STEPS,
    ),
    Law(
        "uneven chunks", "Chunks of one step and of many, in turn, give what the whole sequence gives.",
        modes.in_chunks, modes.whole, ("state",), _cut_unevenly, least=TWO_STEPS,
    ),
    Law(
        "any length", "Sequences of 2, 63 and 1,000 steps give in two chunks what they give whole.",
        modes.in_chunks, modes.whole, ("state",), _cut_once, least=TWO_STEPS, lengths=(2, 63, 1000),
    ),
    Law(
        "from a given state", "From a state that is given, two chunks give what the whole sequence gives.",
        modes.in_chunks, modes.whole, ("state", "plain state"), _cut_once, given_state=True, gradients=True,
        least=TWO_STEPS,
    ),
    Law(
        "inputs and state left as they are", "A call changes neither its inputs nor the state that it is given.",
        modes.left_as_it_was, modes.as_it_was, ("state", "plain state"), _at_cut, least=TWO_STEPS,
    ),
    Law(
        "a state copied", "A state that was copied goes on as it was, whatever its copy was fed.",
        modes.continued_twice, modes.continued, ("state",), _at_cut, least=TWO_STEPS,
    ),
    Law(
        "a row alone", "A row of a batch gives what it gives alone, and its state goes on alike.",
        modes.whole, modes.rows_alone, gradients=True, least=TWO_ROWS,
    ),
    Law(
        "a row alone, in chunks", "A row of a batch that is fed in chunks gives what it gives in chunks alone.",
        modes.in_chunks, modes.rows_alone_in_chunks, ("state",), _cut_once, least=TWO_ROWS,
    ),
    Law(
        "rows in another order", "Rows in another order give the same, in that order.",
        modes.rows_reversed, modes.whole, least=TWO_ROWS,
    ),
    Law(
        "a fresh row beside a running one", "A row that begins beside one that runs on gives what each gives alone.",
        modes.joined_on_the_way, modes.apart_on_the_way, ("state", "axis"), _at_cut, least=TWO_ROWS,
    ),
    Law(
        "causality", "What comes later changes nothing before it.",
        modes.before_a_change, modes.before_the_cut, ("one direction",), _at_cut, least=TWO_STEPS,
    ),
    Law(
        "strides", "Inputs whose elements do not lie side by side in memory give the same.",
        modes.strided, modes.whole,
    ),
    Law(
        "deep copy", "A deep copy of the module gives the same.",
        modes.deep_copied, modes.itself, ("copies",), of_module=True,
    ),
    Law(
        "pickle", "What pickle gives back of the module gives the same.",
        modes.pickled, modes.itself, ("pickle",), of_module=True,
    ),
    Law(
        "save and load", "A module of other weights that has loaded the saved ones gives the same.",
        modes.saved, modes.itself, ("copies", "parameters"), of_module=True,
    ),
    Law(
        "training mode", "Without dropout, training mode computes what evaluation mode computes.",
        modes.trained, modes.itself, ("copies", "no dropout"), of_module=True,
    ),
    Law(
        "padded on the right", "Masked steps after the real ones change no real step.",
        modes.masked, modes.unpadded, ("mask",), _right_mask, gradients=True, least=TWO_STEPS,
    ),
    Law(
        "padded on the left", "Masked steps before the real ones change no real step.",
        modes.masked, modes.unpadded, ("mask",), _left_mask, gradients=True, least=TWO_STEPS,
    ),
    Law(
        "rows of unequal length, right", "In a batch padded on the right each row gives what it gives alone.",
        modes.masked, modes.unpadded, ("mask",), _ragged_right, gradients=True, least=TWO_ROWS,
    ),
    Law(
        "rows of unequal length, left", "In a batch padded on the left each row gives what it gives alone.",
        modes.masked, modes.unpadded, ("mask",), _ragged_left, gradients=True, least=TWO_ROWS,
    ),
    Law(
        "on after padding on the right", "After masked steps on the right a run goes on from the last real step.",
        modes.on_after_masked, modes.on_after_unpadded, ("state", "mask"), _ragged_right, more=True, least=TWO_ROWS,
    ),
    Law(
        "on after padding on the left", "After masked steps on the left a run goes on from the last real step.",
        modes.on_after_masked, modes.on_after_unpadded, ("state", "mask"), _ragged_left, more=True, least=TWO_ROWS,
    ),
    Law(
        "packed", "A PackedSequence gives for each row what the row gives alone.",
        modes.packed, modes.unpadded, ("packed",), _ragged_right, gradients=True, least=TWO_ROWS,
    ),
    Law(
        "on after packed", "After a PackedSequence a run goes on from each row's last step.",
        modes.on_after_packed, modes.on_after_unpadded, ("state", "packed"), _ragged_right, more=True,
        least=TWO_ROWS,
    ),
    Law(
        "resets", "A reset, or a boundary between documents, gives what separate sequences give.",
        modes.reset, modes.cut_apart, ("resets",), _reset_flags, gradients=True, least=TWO_STEPS,
    ),
    Law(
        "a cache reordered", "Rows that a cache takes in another order go on in that order.",
        modes.reordered, modes.ordered_from_the_start, ("state", "reorder"), _row_order, least=TWO_ROWS,
    ),
)  # fmt: skip

GENERATION = (
    Law(
        "generate", "Greedy generation chooses the token of the largest logit of a whole forward.",
        modes.shortfall, modes.shortfall, ("generate",),
    ),
    Law(
        "generate, padded on the left", "Prompts padded on the left are continued as each is alone.",
        modes.shortfall_of_padded, modes.shortfall_of_padded, ("generate", "mask"), _ragged_left, least=TWO_ROWS,
    ),
    Law(
        "generate, prefill in chunks", "A prompt that is read in chunks is continued as one that is read whole.",
        modes.shortfall, modes.shortfall, ("generate", "prefill"), lambda sizes: {"prefill_chunk_size": sizes.cut},
        least=TWO_STEPS,
    ),
)  # fmt: skip
"""Laws of language models; the outcome of a way is how far it falls short, and the reference nothing."""
