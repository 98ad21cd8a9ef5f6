"""Linear recurrent unit (Orvieto et al. 2023, arXiv:2303.06349)."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, BlockKernel, BlockScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

MIN_RADIUS, MAX_RADIUS, MAX_PHASE = 0.9, 0.999, 2 * math.pi
"""The ranges of |a| and of its angle at initialisation."""


class LRUEquations(BlockScanEquations):
    """Linear recurrent unit: no gate; each complex channel decays and turns by the same amount at every step."""

    name = "lru"
    projections = ("candidate",)
    diagonals = {"nu": None, "theta": None, "gamma": None}
    block_size = 2
    kernel = BlockKernel("turn")
    bias_init = "zeros"

    def fill_diagonals(self, weights: Mapping[str, Tensor]) -> None:
        """Draw |a|^2 uniform from 0.9^2 to 0.999^2 and the angle over the circle; exp(gamma) = sqrt(1 - |a|^2)."""
        squares = nn.init.uniform_(weights["nu"], MIN_RADIUS**2, MAX_RADIUS**2)
        # log1p, for 1 - |a|^2 loses digits where |a| is near 1; before `squares` is overwritten.
        weights["gamma"].copy_(0.5 * torch.log1p(-squares))
        # nu = log(-log |a|): exp(-exp(nu)) lies in (0, 1) for any nu, so that no training makes the state grow.
        squares.log_().mul_(-0.5).log_()
        # 1 minus a number below 1: the logarithm of 0 is none.
        nn.init.uniform_(weights["theta"]).neg_().add_(1).mul_(MAX_PHASE).log_()

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
        # A complex factor as a real 2 x 2 block: kernels have no complex numbers.
        turn = torch.stack([torch.stack([cos, -sin]), torch.stack([sin, cos])])
        drive = candidate.unflatten(-1, (2, -1)) * torch.exp(gamma)
        # Expanded without a copy: the matrix is the same at every step.
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

    Equations:
        a = exp(-exp(nu) + i exp(theta)),  h = a * h + exp(gamma) * W x

    There is no gate: each complex channel decays and turns by the same amount at every step. The state is written in
    real numbers, all real parts and then all imaginary ones; the rows of W are those of Re B, then of Im B. The output
    is the state; `proj_size` gives Re(C h), with Re C and -Im C side by side in `weight_hr_l0`. D x of the paper is a
    block's residual.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: real and imaginary parts of the state together, an even number, 2 or more.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of what a step adds is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "zeros" if None.
        longest_time_scale: None, for no gate has a bias that sets a decay.

    Weights:
        weight_ih_l0: (hidden_size, input_size), rows of the real parts, then of the imaginary ones.
        bias_ih_l0: (hidden_size,), unless `bias` is False.
        weight_nu_l0: (hidden_size / 2,), the decay exp(-exp(nu)).
        weight_theta_l0: (hidden_size / 2,), the angle exp(theta).
        weight_gamma_l0: (hidden_size / 2,), the scale exp(gamma).
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); biases are 0 ("zeros"). |a|^2 is uniform from 0.9^2 to
        0.999^2, the angle over the circle, exp(gamma) = sqrt(1 - |a|^2).
        "authors" is the scheme of the authors' code, which `gatedrnn describe` prints.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for zeros.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = LRU(3, 8, proj_size=4, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape), tuple(layer.weight_nu_l0.shape)
        ((2, 5, 4), (1, 2, 8), (4,))

    Source:
        Orvieto et al. 2023, arXiv:2303.06349.
    """

    cell_class = LRUEquations


class LRUCell(Cell[Tensor]):
    """One step of `LRU`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more, even.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `LRU`.

    Weights:
        weight_ih: (hidden_size, input_size), rows of the real parts, then of the imaginary ones.
        bias_ih: (hidden_size,), unless `bias` is False.
        weight_nu: (hidden_size / 2,), the decay exp(-exp(nu)).
        weight_theta: (hidden_size / 2,), the angle exp(theta).
        weight_gamma: (hidden_size / 2,), the scale exp(gamma).

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for zeros.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = LRUCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = LRU


register(LRU, single_step=LRUCell)
