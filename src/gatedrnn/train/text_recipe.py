"""The recipe of a text classifier as a function of its training texts."""

import math
from collections.abc import Sequence

import numpy as np

STEPS_A_ROOT = 5
"""Steps for each unit of the square root of the rows, with two classes: 14 passes over 500 texts, 3 over 10,000. Few
texts are learned by heart in more. More classes take more of them, by the root of their number."""
FEWEST_STEPS = 60
TOKENS = (64, 512)
"""Tokens of a text that are read, at least and at most."""


def text_recipe(rows: int, lengths: Sequence[int], classes: int) -> dict[str, bool | int]:
    """Values of the flags of `gatedrnn train` that the user left open.

    Args:
        rows: of the training split.
        lengths: tokens of its texts.
        classes: that there are.

    Example:
        >>> text_recipe(2_000, [12, 20, 31], 2)
        {'total_steps': 224, 'max_tokens': 64, 'linear_path': True}
    """
    fewest, most = TOKENS
    nearly_all = float(np.quantile(lengths, 0.99)) if len(lengths) else 0.0
    return {
        "total_steps": max(FEWEST_STEPS, math.ceil(STEPS_A_ROOT * math.sqrt(rows * max(2, classes) / 2))),
        "max_tokens": min(most, max(fewest, 64 * math.ceil(nearly_all / 64))),
        "linear_path": True,
    }
