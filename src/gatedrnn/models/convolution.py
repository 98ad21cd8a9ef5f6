"""Convolutions before the cells of a series classifier, which reads the outputs of both.

Reference: Karim et al. 2018, arXiv:1709.05206 (LSTM-FCN: kernels 8, 5, 3, batch normalisation and ReLU beside an LSTM;
here the cell reads what they find, and kernels are odd, so that a step stays in the middle).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.shapes import Flags, Series

KERNELS = (9, 5, 3)
_MOMENTUM = 0.1
"""Share of a batch in the running mean and variance."""
_EPSILON = 1e-5
_MIN_DEVIATION = 1e-6
"""Added to a deviation, which is 0 where a series does not vary; series of one set may differ a millionfold."""


class StepNorm(nn.Module):
    """Batch normalisation over real steps: padding counts for nothing. In `eval()` it takes the running mean and
    variance, so that rows do not influence one another.

    These are frozen parameters, not buffers: whatever copies a model's weights copies them too.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(features)), nn.Parameter(torch.empty(features))
        self.running_mean = nn.Parameter(torch.empty(features), requires_grad=False)
        self.running_variance = nn.Parameter(torch.empty(features), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Outputs have mean 0 and variance 1."""
        for ones in (self.weight, self.running_variance):
            nn.init.ones_(ones)
        for zeros in (self.bias, self.running_mean):
            nn.init.zeros_(zeros)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Normalise (batch, features, time).

        Args:
            real: (batch, 1, time), 1 = real step, 0 = padding.
        """
        mean: Tensor = self.running_mean
        variance: Tensor = self.running_variance
        if self.training:
            count = real.sum().clamp(min=1)
            mean = (x * real).sum((0, 2)) / count
            variance = ((x - mean[:, None]).square() * real).sum((0, 2)) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), _MOMENTUM)
                self.running_variance.lerp_(variance.to(self.running_variance.dtype), _MOMENTUM)
        # One factor and one offset a channel, so that the largest tensor is read and written once.
        scale = self.weight * (variance + _EPSILON).rsqrt()
        return x * scale[:, None] + (self.bias - mean * scale)[:, None]


class Convolution(nn.Module):
    """Three convolutions over time, each with batch normalisation and ReLU; they read each channel, and a copy of it in
    units of the series' own mean and deviation."""

    def __init__(self, features: int, config: GatedRNNConfig) -> None:
        super().__init__()
        size = config.convolution_size
        self.convolutions = nn.ModuleList(
            nn.Conv1d(2 * features if index == 0 else size, size, kernel, padding=kernel // 2)
            for index, kernel in enumerate(KERNELS)
        )
        self.norms = nn.ModuleList(StepNorm(size) for _ in KERNELS)

    def forward(self, x: Series, mask: Flags | None) -> Series:
        """(batch, time, convolution_size) of (batch, time, features); 0 in padding."""
        channels = x.transpose(1, 2)
        real = torch.ones_like(channels[:, :1]) if mask is None else mask.unsqueeze(1).to(channels.dtype)
        channels = torch.cat([channels, _standardised(channels, real)], dim=1)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            # In float32 under autocast too: a variance of many steps needs its digits.
            channels = relu(norm(convolution(channels * real).float(), real)).to(x.dtype)
        return (channels * real).transpose(1, 2)


def _standardised(x: Tensor, real: Tensor) -> Tensor:
    """(batch, channels, time) less the mean of each series and channel, over its deviation."""
    count = real.sum(2, keepdim=True).clamp(min=1)
    centred = x - (x * real).sum(2, keepdim=True) / count
    variance = (centred.square() * real).sum(2, keepdim=True) / count
    # Clamped, since the root of 0 has no gradient.
    return centred / (variance.clamp(min=_MIN_DEVIATION**2).sqrt() + _MIN_DEVIATION)
