"""The settings that the data decide, task by task, where nobody gave them."""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from gatedrnn.data import (
    FORECAST,
    SERIES,
    SERIES_REGRESSION,
    TASKS,
    TEXT,
    TEXT_REGRESSION,
    Examples,
    TaskData,
    Windows,
    load_task,
)
from gatedrnn.data.settings import SeriesTask, unknown_name
from gatedrnn.errors import UsageError
from gatedrnn.records import Json
from gatedrnn.training.precision import faster_precision, in_precision
from gatedrnn.training.recipes import Chosen, recipe_of, with_options
from gatedrnn.training.resources import fitting_batch
from gatedrnn.training.settings import CellSettings, ModelSettings, RunSettings, TrainSettings

_STEPS_A_ROOT = 5
"""Steps for each unit of the square root of the rows, with two classes: 14 passes over 500 texts, 3 over 10,000. Few
texts are learned by heart in more. More classes take more of them, by the root of their number."""
_MIN_TEXT_STEPS = 60
SHORT = 512
"""Tokens up to which no text is cut."""
_READ_WHOLE = 0.99
"""The share of texts that are not cut: a batch is as long as its longest text."""


def text_recipe(lengths: Sequence[int], classes: int) -> dict[str, Chosen]:
    """Values of the flags of `gatedrnn train` that the user left open.

    Args:
        lengths: tokens of each text of the training split.
        classes: that there are; 0 of numbers.

    Example:
        >>> recipe = text_recipe([30] * 2_000, 2)
        >>> recipe["total_steps"]
        Chosen(value=224, reason='5 · √(texts · classes / 2), of 2,000 texts and 2 classes')
        >>> "max_tokens" in recipe
        False
    """
    rows, kinds = len(lengths), max(2, classes)
    steps = math.ceil(_STEPS_A_ROOT * math.sqrt(rows * kinds / 2))
    of = f"{rows:,} texts and {kinds} classes" if classes else f"{rows:,} texts, as of two classes"
    root = f"{_STEPS_A_ROOT} · √(texts · classes / 2), of {of}"
    few = f"no fewer than {_MIN_TEXT_STEPS}: {root} would be {steps}"
    choices = {"total_steps": Chosen(max(_MIN_TEXT_STEPS, steps), root if steps >= _MIN_TEXT_STEPS else few)}
    if max(lengths) > SHORT:
        most = max(SHORT, int(np.quantile(lengths, _READ_WHOLE, method="inverted_cdf")))
        choices["max_tokens"] = Chosen(
            most, f"{_READ_WHOLE:.0%} of the texts are no longer, or {SHORT} if that is more"
        )
    return choices


BATCH = 16
"""Series in a step."""
MIN_STEPS, MAX_STEPS = 500, 5000
EPOCHS = 10
"""Passes over the training series, where these are more steps than `MIN_STEPS`."""
_HELD_BACK_FROM = 2000
"""Series from which on a tenth is worth more for choosing weights than for learning them: of fewer, an accuracy of a
tenth has a standard error above two hundredths, which is more than choosing gains."""
LONGEST = 2000
"""Steps up to which convolutions are before the cells: a step of training takes a second for twice as many."""
FEATURES, WEIGHTS = 10_000, 4_000_000
"""The features of random convolutions, as in MiniRocket, and the most weights of the linear path that reads them: with
a thousand classes it would outgrow the network."""
MAX_CHANNELS = 64
"""The most channels that convolutions read as they are."""


def series_recipe(rows: int, steps: int, channels: int, classes: int) -> dict[str, Chosen]:
    """Values of the flags of `train` that differ from those of most series, by name.

    Args:
        rows: training series, of which a validation part is still to be set apart.
        steps: of the longest.
        channels: of a step.
        classes: of the labels; 1 of numbers.

    Example:
        >>> recipe = series_recipe(36, 251, 1, 3)
        >>> recipe["validation_fraction"].value, recipe["total_steps"].value, "embedding_size" in recipe
        (0.0, 500, False)
    """
    passes = EPOCHS * -(-rows // BATCH)
    bounds = f"{EPOCHS} passes over {rows:,} series in batches of {BATCH}, but {MIN_STEPS:,} to {MAX_STEPS:,} steps"
    held = rows >= _HELD_BACK_FROM
    choices = {
        "total_steps": Chosen(min(MAX_STEPS, max(MIN_STEPS, passes)), bounds),
        "validation_fraction": Chosen(
            0.1 if held else 0.0,
            f"{rows:,} series: weights are chosen on a part of {_HELD_BACK_FROM:,} or more, fewer are all learned from",
        ),
    }
    if steps > LONGEST:
        reason = f"series of {steps:,} steps: convolutions are for {LONGEST:,} at most"
        values: dict[str, Json] = {"convolution_size": 0, "layers": 2, "embedding_size": 64, "dropout": 0.1}
        choices |= {name: Chosen(value, reason) for name, value in values.items()}
    elif channels > MAX_CHANNELS:
        choices["embedding_size"] = Chosen(64, f"{channels} channels: more than {MAX_CHANNELS} are mapped to fewer")
    if (features := WEIGHTS // classes) < FEATURES:
        choices["random_convolutions"] = Chosen(
            features, f"{classes:,} classes: features times classes are no more than {WEIGHTS:,} weights"
        )
    return choices


_BATCH_OF_ONE = 16
"""Windows in a step for a single series, whose windows are much alike."""
FEW_VALUES, FEWER_STEPS = 1_000, 120
"""Values of a single series below which fewer steps than the recipe's do as well."""
MANY_SERIES, MORE_STEPS = 100, 400
"""Series from which on more steps than the recipe's pay."""
_MANY_VALUES = 200_000
"""Values of training from which on a larger network, trained for longer, pays."""
LARGE: dict[str, Json] = {
    "layers": 2, "hidden_size": 128, "embedding_size": 128, "head_dropout": 0.2, "total_steps": 1000,
    "learning_rate": 0.005, "average": 0.99,
}  # fmt: skip
"""The flags of that network and its training."""


def size_for(data: TaskData) -> dict[str, Chosen]:
    """Values of the flags of `gatedrnn forecast` that differ for a table of one series, of many, or of many values.

    Args:
        data: a task of forecasts.
    """
    train = cast(Windows, data.train)
    series, values = len(train.series), int(train.stop.sum())
    if values >= _MANY_VALUES:
        reason = f"{values:,} values: {_MANY_VALUES:,} or more"
        return {name: Chosen(value, reason) for name, value in LARGE.items()}
    if series >= MANY_SERIES:
        return {"total_steps": Chosen(MORE_STEPS, f"{series:,} series: {MANY_SERIES} or more")}
    if series > 1:
        return {}
    sizes = {"batch_size": Chosen(_BATCH_OF_ONE, "one series, whose windows are much alike")}
    if values < FEW_VALUES:
        sizes["total_steps"] = Chosen(FEWER_STEPS, f"one series of {values:,} values: fewer than {FEW_VALUES:,}")
    return sizes


def forecast_recipe(data: TaskData) -> dict[str, Chosen]:
    """Values of the flags of `gatedrnn forecast` that the user left open, by name.

    Args:
        data: a task of forecasts.
    """
    train, held = cast(Windows, data.train), data.model_inputs
    seasons = cast(list[int], held["seasons"])
    longest, shortest = int(train.stop.max()), int(train.stop.min())
    steps = f"{longest:,}" if longest == shortest else f"{shortest:,} to {longest:,}"
    usual = "the calendar names the first, enough series show the others" if seasons[0] > 1 else "none is shown"
    parts = [split for split in ("validation", "test") if split in data.evaluation]
    return {
        "season": Chosen(list(seasons), usual),
        "horizon": Chosen(train.horizon, "a season; where none fits a tenth of the series, 8 at most"),
        "context": Chosen(
            train.context,
            "two to four seasons, 1.5 of the longest of several; 120 steps and two horizons at least, if there are",
        ),
        "origins": Chosen(train.origins, f"forecasts in a window of training; training parts have {steps} steps"),
        **size_for(data),
        "refit": Chosen(True, f"held back at first: {' and '.join(parts) or 'none'}; learned from at the end"),
    }


def chosen(data: TaskData) -> dict[str, Chosen]:
    """The settings that these data decide, by the names of their flags; none for tasks whose recipe is fixed."""
    if data.name == FORECAST:
        return size_for(data)
    if data.name not in (TEXT, TEXT_REGRESSION, SERIES, SERIES_REGRESSION):
        return {}
    examples, classes = cast(Examples, data.train), len(data.label_names)
    if data.name in (TEXT, TEXT_REGRESSION):
        return text_recipe(examples.lengths.tolist(), classes)
    if examples.gaps is not None:
        whole, cells = (recipe_of(data.name, whole=flag) for flag in (True, False))
        reason = "convolutions take steps for equally far apart, and these are not: the recipe of cells alone"
        values = cells | {name: _default_of(name) for name in whole.keys() - cells.keys()}
        return {name: Chosen(value, reason) for name, value in values.items() if value != whole[name]}
    channels = cast(int, data.model_inputs["input_size"])
    return series_recipe(len(examples), int(examples.lengths.max()), channels, max(1, classes))


class Recipe(NamedTuple):
    """The values of flags that `train` and `forecast` take for some data, by name."""

    decided: dict[str, Chosen]
    """The values that the data decide."""
    fixed: dict[str, Json]
    """The values for all data of the task."""
    notes: list[str]
    """The notes on the data."""


def recipe_for(file: Path, task: str) -> Recipe:
    """The whole recipe for a file of training data.

    Raises:
        DataError: the file cannot be used.
    """
    settings = default_run(task, train_file=str(file))
    data, values = load_task(settings.data), settings.flat()
    decided = forecast_recipe(data) if task == FORECAST else chosen(data)
    fixed = {name: value for name, value in recipe_of(task, whole=True).items() if name not in decided}
    if settings.train.total_steps:
        fixed.pop("epochs", None)
    if values["batch_size"] != fixed.get("batch_size", values["batch_size"]):
        decided["batch_size"] = Chosen(values["batch_size"], "as many as fit into the memory that is available")
    return Recipe(decided, fixed, data.notes)


def _default_of(name: str) -> Json:
    kinds = (SeriesTask, ModelSettings, TrainSettings)
    return next(kind.model_fields[name].default for kind in kinds if name in kind.model_fields)


def default_run(task: str, **given: Json) -> RunSettings:
    """Settings of a run as `train` and `forecast` have them with default flags, but for those given, by their names."""
    return completed(run_of_recipe(task, **given), given)


def run_of_recipe(task: str, **given: Json) -> RunSettings:
    """Settings of a run by the task's recipe, but for those given; what the data decide is left at its default.

    Raises:
        UsageError: there is no such task.
        ValidationError: a setting is unknown or out of range, or does not go with another.
    """
    if task not in TASKS:
        raise UsageError(unknown_name("task", task, TASKS))
    fixed: dict[str, Json] = {**CellSettings().model_dump(), "task": task, **recipe_of(task, whole=True)}
    named = fixed | given
    return RunSettings.from_flat(named | {"cell": with_options(task, str(named["cell"]))})


def completed(settings: RunSettings, given: Collection[str]) -> RunSettings:
    """Settings of a run with what its data, and the memory of this machine, decide of those that nobody gave.

    Args:
        settings: with the recipe's fixed values for all others.
        given: names of settings that stay as they are.
    """
    data = load_task(settings.data)
    decided = {name: choice.value for name, choice in chosen(data).items()}
    if "epochs" in given:  # in the place of the recipe's steps
        decided["total_steps"] = 0
    settings = with_values(settings, {name: value for name, value in decided.items() if name not in given})
    several = os.environ.get("WORLD_SIZE", "1") != "1"  # processes that must agree, and may see other memory
    if "batch_size" not in given and not several and isinstance(data.train, Examples):
        settings = with_values(settings, {"batch_size": fitting_batch(settings, load_task(settings.data))})
    if settings.train.precision == "auto":
        if several:
            raise UsageError("--precision auto: several processes may measure different times; name the precision")
        settings = in_precision(settings, faster_precision(settings, data))
    return settings


def with_values(settings: RunSettings, values: Mapping[str, Json]) -> RunSettings:
    """Settings with others of these names; the same object where nothing changes."""
    flat = settings.flat()
    changed = {name: value for name, value in values.items() if flat.get(name) != value}
    return RunSettings.from_flat(flat | changed) if changed else settings
