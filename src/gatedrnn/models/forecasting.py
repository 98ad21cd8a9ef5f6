"""Forecasts: quantiles of the next steps of a series from those before, in a window or in a stream."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import Scale, last_seasons, last_steps, repeated
from gatedrnn.models.modeling import GatedRNNModel, GatedRNNPreTrainedModel, KernelDropout
from gatedrnn.shapes import Flags, Hidden

LEAST_UNIT = 0.01
"""Of the error that the loss is measured in, in units of a window's deviation."""
SINGLE = 32
"""Values one by one that a stream takes in together, at most."""
NARROW = -1.0
"""Where a new model's intervals begin: softplus(-1) deviations, 0.31, on either side of the median."""


@dataclass
class ForecastOutput(ModelOutput):
    """What `GatedRNNForForecasting` returns."""

    loss: Tensor | None = None
    """Mean pinball loss over quantiles and labels, in units of each window's seasonal naive error."""
    quantiles: Tensor | None = None
    """(batch, horizon, quantiles), float64, in the units of the series; (batch, origins, horizon, quantiles) for
    several origins. NaN for a series without any value in its context."""


@dataclass
class SingleValues:
    """What values of a stream that come one by one are read with, where a series has no covariates."""

    mean: float
    deviation: float
    """Of the first series, as in its `Scale`."""
    of_units: Tensor
    """(1, embedding_size): what the embedding adds for a value of 1."""
    of_differences: Tensor
    """(seasons, embedding_size): what it adds for a difference of 1 to a season before."""
    bias: Tensor
    """(embedding_size,)."""
    ahead: Tensor
    """(steps, batch, embedding_size): all but the value's own part of the embeddings of the next steps."""
    weights: tuple[Tensor, ...]
    """Of the next steps, each (1, embedding_size): what a value of 1 adds there, in itself and in the differences."""
    states: list[Hidden | None]
    """Of the model's parts, after the last value."""


@dataclass
class ForecastState:
    """A stream of series between two calls; its size does not depend on how many values went into it."""

    cache: GatedRNNCache
    """Without what the values in `single` have changed."""
    scale: Scale
    """Of the context that it began with, or of the one at the last `renormalise`."""
    hidden: Tensor
    """(batch, features), after the last value."""
    seasons: list[Tensor]
    """For each season, (batch, season): its last values in units of the window, a missing one as a season before; NaN
    for steps before the first."""
    before: Tensor
    """(batch, linear_size): the last values in units of the window."""
    recent: dict[str, Tensor | None]
    """The last `context` steps, as `start` takes them, for `renormalise`."""
    single: list[Tensor] = field(default_factory=list)
    """The last values that came one by one, each (batch, 1): `hidden` has read them, all else takes them in when it is
    needed, or when there are enough of them."""
    one_by_one: SingleValues | None = None


def _begun(units: Tensor) -> Tensor | None:
    """The mask of the steps from a series' first value on; None where all series begin with the window, which a graph
    takes for granted: torch's kernels sort rows by their length, and ONNX cannot."""
    if torch.compiler.is_exporting():
        return None
    begun = (~units.isnan()).cummax(1).values
    return None if begun.all() else begun


class ZeroLinear(nn.Linear):
    """A linear map that begins as 0."""

    def reset_parameters(self) -> None:
        """Zeros."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


class ForecastHead(nn.Module):
    """From a state to the quantiles of every step of the horizon, in units of the window.

    They are the median and, on either side of it, distances that add up, so that no two of them cross. A new head adds
    nothing to the season that it is given: its median is the seasonal naive forecast.
    """

    def __init__(self, config: GatedRNNForecastConfig, size: int) -> None:
        super().__init__()
        self.horizon, self.middle, levels = config.horizon, config.levels.index(0.5), len(config.levels)
        self.mixture = ZeroLinear(size, self.horizon * len(config.periods)) if len(config.periods) > 1 else None
        if config.known_size:
            self.ahead: nn.Linear | None = nn.Linear(size, self.horizon * config.future_size)
            self.known: nn.Linear | None = nn.Linear(config.known_size, config.future_size, bias=False)
            self.quantiles = ZeroLinear(config.future_size, levels)
        else:
            self.ahead = self.known = None
            self.quantiles = ZeroLinear(size, self.horizon * levels)
        self.linear = ZeroLinear(config.linear_size, self.horizon, bias=False) if config.linear_size else None

    def forward(self, states: Tensor, seasons: Tensor, recent: Tensor, known: Tensor | None) -> Tensor:
        """Quantiles (batch, origins, horizon, quantiles).

        Args:
            states: (batch, origins, features).
            seasons: (batch, origins, horizon, seasons): the naive forecast of each season.
            recent: (batch, origins, linear_size): the values before each origin.
            known: (batch, origins, horizon, known_size); None where there are none.
        """
        shape = (*states.shape[:2], self.horizon, -1)
        if self.ahead is None or self.known is None:
            found = self.quantiles(states).view(shape)
        else:
            assert known is not None
            found = self.quantiles(
                nn.functional.gelu(self.ahead(states).view(shape) + self.known(known.to(states.dtype)))
            )
        if self.mixture is None:
            naive = seasons[..., 0]
        else:
            naive = (seasons * self.mixture(states).view(shape).softmax(-1)).sum(-1)
        if self.linear is not None:
            naive = naive + self.linear(recent.to(states.dtype))
        middle = naive.unsqueeze(-1) + found[..., self.middle : self.middle + 1]
        distances = nn.functional.softplus(found + NARROW)
        above = middle + distances[..., self.middle + 1 :].cumsum(-1)
        below = middle - distances[..., : self.middle].flip(-1).cumsum(-1).flip(-1)
        return torch.cat([below, middle, above], dim=-1)


class GatedRNNForForecasting(GatedRNNPreTrainedModel):
    """Quantiles of the next `horizon` values of series.

    A window is read in units of its own mean and deviation, which come from the context alone; the forecast is given
    back in the units of the series. `forward` reads whole windows. `start`, `update` and `forecast` are the same model
    as a stream, in constant time and memory a value, with the mean and deviation that it started with until
    `renormalise`.

    Example:
        >>> config = GatedRNNForecastConfig(cell="mingru", input_size=2, flagged_channels=[0], horizon=3, seasons=[4])
        >>> model = GatedRNNForForecasting(config).eval()
        >>> model.predict(torch.tensor([[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]]))[0, :, 1]  # a new one repeats
        tensor([1., 2., 3.], dtype=torch.float64)
    """

    config: GatedRNNForecastConfig
    config_class = GatedRNNForecastConfig

    def __init__(self, config: GatedRNNForecastConfig) -> None:
        config.validate_forecast()  # once more: a field set after the configuration was made is not checked there
        super().__init__(config)
        self.model = GatedRNNModel(config)
        self.head_dropout = KernelDropout(config.head_dropout)
        self.head = ForecastHead(config, self.model.output_size)
        self.post_init()

    def forward(
        self, past_values: Tensor, past_mask: Flags | None = None, known_covariates: Tensor | None = None,
        static: Tensor | None = None, labels: Tensor | None = None, past_covariates: Tensor | None = None,
        origins: int = 1, deviation: Tensor | None = None,
    ) -> ForecastOutput:  # fmt: skip
        """Quantiles of the steps after a window, and the loss if they are given.

        Args:
            past_values: (batch, time), of any length; NaN where a value is missing, and before a series begins.
            past_mask: bool, (batch, time), True where a value is there; None where NaN alone says so.
            known_covariates: (batch, time + horizon, known_size).
            static: (batch, static_size).
            labels: (batch, horizon), the values after the window; NaN where there is none.
            past_covariates: (batch, time, past_size).
            origins: how many forecasts are made, one after each of the last so many steps; their labels but the last
                are those of `past_values`. The context, from which mean and deviation come, ends with the first.
            deviation: (batch,), of each series as a whole: what a context of equal values is measured in, which says
                nothing of its unit; None for the configuration's `usual_deviation`.

        Raises:
            ValueError: covariates that the model needs are missing or of another shape, or there is no step.
        """
        values = past_values.double()
        if past_mask is not None:
            values = values.masked_fill(~past_mask, float("nan"))
        self._check(values, known_covariates, static, past_covariates, known_covariates is not None)
        context = values[:, : values.shape[1] - origins + 1]
        scale = Scale.of(context, self._usual(deviation))
        units = scale.units(values)
        seasons = [last_seasons(units, season) for season in self.config.periods]
        features = self._features(units, seasons, known_covariates, past_covariates, static)
        states = self.model(input_values=features, attention_mask=_begun(units)).last_hidden_state[:, -origins:]
        ahead = None if known_covariates is None else self._ahead(known_covariates, origins)
        recent = last_steps(seasons[0], self.config.linear_size, origins)
        found = self.head(self.head_dropout(states), self._naive(seasons, origins), recent, ahead)
        loss = None
        if labels is not None:
            future = torch.cat([values[:, values.shape[1] - origins + 1 :], labels.double()], dim=1)
            true = scale.units(future.unfold(1, self.config.horizon, 1))
            loss = self._loss(found, true, units[:, : context.shape[1]], seasons)
        quantiles = scale.original(found)
        return ForecastOutput(loss=loss, quantiles=quantiles[:, 0] if origins == 1 else quantiles)

    def inputs_of(
        self, past_values: Tensor, known_covariates: Tensor | None = None, static: Tensor | None = None,
        past_covariates: Tensor | None = None, deviation: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """What the recurrent layers' embedding reads of a window, (batch, time, input_size); NaN where something is
        missing. Arguments as in `forward`."""
        units = Scale.of(past_values.double(), self._usual(deviation)).units(past_values.double())
        seasons = [last_seasons(units, season) for season in self.config.periods]
        return self._features(units, seasons, known_covariates, past_covariates, static)

    @torch.no_grad()
    def predict(
        self, past_values: Tensor, past_mask: Flags | None = None, known_covariates: Tensor | None = None,
        static: Tensor | None = None, past_covariates: Tensor | None = None, deviation: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Quantiles (batch, horizon, quantiles) after a window, as `forward` in `eval()`, without a graph."""
        was_training = self.training
        found: Tensor = self.eval()(
            past_values, past_mask, known_covariates, static, past_covariates=past_covariates, deviation=deviation
        ).quantiles
        self.train(was_training)
        return found

    @torch.no_grad()
    def start(
        self, past_values: Tensor, known_covariates: Tensor | None = None, static: Tensor | None = None,
        past_covariates: Tensor | None = None, deviation: Tensor | None = None,
    ) -> ForecastState:  # fmt: skip
        """Read a context, (batch, time), and return the stream after it.

        Mean and deviation are its own, and stay until `renormalise`. Covariates as in `forward`, but those known in
        advance up to the context's end alone, (batch, time, known_size).

        Raises:
            ValueError: as `forward`; or a backbone, which has no state.
        """
        if self.config.backbone is not None:
            raise ValueError(f"{self.config.cell} has no state of constant size to stream with; call it on windows")
        values = past_values.double()
        self._check(values, known_covariates, static, past_covariates, ahead=False)
        scale = Scale.of(values, self._usual(deviation))
        units = scale.units(values)
        seasons = [last_seasons(units, season) for season in self.config.periods]
        features = self._features(units, seasons, known_covariates, past_covariates, static)
        states, cache = self.model.read(input_values=features, attention_mask=_begun(units), use_cache=True)
        assert cache is not None
        kept = [
            nn.functional.pad(filled[:, -season:], (max(0, season - filled.shape[1]), 0), value=math.nan)
            for filled, season in zip(seasons, self.config.periods, strict=True)
        ]
        before = last_steps(seasons[0], self.config.linear_size, 1)[:, 0]
        recent = {
            "past_values": values, "known_covariates": known_covariates, "past_covariates": past_covariates,
        }  # fmt: skip
        alike = {"static": static, "deviation": deviation}
        state = ForecastState(cache, scale, states[:, -1], kept, before, {**recent, **alike})
        self._keep_recent(state)
        alone = static is None and known_covariates is None and past_covariates is None
        if alone and not (self.training or torch.compiler.is_exporting()) and self.dtype == units.dtype:
            if scale.mean.isfinite().all():
                state.one_by_one = self._single_values(state)
        return state

    @torch.no_grad()
    def update(
        self, state: ForecastState, new_values: Tensor, known_covariates: Tensor | None = None,
        past_covariates: Tensor | None = None,
    ) -> ForecastState:  # fmt: skip
        """Read the values that follow, (batch, steps), NaN where one is missing; `state` is changed in place.

        Constant time and memory for each, whatever was read before. Covariates are those of the new steps.

        Raises:
            ValueError: as `forward`.
        """
        if known_covariates is None and past_covariates is None and self._read_one(state, new_values):
            return state
        self._take_in(state)
        values = new_values.double()
        static = state.recent.get("static")
        self._check(values, known_covariates, static, past_covariates, ahead=False)
        chunk = min(self.config.periods)
        for low in range(0, values.shape[1], chunk):
            high = min(low + chunk, values.shape[1])
            units = state.scale.units(values[:, low:high])
            before = [filled[:, : high - low] for filled in state.seasons]
            state.seasons = [
                torch.cat([filled[:, high - low :], torch.where(units.isnan(), old.nan_to_num(), units)], dim=1)
                for filled, old in zip(state.seasons, before, strict=True)
            ]
            new = state.seasons[0][:, -units.shape[1] :]
            state.before = torch.cat([state.before, new], dim=1)[:, units.shape[1] :]
            known, past = (None if c is None else c[:, low:high] for c in (known_covariates, past_covariates))
            features = self._joined(units, [units - old for old in before], known, past, static)
            states, _ = self.model.read(input_values=features, past_key_values=state.cache)
            state.hidden = states[:, -1]
        if state.one_by_one is not None:
            state.one_by_one.states = self.model.states_of(state.cache)
            self._look_ahead(state, state.one_by_one)
        read = {"past_values": values, "known_covariates": known_covariates, "past_covariates": past_covariates}
        for name, own in read.items():
            old = state.recent.get(name)
            if old is not None and own is not None:
                state.recent[name] = torch.cat([old, own], dim=1)
        self._keep_recent(state)
        return state

    def _read_one(self, state: ForecastState, value: Tensor) -> bool:
        """`update` by one value, (batch, 1), as few operations; False where there are more, or one is missing."""
        read = state.one_by_one
        if read is None or value.shape[1] != 1:
            return False
        number = value.item() if len(value) == 1 else value.sum().item()
        if not math.isfinite(number):
            return False
        ahead, weight = read.ahead[len(state.single)], read.weights[len(state.single)]
        if len(value) == 1:  # on a few numbers an operation of torch costs as much as on many
            x = torch.add(ahead, weight, alpha=(number - read.mean) / read.deviation)
        else:
            x = torch.addmm(ahead, state.scale.units(value), weight)
        state.hidden = self.model.step_embedded(x, read.states)
        state.single.append(value)
        if len(state.single) == len(read.ahead):
            self._take_in(state)
        return True

    def _take_in(self, state: ForecastState) -> None:
        """`single` into all that depends on it."""
        if not state.single:
            return
        values, recent, read = torch.cat(state.single, dim=1), state.recent["past_values"], state.one_by_one
        units, count = state.scale.units(values), values.shape[1]
        assert recent is not None and read is not None
        self.model.write(state.cache, read.states, count)
        state.seasons = [torch.cat([filled[:, count:], units], dim=1) for filled in state.seasons]
        state.before = torch.cat([state.before, units], dim=1)[:, count:]
        state.recent["past_values"] = torch.cat([recent, values.to(recent.dtype)], dim=1)
        state.single = []
        self._keep_recent(state)
        self._look_ahead(state, read)

    def _single_values(self, state: ForecastState) -> SingleValues:
        """The embedding of a step is affine in the value and its differences: what it is at 0 and at each unit says
        all."""
        like, count = state.seasons[0], 1 + len(self.config.periods)
        points = torch.cat([like.new_zeros(1, count), torch.eye(count).to(like)])
        units, *differences = points.split(1, dim=1)
        found: Tensor = self.model.embeddings(self._joined(units, differences, None, None, None))[:, 0]
        weight = found[1:] - found[:1]
        scale, states = state.scale, self.model.states_of(state.cache)
        read = SingleValues(
            scale.mean[0].item(), scale.deviation[0].item(), weight[:1], weight[1:], found[0], found, (), states
        )  # fmt: skip
        self._look_ahead(state, read)
        return read

    def _look_ahead(self, state: ForecastState, read: SingleValues) -> None:
        """The seasons' part in the next steps."""
        steps = min(SINGLE, *self.config.periods)
        before = torch.stack([filled[:, :steps].t() for filled in state.seasons], dim=2)
        read.ahead = read.bias - before.nan_to_num() @ read.of_differences
        there = (~before[:, 0].isnan()).to(before.dtype)  # of all series alike
        read.weights = (there @ read.of_differences + read.of_units).split(1)

    def renormalise(self, state: ForecastState) -> ForecastState:
        """A new stream from the last `context` steps of this one, with their mean and deviation."""
        self._take_in(state)
        recent = {name: value for name, value in state.recent.items() if value is not None}
        return self.start(**recent)

    @torch.no_grad()
    def forecast(self, state: ForecastState, known_covariates: Tensor | None = None) -> Tensor:
        """Quantiles (batch, horizon, quantiles) of the steps after those that a stream has read.

        Args:
            state: as `start` or `update` returned it; it reads nothing.
            known_covariates: of the steps ahead, (batch, horizon, known_size).

        Raises:
            ValueError: the model needs covariates, and there are none.
        """
        if (known_covariates is None) == bool(self.config.known_size):
            raise ValueError(f"known_covariates must be (batch, {self.config.horizon}, {self.config.known_size})")
        self._take_in(state)
        ahead = None if known_covariates is None else self._scaled_known(known_covariates).unsqueeze(1)
        naive = self._naive([filled.nan_to_num() for filled in state.seasons], 1)
        found = self.head(state.hidden.unsqueeze(1), naive, state.before.unsqueeze(1), ahead)
        return state.scale.original(found)[:, 0]

    def _usual(self, deviation: Tensor | None) -> Tensor | float | None:
        return self.config.usual_deviation if deviation is None else deviation

    def _check(
        self, values: Tensor, known: Tensor | None, static: Tensor | None, past: Tensor | None, ahead: bool
    ) -> None:
        batch, time = values.shape
        if not time:
            raise ValueError("past_values holds no step")
        config = self.config
        steps = time + (config.horizon if ahead else 0)
        for name, found, shape in (
            ("known_covariates", known, (batch, steps, config.known_size)),
            ("past_covariates", past, (batch, time, config.past_size)),
            ("static", static, (batch, config.static_size)),
        ):
            got = None if found is None else tuple(found.shape)
            if got != (shape if shape[-1] else None):
                raise ValueError(f"{name} must be {shape if shape[-1] else None}, got {got}")

    def _features(
        self, units: Tensor, seasons: list[Tensor], known: Tensor | None, past: Tensor | None, static: Tensor | None
    ) -> Tensor:  # fmt: skip
        """(batch, time, input_size); NaN where something is missing."""
        differences = [
            units - nn.functional.pad(filled, (season, 0))[:, : units.shape[1]]
            for filled, season in zip(seasons, self.config.periods, strict=True)
        ]
        for found, season in zip(differences, self.config.periods, strict=True):
            found[:, :season] = 0.0  # there is no season before the first
        return self._joined(units, differences, None if known is None else known[:, : units.shape[1]], past, static)

    def _joined(
        self, units: Tensor, differences: list[Tensor], known: Tensor | None, past: Tensor | None, static: Tensor | None
    ) -> Tensor:  # fmt: skip
        parts = [torch.stack([units, *(found.nan_to_num() for found in differences)], dim=2)]
        parts += [part for part in (known, past) if part is not None]
        if static is not None:
            parts.append(static.unsqueeze(1).expand(-1, units.shape[1], -1))
        found = torch.cat([part.double() for part in parts], dim=2) if len(parts) > 1 else parts[0]
        return found if self.model.embeddings.scale is not None else found.to(self.dtype)

    def _naive(self, seasons: list[Tensor], origins: int) -> Tensor:
        """(batch, origins, horizon, seasons): the last season before each origin, again and again."""
        found = [
            repeated(last_steps(filled, season, origins), self.config.horizon)
            for filled, season in zip(seasons, self.config.periods, strict=True)
        ]
        return torch.stack(found, dim=-1)

    def _ahead(self, known: Tensor, origins: int) -> Tensor:
        """(batch, origins, horizon, known_size): the covariates of the steps that each origin forecasts."""
        future = self._scaled_known(known[:, -(self.config.horizon + origins - 1) :])
        return future.unfold(1, self.config.horizon, 1).transpose(2, 3)

    def _scaled_known(self, known: Tensor) -> Tensor:
        """In the units in which the network reads them; 0 where one is missing."""
        first = 1 + len(self.config.periods)
        columns = slice(first, first + self.config.known_size)
        scale = self.model.embeddings.scale
        assert scale is not None
        return ((known - scale.mean[columns]) / scale.deviation[columns]).to(self.dtype).nan_to_num()

    def _loss(self, found: Tensor, true: Tensor, context: Tensor, seasons: list[Tensor]) -> Tensor:
        """Pinball loss, mean over quantiles and labels, in units of the context's seasonal naive error."""
        season = self.config.periods[0]
        naive = (context[:, season:] - seasons[0][:, : max(0, context.shape[1] - season)]).abs()
        # A season without a pair says nothing of the error: the deviation, 1, stands for it.
        unit = naive.nanmean(1).nan_to_num(1.0).clamp(min=LEAST_UNIT).view(-1, 1, 1, 1)
        levels = torch.tensor(self.config.levels, device=found.device)
        error = (true.unsqueeze(-1) - found) / unit
        losses = torch.maximum(levels * error, (levels - 1) * error)
        labelled = ~true.isnan()
        if torch.compiler.is_compiling() or not labelled.all():
            losses = losses.masked_fill(~labelled.unsqueeze(-1), 0.0)
        return losses.sum() / (labelled.sum() * len(levels)).clamp(min=1)

    def _keep_recent(self, state: ForecastState) -> None:
        for name, value in state.recent.items():
            if value is not None and name not in ("static", "deviation"):
                state.recent[name] = value[:, -self.config.context :]
