"""Simple smoothers of a series at each of its steps: its seasons, levels and trends, each from the past alone.

A value less its seasons is smoothed by a fixed set of filters. All of it can be continued: what `smooth` returns for
the steps of a window is what it returns for the same steps one at a time.

References: Hyndman and Athanasopoulos (2021), Forecasting: Principles and Practice, 3rd edition, chapters 3 and 8;
Assimakopoulos and Nikolopoulos (2000) for half the trend beside exponential smoothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from gatedrnn.kernels.backends import values_unknown
from gatedrnn.models.constants import constant
from gatedrnn.models.season_means import SEASON_STEPS, TINY, SeasonPast, season_of

_LEVEL_WEIGHTS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Weights of the newest value in simple exponential smoothing; with 1 the last value."""
_HALF_SLOPE = _LEVEL_WEIGHTS[:-1]
"""Weights of the smoothers with half the slope of all values in the memory added: the Theta method."""
_LINE_WEIGHTS = (0.5, 0.65, 0.8, 0.9, 0.95)
"""Weights of a line by least squares, by which a value counts less than the next one; its slope is damped."""
_DAMPING = 0.85
SMOOTHERS = len(_LEVEL_WEIGHTS) + len(_HALF_SLOPE) + 1 + len(_LINE_WEIGHTS)
"""The one is drift: the last value, and the mean change of the memory."""
MEMORY, ERROR_STEPS = 120, 12
"""Steps that the filters look back; and those over which they are compared."""
_CHANGE_DECAY = 0.97
"""The factor by which a change counts less than the next one."""
MIN_CHANGE = 1e-4
"""The unit of a series that does not change, in those of its window."""
_MAX_LAGS = 26
FARTHEST = 1e18
"""The distance that features tell from larger ones, in mean changes: its square is a float32."""


@dataclass
class SmoothingPast:
    """The past of some series up to a step: all that later steps depend on, in a size that does not grow."""

    begun: Tensor
    """(batch, 1): 1 where there was a value."""
    filled: Tensor
    """(batch, kept): the last values, a missing one as a season before; NaN before the first."""
    seasons: list[SeasonPast]
    deseasonalised: Tensor
    """(batch, MEMORY - 1)."""
    there: Tensor
    """(batch, MEMORY - 1): 1 from the first value on."""
    errors: Tensor
    """(batch, SMOOTHERS + periods, ERROR_STEPS - 1): how far each smoother, and each season, was off a step ahead."""
    expected: Tensor
    """(batch, SMOOTHERS + periods): what each says of the next step."""

    @classmethod
    def empty(cls, like: Tensor, periods: list[int], kept: int) -> "SmoothingPast":
        """The past before the first step of series such as (batch, time).

        Args:
            periods: the seasons.
            kept: last values that are kept as they are.
        """

        def zeros(*size: int) -> Tensor:
            return like.new_zeros(like.shape[0], *size)

        seasons = [SeasonPast.empty(like, season) for season in periods if season > 1]
        kinds = SMOOTHERS + len(periods)
        return cls(
            zeros(1), zeros(max(kept, *periods)) + torch.nan, seasons,
            zeros(MEMORY - 1), zeros(MEMORY - 1), zeros(kinds, ERROR_STEPS - 1), zeros(kinds),
        )  # fmt: skip

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, each (batch, size)."""
        carried = {
            f"past_{name}": tensor.flatten(1) for name, tensor in vars(self).items() if isinstance(tensor, Tensor)
        }
        for number, season in enumerate(self.seasons):
            carried |= {f"season_{number}_{name}": tensor.flatten(1) for name, tensor in vars(season).items()}
        return carried

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> "SmoothingPast":
        """The reverse of `tensors`, among others."""
        parts = {name.removeprefix("past_"): tensor for name, tensor in tensors.items() if name.startswith("past_")}
        seasons = dict[str, dict[str, Tensor]]()
        for name, tensor in tensors.items():
            if name.startswith("season_"):
                _, number, field = name.split("_", 2)
                seasons.setdefault(number, {})[field] = tensor
                if field == "sums":
                    seasons[number][field] = tensor.unflatten(1, (3, -1))
        parts["errors"] = parts["errors"].unflatten(1, (-1, ERROR_STEPS - 1))
        return cls(**parts, seasons=[SeasonPast(**fields) for fields in seasons.values()])


@dataclass
class Smoothed:
    """The output of the smoothers after each of some steps."""

    features: Tensor
    """(batch, time, features_of(…))."""
    levels: Tensor
    """(batch, origins, SMOOTHERS), of the last steps."""
    slopes: Tensor
    """(batch, origins, SMOOTHERS): of a step."""
    seasons: Tensor
    """(batch, origins, horizon): what the seasons add to the steps ahead."""
    repeated: Tensor
    """(batch, origins, periods, horizon): the values of the last season, again and again."""
    errors: Tensor
    """(batch, origins, SMOOTHERS + periods): the logarithm of the recent error of each, a step ahead, in units of their
    mean, from a tenth on."""
    change: Tensor
    """(batch, time): mean distance of a value from the one before, seasons taken out: the series' own unit."""
    recent: Tensor
    """(batch, origins, kept): the last values less the last of them."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that a forecast from the last step reads, by name, each (batch, size)."""
        read = {name: tensor[:, -1:].flatten(1) for name, tensor in vars(self).items() if name != "features"}
        return {f"smoothed_{name}": tensor for name, tensor in read.items()}

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> "Smoothed":
        """The reverse of `tensors`, among others; empty where there are none."""
        nothing = torch.empty(0)
        parts = {name: tensors.get(f"smoothed_{name}", nothing) for name in cls.__dataclass_fields__}
        if parts["change"].numel():
            parts = {name: tensor if name == "change" else tensor.unsqueeze(1) for name, tensor in parts.items()}
            parts["repeated"] = parts["repeated"].unflatten(2, (-1, parts["seasons"].shape[2]))
        return cls(**parts)

    def ahead(self) -> Tensor:
        """(batch, origins, horizon, SMOOTHERS + periods): the forecast of each smoother, and of each season."""
        batch, origins, _ = self.seasons.shape
        return smoother_forecasts(*self.forecast_terms()).unflatten(0, (batch, origins)).transpose(2, 3)

    def forecast_terms(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the arguments of `smoother_forecasts`, with one forecast an origin."""
        distances = constant(_slope_distances, self.levels, self.seasons.shape[2])
        levels, slopes, seasons, repeated = (
            each.flatten(0, 1) for each in (self.levels, self.slopes, self.seasons, self.repeated)
        )
        return levels, slopes, distances, seasons, repeated


def smoother_forecasts(levels: Tensor, slopes: Tensor, distances: Tensor, seasons: Tensor, repeated: Tensor) -> Tensor:
    """Return the forecast of each smoother, and of each period, (forecasts, smoothers + periods, horizon).

    Args:
        levels, slopes: (forecasts, smoothers).
        distances: how many slopes lie between a level and a step ahead, (smoothers, horizon).
        seasons: what the seasons add, (forecasts, horizon).
        repeated: the last values of each period again, (forecasts, periods, horizon).
    """
    ahead = torch.addcmul(levels.unsqueeze(2) + seasons.unsqueeze(1), slopes.unsqueeze(2), distances)
    return torch.cat([ahead, repeated], dim=1)


def lags_of(periods: list[int]) -> int:
    """The number of last values that are inputs."""
    return min(periods[0] + 2, _MAX_LAGS)


def features_of(periods: list[int], horizon: int) -> int:
    """Numbers that are read at each step."""
    seasons = sum(season > 1 for season in periods)
    return lags_of(periods) - 1 + 3 * SMOOTHERS + len(periods) + seasons * min(horizon, SEASON_STEPS) + 5


def smooth(
    units: Tensor, periods: list[int], horizon: int, past: SmoothingPast, origins: int, kept: int = 0
) -> tuple[Smoothed, SmoothingPast]:  # fmt: skip
    """Read further steps of some series.

    Args:
        units: (batch, time), float32, in any unit; NaN where a value is missing, and before a series begins.
        periods: seasons in steps, the shortest first; 1 for none.
        horizon: steps ahead.
        past: what was before.
        origins: of how many of the last steps forecasts are wanted.
        kept: last values in `Smoothed.recent`.
    """
    time, size = units.shape[1], past.filled.shape[1]
    seen = (~units.isnan()).to(units.dtype)
    begun = (seen.cumsum(1) + past.begun).clamp(max=1)
    joined = torch.cat([past.filled, filled(units, past.filled[:, -periods[0] :])], dim=1)
    values = unadjusted = joined[:, size:].nan_to_num()
    seasons: list[SeasonPast] = []
    ahead: list[Tensor] = []
    inputs: list[Tensor] = []
    of_seasons = [season for season in periods if season > 1]
    for season, season_past in zip(of_seasons, past.seasons, strict=True):
        now, later, first, season_past = season_of(values, begun, season, season_past, horizon, origins)
        values = values - now
        seasons.append(season_past)
        ahead.append(later)
        inputs.append(first)
    level = _Filters(torch.cat([past.deseasonalised, values * begun], 1), torch.cat([past.there, begun], 1))
    next_step, last = level.ahead(1), level.ahead(horizon)
    next_ones = torch.cat([next_step, *(repeated(joined, season, 1, time) for season in periods)], dim=2).nan_to_num()
    expected = torch.cat([past.expected.unsqueeze(1), next_ones], dim=1)[:, :-1]
    targets = torch.cat(
        [values.unsqueeze(2).expand_as(next_step), unadjusted.unsqueeze(2).expand(-1, -1, len(periods))], dim=2
    )
    step_errors = (expected - targets).abs() * level.there[:, MEMORY - 2 : -1].unsqueeze(2)
    errors = torch.cat([past.errors, step_errors.transpose(1, 2)], dim=2)
    relative = _log_relative_errors(errors)
    now, change, lags = values.unsqueeze(2), level.change.unsqueeze(2), lags_of(periods)
    before, known = (
        of[:, MEMORY - lags : -1].unfold(1, lags - 1, 1) for of in (level.values, level.there)
    )  # fmt: skip
    distances = torch.cat([(before - now) * known, next_step - now, last - now, *inputs, level.slopes_read], dim=2)
    split, compressed = lags - 1 + 2 * SMOOTHERS, _asinh(distances / change)
    features = [
        compressed[..., :split], relative, compressed[..., split:-2], level.count.clamp(min=1).log().unsqueeze(2) / 3,
        change / (level.spread.unsqueeze(2) + change), compressed[..., -2:], (1 - seen).unsqueeze(2),
    ]  # fmt: skip
    smoothed = Smoothed(
        torch.cat(features, dim=2), level.levels[:, -origins:], level.slopes[:, -origins:],
        sum(ahead[1:], ahead[0]) if ahead else values.new_zeros(values.shape[0], origins, horizon),
        torch.stack([repeated(joined, season, horizon, origins) for season in periods], 2).nan_to_num(),
        relative[:, -origins:], level.change, _recent_differences(joined, kept, origins),
    )  # fmt: skip
    return smoothed, SmoothingPast(
        begun[:, -1:], joined[:, time:], seasons, level.values[:, time:], level.there[:, time:], errors[:, :, time:],
        next_ones[:, -1],
    )  # fmt: skip


def filled(values: Tensor, past: Tensor) -> Tensor:
    """Values (batch, time) in which a missing one is that of a season before; or, where there is none, the last one;
    NaN before the first.

    Args:
        values: NaN where one is missing.
        past: (batch, season): those before them, filled; NaN where there are none.
    """
    if not values_unknown() and not values.isnan().any():
        return values
    season, steps = past.shape[1], past.shape[1] + values.shape[1]
    padded = pad(torch.cat([past, values], 1), (0, -steps % season), value=torch.nan).view(values.shape[0], -1, season)
    cycles = torch.arange(padded.shape[1], device=values.device)[:, None]
    latest = _running_maximum(torch.where(padded.isnan(), -1, cycles))
    by_season = padded.gather(1, latest.clamp(min=0)).flatten(1)[:, :steps]
    last_known = torch.where(by_season.isnan(), -1, torch.arange(steps, device=values.device))
    return by_season.gather(1, _running_maximum(last_known).clamp(min=0))[:, season:]


def _running_maximum(numbers: Tensor) -> Tensor:
    """Along axis 1 of (batch, count, …). ONNX has no operator for it, so that a graph compares all pairs."""
    if not torch.compiler.is_exporting():
        return numbers.cummax(1).values
    count = numbers.shape[1]
    later = torch.ones(count, count, dtype=torch.bool, device=numbers.device).triu(1)
    return numbers.unsqueeze(1).masked_fill(later.view(1, count, count, *[1] * (numbers.ndim - 2)), -1).amax(2)


class _Filters:
    """Levels and slopes of values without their seasons, after each step.

    Args:
        values: (batch, MEMORY - 1 + time); 0 before the first.
        there: the same shape; 1 from the first value on.
    """

    def __init__(self, values: Tensor, there: Tensor) -> None:
        self.values, self.there = values, there
        # Values and counts in one product.
        both, batch = _filtered(torch.cat([values, there]), constant(_memory_weights, values)), values.shape[0]
        of_values, of_there = both[:batch], both[batch:]
        count, kinds, halved = len(_LINE_WEIGHTS) + 1, len(_LEVEL_WEIGHTS), len(_HALF_SLOPE)
        level = of_values[..., :kinds] / of_there[..., :kinds].clamp(min=TINY)
        y0, y1, _ = of_values[..., kinds:].split(count, 2)
        s0, s1, s2 = of_there[..., kinds:].split(count, 2)
        spread = s0 * s2 - s1.square()
        slope = torch.where(spread > TINY, (s0 * y1 - s1 * y0) / spread.clamp(min=TINY), 0.0)
        line = (y0 - slope * s1) / s0.clamp(min=TINY)
        moved, last = (values[:, 1:] - values[:, :-1]) * there[:, :-1], values[:, MEMORY - 1 :].unsqueeze(2)
        every, each, decay = (constant(make, values) for make in (_every_value, _every_change, _change_weights))
        moves = s0[..., -1:] - there[:, MEMORY - 1 :].unsqueeze(2)
        drift = _filtered(moved, each) / moves.clamp(min=1)
        self.levels = torch.cat([level, level[..., :halved], last, line[..., :-1]], 2)
        """(batch, time, SMOOTHERS)."""
        half = (slope[..., -1:] / 2).expand(-1, -1, halved)
        self.slopes = torch.cat([torch.zeros_like(level), half, drift, slope[..., :-1]], 2)
        self.slopes_read = slope[..., -2:]
        """(batch, time, 2): of the longest memories."""
        self.count = s0[..., -1]
        """(batch, time): steps in the memory."""
        total, seen = y0[..., -1], self.count.clamp(min=1)
        self.spread = (_filtered(values.square(), every)[..., 0] / seen - (total / seen).square()).clamp(min=0).sqrt()
        """(batch, time): deviation of the values in the memory."""
        changed = _filtered(moved.abs(), decay) / _filtered(there[:, :-1], decay).clamp(min=TINY)
        self.change = changed[..., 0].clamp(min=MIN_CHANGE)
        """(batch, time)."""

    def ahead(self, step: int) -> Tensor:
        """(batch, time, SMOOTHERS): what each says of the step so far ahead."""
        return self.levels + self.slopes * constant(_slope_distances, self.levels, step)[:, -1]


def _asinh(x: Tensor) -> Tensor:
    """The inverse hyperbolic sine, which grows as a logarithm on either side.

    torch's own takes six times as long for a window, and is one call of a stream's step and one node of a graph.
    """
    if torch.compiler.is_exporting() or x.shape[1] == 1:
        return torch.asinh(x)
    size = x.abs().clamp(max=FARTHEST)
    return torch.copysign(torch.log1p(size + size * (size / (1 + (size * size + 1).sqrt()))), x)


def _filtered(values: Tensor, weights: Tensor) -> Tensor:
    """(batch, time) by (memory, kinds) to (batch, time - memory + 1, kinds): after each step, weighted sums of the
    memory."""
    memory, kinds = weights.shape
    if torch.compiler.is_exporting() or values.shape[1] == memory:  # a single step, of a stream
        return values.unfold(1, memory, 1) @ weights
    if kinds == 1:
        return (values.unfold(1, memory, 1).reshape(-1, memory) @ weights).view(len(values), -1, 1)
    return conv1d(values.unsqueeze(1), weights.t().unsqueeze(1)).transpose(1, 2)


def _memory_weights(device: torch.device) -> Tensor:
    """(MEMORY, kinds), the oldest value first: of each level, and of each line, times its age to the power of 0, of 1
    (negative) and of 2; the last line weighs all values alike."""
    # Powers in float64, rounded once: age^2 times a small weight loses digits in float32.
    age = torch.arange(MEMORY, dtype=torch.float64, device=device)
    levels = torch.stack([(1 - weight) ** age for weight in _LEVEL_WEIGHTS])
    lines = torch.stack([weight**age for weight in (*_LINE_WEIGHTS, 1.0)])
    return torch.cat([levels, lines, -age * lines, age**2 * lines]).float().flip(1).t()


def _change_weights(device: torch.device) -> Tensor:
    """(MEMORY - 1, 1): of the changes from one value to the next, the oldest first."""
    age = torch.arange(MEMORY - 1, dtype=torch.float64, device=device)
    return (_CHANGE_DECAY**age).float().flip(0).unsqueeze(1)


def _every_value(device: torch.device) -> Tensor:
    """(MEMORY, 1): of values that count alike."""
    return torch.ones(MEMORY, 1, device=device)


def _every_change(device: torch.device) -> Tensor:
    """(MEMORY - 1, 1): of changes that count alike."""
    return torch.ones(MEMORY - 1, 1, device=device)


def _slope_distances(device: torch.device, horizon: int) -> Tensor:
    """(SMOOTHERS, horizon): how many slopes lie between a level and a step ahead."""
    steps = torch.arange(1, horizon + 1, dtype=torch.float64, device=device)[None]
    damped = _DAMPING * (1 - _DAMPING**steps) / (1 - _DAMPING)
    straight, bent = SMOOTHERS - len(_LINE_WEIGHTS), len(_LINE_WEIGHTS)
    return torch.cat([steps.expand(straight, -1), damped.expand(bent, -1)]).float()


def _log_relative_errors(errors: Tensor) -> Tensor:
    """(batch, time, smoothers + periods): the logarithm of each one's recent error in units of their mean, above -2.3.

    Args:
        errors: (batch, smoothers + periods, ERROR_STEPS - 1 + time).
    """
    steps = errors.shape[2] - ERROR_STEPS + 1
    # Twelve by way of two and four: four additions a step instead of eleven.
    pairs = errors[..., 1:] + errors[..., :-1]
    fours = pairs[..., 2:] + pairs[..., :-2]
    twelve = fours[..., :steps] + fours[..., 4 : steps + 4] + fours[..., 8 : steps + 8]
    recent = (twelve / ERROR_STEPS).transpose(1, 2) + TINY
    return (recent / recent.mean(2, keepdim=True) + 0.1).log()


def repeated(values: Tensor, season: int, horizon: int, origins: int) -> Tensor:
    """(batch, origins, horizon): the last season before each of the last steps, again and again; where a phase of it
    was not seen, the last value.

    Args:
        values: (batch, season + origins - 1 or more), without gaps; NaN before the first.
    """
    count = min(season, horizon)
    season_before = values[:, values.shape[1] - season - origins + 1 :].unfold(1, season, 1)[..., :count]
    season_before = torch.where(season_before.isnan(), values[:, -origins:, None], season_before)
    return season_before if count == horizon else torch.cat([season_before] * -(-horizon // count), 2)[..., :horizon]


def _recent_differences(values: Tensor, kept: int, origins: int) -> Tensor:
    """(batch, origins, kept): the last values before each of the last steps, less the last of them."""
    if not kept:
        return values.new_zeros(values.shape[0], origins, 0)
    recent = values[:, values.shape[1] - kept - origins + 1 :].unfold(1, kept, 1).nan_to_num()
    return recent - recent[..., -1:]
