"""The recipe of a text classifier as a function of its training texts."""

import math

from gatedrnn.records import Json

STEPS_A_ROOT = 5
"""Steps for each unit of the square root of the rows, with two classes: 14 passes over 500 texts, 3 over 10,000. Few
texts are learned by heart in more. More classes take more of them, by the root of their number."""
FEWEST_STEPS = 60


def text_recipe(rows: int, classes: int, *, several: bool = False) -> dict[str, Json]:
    """Values of the flags of `gatedrnn train` that the user left open.

    Args:
        rows: of the training split.
        classes: that there are.
        several: whether a text may have several, which a linear path does not give.

    Example:
        >>> text_recipe(2_000, 2)
        {'total_steps': 224, 'linear_path': True}
    """
    steps = math.ceil(STEPS_A_ROOT * math.sqrt(rows * max(2, classes) / 2))
    return {"total_steps": max(FEWEST_STEPS, steps), "linear_path": not several}
