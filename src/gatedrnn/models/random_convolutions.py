"""A linear path beside a network of series: fixed convolutions, pooled over time, and a linear map that is fitted, not
trained.

References: Dempster et al. 2021, arXiv:2012.08791 (MiniRocket, whose 84 kernels, dilations and quantiles these are);
Tan et al. 2022, arXiv:2102.00457 (MultiRocket, which reads differences too).
"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.inputs import ChannelScale
from gatedrnn.shapes import Flags, Series, Step

_TAPS = 9
"""Steps that a kernel weighs."""
KERNELS = tuple(combinations(range(_TAPS), 3))
"""The three taps of each kernel that weigh 2; the others weigh -1, so that all nine come to 0."""
_MAX_DILATIONS = 32
MAX_CHANNELS = 9
"""Channels that a kernel adds up, at most."""
_EDGE = 1e-3
"""Width of a threshold's soft edge in units of what is convolved: a share of time then moves as little as its values
do, where that of a hard edge would jump by a step with the last bit. Units are each series' own, since series of one
set may differ a millionfold."""
MIN_UNIT = 1e-12
"""The unit of a series that is 0 throughout."""
_GOLDEN = (math.sqrt(5) + 1) / 2
"""The golden ratio, whose multiples, modulo 1, spread quantiles evenly however many there are."""


def dilations_for(steps: int) -> list[int]:
    """Distances between a kernel's taps, rising: from 1 until it spans a series of that many steps.

    Example:
        >>> dilations_for(60)
        [1, 2, 3, 4, 5, 6, 7]
    """
    largest = max(1.0, (steps - 1) / (_TAPS - 1))
    # The addend keeps a power of two that rounding left just below a whole number.
    return sorted({int(2**exponent + 1e-9) for exponent in np.linspace(0, math.log2(largest), _MAX_DILATIONS)})


class RandomConvolutions(nn.Module):
    """Shares of time at which convolutions of a series, and of the differences of a single channel, lie above
    thresholds.

    A feature is the share of real steps at which a convolution is above a threshold. Nothing is trained: `fit` draws
    channels and takes thresholds from series, and what it finds are frozen parameters, which a state dict carries.

    Args:
        channels: of a step.
        features: about how many features; at least one for each kernel and dilation.
        steps: length of the longest series, which the dilations span.
    """

    def __init__(self, channels: int, features: int, steps: int) -> None:
        super().__init__()
        dilations = dilations_for(steps)
        self.whole = len(dilations)
        """Maps that read the series as they are."""
        # Differences say much of the shape of one channel; of several, more kernels over all of them say more.
        self.dilations = dilations * (2 if channels == 1 else 1)
        maps = len(self.dilations)
        thresholds = max(1, round(features / (len(KERNELS) * maps)))
        self.size = maps * len(KERNELS) * thresholds
        """Features."""
        self.channels = nn.Parameter(torch.empty(maps, len(KERNELS), channels), requires_grad=False)
        self.thresholds = nn.Parameter(torch.empty(maps, len(KERNELS), thresholds), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """No channel is read yet."""
        nn.init.zeros_(self.channels)
        nn.init.zeros_(self.thresholds)

    @torch.no_grad()
    def fit(self, series: Sequence[Series], generator: torch.Generator) -> None:
        """Draw the channels of each kernel, and take its thresholds from quantiles of its convolution of one series.

        Args:
            series: (1, time, channels) each, with mean 0.
            generator: of what is drawn.
        """
        maps, kernels, count = self.channels.shape
        drawn = torch.rand(maps, kernels, 2, generator=generator)
        most = math.log2(min(count, MAX_CHANNELS) + 1)
        # Uniform on a logarithmic scale, as MiniRocket draws the number of channels.
        numbers = (2 ** (drawn[..., :1] * most)).long().clamp(1, count)
        # The ranks of random numbers: the lowest ones are a random choice of channels without repetition.
        ranks = torch.rand(maps, kernels, count, generator=generator).argsort(-1).argsort(-1)
        self.channels.copy_(ranks < numbers)
        rows = torch.randint(len(series), (maps, kernels), generator=generator)
        quantiles = (torch.arange(1, self.size + 1, dtype=torch.float64) * _GOLDEN % 1).view(self.thresholds.shape)
        for index in range(maps):
            for row in rows[index].unique().tolist():
                chosen = rows[index] == row
                real = torch.ones_like(series[row][..., 0], dtype=torch.bool)
                view = _channels_first(series[row], real, self._of_differences(index))
                response = self._convolved(view, index)[0, chosen]
                each = zip(chosen.nonzero()[:, 0], response.double(), quantiles[index, chosen], strict=True)
                for kernel, outputs, at in each:
                    self.thresholds[index, kernel] = torch.quantile(outputs, at).to(response.dtype)

    def forward(self, series: Series, mask: Flags | None) -> Step:
        """(batch, features) of series (batch, time, channels) whose padding is 0."""
        if mask is None:
            mask = torch.ones_like(series[..., 0], dtype=torch.bool)
        inputs = [_channels_first(series, mask, differences) for differences in (False, True)]
        views, outputs = [(view, _edge_width(view, mask)) for view in inputs], []
        share = (mask / mask.sum(1, keepdim=True).clamp(min=1)).to(series.dtype).unsqueeze(2)  # of each step
        for index, thresholds in enumerate(self.thresholds):
            view, edge = views[self._of_differences(index)]
            convolved = self._convolved(view, index)
            for threshold in thresholds.unbind(1):
                above = ((convolved - threshold[:, None]) / edge + 0.5).clamp(0, 1)
                outputs.append(above @ share)
        return torch.cat(outputs, dim=1).squeeze(2)

    def _of_differences(self, index: int) -> bool:
        """Whether a map reads differences."""
        return index >= self.whole

    def _convolved(self, view: Tensor, index: int) -> Tensor:
        """(batch, kernels, time) of (batch, channels, time)."""
        taps = torch.full((len(KERNELS), _TAPS), -1.0)
        taps.scatter_(1, torch.tensor(KERNELS), 2.0)
        weight = self.channels[index].unsqueeze(2) * taps.to(view).unsqueeze(1)
        dilation = self.dilations[index]
        return conv1d(view, weight, padding=dilation * (_TAPS // 2), dilation=dilation)


def _edge_width(view: Tensor, mask: Flags) -> Tensor:
    """(batch, 1, 1): the width of a threshold's edge, by the deviation of (batch, channels, time) over time."""
    real = mask.unsqueeze(1)
    count = real.sum(2, keepdim=True).clamp(min=1)
    centred = torch.where(real, view - view.sum(2, keepdim=True) / count, 0)
    variance = (centred.square().sum(2, keepdim=True) / count).mean(1, keepdim=True)
    return (_EDGE * variance.sqrt()).clamp(min=MIN_UNIT)


def _channels_first(series: Series, mask: Flags, differences: bool) -> Tensor:
    """(batch, channels, time): the series, or each step less the one before; 0 at the first step of those and in
    padding."""
    if differences:
        values = pad(series[:, 1:] - series[:, :-1], (0, 0, 1, 0))
        real = mask & pad(mask[:, :-1], (1, 0), value=False)
    else:
        values, real = series, mask
    return torch.where(real.unsqueeze(2), values, 0).transpose(1, 2)


class ConvolutionPath(nn.Module):
    """Logits, or numbers, of a sequence by a linear map of `RandomConvolutions`, which fits once and is frozen.

    It reads each channel in units of its deviation; a missing value is the mean.
    """

    title = "random convolutions with a linear model"
    """The name in a sentence on what the network adds."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        assert config.input_size is not None and config.longest_steps is not None
        self.scale = ChannelScale(config)
        self.convolutions = RandomConvolutions(config.input_size, config.random_convolutions, config.longest_steps)
        self.weight = nn.Parameter(torch.empty(config.num_labels, self.convolutions.size), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(config.num_labels), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every label is as likely as any other."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def scaled(self, values: Series, mask: Flags | None) -> Series:
        """The values that the convolutions read, (batch, time, channels)."""
        scaled_values: Series = self.scale(values)[..., : values.shape[2]]  # without flags
        return scaled_values if mask is None else torch.where(mask.unsqueeze(2), scaled_values, 0)

    def features(self, values: Series, mask: Flags | None) -> Step:
        """(batch, features) of values (batch, time, channels) in the units of the data."""
        maps: Step = self.convolutions(self.scaled(values, mask), mask)
        return maps

    def forward(self, values: Series, mask: Flags | None) -> Step:
        """(batch, labels)."""
        return nn.functional.linear(self.features(values, mask), self.weight, self.bias)


def log_mean_probability(logits: Tensor, linear: Tensor) -> Tensor:
    """The logarithm of the mean of two distributions, each from its logits (batch, labels)."""
    both = torch.stack([logits.log_softmax(1), linear.log_softmax(1)])
    return both.logsumexp(0) - math.log(2)
