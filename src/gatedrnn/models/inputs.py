"""Numbers as a recurrent model reads them: in units of their deviation, with flags of what is missing; and those of
uneven series, where most may be missing, decayed by the time since they were seen.

Reference: Che et al. 2018 (arXiv:1606.01865), whose GRU-D has these inputs.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from gatedrnn.equations import Equations
from gatedrnn.kinds import kind_of
from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.ops import linear_scan
from gatedrnn.shapes import Flags, Gaps, Series

_DECAY = 0.1
"""The decay of a new feature over one gap: a value that is not seen again has gone half the way to the mean after
seven."""


class ChannelScale(nn.Module):
    """Numbers with mean 0 and deviation 1 in each channel, and a flag for each channel that may be missing.

    Mean and deviation stay float64 whatever the model is cast to, and are the configuration's alone: a value is rounded
    to the model's dtype after its mean is subtracted, which may be a billion times its deviation.
    """

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        size = config.input_size or 0
        self.flagged = list(config.flagged_channels or ())
        self.figures = config.channel_means or [0.0] * size, config.channel_deviations or [1.0] * size
        self.mean: Tensor
        self.deviation: Tensor
        self.like: Tensor
        for name in ("mean", "deviation"):
            self.register_buffer(name, torch.empty(size, dtype=torch.float64), persistent=False)
        self.register_buffer("like", torch.empty(0), persistent=False)  # of the model's dtype
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Mean and deviation as configured."""
        for buffer, figures in zip((self.mean, self.deviation), self.figures, strict=True):
            buffer.copy_(torch.tensor(figures, dtype=torch.float64))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if tensor is self.like or result.dtype == tensor.dtype else tensor.to(result.device)

        return super()._apply(moved, recurse)

    def forward(self, values: Series) -> Series:
        """(batch, time, input_size) to (batch, time, input_features); NaN becomes 0, the mean."""
        # NaN alone is a missing value: an infinity stays one, and shows in the loss.
        scaled = ((values - self.mean) / self.deviation).to(self.like.dtype).nan_to_num(0.0, torch.inf, -torch.inf)
        if not self.flagged:
            return scaled
        return torch.cat([scaled, (~values[..., self.flagged].isnan()).to(scaled.dtype)], dim=-1)


class Times(NamedTuple):
    """The times of a batch, in units of a usual gap."""

    gaps: Gaps
    """(batch, time), since the step before."""
    since: Series
    """(batch, time, features), since the step at which each feature was last seen, or since the beginning."""
    until: Series
    """(batch, time, features), until the step at which each is seen next, or until the end."""

    def read_by(self, cell: Equations, bidirectional: bool) -> Gaps | None:
        """The times that a layer of this cell takes; None for a cell without a notion of time."""
        taken = kind_of(cell).facts(cell).gaps
        if taken is not None and taken.features == self.since.shape[2]:
            return torch.cat([self.since, self.until], dim=2) if bidirectional else self.since
        return None if taken is None else self.gaps


class DecayedInputs(nn.Module):
    """The last value seen of each feature, decayed towards the mean by the time since, and whether it was seen now.

    x_t = m_t x_t + (1 - m_t) gamma_t x_last,  gamma_t = exp(-max(0, w * delta_t + b)), for values whose mean is 0.

    Args:
        features: of a step.
        with_times: whether delta is an input too, as log(1 + delta): for cells that do not read it otherwise.
    """

    def __init__(self, features: int, with_times: bool) -> None:
        super().__init__()
        self.with_times = with_times
        self.weight, self.bias = nn.Parameter(torch.empty(features)), nn.Parameter(torch.empty(features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every feature decays slowly."""
        nn.init.constant_(self.weight, _DECAY)
        nn.init.zeros_(self.bias)

    def forward(self, values: Series, seen: Tensor, gaps: Gaps) -> tuple[Series, Times]:
        """(batch, time, 2 or 3 · features), and the times.

        Args:
            values: (batch, time, features), with mean 0 over what was seen in training.
            seen: bool, the same shape; what is not seen is not read.
            gaps: (batch, time), in units of a usual gap.
        """
        unseen = (~seen).to(values.dtype)
        # Both are linear recurrences: what is kept, and a clock that begins anew after each step that was seen.
        # In plain torch: layers check the times, which must be there where kernels are compiled ahead and do not run.
        last, _ = linear_scan(unseen, torch.where(seen, values, 0), backend="reference")
        apart = gaps.unsqueeze(2).expand_as(values).to(values.dtype)
        since, _ = linear_scan(pad(unseen[:, :-1], (0, 0, 1, 0)), apart, backend="reference")
        later, next_unseen = (pad(of[:, 1:], (0, 0, 0, 1)) for of in (apart, unseen))
        until, _ = linear_scan(next_unseen, later, reverse=True, backend="reference")
        decay = torch.exp(-torch.relu(self.weight * since + self.bias))
        features = [torch.where(seen, values, decay * last), seen.to(values.dtype)]
        if self.with_times:
            features.append(torch.log1p(since))
        return torch.cat(features, dim=2), Times(gaps.to(values.dtype), since, until)


class UnevenInputs(nn.Module):
    """Values at uneven times, scaled and decayed."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        assert config.gap_unit is not None and config.input_size is not None
        self.unit = config.gap_unit
        self.scale = ChannelScale(config)
        self.decayed = DecayedInputs(config.input_size, config.times_as_inputs)

    def forward(self, values: Series, mask: Flags | None, gaps: Gaps) -> tuple[Series, Times]:
        """(batch, time, input_features), and the times.

        Args:
            values: (batch, time, input_size); NaN is what was not seen.
            mask: (batch, time), True = real step; None if all are.
            gaps: (batch, time), in the units of training.
        """
        seen = ~values.isnan()
        if mask is not None:
            seen = seen & mask.unsqueeze(2)
        features, times = self.decayed(self.scale(values), seen, gaps / self.unit)
        return features, times
