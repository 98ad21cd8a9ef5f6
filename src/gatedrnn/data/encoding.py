"""Running text as token numbers, as fast as all cores make it.

Batches are encoded by as many threads as there are cores, each batch by one: sharing every batch out over threads, as
the tokenizers library does by itself, takes up to a quarter longer, since lines are short.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.tokenizers import encode_batch, in_batches
from gatedrnn.records import cores

AT_ONCE = 1 << 18
"""Characters of a batch."""
PARALLELISM = "TOKENIZERS_PARALLELISM"
"""The variable of the environment by which the tokenizers library shares batches out; with false one thread encodes."""


def encode_long(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """`encode_stream`, with the token numbers of each text as uint32."""

    def encoded(batch: list[str]) -> list[np.ndarray]:
        return [np.array(ids, np.uint32) for ids in encode_batch(tokenizer, batch)]

    workers = 1 if os.environ.get(PARALLELISM) == "false" else cores()
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
    before = os.environ.get(PARALLELISM)
    os.environ[PARALLELISM] = "false"  # which the library reads whenever it encodes
    try:
        yield
    finally:
        if before is None:
            del os.environ[PARALLELISM]
        else:
            os.environ[PARALLELISM] = before
