"""Running text as token numbers, as fast as all cores make it.

The tokenizer shares each batch out over its threads. Two batches are under way at a time, so that its threads have work
while the numbers of another batch become an array.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.tokenizers import encode_batch, in_batches

AT_ONCE = 1 << 20
"""Characters of a batch."""
UNDER_WAY = 2
"""Batches; one more waits."""


def encode_long(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """`encode_stream`, with the token numbers of each text as uint32."""

    def encoded(batch: list[str]) -> list[np.ndarray]:
        return [np.array(ids, np.uint32) for ids in encode_batch(tokenizer, batch)]

    with ThreadPoolExecutor(UNDER_WAY) as threads:
        under_way = deque[Future[list[np.ndarray]]]()
        for batch in in_batches(texts, AT_ONCE):
            under_way.append(threads.submit(encoded, batch))
            if len(under_way) > UNDER_WAY:
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()
