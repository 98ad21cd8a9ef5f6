"""The recipe of series with a class each, as a function of the data's sizes."""

from gatedrnn.records import Json

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
FEATURES = 10_000
"""Of random convolutions, as in MiniRocket."""


def series_recipe(rows: int, steps: int, channels: int, classes: int) -> dict[str, Json]:
    """Values of the flags of `train` for a series-classification, by name.

    Args:
        rows: training series, of which a validation part is still to be set apart.
        steps: of the longest.
        channels: of a step.
        classes: of the labels.

    Example:
        >>> recipe = series_recipe(36, 251, 1, 3)
        >>> recipe["validation_fraction"], recipe["total_steps"]
        (0.0, 500)
    """
    # Weights of the linear path are features times classes: with a thousand classes they would outgrow the network.
    features = min(FEATURES, 4_000_000 // classes)
    convolutions = steps <= LONGEST
    return {
        "validation_fraction": 0.1 if rows >= HELD_BACK_FROM else 0.0,
        "hidden_size": 64, "layers": 1 if convolutions else 2, "bidirectional": True, "pooling": "mean",
        "convolution_size": 64 if convolutions else 0,
        "embedding_size": 0 if convolutions and channels <= 64 else 64,
        "embedding_dropout": 0.0, "dropout": 0.0 if convolutions else 0.1, "head_dropout": 0.2,
        "random_convolutions": features,
        "total_steps": min(MOST_STEPS, max(LEAST_STEPS, EPOCHS * -(-rows // BATCH))), "batch_size": BATCH,
        "learning_rate": 3e-3, "label_smoothing": 0.1, "validate_every": 0,
    }  # fmt: skip
