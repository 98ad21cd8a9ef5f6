"""The settings of a training on texts that the data decide."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.training.task import Chosen

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


def recipe_of_texts(data: TaskData) -> dict[str, Chosen]:
    """Values of the flags of `gatedrnn train` for some texts."""
    return text_recipe(cast(Examples, data.train).lengths.tolist(), len(data.label_names))
