"""The settings of a training on series with labels that the data decide."""

from typing import cast

from gatedrnn.data import Examples, TaskData
from gatedrnn.records import Json
from gatedrnn.tasks.series.settings import SeriesSettings
from gatedrnn.training.recipes import recipe_of
from gatedrnn.training.settings import ModelSettings, TrainSettings
from gatedrnn.training.task import Chosen

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


def recipe_of_series(data: TaskData, task: str) -> dict[str, Chosen]:
    """Values of the flags of `train` for some series."""
    examples = cast(Examples, data.train)
    if examples.gaps is not None:
        whole, cells = (recipe_of(task, whole=flag) for flag in (True, False))
        reason = "convolutions take steps for equally far apart, and these are not: the recipe of cells alone"
        values = cells | {name: _default_of(name) for name in whole.keys() - cells.keys()}
        return {name: Chosen(value, reason) for name, value in values.items() if value != whole[name]}
    channels = cast(int, data.model_inputs["input_size"])
    return series_recipe(len(examples), int(examples.lengths.max()), channels, max(1, len(data.label_names)))


def _default_of(name: str) -> Json:
    kinds = (SeriesSettings, ModelSettings, TrainSettings)
    return next(kind.model_fields[name].default for kind in kinds if name in kind.model_fields)
