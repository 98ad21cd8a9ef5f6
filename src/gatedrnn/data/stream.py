"""A tokenised text on disk, mapped into memory: a text larger than the memory is no trouble."""

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from itertools import tee
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.corpus import Corpus, characters_of
from gatedrnn.data.encoding import encode_long
from gatedrnn.data.shards import Shards, ShardWriter, opened
from gatedrnn.data.token_cache import entry
from gatedrnn.data.tokenizers import BY_LINE, is_by_line, learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.records import Json, naming

LOG = logging.getLogger("gatedrnn")
FORMAT = 7
"""The version of the files in the cache; another number makes everything anew."""


TELLS_EVERY = 1 << 22
"""Characters from one word about progress to the next."""


class TokenStream(NamedTuple):
    """The tokens of a split. The first is the <eos> before the text: every token of the text has one before it."""

    tokens: Shards | np.ndarray
    starts: np.ndarray
    """The positions in `tokens` at which documents begin, ascending; 1 first."""
    text_bytes: int
    """The size of the text in UTF-8."""
    unknown: int
    """Tokens that read <unk>."""

    @property
    def predictions(self) -> int:
        """Tokens that have one before them: all of the text."""
        return len(self.tokens) - 1


class Tokenised(NamedTuple):
    """The splits of a text, and the tokenizer learned on its training split."""

    tokenizer: PreTrainedTokenizerFast
    streams: dict[str, TokenStream]


def tokenise(splits: dict[str, Corpus], kind: str, min_count: int, vocabulary_size: int) -> Tokenised:
    """All splits as token streams, from the disk if they were made before.

    Raises:
        DataError: a split is too short to learn from.
    """
    asked = {
        "format": FORMAT, "kind": kind, "min_count": min_count, "vocabulary_size": vocabulary_size,
        "splits": {split: [corpus.digest, corpus.reading] for split, corpus in splits.items()},
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:20]
    folder = entry(key, lambda made: _make(splits, kind, min_count, vocabulary_size, made))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return Tokenised(tokenizer, {split: _open(folder, split) for split in splits})


def tokenise_with(tokenizer: PreTrainedTokenizerFast, corpus: Corpus) -> TokenStream:
    """Tokenise another text with an existing vocabulary; the result is kept in memory."""
    LOG.info("tokenising %s", corpus.name)
    with tempfile.TemporaryDirectory() as folder:
        _write(corpus, tokenizer, Path(folder), "text")
        stream = _open(Path(folder), "text")
        return stream._replace(tokens=np.asarray(stream.tokens))


def _make(splits: dict[str, Corpus], kind: str, min_count: int, vocabulary_size: int, folder: Path) -> dict[str, Json]:
    """Write tokenizer and splits into a folder; what `gatedrnn cache` shows of them."""
    names = ", ".join(dict.fromkeys(corpus.name for corpus in splits.values()))
    LOG.info("tokenising %s by %s", names, kind)
    texts = _logged(f"learning the vocabulary of {names}", splits["train"])
    learned = (line for text in texts for line in text.split("\n")) if kind in BY_LINE else texts
    tokenizer = learn_tokenizer(kind, learned, min_count, vocabulary_size, stream=True)
    with naming(folder / "tokenizer.json", Exception):  # the library raises no class of its own
        tokenizer.save_pretrained(folder)
    for split, corpus in splits.items():
        _write(corpus, tokenizer, folder, split)
    return {
        "texts": names,
        "tokenizer": kind,
        "tokens": sum(_open(folder, split).predictions for split in splits),
    }


def _logged(doing: str, corpus: Corpus) -> Iterator[str]:
    """The pieces of a text; logs how far it is read."""
    log_part = _part_logger(doing, corpus)
    for piece in corpus.pieces():
        yield piece.text
        log_part(len(piece.text))


def _part_logger(doing: str, corpus: Corpus) -> Callable[[int], None]:
    """A function to call with the number of characters done: it logs from time to time which part of a long text that
    is.
    """
    total, done, last = characters_of(corpus), 0, 0

    def log_part(characters: int) -> None:
        nonlocal done, last
        done += characters
        if done - last >= TELLS_EVERY:
            last = done
            LOG.info(doing, extra={"part": min(1.0, done / total)})

    return log_part


def _write(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, folder: Path, split: str) -> None:
    dtype = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    starts, written, text_bytes, unknown, ended = [1], 1, 0, 0, is_by_line(tokenizer)
    pieces, texts = tee(corpus.pieces())
    log_part = _part_logger(f"tokenising {corpus.name} ({split})", corpus)
    eos = np.array([tokenizer.eos_token_id], dtype)
    with naming(folder / f"{split}-00000.tokens"), ShardWriter(folder, split, np.dtype(dtype)) as file:
        file.write(eos)
        for piece, ids in zip(pieces, encode_long(tokenizer, (p.text for p in texts)), strict=True):
            if piece.begins and written > 1:
                if not ended:  # with its last line
                    file.write(eos)
                    written += 1
                starts.append(written)
            file.write(ids)
            written += len(ids)
            text_bytes += len(piece.text.encode())
            unknown += int((ids == tokenizer.unk_token_id).sum())
            log_part(len(piece.text))
    if written < 3:
        raise DataError(f"{corpus.place}: a text needs at least 2 tokens, {split} has {written - 1}")
    np.save(folder / f"{split}.starts.npy", np.array(starts, np.int64))
    facts = {"dtype": np.dtype(dtype).name, "text_bytes": text_bytes, "unknown": unknown}
    (folder / f"{split}.json").write_text(json.dumps(facts))


def _open(folder: Path, split: str) -> TokenStream:
    facts = json.loads((folder / f"{split}.json").read_text())
    return TokenStream(
        opened(sorted(folder.glob(f"{split}-*.tokens")), np.dtype(facts["dtype"])),
        np.load(folder / f"{split}.starts.npy", mmap_mode="r"), facts["text_bytes"], facts["unknown"],
    )  # fmt: skip
