"""Linear recurrent unit (Orvieto et al. 2023, arXiv:2303.06349)."""

import math
from collections.abc import Mapping
from typing import Never

import torch
from torch import Tensor, nn

from gatedrnn.equations import BlockKernel, BlockScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series

LEAST_RADIUS, LARGEST_RADIUS, LARGEST_PHASE = 0.9, 0.999, 2 * math.pi
"""Of the decays, at the beginning of training."""


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
        """|a|^2 uniform from 0.9^2 to 0.999^2, the angle uniform over the circle, and exp(gamma) = sqrt(1 - |a|^2)."""
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


@documented
class LRU(RecurrentLayer[Tensor]):
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

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


@documented
class LRUCell(SingleStep[Tensor]):
    """One step of `LRU`."""

    layer_class = LRU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


register(LRU, single_step=LRUCell)
