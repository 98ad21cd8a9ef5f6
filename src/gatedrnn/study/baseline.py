"""Baselines without a recurrent network: fitted, scored, and what fitting gives."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from gatedrnn.training.outcomes import Outcomes
from gatedrnn.training.result import Scores


class PlainBaseline(NamedTuple):
    """A fitted one."""

    name: str
    parameters: int | None
    """Weights, leaves or n-grams; None where it has none to speak of."""
    outcomes: dict[str, Outcomes]
    """The outcomes by split."""
    seconds: float
    """The seconds of fitting; of a method that is fitted to each series anew, of fitting and forecasting."""
    scores: dict[str, Scores]
    """The scores of forecasts by split; empty for all else, whose outcomes say all."""


class Fitted(NamedTuple):
    """A fitted method: its size, and a function that answers a split."""

    parameters: int | None
    answer: Callable[[str], Outcomes]


Fit: TypeAlias = Callable[[], Fitted | None]
"""A function that fits a method; it returns None where the task gives nothing to fit to."""
