"""Dropout masks from torch's own generator: the numbers that `Tensor.bernoulli_` would draw, faster.

torch draws on a CPU from the Mersenne Twister MT19937 (Matsumoto & Nishimura 1998), two words of 32 bits a number. Its
loop goes number by number; here a block of 624 words is made and compared at a time, which LLVM vectorises.
"""

from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from gatedrnn.kernels.cpu.compile import FAST, INLINED, compiled
from gatedrnn.kernels.cpu.threads import Kernel, recorded_rows, share_out
from gatedrnn.kernels.cpu.views import BYTES, Array, borrowed, keep_alive

WORDS, MIDDLE = 624, 397
"""Words of the state, and how far apart the words lie that make a new one."""
UPPER, LOWER, TWIST = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
FIRST_MASK, SECOND_MASK = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
HIGH_BITS = np.uint64(0x1FFFFF)
"""Bits of the first word that belong to a fraction of 53 bits."""
FRACTION = 53
LEFT, NEXT, STATE = 8, 16, 24
"""Places in the bytes of `torch.Generator.get_state`: the words left and one more, the next word, and the words."""
TRIED = 1000
"""Numbers that are compared with torch's once a process."""
BITS: dict[int, Any] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""Types of the bits, by the bytes of an element."""


def fill_dropout_mask(mask: Tensor, keep: float, kept: Tensor, generator: torch.Generator) -> None:
    """Write `kept` with probability `keep`, and else 0, into every element, and advance the generator as torch would.

    Args:
        mask: dense in memory, in any order of its axes; elements are drawn in the order of memory.
        keep: above 0 and below 1.
        kept: one number of the same dtype.
        generator: of the CPU.
    """
    state = generator.get_state()
    left, following = state[LEFT : LEFT + 4].view(torch.int32), state[NEXT : NEXT + 8].view(torch.int64)
    words = state[STATE : STATE + 8 * WORDS].view(torch.int64)
    place = np.array([left.item(), following.item()], np.int64)
    twister = words.numpy().astype(np.uint32)
    bits = BITS[mask.element_size()]
    memory: Any = BYTES.from_address(mask.data_ptr())
    threshold = np.uint64(np.ceil(np.ldexp(keep, FRACTION)))
    pattern = kept.detach().view(1).view(torch.uint8).numpy().view(bits)
    share_out(_DRAW, 1, 1, twister, place, threshold, pattern, np.ndarray(mask.numel(), bits, memory))
    words.copy_(torch.from_numpy(twister.astype(np.int64)))
    left.fill_(int(place[0]))
    following.fill_(int(place[1]))
    generator.set_state(state)


def draws_as_torch() -> bool:
    """Whether torch draws from its own generator, word by word; some of its builds call a library instead."""
    return recorded_rows() is not None or _is_as_torch()


@cache
def _is_as_torch() -> bool:
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    expected, drawn = torch.empty(TRIED).bernoulli_(0.3, generator=generators[0]), torch.empty(TRIED)
    fill_dropout_mask(drawn, 0.3, torch.ones(()), generators[1])
    return torch.equal(drawn, expected) and torch.equal(*(generator.get_state() for generator in generators))


@compiled(**FAST)
def _draw(first: int, last: int, state: Array, place: Array, threshold: Any, kept: Array, out: Array) -> None:
    """A number below the threshold, of 53 bits, keeps. `place`: how many words are left and one more, and the next."""
    memory = np.empty(WORDS, np.uint32)
    state, words, out = borrowed(state), borrowed(memory), borrowed(out)
    available, following = place[0] - 1, place[1]
    pattern, none = kept[0], kept[0] ^ kept[0]
    i, high, halved = 0, np.uint64(0), False
    while i < out.size:
        if available == 0:
            _renew(state)
            available, following = WORDS, 0
        if halved or available == 1:  # the two words of a number lie in two blocks
            word = np.uint64(_tempered(state[following]))
            following, available = following + 1, available - 1
            if halved:
                out[i] = pattern if (((high & HIGH_BITS) << np.uint64(32)) | word) < threshold else none
                i += 1
            high, halved = word, not halved
            continue
        count = min(available // 2, out.size - i)
        for k in range(2 * count):
            words[k] = _tempered(state[following + k])
        for k in range(count):
            number = ((np.uint64(words[2 * k]) & HIGH_BITS) << np.uint64(32)) | np.uint64(words[2 * k + 1])
            out[i + k] = pattern if number < threshold else none
        i, following, available = i + count, following + 2 * count, available - 2 * count
    place[0], place[1] = available + 1, following
    keep_alive(memory)


_DRAW = Kernel.of(_draw)


@numba.njit(**INLINED)
def _renew(state: Any) -> None:
    for k in range(WORDS - MIDDLE):
        state[k] = state[k + MIDDLE] ^ _twisted(state[k], state[k + 1])
    for k in range(WORDS - MIDDLE, WORDS - 1):
        state[k] = state[k + MIDDLE - WORDS] ^ _twisted(state[k], state[k + 1])
    state[WORDS - 1] = state[MIDDLE - 1] ^ _twisted(state[WORDS - 1], state[0])


@numba.njit(**INLINED)
def _twisted(word: Any, after: Any) -> Any:
    mixed = (word & UPPER) | (after & LOWER)
    return (mixed >> np.uint32(1)) ^ (TWIST if after & np.uint32(1) else np.uint32(0))


@numba.njit(**INLINED)
def _tempered(word: Any) -> Any:
    word ^= word >> np.uint32(11)
    word ^= (word << np.uint32(7)) & FIRST_MASK
    word ^= (word << np.uint32(15)) & SECOND_MASK
    return word ^ (word >> np.uint32(18))
