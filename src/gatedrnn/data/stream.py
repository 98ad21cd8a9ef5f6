"""Running text: a split as one stream of tokens, made by all cores and kept in files; its batches."""

import hashlib
import json
import logging
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import tee
from operator import index
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.batches import Batch
from gatedrnn.data.corpus import Corpus, characters_of
from gatedrnn.data.token_cache import entry
from gatedrnn.data.tokenizers import BY_LINE, encode_batch, in_batches, is_by_line, learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.machine import cores
from gatedrnn.records import Json, naming

AT_ONCE = 1 << 18
"""Characters of a batch."""
_PARALLELISM = "TOKENIZERS_PARALLELISM"
"""The variable of the environment by which the tokenizers library shares batches out; with false one thread encodes."""


def encode_long(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """The token numbers of each text as uint32.

    Batches are encoded by as many threads as there are cores, each batch by one: sharing every batch out over threads,
    as the tokenizers library does by itself, takes up to a quarter longer, since lines are short.
    """

    def encoded(batch: list[str]) -> list[np.ndarray]:
        return [np.array(ids, np.uint32) for ids in encode_batch(tokenizer, batch)]

    workers = 1 if os.environ.get(_PARALLELISM) == "false" else cores()
    with _one_thread_a_batch(), ThreadPoolExecutor(workers) as threads:
        under_way = deque[Future[list[np.ndarray]]]()
        for batch in in_batches(texts, AT_ONCE):
            under_way.append(threads.submit(encoded, batch))
            if len(under_way) > workers:  # one waits
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()


@contextmanager
def _one_thread_a_batch() -> Iterator[None]:
    before = os.environ.get(_PARALLELISM)
    os.environ[_PARALLELISM] = "false"  # which the library reads whenever it encodes
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PARALLELISM]
        else:
            os.environ[_PARALLELISM] = before


LENGTH = 1 << 26
"""Numbers of a shard; the last one has fewer."""


class ShardWriter:
    """Writes `NAME-00000.tokens` and so on into a folder; used in a `with` block."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype, length: int | None = None) -> None:
        self.folder, self.name, self.dtype, self.length = folder, name, dtype, length or LENGTH
        self.count, self.written = 0, 0
        self._next()

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, numbers: np.ndarray) -> None:
        """Append numbers."""
        numbers = numbers.astype(self.dtype)
        while len(numbers):
            if self.written == self.length:
                self._file.close()
                self._next()
            part, numbers = np.split(numbers, [self.length - self.written])
            self._file.write(part.tobytes())
            self.written += len(part)

    def _next(self) -> None:
        self._file = (self.folder / f"{self.name}-{self.count:05d}.tokens").open("wb")
        self.count, self.written = self.count + 1, 0


def opened(paths: Sequence[Path], dtype: np.dtype) -> "Shards | np.ndarray":
    """The numbers of shards; a single one is an array as it is."""
    return Shards(paths, dtype) if len(paths) > 1 else np.memmap(paths[0], dtype, "r")


class Shards:
    """The numbers of shards in their order, as a read-only array of one axis.

    Args:
        paths: all of one length but for the last.
        dtype: of their numbers.
    """

    def __init__(self, paths: Sequence[Path], dtype: np.dtype) -> None:
        self.parts = [np.memmap(path, dtype, "r") for path in paths]
        self.dtype, self.length = dtype, len(self.parts[0])
        self.shape = (sum(map(len, self.parts)),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: slice | int) -> np.ndarray:
        if not isinstance(at, slice):
            part, offset = divmod(index(at) % len(self), self.length)
            return self.parts[part][offset]
        first, last, stride = at.indices(len(self))
        if stride != 1:
            raise ValueError(f"shards are read step by step, got a stride of {stride}")
        numbers = range(first // self.length, -(-last // self.length))
        pieces = [self.parts[n][max(0, first - n * self.length) : last - n * self.length] for n in numbers]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, self.dtype), *pieces])

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)


LOG = logging.getLogger("gatedrnn")
_FORMAT = 7
"""The version of the files in the cache; another number makes everything anew."""


_TELLS_EVERY = 1 << 22
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
        "format": _FORMAT, "kind": kind, "min_count": min_count, "vocabulary_size": vocabulary_size,
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
        with naming(Path(folder, "text-00000.tokens")):
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
        if done - last >= _TELLS_EVERY:
            last = done
            LOG.info(doing, extra={"part": min(1.0, done / total)})

    return log_part


def _write(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, folder: Path, split: str) -> None:
    dtype = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    starts, written, text_bytes, unknown, ended = [1], 1, 0, 0, is_by_line(tokenizer)
    pieces, texts = tee(corpus.pieces())
    log_part = _part_logger(f"tokenising {corpus.name} ({split})", corpus)
    eos = np.array([tokenizer.eos_token_id], dtype)
    with ShardWriter(folder, split, np.dtype(dtype)) as file:
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


@dataclass(frozen=True, eq=False)
class Lanes:
    """A text cut into as many equal lanes as a batch has rows; what remains, less than one token a lane, is left out.

    Batch `index` of an epoch holds the tokens `length * index` and on of every lane, and after each of them the one to
    predict: truncated backpropagation through time. It is the same whatever the seed and the epoch.
    """

    stream: TokenStream
    length: int
    resets: bool
    """Whether batches say where documents begin, for the state to be reset there."""

    @property
    def score(self) -> str:
        """The score that counts."""
        return "perplexity"

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-self._lane(batch_size) // self.length)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        lane = self._lane(batch_size)
        first, last = index * self.length, min((index + 1) * self.length, lane)
        places = [(row * lane + first, row * lane + last) for row in range(batch_size)]
        return _batch(self.stream, places, self.resets)

    def _lane(self, lanes: int) -> int:
        """Tokens to predict in each lane."""
        steps = self.stream.predictions // lanes
        if steps < 1:
            raise DataError(
                f"--batch-size: {lanes} lanes are more than the training text has tokens, {self.stream.predictions:,}"
            )
        return steps


@dataclass(frozen=True, eq=False)
class ShuffledChunks:
    """A text cut into chunks of one length, each read once an epoch from the initial state; what remains at its end,
    less than a chunk, is left out.

    Shards come in an order drawn from (seed, epoch), and the chunks of each in one drawn from (seed, epoch, shard): the
    numbers in memory are those of two shards' chunks, and what is read lies close together on the disk.
    """

    stream: TokenStream
    length: int
    resets: bool
    """Whether batches say where documents begin, for the state to be reset there."""

    def __post_init__(self) -> None:
        if not self._chunks:
            raise DataError(
                f"--length: {self.length} tokens are more than the training text has, {self.stream.predictions:,}"
            )

    @property
    def score(self) -> str:
        """The score that counts."""
        return "perplexity"

    def steps_per_epoch(self, batch_size: int) -> int:
        return -(-self._chunks // batch_size)

    def batch(self, seed: int, epoch: int, index: int, batch_size: int) -> Batch:
        numbers = range(index * batch_size, min((index + 1) * batch_size, self._chunks))
        chunks = [self._chunk(seed, epoch, number) for number in numbers]
        return _batch(self.stream, [(n * self.length, (n + 1) * self.length) for n in chunks], self.resets)

    @property
    def _chunks(self) -> int:
        return self.stream.predictions // self.length

    def _chunk(self, seed: int, epoch: int, number: int) -> int:
        """The chunk that is read under this number."""
        a_shard = max(1, LENGTH // self.length)
        order = _permuted((seed, epoch), -(-self._chunks // a_shard))
        sizes = np.minimum(a_shard, self._chunks - order * a_shard)
        ends = np.cumsum(sizes)
        place = int(np.searchsorted(ends, number, side="right"))
        shard, size = int(order[place]), int(sizes[place])
        within = _permuted((seed, epoch, shard), size)
        return shard * a_shard + int(within[number - (int(ends[place]) - size)])


RunningText: TypeAlias = Lanes | ShuffledChunks
"""Both ways to read a text in training."""


@lru_cache(maxsize=4)
def _permuted(seeds: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(seeds).permutation(count)


def _batch(stream: TokenStream, places: Sequence[tuple[int, int]], resets: bool) -> Batch:
    """Rows from one place of a text to another, all of one length, and after each token the one to predict."""
    rows = np.stack([stream.tokens[low : high + 1] for low, high in places]).astype(np.int64)
    tokens = torch.from_numpy(rows)
    batch = {"input_ids": tokens[:, :-1], "shift_labels": tokens[:, 1:]}
    if resets:
        batch["resets"] = torch.from_numpy(np.stack([begins(stream, low, high) for low, high in places]))
    return batch


def begins(stream: TokenStream, low: int, high: int) -> np.ndarray:
    """Flags, bool, of the tokens low, …, high - 1 that precede the first of a document: there its <eos> is read."""
    flags = np.zeros(high - low, np.bool_)
    first, last = np.searchsorted(stream.starts, [low + 1, high + 1])
    flags[stream.starts[first:last] - 1 - low] = True
    return flags
