"""The settings of a forecast that the data decide."""

from typing import cast

from gatedrnn.data import TaskData, Windows
from gatedrnn.records import Json
from gatedrnn.training.task import Chosen

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
