"""Dropout of models, which takes 16 random bits for an element: torch on a CPU takes 53, and half of the time goes."""

import torch
from torch import Tensor, nn

from gatedrnn.kernels.backends import values_unknown

WORD, LOWEST = 1 << 16, -(1 << 15)
"""The number of values of an int16, and the lowest of them."""


class SixteenBitDropout(nn.Dropout):
    """`torch.nn.Dropout`, from torch's generator: the rate is one of 65,536, and the same seed drops other elements.

    Example:
        >>> dropped = SixteenBitDropout(0.5)(torch.ones(1000))
        >>> sorted(set(dropped.tolist()))
        [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        kept = round(WORD * (1 - self.p))
        if not self.training or not 0 < kept < WORD or not input.is_cpu or values_unknown():
            return super().forward(input)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
        pieces = words.view(torch.int16)[: input.numel()].view(input.shape)
        return input * (pieces < kept + LOWEST).to(input.dtype).mul_(WORD / kept)
