"""The space that a search draws settings from: ranges and choices by name, shared by all contenders or a cell's own."""

import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import yaml
from pydantic import Field, ValidationError, model_validator

from gatedrnn.data import Settings
from gatedrnn.errors import UsageError, reason
from gatedrnn.names import OF_LAYERS, REGULARISERS
from gatedrnn.records import read_yaml
from gatedrnn.training.settings import CellWord, ModelSettings, RunSettings, TrainSettings, refused_by

Value: TypeAlias = bool | int | float | str
Edge: TypeAlias = Literal["lowest", "highest"]
_OF_TRAINING = (
    "learning_rate", "batch_size", "weight_decay", "beta2", "clip", "warmup", "schedule", "average", "label_smoothing",
)  # fmt: skip
_OF_MODEL = (
    "token_dropout", "embedding_dropout", "dropout", "head_dropout", *REGULARISERS, "longest_time_scale",
)  # fmt: skip
_NEAR = 0.05
"""A value so near to an end of its range, as a part of it, lies at its edge."""
DROPOUTS, DECAYS, FACTOR = (0.0, 0.7), (1e-4, 1.0), 10.0
"""The ranges of dropouts and of weight decay in the default space, and the factor by which the learning rate goes
beyond the recipe's either way."""


class Dimension(Settings):
    """A range, `low` to `high`, or `choices`."""

    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] = "linear"
    """The scale on which the range is drawn from evenly."""
    choices: tuple[Value, ...] | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> "Dimension":
        if self.choices is not None:
            if self.low is not None or self.high is not None:
                raise ValueError("give low and high, or choices, and not both")
            if len(set(self.choices)) < 2:
                raise ValueError(f"choices must be two or more, got {list(self.choices)}")
            return self
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError(f"low must lie below high, got {self.low} and {self.high}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"on a log scale low must be above 0, got {self.low}")
        return self

    def value(self, share: float) -> Value:
        """The value that stands at this share of the dimension, in [0, 1)."""
        if self.choices is not None:
            return self.choices[int(share * len(self.choices))]
        assert self.low is not None and self.high is not None
        if self.scale == "log":
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)

    def ends(self) -> tuple[Value, ...]:
        """All choices, or both ends."""
        if self.choices is not None:
            return self.choices
        assert self.low is not None and self.high is not None
        return self.low, self.high

    def edge(self, value: Value) -> Edge | None:
        """Whether a value lies at an end beyond which there is more; choices of words have none, and 0 is the least."""
        if isinstance(value, str | bool) or any(isinstance(end, str | bool) for end in self.ends()):
            return None
        low, high, at = (float(x) for x in (min(self.ends()), max(self.ends()), value))
        from_zero = low == 0
        if self.scale == "log":
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = (at - low) / (high - low)
        near = 0.0 if self.choices is not None else _NEAR
        if share <= near:
            return None if from_zero else "lowest"
        return "highest" if share >= 1 - near else None

    def __str__(self) -> str:
        if self.choices is not None:
            return ", ".join(str(choice) for choice in self.choices)
        return f"{self.low:g} to {self.high:g}{', log' if self.scale == 'log' else ''}"


class Space(Settings):
    """The space that a search draws from."""

    shared: dict[str, Dimension]
    """The dimensions by the name of the setting, for every contender that has it."""
    contenders: dict[CellWord, dict[str, Dimension]] = Field(default_factory=dict)
    """The dimensions that replace those for single cells."""

    @model_validator(mode="after")
    def _known(self) -> "Space":
        for where, dimensions in {"": self.shared, **self.contenders}.items():
            for name, dimension in dimensions.items():
                place = f"{where}: {name}" if where else name
                if name not in _OF_TRAINING + _OF_MODEL:
                    raise ValueError(
                        f"{place}: no setting that is searched; there are {', '.join(_OF_TRAINING + _OF_MODEL)}"
                    )
                for value in dimension.ends():
                    _check_valid(place, name, value)
        if not self.shared and not self.contenders:
            raise ValueError("names no setting")
        return self

    def of(self, run: RunSettings) -> dict[str, Dimension]:
        """The dimensions of a contender's runs: those of its cell first, and only settings that it has."""
        name = run.backbone or run.cell
        dimensions = {**self.shared, **self.contenders.get(name.partition(":")[0], {}), **self.contenders.get(name, {})}
        scheme = {"bias_init": run.model.bias_init}
        idle = [n for n in dimensions if n in OF_LAYERS and refused_by(run.cell, scheme | {n: True}) is not None]
        return {name: dimension for name, dimension in dimensions.items() if name not in idle}


class Draw(NamedTuple):
    """The settings of one trial of one contender."""

    run: RunSettings
    values: dict[str, Value]


def draw(space: Space, run: RunSettings, seed: int, trial: int) -> Draw:
    """A run with settings drawn at random: the same for all contenders, wherever their spaces agree.

    Each setting of each trial has a random number of its own, which does not depend on what else is in the space.
    """
    values = {}
    for name, dimension in space.of(run).items():
        share = np.random.default_rng([seed, trial, zlib.crc32(name.encode())]).random()
        values[name] = _rounded(name, dimension.value(float(share)))
    return Draw(with_values(run, values), values)


def with_values(run: RunSettings, values: Mapping[str, Value]) -> RunSettings:
    """The run with these settings."""
    model = {name: value for name, value in values.items() if name in _OF_MODEL}
    train = {name: value for name, value in values.items() if name in _OF_TRAINING}
    changed = {
        "model": ModelSettings.model_validate(run.model.model_dump() | model),
        "train": TrainSettings.model_validate(run.train.model_dump() | train),
    }
    return RunSettings.model_validate(run.model_copy(update=changed).model_dump())


def default_space(model: ModelSettings, train: TrainSettings) -> Space:
    """The space around a recipe: its learning rate up to ten times less or more, half and twice its batch size, and
    what else it regularises by.
    """
    rate, batch = train.learning_rate, train.batch_size
    shared = {
        "learning_rate": Dimension(low=rate / FACTOR, high=min(1.0, rate * FACTOR), scale="log"),
        "batch_size": Dimension(choices=tuple(sorted({max(1, batch // 2), batch, 2 * batch}))),
    }
    if train.weight_decay:
        shared["weight_decay"] = Dimension(low=DECAYS[0], high=DECAYS[1], scale="log")
    for name in _OF_MODEL:
        if name.endswith("dropout") and getattr(model, name):
            shared[name] = Dimension(low=DROPOUTS[0], high=DROPOUTS[1])
    if model.longest_time_scale is not None:
        scale = model.longest_time_scale
        shared["longest_time_scale"] = Dimension(low=max(2.0, scale / FACTOR), high=scale * FACTOR, scale="log")
    return Space(shared=shared)


def search_settings(
    model: ModelSettings, train: TrainSettings, *, trials: int | None = None, space: Path | None = None,
    minutes: float | None = None, search_seed: int | None = None,
) -> dict[str, object] | None:  # fmt: skip
    """The search that flags ask for, around a recipe if no space is given; None without --trials.

    Raises:
        UsageError: another flag of a search is given without it, or the budget ends before the first trial.
    """
    flags: dict[str, object] = {"--space": space, "--minutes": minutes, "--search-seed": search_seed}
    if trials is None:
        named = [flag for flag, value in flags.items() if value is not None]
        if named:
            raise UsageError(f"{named[0]} belongs to a search: give --trials too")
        return None
    if minutes is not None and not minutes > 0:
        raise UsageError(f"--minutes {minutes:g}: the budget ends before the first trial; give more")
    chosen = default_space(model, train) if space is None else read_space(space)
    return {"trials": trials, "minutes": minutes, "seed": search_seed or 0, "space": chosen.model_dump()}


def read_space(file: Path) -> Space:
    """A space from a YAML file: settings with `low` and `high` (and `scale: log`), or `choices`; under `contenders`,
    those of single cells.

    Raises:
        UsageError: the file is missing, is no YAML, or names a setting or a range that does not exist.
    """
    try:
        held: Any = read_yaml(file)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"--space {file}: cannot be read ({reason(error)})") from error
    if not isinstance(held, dict):
        raise UsageError(f"--space {file}: must be a mapping from settings to ranges")
    by_contender = held.pop("contenders", {})
    try:
        return Space.model_validate({"shared": held, "contenders": by_contender})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "shared")
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"--space {file}: {f'{place}: ' if place else ''}{said}") from error


def _check_valid(place: str, name: str, value: Value) -> None:
    if name == "batch_size" and isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{place}: must be whole, got {value}")
    part = TrainSettings if name in _OF_TRAINING else ModelSettings
    try:
        part.model_validate({name: _rounded(name, value)})
    except ValidationError as error:
        raise ValueError(f"{place}: {error.errors()[0]['msg']}, got {value}") from error


def _rounded(name: str, value: Value) -> Value:
    """Whole, where the setting is."""
    return round(value) if name == "batch_size" and isinstance(value, float) else value
