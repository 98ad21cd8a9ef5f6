"""A classifier of panels and a forecaster of series, as sktime has them.

sktime comes with the extra [series].
"""

from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.stats import norm
from sktime.classification.base import BaseClassifier
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon

from gatedrnn.estimators.forecaster import Forecaster, Season
from gatedrnn.estimators.series import SeriesClassifier
from gatedrnn.records import Json

TIME, VALUE = "time", "value"


class SktimeClassifier(BaseClassifier):
    """`SeriesClassifier` for sktime.

    Args:
        cell, hidden_size, num_layers, total_steps, learning_rate, members, random_convolutions, random_state, threads:
            as of `SeriesClassifier`.

    Example:
        >>> import numpy as np
        >>> from gatedrnn.estimators.sktime import SktimeClassifier
        >>> X = np.random.default_rng(0).normal(size=(12, 1, 20))
        >>> y = np.where(X.mean((1, 2)) > 0, "up", "down")
        >>> SktimeClassifier(total_steps=10, random_convolutions=50).fit(X, y).predict(X).shape
        (12,)
    """

    _tags: ClassVar[dict[str, object]] = {
        "X_inner_mtype": "numpy3D", "capability:multivariate": True, "capability:missing_values": True,
        "capability:predict_proba": True, "capability:random_state": True, "python_dependencies": None,
        "authors": ["the gatedrnn contributors"], "maintainers": ["the gatedrnn contributors"],
    }  # fmt: skip

    def __init__(
        self, cell: str = "mingru", hidden_size: int | None = None, num_layers: int | None = None,
        total_steps: int | None = None, learning_rate: float | None = None, members: int | None = None,
        random_convolutions: int | None = None, random_state: int | None = 0, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.cell = cell
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.total_steps = total_steps
        self.learning_rate = learning_rate
        self.members = members
        self.random_convolutions = random_convolutions
        self.random_state = random_state
        self.threads = threads
        super().__init__()

    def _fit(self, X: np.ndarray, y: np.ndarray) -> "SktimeClassifier":
        self.estimator_ = SeriesClassifier(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: np.ndarray) -> np.ndarray:
        return self.estimator_.predict(X)

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.estimator_.predict_proba(X)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Json]]:
        """Return small settings, by which sktime's checks run."""
        small: dict[str, Json] = {"total_steps": 4, "hidden_size": 4, "random_convolutions": 50, "threads": 1}
        return [small, small | {"cell": "gru", "random_convolutions": 0}]


class SktimeForecaster(BaseForecaster):
    """`Forecaster` for sktime: of one series, from its own past, as far as the largest step of `fh`.

    Args:
        cell, season, context, hidden_size, num_layers, total_steps, learning_rate, members, random_state, threads: as
            of `Forecaster`.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from gatedrnn.estimators.sktime import SktimeForecaster
        >>> y = pd.Series(np.random.default_rng(0).normal(size=80))
        >>> SktimeForecaster(total_steps=4).fit(y, fh=[1, 2, 3]).predict().index.tolist()
        [80, 81, 82]
    """

    _tags: ClassVar[dict[str, object]] = {
        "y_inner_mtype": "pd.Series", "X_inner_mtype": "pd.DataFrame", "capability:exogenous": False,
        "requires-fh-in-fit": True, "capability:random_state": True, "capability:update": True,
        "capability:insample": False, "capability:pred_int": True,
        "capability:pred_int:insample": False, "capability:missing_values": True, "python_dependencies": None,
        "authors": ["the gatedrnn contributors"], "maintainers": ["the gatedrnn contributors"],
    }  # fmt: skip

    def __init__(
        self, cell: str = "mingru", season: Season = "auto", context: int | None = None, hidden_size: int | None = None,
        num_layers: int | None = None, total_steps: int | None = None, learning_rate: float | None = None,
        members: int | None = None, random_state: int | None = 0, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.cell = cell
        self.season = season
        self.context = context
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.total_steps = total_steps
        self.learning_rate = learning_rate
        self.members = members
        self.random_state = random_state
        self.threads = threads
        super().__init__()
        self.set_config(remember_data=False)  # it is in `seen_`

    def _fit(self, y: pd.Series, X: pd.DataFrame | None, fh: ForecastingHorizon) -> "SktimeForecaster":
        horizon = int(fh.to_relative(self.cutoff).to_numpy().max())
        frame = self._frame(y)
        self.estimator_ = Forecaster(horizon=horizon, **self.get_params(deep=False)).fit(frame, target=VALUE, time=TIME)
        self.seen_ = y
        return self

    def _update(self, y: pd.Series, X: pd.DataFrame | None = None, update_params: bool = True) -> "SktimeForecaster":
        self.seen_ = y.combine_first(self.seen_)
        return self

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None = None) -> pd.Series:
        table, steps = self._ahead(fh)
        return pd.Series(table[VALUE].to_numpy()[steps], index=self._index(fh), name=self.seen_.name)

    def _predict_quantiles(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None, alpha: list[float]
    ) -> pd.DataFrame:  # fmt: skip
        """Quantiles of a normal distribution between those of the model, and beyond them."""
        table, steps = self._ahead(fh)
        levels = list(self.estimator_.quantiles)
        names = [VALUE if level == 0.5 else f"{VALUE}_{level!r}" for level in levels]
        known, scores = table[names].to_numpy()[steps], norm.ppf(levels)
        name, columns = self._get_varnames()[0], {}
        for level in alpha:
            place = int(np.clip(np.searchsorted(scores, norm.ppf(level)) - 1, 0, len(levels) - 2))
            share = (norm.ppf(level) - scores[place]) / (scores[place + 1] - scores[place])
            columns[(name, level)] = known[:, place] + share * (known[:, place + 1] - known[:, place])
        return pd.DataFrame(columns, index=self._index(fh))

    def _ahead(self, fh: ForecastingHorizon) -> tuple[pd.DataFrame, np.ndarray]:
        """The forecast after all that has been seen, and the rows of it that are asked for."""
        return self.estimator_.predict(self._frame(self.seen_)), fh.to_relative(self.cutoff).to_numpy().astype(int) - 1

    def _index(self, fh: ForecastingHorizon) -> pd.Index:
        return fh.to_absolute_index(self.cutoff)

    @staticmethod
    def _frame(y: pd.Series) -> pd.DataFrame:
        """A series as a frame; times are dates where they are, else numbers."""
        index = y.index.to_timestamp() if isinstance(y.index, pd.PeriodIndex) else y.index
        return pd.DataFrame({TIME: np.asarray(index), VALUE: y.to_numpy(np.float64)})

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Json]]:
        """Return small settings, by which sktime's checks run."""
        small: dict[str, Json] = {"total_steps": 2, "hidden_size": 4, "threads": 1, "members": 1}
        small |= {"context": 8, "season": 1}
        return [small, small | {"cell": "gru"}]
