"""Keyword arguments by which transformers calls any model, and what they mean to a recurrent one."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from gatedrnn.shapes import Flags

DOCUMENTS = ("position_ids", "seq_idx")
"""The arguments that say where documents begin in rows that hold several: the number of a step in its document, and of
a step's document."""
_WITH_DOCUMENTS = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""The arguments that repeat it for kernels of attention."""
_OF_ATTENTION = ("output_attentions", "cache_position", "return_dict")
"""The arguments that every model is called with, and that only attention answers."""

OF_GENERATE = ("tokenizer", "assistant_tokenizer")
"""The arguments of `generate` that it passes to `forward` though it has read them."""


def check_known(kwargs: Mapping[str, object], served: tuple[str, ...] = ()) -> None:
    """Check that a model was called with what it serves, or with what changes nothing.

    Raises:
        TypeError: another argument was given; a misspelt one would change nothing, and nobody would know.
    """
    ignored = (*_OF_ATTENTION, *(_WITH_DOCUMENTS if any(kwargs.get(name) is not None for name in DOCUMENTS) else ()))
    for name, value in kwargs.items():
        if name not in (*served, *ignored):
            raise TypeError(f"forward() got an unexpected keyword argument {name!r}")
        if name == "output_attentions" and value:
            raise ValueError("output_attentions: a recurrent model has none; gatedrnn.inspect.trace has its gates")


def hidden_states_list(kwargs: Mapping[str, object], config: PreTrainedConfig) -> list[Tensor] | None:
    """A list for the states where `output_hidden_states`, or the configuration, asks for them, else None."""
    requested = kwargs.get("output_hidden_states")
    return [] if (config.output_hidden_states if requested is None else requested) else None


def resets_of(kwargs: Mapping[str, object], resets: Flags | None, mask: Tensor | None) -> Flags | None:
    """`resets`, and the first steps of documents in rows that hold several: the state of one is not the next one's.

    Args:
        kwargs: may hold `position_ids`, (batch, time), which begin at 0 in each document, or `seq_idx`, (batch, time),
            the number of a step's document.
        mask: (batch, time), 1 = real step; the positions of others mean nothing.
    """
    positions, documents = (cast(Tensor | None, kwargs.get(name)) for name in DOCUMENTS)
    flags = [] if resets is None else [resets]
    if positions is not None:
        # The mask may begin with the tokens of earlier calls; the positions do not.
        flags.append(positions == 0 if mask is None else (positions == 0) & mask[:, -positions.shape[1] :].bool())
    if documents is not None:
        # The first step is no boundary: its state is the one that was passed in, or the initial one.
        flags.append(torch.nn.functional.pad(documents[:, 1:] != documents[:, :-1], (1, 0)))
    return None if not flags else torch.stack(torch.broadcast_tensors(*flags)).any(0)
