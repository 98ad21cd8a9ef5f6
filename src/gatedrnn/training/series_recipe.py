"""The recipe of series with a class or a number each, as a function of the data's sizes."""

from gatedrnn.records import Json
from gatedrnn.training.recipes import Chosen

BATCH = 16
"""Series in a step."""
LEAST_STEPS, MOST_STEPS = 500, 5000
EPOCHS = 10
"""Passes over the training series, where these are more steps than `LEAST_STEPS`."""
HELD_BACK_FROM = 2000
"""Series from which on a tenth is worth more for choosing weights than for learning them: of fewer, an accuracy of a
tenth has a standard error above two hundredths, which is more than choosing gains."""
LONGEST = 2000
"""Steps up to which convolutions are before the cells: a step of training takes a second for twice as many."""
FEATURES, WEIGHTS = 10_000, 4_000_000
"""The features of random convolutions, as in MiniRocket, and the most weights of the linear path that reads them: with
a thousand classes it would outgrow the network."""
MOST_CHANNELS = 64
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
    bounds = f"{EPOCHS} passes over {rows:,} series in batches of {BATCH}, but {LEAST_STEPS:,} to {MOST_STEPS:,} steps"
    held = rows >= HELD_BACK_FROM
    choices = {
        "total_steps": Chosen(min(MOST_STEPS, max(LEAST_STEPS, passes)), bounds),
        "validation_fraction": Chosen(
            0.1 if held else 0.0,
            f"{rows:,} series: weights are chosen on a part of {HELD_BACK_FROM:,} or more, fewer are all learned from",
        ),
    }
    if steps > LONGEST:
        reason = f"series of {steps:,} steps: convolutions are for {LONGEST:,} at most"
        values: dict[str, Json] = {"convolution_size": 0, "layers": 2, "embedding_size": 64, "dropout": 0.1}
        choices |= {name: Chosen(value, reason) for name, value in values.items()}
    elif channels > MOST_CHANNELS:
        choices["embedding_size"] = Chosen(64, f"{channels} channels: more than {MOST_CHANNELS} are mapped to fewer")
    if (features := WEIGHTS // classes) < FEATURES:
        choices["random_convolutions"] = Chosen(
            features, f"{classes:,} classes: features times classes are no more than {WEIGHTS:,} weights"
        )
    return choices
