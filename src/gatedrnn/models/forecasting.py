"""Forecasts: quantiles of the next steps of a series from those before, in a window or in a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu
from transformers.utils import ModelOutput

from gatedrnn.kernels.backends import values_unknown
from gatedrnn.kernels.matmul import linear
from gatedrnn.models.adaptive_intervals import AdaptiveIntervals
from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import Scale
from gatedrnn.models.known_regression import Effects, effects_of
from gatedrnn.models.mixture import Mixture, mix, roots
from gatedrnn.models.modeling import GatedRNNModel, GatedRNNPreTrainedModel, KernelLinear
from gatedrnn.models.pinball import pinball_loss
from gatedrnn.models.quantiles import decode_quantiles
from gatedrnn.models.smoothing import MIN_CHANGE, SMOOTHERS, Smoothed, SmoothingPast, smooth
from gatedrnn.shapes import Flags

MIN_UNIT = 0.01
"""The least error that the loss is measured in, in units of a window's deviation."""
SHARPNESS = 10.0
"""A new model weighs a smoother by its recent error, a step ahead, to the power of minus so much over the root of the
steps ahead: of later steps it says less."""
_TYPICAL = 16.0
"""The sharpness for the errors that the configuration has for each step ahead."""


@dataclass
class ForecastOutput(ModelOutput):
    """The output of `GatedRNNForForecasting`."""

    loss: Tensor | None = None
    """Mean pinball loss over quantiles and labels, in units of each window's seasonal naive error; in training the mean
    over the members, each for itself."""
    quantiles: Tensor | None = None
    """(batch, horizon, quantiles), float64, in the units of the series; (batch, origins, horizon, quantiles) for
    several origins. NaN for a series without any value in its context."""


class Windowed(NamedTuple):
    """Windows as the heads read them."""

    scale: Scale
    effects: Effects
    """The effects of known covariates on the steps of the window and of the horizon."""
    smoothed: Smoothed
    states: list[Tensor]
    """The states of each member, (batch, origins, features)."""
    ahead: Tensor | None
    """Covariates of the steps ahead, (batch, origins, horizon, known_size)."""
    begun: Tensor | None
    """(batch, time): the steps from a series' first value on; None where all series begin with the window."""

    def normalise(self, labels: Tensor) -> Tensor:
        """The values (batch, horizon) after a window, in its units."""
        return self.scale.normalise(self.effects.of(slice(-labels.shape[1], None)).removed(labels))

    def denormalise(self, quantiles: Tensor) -> Tensor:
        """The reverse for quantiles (batch, origins, horizon, quantiles)."""
        return self.effects.added(self.scale.denormalise(quantiles))


@dataclass
class ForecastState:
    """A stream of series between two calls; its size does not depend on how many values went into it."""

    cache: GatedRNNCache
    """The cache of all members."""
    scale: Scale
    """The scale of the context that it began with, or of the one at the last `renormalise`."""
    past: SmoothingPast
    """The steps that the smoothers have seen, in units of that context."""
    hidden: Sequence[Tensor]
    """The hidden state of each member, (batch, features), after the last value."""
    smoothed: Smoothed
    """The output of the smoothers after the last value."""
    recent: dict[str, Tensor | None]
    """The last `context` steps, as `start` takes them, for `renormalise`."""
    intervals: AdaptiveIntervals | None = None
    """The intervals that adapt; None for those of the model."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that `update` goes on from, but for the recurrent layers' state: each (batch, size)."""
        carried = self.scale.tensors() | self.past.tensors()
        if self.intervals is not None:  # a new value is held against what is forecast from these
            carried |= self.intervals.tensors() | self.smoothed.tensors() | {"hidden": torch.cat([*self.hidden], dim=1)}
        return carried


def stream_of(
    cache: GatedRNNCache, tensors: dict[str, Tensor], recent: dict[str, Tensor | None]
) -> ForecastState:  # fmt: skip
    """A stream that `update` can go on with, from what `ForecastState.tensors` gave.

    Args:
        cache: the recurrent layers' state.
        recent: as in `ForecastState`.
    """
    scale, past = Scale.of_tensors(tensors), SmoothingPast.of_tensors(tensors)
    intervals = AdaptiveIntervals.of_tensors(tensors)
    hidden = tensors["hidden"].chunk(cache.networks, dim=1) if "hidden" in tensors else ()
    return ForecastState(cache, scale, past, hidden, Smoothed.of_tensors(tensors), recent, intervals)


def _started(units: Tensor) -> Tensor | None:
    """The mask of the steps from a series' first value on; None where all series begin with the window, which a graph
    takes for granted: torch's kernels sort rows by their length, and ONNX cannot."""
    if torch.compiler.is_exporting():
        return None
    begun = (~units.isnan()).cummax(1).values
    return None if not values_unknown() and begun.all() else begun


class ZeroLinear(KernelLinear):
    """A linear map that begins as 0."""

    def reset_parameters(self) -> None:
        """Zeros."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


class ForecastHead(nn.Module):
    """A map from a state to the quantiles of every step of the horizon, in units of the window.

    The median is a mixture of what simple smoothers and seasons say, whose weights the state gives, and a correction in
    units of the series' own change, times the root of the steps ahead. Other quantiles are distances from it that add
    up, so that no two of them cross. A new head weighs smoothers and seasons by their recent errors (Bates and
    Granger 1969), and by those that the configuration has for each step ahead.
    """

    def __init__(self, config: GatedRNNForecastConfig, size: int) -> None:
        super().__init__()
        self.horizon, self.middle, levels = config.horizon, config.levels.index(0.5), len(config.levels)
        width = config.embedding_size
        self.hidden, self.dropout = KernelLinear(size, width), nn.Dropout(config.head_dropout)
        self.mixture = ZeroLinear(width, self.horizon * (SMOOTHERS + len(config.periods)))
        if config.known_size:
            self.ahead: nn.Linear | None = KernelLinear(width, self.horizon * config.future_size)
            self.known: nn.Linear | None = KernelLinear(config.known_size, config.future_size, bias=False)
            self.quantiles = ZeroLinear(config.future_size, levels)
        else:
            self.ahead = self.known = None
            self.quantiles = ZeroLinear(width, self.horizon * levels)
        self.linear = ZeroLinear(config.linear_size, self.horizon, bias=False) if config.linear_size else None
        self.config = config

    def forward(
        self, states: Tensor, smoothed: Smoothed, known: Tensor | None, shrinkage: float | None = None,
        factors: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Quantiles (batch, origins, horizon, quantiles).

        Args:
            states: (batch, origins, features).
            smoothed: after the same steps.
            known: covariates of the steps ahead, (batch, origins, horizon, known_size); None where there are none.
            shrinkage: in the place of the configuration's.
            factors: (batch, quantiles), of the distances between quantiles, beside `bands` of the configuration.
        """
        batch, origins, _ = states.shape
        states = self.dropout(silu(self.hidden(states))).flatten(0, 1)
        if self.ahead is None or self.known is None:
            offsets = self.quantiles(states).unflatten(1, (self.horizon, -1))
        else:
            assert known is not None
            known = self.known(known.flatten(0, 1).to(states.dtype))
            offsets = self.quantiles(gelu(self.ahead(states).unflatten(1, (self.horizon, -1)) + known))
        trust = 1 - (self.config.shrinkage if shrinkage is None else shrinkage)
        wide = torch.promote_types(states.dtype, torch.float32)
        typical, bands = (_table(numbers, states) for numbers in (self.config.typical_errors, self.config.bands))
        errors, change = (x.flatten(0, 1).to(wide) for x in (smoothed.errors, smoothed.change[:, -origins:]))
        learned, usual = self._mixture_logits(states), None if typical is None else -_TYPICAL * typical.t()
        if trust != 1:  # a network in training is trusted whole, and its logits are the largest of its tensors
            learned, offsets = trust * learned, trust * offsets
        centre = mix(Mixture(learned, -SHARPNESS * errors, usual, *smoothed.forecast_terms()))
        if self.linear is not None:
            centre = centre + trust * self.linear(smoothed.recent.flatten(0, 1).to(states.dtype))
        root = roots(self.horizon, centre)
        apart = root.new_ones(1, 1) if bands is None else bands
        if factors is not None:
            apart = apart * factors.repeat_interleave(origins, 0).unsqueeze(1)
        unit = (change.unsqueeze(1) * root).unsqueeze(2)
        quantiles = decode_quantiles(centre, offsets.to(wide), unit, apart.to(wide), self.middle)
        return quantiles.unflatten(0, (batch, origins))

    def _mixture_logits(self, states: Tensor) -> Tensor:
        """The learned logits of smoothers and seasons, (forecasts, smoothers + periods, horizon). Weights are stored
        step by step, and the mixture runs along the steps: what is smaller is laid out anew."""
        if not values_unknown() and len(states) < states.shape[1]:  # a graph may have any number of rows
            logits: Tensor = self.mixture(states)
            return logits.unflatten(1, (self.horizon, -1)).transpose(1, 2)
        weight, bias = (
            each.unflatten(0, (self.horizon, -1)).transpose(0, 1).flatten(0, 1)
            for each in (self.mixture.weight, self.mixture.bias)
        )
        return linear(states, weight, bias).unflatten(1, (-1, self.horizon))


def _table(numbers: list[list[float]] | None, like: Tensor) -> Tensor | None:
    """A table of the configuration in float32 at least; None where there is none."""
    if numbers is None:
        return None
    return torch.tensor(numbers, dtype=torch.promote_types(like.dtype, torch.float32), device=like.device)


def averaged(quantiles: list[Tensor]) -> Tensor:
    """The forecast of the members together, in units of the window: the mean of their quantiles, which rises as theirs
    do.
    """
    return sum(quantiles[1:], start=quantiles[0]) / len(quantiles)


class ForecastMember(nn.Module):
    """A further network of a forecaster, with its head."""

    def __init__(self, config: GatedRNNForecastConfig) -> None:
        super().__init__()
        self.model = GatedRNNModel(config)
        self.head = ForecastHead(config, self.model.output_size)


class GatedRNNForForecasting(GatedRNNPreTrainedModel):
    """Quantiles of the next `horizon` values of series.

    A window is read in units of its own, which come from it alone: logarithms where all values are positive and of
    unequal size, else their distance from the mean. Recurrent layers read what simple smoothers and seasons say of each
    step (`gatedrnn.models.smoothing`), and mix that into a forecast in the units of the series; of several members it
    is the mean. `forward` reads whole windows. `start`, `update` and `forecast` are the same model as a stream, in
    constant time and memory a value, with the units that it started with until `renormalise`.

    Example:
        >>> config = GatedRNNForecastConfig(cell="mingru", horizon=2)
        >>> model = GatedRNNForForecasting(config).eval()
        >>> model.predict(torch.full((1, 9), 4.0))[0, :, 1]  # a new one weighs its smoothers by their errors
        tensor([4., 4.], dtype=torch.float64)
    """

    config: GatedRNNForecastConfig
    config_class = GatedRNNForecastConfig

    def __init__(self, config: GatedRNNForecastConfig) -> None:
        config.validate_forecast()  # once more: a field set after the configuration was made is not checked there
        super().__init__(config)
        self.model = GatedRNNModel(config)
        self.head = ForecastHead(config, self.model.output_size)
        self.others = nn.ModuleList(ForecastMember(config) for _ in range(config.members - 1))
        self.post_init()

    @property
    def networks(self) -> "list[GatedRNNForForecasting | ForecastMember]":
        """All members; the first is this model itself."""
        return [self, *(cast(ForecastMember, other) for other in self.others)]

    def forward(
        self, past_values: Tensor, past_mask: Flags | None = None, known_covariates: Tensor | None = None,
        static: Tensor | None = None, labels: Tensor | None = None, past_covariates: Tensor | None = None,
        origins: int = 1, deviation: Tensor | None = None, scale: Scale | None = None, skip_quantiles: bool = False,
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
                are those of `past_values`.
            deviation: (batch,), of each series as a whole: what a context of equal values is measured in, which says
                nothing of its unit; None for the configuration's `usual_deviation`.
            scale: the units to read values in; the window's own if None.
            skip_quantiles: leave them out where there are labels: the loss does not need them in the series' units.

        Raises:
            ValueError: covariates that the model needs are missing or of another shape, or there is no step.
        """
        values = past_values.double()
        if past_mask is not None:
            values = values.masked_fill(~past_mask, float("nan"))
        read = self.read(values, known_covariates, static, past_covariates, origins, deviation, scale)
        each = self.of_members(read.states, read.smoothed, read.ahead)
        quantiles = loss = None
        if labels is not None:
            values = read.effects.of(slice(values.shape[1])).removed(values)
            labels = read.effects.of(slice(values.shape[1], None)).removed(labels.double())
            future = torch.cat([values[:, values.shape[1] - origins + 1 :], labels], dim=1)
            counted = None if read.begun is None else read.begun[:, -origins:]
            alone, unit = each if self.training else [averaged(each)], self._unit_of_loss(values, deviation)
            levels = torch.tensor(self.config.levels, device=values.device)
            units = torch.cat([*read.scale.tensors().values()], dim=1)
            losses = [pinball_loss(forecast, units, future, unit, levels, counted) for forecast in alone]
            loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        if labels is None or not skip_quantiles:  # not in the loss: a quantile below 0 would have no gradient
            quantiles = self.bounded(read.denormalise(averaged(each)))
            quantiles = quantiles[:, 0] if origins == 1 else quantiles
        return ForecastOutput(loss=loss, quantiles=quantiles)

    def read(
        self, past_values: Tensor, known_covariates: Tensor | None = None, static: Tensor | None = None,
        past_covariates: Tensor | None = None, origins: int = 1, deviation: Tensor | None = None,
        scale: Scale | None = None,
    ) -> Windowed:  # fmt: skip
        """The inputs that the heads read of windows; arguments and errors as in `forward`."""
        values = past_values.double()
        self._check(values, known_covariates, static, past_covariates, known_covariates is not None)
        effects = self.effects_of(known_covariates, deviation)
        values = effects.of(slice(values.shape[1])).removed(values)
        scale = self.scale_of(values, deviation) if scale is None else scale
        smoothed, features = self._read(values, scale, origins, known_covariates, past_covariates, static)
        begun = _started(values)
        cores = [network.model(input_values=features, attention_mask=begun) for network in self.networks]
        states = [core.last_hidden_state[:, -origins:] for core in cores]
        ahead = None if known_covariates is None else self._ahead(known_covariates, origins)
        return Windowed(scale, effects, smoothed, states, ahead, begun)

    def of_members(
        self, states: Sequence[Tensor], smoothed: Smoothed, known: Tensor | None, shrinkage: float | None = None,
        factors: Tensor | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """Quantiles of each member, from its own states; arguments as in `ForecastHead.forward`."""
        pairs = zip(self.networks, states, strict=True)
        return [network.head(state, smoothed, known, shrinkage, factors) for network, state in pairs]

    def inputs_of(
        self, past_values: Tensor, known_covariates: Tensor | None = None, static: Tensor | None = None,
        past_covariates: Tensor | None = None, deviation: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The inputs of the recurrent layers' embedding for a window, (batch, time, input_size); NaN where a covariate
        is missing. Arguments as in `forward`.
        """
        values = past_values.double()
        values = self.effects_of(known_covariates, deviation).of(slice(values.shape[1])).removed(values)
        scale = self.scale_of(values, deviation)
        return self._read(values, scale, 1, known_covariates, past_covariates, static)[1]

    @torch.no_grad()
    def predict(
        self, past_values: Tensor, past_mask: Flags | None = None, known_covariates: Tensor | None = None,
        static: Tensor | None = None, past_covariates: Tensor | None = None, deviation: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Quantiles (batch, horizon, quantiles) after a window, as `forward` in `eval()`, without a graph."""
        # Dropout would make a forecast random.
        was_training = self.training
        output: Tensor = self.eval()(
            past_values, past_mask, known_covariates, static, past_covariates=past_covariates, deviation=deviation
        ).quantiles
        self.train(was_training)
        return output

    @torch.no_grad()
    def start(
        self, past_values: Tensor, known_covariates: Tensor | None = None, static: Tensor | None = None,
        past_covariates: Tensor | None = None, deviation: Tensor | None = None, scale: Scale | None = None,
        adapt: float | None = None,
    ) -> ForecastState:  # fmt: skip
        """Read a context, (batch, time), and return the stream after it.

        Its units are its own, or those of `scale`, and stay until `renormalise`. Covariates as in `forward`, but those
        known in advance up to the context's end alone, (batch, time, known_size).

        Args:
            adapt: how fast intervals follow the errors of the stream (see `gatedrnn.models.adaptive_intervals`): the
                step, of the logarithm of a width, after a value outside. 0.05 widens by a factor of 3 in about 25 of
                them. None for intervals as the model has them, of which the stream's forecasts are the windows'.

        Raises:
            ValueError: as `forward`; a rate that is not above 0; or a backbone, which has no state.
        """
        if self.config.backbone is not None:
            raise ValueError(f"{self.config.cell} has no state of constant size to stream with; call it on windows")
        past_values = past_values.double()
        self._check(past_values, known_covariates, static, past_covariates, ahead=False)
        values = self.effects_of(known_covariates, deviation).removed(past_values)
        scale = self.scale_of(values, deviation) if scale is None else scale
        units = scale.normalise(values)
        past = self.nothing_before(units)
        smoothed, past = self.smooth(units, past, 1)
        features = self.joined(smoothed, scale, known_covariates, past_covariates, static)
        cache = GatedRNNCache(self.config, len(self.networks))
        hidden = self._advance_cache(features, cache, _started(values))
        recent = {
            "past_values": past_values, "known_covariates": known_covariates, "past_covariates": past_covariates,
            "static": static, "deviation": deviation,
        }  # fmt: skip
        state = ForecastState(cache, scale, past, hidden, smoothed, recent)
        if adapt is not None:
            state.intervals = AdaptiveIntervals.start(adapt, len(values), self.config.levels, values.device)
        self._trim_recent(state)
        return state

    @torch.no_grad()
    def update(
        self, state: ForecastState, new_values: Tensor, known_covariates: Tensor | None = None,
        past_covariates: Tensor | None = None,
    ) -> ForecastState:  # fmt: skip
        """Read the values that came, (batch, steps), each in constant time; `state` is changed and returned.

        Args:
            state: the stream so far.
            new_values: NaN where one is missing.
            known_covariates, past_covariates: of the same steps.

        Raises:
            ValueError: covariates that the model needs are missing or of another shape, or there is no step.
        """
        new_values, static = new_values.double(), state.recent.get("static")
        self._check(new_values, known_covariates, static, past_covariates, ahead=False)
        values = self.effects_of(known_covariates, state.recent.get("deviation")).removed(new_values)
        # Adaptive intervals hold each value against what was forecast just before it.
        together = values.shape[1] if state.intervals is None else 1
        for first in range(0, values.shape[1], together):
            steps = slice(first, first + together)
            known, past = (None if of is None else of[:, steps] for of in (known_covariates, past_covariates))
            self._update_steps(state, values[:, steps], known, past, static)
        read = {"past_values": new_values, "known_covariates": known_covariates, "past_covariates": past_covariates}
        for name, value in read.items():
            old = state.recent.get(name)
            if old is not None and value is not None:
                state.recent[name] = torch.cat([old, value], dim=1)
        self._trim_recent(state)
        return state

    def renormalise(self, state: ForecastState) -> ForecastState:
        """A new stream from the last `context` steps of this one, in their units; its intervals stay as wide."""
        recent: dict[str, Any] = {name: value for name, value in state.recent.items() if value is not None}
        renewed = self.start(**recent)
        renewed.intervals = state.intervals
        return renewed

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
        ahead = None if known_covariates is None else self._scaled_known(known_covariates).unsqueeze(1)
        effects = self.effects_of(known_covariates, state.recent.get("deviation"))
        return self.bounded(effects.added(state.scale.denormalise(self._forecast_in_units(state, ahead))))[:, 0]

    def effects_of(self, known_covariates: Tensor | None, deviation: Tensor | None = None) -> Effects:
        """The effects of known covariates on their steps, (batch, steps), by the model's regression if it has one;
        `deviation` as in `forward`."""
        unit = (self.config.usual_deviation or 1.0) if deviation is None else deviation
        return effects_of(self.config.curves, known_covariates, unit)

    def bounded(self, quantiles: Tensor) -> Tensor:
        """Quantiles in the units of the series as they leave the model: none below 0 where no value is."""
        return quantiles.clamp(min=0) if self.config.non_negative else quantiles

    def scale_of(self, values: Tensor, deviation: Tensor | None = None) -> Scale:
        """The units of windows (batch, time), float64; `deviation` as in `forward`."""
        return Scale.of(values, self.config.usual_deviation if deviation is None else deviation, logs=True)

    def nothing_before(self, units: Tensor) -> SmoothingPast:
        """The state of the smoothers with which a stream of series such as (batch, time), float32, begins."""
        return SmoothingPast.empty(units, self.config.periods, self.config.linear_size)

    def smooth(self, units: Tensor, past: SmoothingPast, origins: int) -> tuple[Smoothed, SmoothingPast]:
        """Further steps of some series, (batch, time) in their units, see `gatedrnn.models.smoothing.smooth`."""
        config = self.config
        return smooth(units, config.periods, config.horizon, past, origins, config.linear_size)

    def _update_steps(
        self, state: ForecastState, values: Tensor, known: Tensor | None, past: Tensor | None, static: Tensor | None
    ) -> None:  # fmt: skip
        """Read further values (batch, steps), a single step where intervals are adaptive."""
        units = state.scale.normalise(values)
        if state.intervals is not None:
            ahead = None if known is None else self._scaled_known(known).unsqueeze(1)  # of one step: no other is wanted
            quantiles = self._forecast_in_units(state, ahead)[:, 0, 0]
            state.intervals = state.intervals.after(units, quantiles, self.config.levels)
        with torch.inference_mode():  # where a view, of which smoothers take many, costs half as much
            state.smoothed, state.past = self.smooth(units, state.past, 1)
            features = self.joined(state.smoothed, state.scale, known, past, static)
        state.hidden = self._advance_cache(features, state.cache)

    def _advance_cache(self, features: Tensor, cache: GatedRNNCache, begun: Flags | None = None) -> list[Tensor]:
        """Read further steps, and return what each member's head reads after them; `cache` is changed."""
        hidden = []
        for network, member in zip(self.networks, cache.of_networks(), strict=True):
            states, _ = network.model.read(input_values=features, attention_mask=begun, past_key_values=member)
            hidden.append(states[:, -1])
        cache.seen_tokens += features.shape[1]
        return hidden

    def _forecast_in_units(self, state: ForecastState, ahead: Tensor | None) -> Tensor:
        """Quantiles (batch, 1, horizon, quantiles) of a stream in its units."""
        factors = None if state.intervals is None else state.intervals.factors
        states = [hidden.unsqueeze(1) for hidden in state.hidden]
        return averaged(self.of_members(states, state.smoothed, ahead, factors=factors))

    @torch.no_grad()
    def _read(
        self, values: Tensor, scale: Scale, origins: int, known: Tensor | None, past: Tensor | None,
        static: Tensor | None,
    ) -> tuple[Smoothed, Tensor]:  # fmt: skip
        """A window smoothed, and the features of its steps."""
        units = scale.normalise(values)
        smoothed, _ = self.smooth(units, self.nothing_before(units), origins)
        return smoothed, self.joined(smoothed, scale, known, past, static)

    def _check(
        self, values: Tensor, known: Tensor | None, static: Tensor | None, past: Tensor | None, ahead: bool
    ) -> None:
        batch, time = values.shape
        if not time:
            raise ValueError("past_values holds no step")
        config = self.config
        steps = time + (config.horizon if ahead else 0)
        for name, covariates, shape in (
            ("known_covariates", known, (batch, steps, config.known_size)),
            ("past_covariates", past, (batch, time, config.past_size)),
            ("static", static, (batch, config.static_size)),
        ):
            got = None if covariates is None else tuple(covariates.shape)
            if got != (shape if shape[-1] else None):
                raise ValueError(f"{name} must be {shape if shape[-1] else None}, got {got}")

    def joined(
        self, smoothed: Smoothed, scale: Scale, known: Tensor | None = None, past: Tensor | None = None,
        static: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """(batch, time, input_size): what smoothers say, the unit, and covariates, NaN where one is missing."""
        steps = smoothed.features.shape[1]
        growth = scale.logged * (scale.deviation * smoothed.change).clamp(min=MIN_CHANGE).log() / 3
        unit = torch.stack([scale.logged.expand_as(growth), growth.nan_to_num()], dim=2)
        parts = [smoothed.features, unit]
        parts += [part for part in (None if known is None else known[:, :steps], past) if part is not None]
        if static is not None:
            parts.append(static.unsqueeze(1).expand(-1, steps, -1))
        # ChannelScale subtracts means in float64, before anything is rounded.
        dtype = self.dtype if self.model.embeddings.scale is None else torch.float64
        return torch.cat([part.to(dtype) for part in parts], dim=2)

    def _ahead(self, known: Tensor, origins: int) -> Tensor:
        """(batch, origins, horizon, known_size): the covariates of the steps that each origin forecasts."""
        future = self._scaled_known(known[:, -(self.config.horizon + origins - 1) :])
        return future.unfold(1, self.config.horizon, 1).transpose(2, 3)

    def _scaled_known(self, known: Tensor) -> Tensor:
        """The known covariates in the units in which the network reads them; 0 where one is missing."""
        first = self.config.own_size
        columns = slice(first, first + self.config.known_size)
        scale = self.model.embeddings.scale
        assert scale is not None
        return ((known - scale.mean[columns]) / scale.deviation[columns]).to(self.dtype).nan_to_num()

    def _unit_of_loss(self, values: Tensor, deviation: Tensor | None) -> Tensor:
        """The seasonal naive error of each window, (batch,), at least a part of its deviation."""
        season = self.config.periods[0]
        naive, last = ((values[:, step:] - values[:, :-step]).abs().nanmean(1) for step in (season, 1))
        spread = Scale.of(values, self.config.usual_deviation if deviation is None else deviation).deviation[:, 0]
        # A season without a pair says nothing of the error: the last value's, or the deviation, stands for it.
        unit = torch.where(naive.isnan(), torch.where(last.isnan(), spread, last), naive)
        return torch.maximum(unit, MIN_UNIT * spread)

    def _trim_recent(self, state: ForecastState) -> None:
        for name, value in state.recent.items():
            if value is not None and name not in ("static", "deviation"):
                state.recent[name] = value[:, -self.config.context :]
