"""The initialisation of ParaGRU and ParaLSTM (Danieli et al. 2025, arXiv:2510.21450)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gatedrnn.equations import ElementwiseLoopEquations


class ParaEquations(ElementwiseLoopEquations):
    """Gates that read the state through diagonal weights; the first of them sets the decay."""

    bias_init = "time-scales"

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw weights from a normal distribution of variance 4 / (5 hidden_size)."""
        for weight in weights.values():
            nn.init.normal_(weight, std=math.sqrt(4 / (5 * len(weight))))

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """W Xavier uniform, gate by gate; the first gate's bias falls evenly from 0 to -1, other biases are 0."""
        for name, weight in weights.items():
            blocks = weight.chunk(len(self.projections))
            if name == "weight_ih":
                for block in blocks:
                    nn.init.xavier_uniform_(block)
            elif name == "bias_ih":
                nn.init.zeros_(weight)
                blocks[0].copy_(-torch.linspace(0, 1, len(blocks[0]), dtype=weight.dtype, device=weight.device))
