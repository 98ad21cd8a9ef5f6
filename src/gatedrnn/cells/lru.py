"""Linear recurrent unit (Orvieto et al. 2023, arXiv:2303.06349)."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, BlockKernel, BlockScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

LEAST_RADIUS, LARGEST_RADIUS, LARGEST_PHASE = 0.9, 0.999, 2 * math.pi
"""The ranges of |a| and of its angle at initialisation."""


class LRUEquations(BlockScanEquations):
    """Linear recurrent unit: no gate; each complex channel decays and turns by the same amount at every step.

    a = exp(-exp(nu) + i exp(theta)),  h = a * h + exp(gamma) * W x

    nu, theta and gamma are a weight a complex channel each. The state is complex and written in real numbers, all real
    parts and then all imaginary ones: hidden_size counts both, and the rows of W are those of Re B, then of Im B. The
    output is the state; `proj_size` gives Re(C h), with Re C and -Im C side by side in `weight_hr`. D x of the paper is
    a block's residual. One bias. Orvieto et al. 2023, arXiv:2303.06349.
    """

    name = "lru"
    projections = ("candidate",)
    diagonals = {"nu": None, "theta": None, "gamma": None}
    block_size = 2
    kernel = BlockKernel("turn")
    bias_init = "zeros"

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw |a|^2 uniform from 0.9^2 to 0.999^2 and the angle over the circle; exp(gamma) = sqrt(1 - |a|^2)."""
        squares = nn.init.uniform_(weights["nu"], LEAST_RADIUS**2, LARGEST_RADIUS**2)
        weights["gamma"].copy_(0.5 * torch.log1p(-squares))
        squares.log_().mul_(-0.5).log_()
        # 1 minus a number below 1: the logarithm of 0 is none.
        nn.init.uniform_(weights["theta"]).neg_().add_(1).mul_(LARGEST_PHASE).log_()

    def fill_as_authors(self, weights: Mapping[str, Tensor]) -> None:
        """Normal: Re B and Im B of variance 1 / (2 features), C of 1 over the complex channels; |a|^2 uniform from 0 to
        1, the rest as without."""
        for name, weight in weights.items():
            if name == "weight_ih":
                nn.init.normal_(weight, std=1 / math.sqrt(2 * weight.shape[1]))
            elif name == "weight_hr":
                nn.init.normal_(weight, std=math.sqrt(2 / weight.shape[1]))
            elif name == "weight_nu":
                least = torch.finfo(weight.dtype).eps  # neither 0 nor 1 has a logarithm of a logarithm
                squares = nn.init.uniform_(weight).clamp_(least, 1 - least)
                weights["weight_gamma"].copy_(0.5 * torch.log1p(-squares))
                squares.log_().mul_(-0.5).log_()

    def coefficients(self, *projected: Series) -> tuple[Tensor, Series]:
        candidate, nu, theta, gamma = projected
        radius, angle = torch.exp(-torch.exp(nu)), torch.exp(theta)
        cos, sin = radius * torch.cos(angle), radius * torch.sin(angle)
        turn = torch.stack([torch.stack([cos, -sin]), torch.stack([sin, cos])])
        drive = candidate.unflatten(-1, (2, -1)) * torch.exp(gamma)
        return turn.expand(*candidate.shape[:-1], 2, 2, -1), drive.flatten(-2)

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        real, imaginary = np.split(state[0], 2, axis=1)
        real_input, imaginary_input = np.split(gates[0], 2, axis=1)
        a = np.exp(-np.exp(weights["weight_nu"]) + 1j * np.exp(weights["weight_theta"]))
        h = a * (real + 1j * imaginary) + np.exp(weights["weight_gamma"]) * (real_input + 1j * imaginary_input)
        joined = np.concatenate([h.real, h.imag], axis=1)
        return joined, (joined,)


class LRU(Layer[Tensor]):
    """LRU (Orvieto et al. 2023, arXiv:2303.06349), run by a scan: complex channels with a fixed decay and angle.

    hidden_size is even: the state's real parts, then its imaginary ones. `weight_nu_l0`, `weight_theta_l0` and
    `weight_gamma_l0`, of hidden_size / 2, set decay, angle and scale.

    Example:
        >>> layer = LRU(3, 8, proj_size=4, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape), tuple(layer.weight_nu_l0.shape)
        ((2, 5, 4), (1, 2, 8), (4,))
    """

    cell_class = LRUEquations


class LRUCell(Cell[Tensor]):
    """One step of `LRU`."""

    layer_class = LRU


register(LRU, single_step=LRUCell)
