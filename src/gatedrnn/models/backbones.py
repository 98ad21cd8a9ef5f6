"""Sequence models in the place of recurrent layers, to compare cells with: a transformer, Mamba, and a user's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from gatedrnn import names
from gatedrnn.errors import ContenderFails, Error, reason
from gatedrnn.registry import CELLS
from gatedrnn.shapes import Flags, Series
from gatedrnn.trust import canonical_name, check_trusted, class_of_file, file_of, is_in_file

HEADS = 4
"""The heads of attention; fewer where the width is not a multiple of 8."""


class Backbone(Protocol):
    """A class that is entered under a name: called with sizes, it gives a module that is called with (x, mask).

    The module maps x, (batch, time, features), to the same shape. `mask`, (batch, time), is True at valid steps; None
    if all are. Padding is on the right, and what stands at padded steps of the output is not read. Embedding, pooling
    and head are the model's around it, as they are around recurrent layers.

    Args:
        features: width of x.
        hidden_size: the size that is solved for where parameters are matched; the more, the more parameters.
        layers: how many, as of recurrent layers.
        bidirectional: each step of the output may depend on all steps of x; otherwise on those up to it alone.
        dropout: between layers, in training.

    Raises:
        ValueError: sizes or a direction that it cannot have.
    """

    def __call__(
        self, features: int, hidden_size: int, layers: int, *, bidirectional: bool, dropout: float
    ) -> nn.Module:
        """The module."""
        ...


class Transformer(nn.Module):
    """Llama's decoder layers (transformers): rotary positions, RMS norms, gated feed-forward of inner width
    `hidden_size`; the width of the model is `features`. Dropout is on the weights of attention."""

    def __init__(
        self, features: int, hidden_size: int, layers: int, *, bidirectional: bool, dropout: float
    ) -> None:  # fmt: skip
        from transformers import LlamaConfig, LlamaModel  # here, since each takes a while to import

        super().__init__()
        # Rotary positions turn pairs of features, so that a head has an even number of them.
        heads = next(n for n in (HEADS, 2, 1) if features % (2 * n) == 0 or n == 1)
        if features % 2:
            raise ValueError(f"rotary positions need an even embedding_size, got {features}")
        self.bidirectional = bidirectional
        self.model = LlamaModel(
            LlamaConfig(
                # The defaults of the token ids lie outside a vocabulary of 1.
                vocab_size=1, hidden_size=features, intermediate_size=hidden_size, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=heads, attention_dropout=dropout, use_cache=False,
                pad_token_id=None, bos_token_id=None, eos_token_id=None,
            )
        )  # fmt: skip
        self.model.embed_tokens = nn.Identity()  # the embedding is the model's around it

    def forward(self, x: Series, mask: Flags | None) -> Series:
        attended = None if mask is None else mask.long()
        if self.bidirectional:
            # A mask of four dimensions is taken as it is; without one, attention would be causal.
            valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
            attended = valid[:, None, None].expand(-1, 1, x.shape[1], -1)
        output: Tensor = self.model(inputs_embeds=x, attention_mask=attended, use_cache=False).last_hidden_state
        return output


class Mamba(nn.Module):
    """Mamba's blocks (transformers) of `hidden_size` channels, each with 16 states; by torch's operations alone where
    there are no kernels for it, which is slow. It has no dropout."""

    def __init__(
        self, features: int, hidden_size: int, layers: int, *, bidirectional: bool, dropout: float
    ) -> None:  # fmt: skip
        from transformers import MambaConfig, MambaModel

        super().__init__()
        if bidirectional:
            raise ValueError("bidirectional: mamba reads forwards alone")
        config = MambaConfig(
            vocab_size=1, hidden_size=features, num_hidden_layers=layers, use_cache=False, pad_token_id=None,
            bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
        config.intermediate_size = hidden_size  # any number of channels, where `expand` has multiples of the width
        self.model = MambaModel(config)
        self.model.embeddings = nn.Identity()

    def forward(self, x: Series, mask: Flags | None) -> Series:
        attended = None if mask is None else mask.long()
        output: Tensor = self.model(inputs_embeds=x, attention_mask=attended, use_cache=False).last_hidden_state
        return output


BACKBONES: dict[str, Backbone] = dict(zip(names.BACKBONES, (Transformer, Mamba), strict=True))
"""The backbones by name, beside the cells; those of files are added by `enter`."""
_FILES: dict[str, Path] = {}


@contextmanager
def named_if_it_fails(name: str, doing: str) -> Iterator[None]:
    """Report what a contender of a user's own file raises in one sentence with its line; errors of others pass as they
    are.

    Raises:
        ContenderFails: it raised something else than the ValueError by which it refuses sizes.
    """
    try:
        yield
    except Exception as error:
        if name not in _FILES or isinstance(error, (Error, ValueError, MemoryError, torch.OutOfMemoryError)):
            raise
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename) == _FILES[name]]
        line = f", line {lines[-1]}" if lines else ""
        raise ContenderFails(
            f"{_FILES[name].name}:{name}: {doing} it fails{line}: {type(error).__name__}: {reason(error)}"
        ) from error


def is_of_file(name: str) -> bool:
    """Whether a name is that of a contender of a user's own file."""
    return name in _FILES


def enter(word: str) -> str:
    """The name that a word stands for among cells and backbones; the class of a file is entered under its own.

    Raises:
        UntrustedCode: the class is of a file that may not be run.
        ValueError: there is no such file or class, running the file fails, or another has the name.
    """
    name = canonical_name(word)
    if not is_in_file(word) or _FILES.get(name) == file_of(word).resolve():
        return name
    check_trusted(word)  # first: what is wrong with a name matters only where the file may be run
    if name in BACKBONES or name in CELLS:
        raise ValueError(f"{word}: the name {name!r} is taken; give the class another")
    BACKBONES[name], _FILES[name] = load_contender_file(word), file_of(word).resolve()
    return name


def load_contender_file(word: str) -> Backbone:
    """Run the file of a word; `enter` alone calls this.

    Raises:
        As `trust.class_of_file`, and for the layer of a cell, which is no whole model.
    """
    name, backbone = canonical_name(word), cast(Backbone, class_of_file(word))
    if (cell := getattr(backbone, "cell_class", None)) is not None:
        raise ValueError(
            f"{word}: {name} is the layer of a cell, not a whole model; run the file itself and name the cell: "
            f"python {file_of(word)} train --cell {cell.name}"
        )
    return backbone
