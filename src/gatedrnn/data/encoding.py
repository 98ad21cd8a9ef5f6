"""Running text as token numbers: in this process at first, and in one process a core where the text is long."""

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.tokenizers import encode_stream

LONG = 1 << 25
"""Characters after which processes are worth their start."""
AT_ONCE = 1 << 20
"""Characters that a process is handed together."""
AHEAD = 2
"""Parts that wait for each process: what is in memory at a time."""
_tokenizer: PreTrainedTokenizerFast | None = None  # a worker process's own


def encode_long(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """As `encode_stream`, token numbers of each text as uint32."""
    left, taken = iter(texts), 0

    def begin() -> Iterator[str]:
        nonlocal taken
        for text in left:
            taken += len(text)
            yield text
            if taken >= LONG:
                return

    for ids in encode_stream(tokenizer, begin()):
        yield np.array(ids, np.uint32)
    processes = _processes()
    if taken < LONG or processes == 1:
        yield from (np.array(ids, np.uint32) for ids in encode_stream(tokenizer, left))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the tokenizer's threads half-way
    words = (tokenizer.backend_tokenizer.to_str(), dict(tokenizer.init_kwargs), tokenizer.eos_token)
    with ProcessPoolExecutor(processes, context, _begin, words) as pool:
        under_way = deque[Future[list[np.ndarray]]]()
        try:
            for part in _parts(left):
                under_way.append(pool.submit(_encode, part))
                if len(under_way) > AHEAD * processes:
                    yield from under_way.popleft().result()
            while under_way:
                yield from under_way.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _processes() -> int:
    """One a core; one alone where the tokenizer's own switch says so."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("0", "false", "no", "off"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parts(texts: Iterator[str]) -> Iterator[list[str]]:
    part, characters = list[str](), 0
    for text in texts:
        part.append(text)
        characters += len(text)
        if characters >= AT_ONCE:
            yield part
            part, characters = [], 0
    if part:
        yield part


def _begin(backend: str, words: dict[str, object], eos: str) -> None:
    global _tokenizer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    own = {name: words[name] for name in ("stream_kind", "unk_token")}
    _tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(backend), eos_token=eos, **own)


def _encode(texts: list[str]) -> list[np.ndarray]:
    assert _tokenizer is not None
    return [np.array(ids, np.uint32) for ids in encode_stream(_tokenizer, texts)]
