"""A baseline without a recurrent network, fitted and scored."""

from typing import NamedTuple

from gatedrnn.train.outcomes import Outcomes
from gatedrnn.train.result import Scores


class PlainBaseline(NamedTuple):
    """A fitted one."""

    name: str
    parameters: int | None
    """Weights, leaves or n-grams; None where it has none to speak of."""
    outcomes: dict[str, Outcomes]
    """By split."""
    seconds: float
    """Of fitting; of a method that is fitted to each series anew, of fitting and forecasting."""
    scores: dict[str, Scores]
    """By split, of forecasts; empty for all else, whose outcomes say all."""
