"""The configuration of a model that forecasts."""

from typing import Any

from huggingface_hub.dataclasses import strict

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.known_regression import KnownRegression
from gatedrnn.models.smoothing import SMOOTHERS, features_of


@strict
class GatedRNNForecastConfig(GatedRNNConfig):
    """Structure of a model that forecasts series, beside that of all gatedrnn models.

    A step's features are what smoothers say of the value, its unit, the known covariates, the past covariates, and the
    static ones. `input_size`, `channel_means`, `channel_deviations` and `flagged_channels` follow from the fields here.

    Args:
        horizon: steps that are forecast from an origin.
        context: steps before an origin that the model was trained to read.
        seasons: steps after which a pattern repeats, the shortest first; None or [1] for none.
        quantiles: what is forecast, rising, with 0.5, the median, among them.
        known_size, past_size, static_size: covariates whose future is known, whose past alone is known, and those that
            a series has for all times.
        covariate_means, covariate_deviations: of each covariate, as `channel_means`; None for values as they are.
        flagged_covariates: those that may be missing.
        linear_size: last values of a window that a linear map to the horizon reads beside the network, its result added
            (the autoregressive part of Lai et al. 2018, arXiv:1703.07015); 0 for none.
        future_size: width in which a state meets the known covariates of a step ahead.
        usual_deviation: of the series of training, the median of their deviations: what a window of equal values is
            measured in where nothing says what its own series' is. None for the size of these values.
        non_negative: whether the series are counts, or other values that are 0 at times and never below: no quantile of
            a forecast is below 0 then.
        typical_errors: logarithms of the errors that each smoother and each season made in training, (horizon,
            smoothers and seasons), in units of their mean: what they are weighed by beside their recent errors (see
            `gatedrnn.training.model`). None for equal ones.
        known_regression: the fields of `gatedrnn.models.known_regression.KnownRegression`: the effects of the known
            covariates, taken off the values before all else, and added to the forecast. None for none.
        shrinkage: from 0 to 1: how much of what training found is taken back, towards smoothers weighed by their errors
            (see `gatedrnn.training.refit`).
        bands: factors of the distances between neighbouring quantiles, (horizon, quantiles), the median's unused: what
            makes intervals hold on values that were held back (see `gatedrnn.training.refit`). None for 1.
        table: how tables are read: columns, frequency, calendar. None for a model of arrays.
    """

    model_type = "gatedrnn-forecast"

    horizon: int = 1
    context: int = 1
    seasons: list[int] | None = None
    quantiles: list[float] | None = None
    known_size: int = 0
    past_size: int = 0
    static_size: int = 0
    covariate_means: list[float] | None = None
    covariate_deviations: list[float] | None = None
    flagged_covariates: list[int] | None = None
    embedding_activation: str | None = "silu"
    linear_size: int = 0
    future_size: int = 16
    usual_deviation: float | None = None
    non_negative: bool = False
    typical_errors: list[list[float]] | None = None
    known_regression: dict[str, bool | list[float] | list[list[float]]] | None = None
    shrinkage: float = 0.0
    bands: list[list[float]] | None = None
    table: dict[str, str | bool | int | list[str] | None] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        # Before the base class, whose check reads the derived fields.
        values, covariates = self.own_size, self.known_size + self.past_size + self.static_size
        self.input_size = values + covariates
        if covariates:
            self.channel_means = [0.0] * values + (self.covariate_means or [0.0] * covariates)
            self.channel_deviations = [1.0] * values + (self.covariate_deviations or [1.0] * covariates)
            self.flagged_channels = [values + column for column in self.flagged_covariates or ()] or None
        super().__post_init__(**kwargs)

    @property
    def own_size(self) -> int:
        """Features of a step that are no covariates."""
        return features_of(self.periods, self.horizon) + 2

    @property
    def periods(self) -> list[int]:
        """`seasons`, or the last value alone."""
        return self.seasons or [1]

    @property
    def curves(self) -> KnownRegression | None:
        """`known_regression` as what computes the effects."""
        fields: Any = self.known_regression
        return None if fields is None else KnownRegression(**fields)

    @property
    def levels(self) -> list[float]:
        """`quantiles`, or the usual ones."""
        return self.quantiles or [0.1, 0.5, 0.9]

    def validate_forecast(self) -> None:
        """The rules beyond those of all models; called when a configuration, and when a model is made.

        Raises:
            ValueError: sizes do not add up, or quantiles do not rise or lack the median.
        """
        for name in ("horizon", "context", "future_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if min(self.periods) < 1 or self.periods != sorted(set(self.periods)):
            raise ValueError(f"seasons must be at least 1, the shortest first, got {self.seasons}")
        if self.levels != sorted(set(self.levels)) or 0.5 not in self.levels or not 0 < self.levels[0]:
            raise ValueError(f"quantiles must rise, lie between 0 and 1 and hold 0.5, got {self.quantiles}")
        if self.levels[-1] >= 1:
            raise ValueError(f"quantiles must lie between 0 and 1, got {self.quantiles}")
        covariates = self.known_size + self.past_size + self.static_size
        for name in ("covariate_means", "covariate_deviations"):
            values = getattr(self, name)
            if values is not None and len(values) != covariates:
                raise ValueError(f"{name} must have a number for each of {covariates} covariates, got {len(values)}")
        if not self.embedding_size:
            raise ValueError("a model that forecasts needs an embedding: set embedding_size to 1 or more")
        if self.usual_deviation is not None and not self.usual_deviation > 0:
            raise ValueError(f"usual_deviation must be above 0, got {self.usual_deviation}")
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage must lie between 0 and 1, got {self.shrinkage}")
        for name, width in (("bands", len(self.levels)), ("typical_errors", SMOOTHERS + len(self.periods))):
            lists: list[list[float]] | None = getattr(self, name)
            if lists is not None and (len(lists) != self.horizon or {len(step) for step in lists} != {width}):
                raise ValueError(f"{name} must be {self.horizon} lists of {width} numbers")
        if self.known_regression is not None:
            self._validate_regression(self.known_regression)
        if self.bidirectional:
            raise ValueError("a model that forecasts reads forwards alone: set bidirectional=False")

    def _validate_regression(self, fields: dict[str, Any]) -> None:
        sizes = {name: len(value) for name, value in fields.items() if name != "relative"}
        columns = dict.fromkeys(("knots", "weights", "centres"), self.known_size) | {"limits": 2}
        if sizes != columns or not isinstance(fields.get("relative"), bool):
            raise ValueError(
                f"known_regression must have knots, weights and a centre for each of {self.known_size} known "
                "covariates, two limits, and relative, which is true or false"
            )
        for knots, weights in zip(fields["knots"], fields["weights"], strict=True):
            if not knots or len(knots) != len(weights):
                raise ValueError(f"known_regression must have a weight for each knot, got {weights} for {knots}")
