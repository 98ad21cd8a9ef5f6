"""A classifier and a regressor of series of numbers."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.random import RandomState
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from gatedrnn.data import SERIES, SERIES_REGRESSION
from gatedrnn.data.files import LABEL_COLUMNS
from gatedrnn.data.frames import Data, Frame, InMemory, as_series, is_frame, series_table, table_of
from gatedrnn.estimators.base import GatedEstimator, Settings, as_value_errors
from gatedrnn.estimators.labels import Labels, OfClasses, OfNumbers, checked_labels, merged
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.models.opening import Finished
from gatedrnn.tables.keys import SERIES_COLUMNS
from gatedrnn.tables.table import Table
from gatedrnn.tasks.series.files import Reading, check_channels, read_series
from gatedrnn.tasks.series.read import gaps_of
from gatedrnn.training.predict import log_probabilities, outputs_of

Times: TypeAlias = Sequence[np.ndarray] | np.ndarray
"""The times of steps that are unevenly far apart: of each series, (time,), or of all, (series, time)."""


class _SeriesEstimator(GatedEstimator):
    """The base of both."""

    def __init__(
        self, cell: str = "mingru", *, hidden_size: int | None = None, num_layers: int | None = None,
        bidirectional: bool | None = None, epochs: int | None = None, total_steps: int | None = None,
        learning_rate: float | None = None, batch_size: int | None = None, dropout: float | None = None,
        members: int | None = None, random_convolutions: int | None = None, validation_fraction: float | None = None,
        random_state: int | RandomState | None = 0, threads: int | None = None, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self.cell = cell
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.epochs = epochs
        self.total_steps = total_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.dropout = dropout
        self.members = members
        self.random_convolutions = random_convolutions
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.threads = threads
        self.settings = settings

    label_column_: str | None
    feature_names_in_: np.ndarray

    def _fit(self, X: Data, y: Labels, times: Times | None, sample_weight: Labels | None) -> None:
        series, y, times = self._series(X, y, times, reset=True)
        rows, labels, weights = checked_labels(series, y, sample_weight)
        labels = self._labels(labels)
        series = [series[row] for row in rows]
        times = None if times is None else [times[row] for row in rows]
        with as_value_errors():
            rows, weights = merged(series, labels, times, weights)
            table = series_table(
                [series[row] for row in rows], labels[rows], classes=self._names(),
                times=None if times is None else [times[row] for row in rows], weights=weights,
            )  # fmt: skip
        asked = {"test_fraction": 0.0, "uneven": times is not None} | self._asked()
        if weights is not None:
            asked["weight_column"] = "weight"
        finished = self._trained(InMemory({"train": table}), asked)
        # In float64 what is predicted of a series is the same whatever others it is predicted with.
        self.model_: GatedRNNForSequenceClassification = cast(Any, finished.model.double())
        self.reads_times_ = times is not None

    @abstractmethod
    def _labels(self, y: np.ndarray) -> np.ndarray:
        """The labels as they are learned: numbers, or numbers of classes."""

    @abstractmethod
    def _names(self) -> list[str] | None:
        """The names of classes."""

    def _outputs(self, X: Data, times: Times | None) -> np.ndarray:
        """The model's output for each series, (series, labels), float64."""
        check_is_fitted(self)
        series, _, times = self._series(X, None, times, reset=False)
        if (times is None) == self.reads_times_:
            raise ValueError("times must be given" if self.reads_times_ else "the model was fitted without times")
        gaps = None if times is None else [gaps_of(np.asarray(own, np.float64)) for own in times]
        return np.stack(outputs_of(Finished(self.model_, None, self._task), series, gaps))

    def _series(
        self, X: Data, y: Labels | None, times: Times | None, *, reset: bool
    ) -> tuple[list[np.ndarray], Labels, Times | None]:
        """Series, each (time, channels), with their labels and times."""
        if is_frame(X) and (column := self._series_column(X)) is not None:
            with as_value_errors():
                return self._of_long_frame(X, y, column, reset=reset)
        if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
            with as_value_errors():
                series = as_series(X)
            self._check_channels(series[0].shape[1], reset=reset)
            return series, y, times
        if isinstance(X, list | tuple) and len({np.size(one) for one in X}) > 1:
            with as_value_errors():
                series = as_series(X)
            self._check_channels(1, reset=reset)
            return series, y, times
        how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "allow_nd": True, "reset": reset}
        if reset and y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = validate_data(self, X, **how)
        with as_value_errors():
            return as_series(X), y, times

    def _series_column(self, X: Frame) -> str | None:
        """The column that names the series of a frame with a row a step; None of one with a row a series."""
        named = self._asked().get("series_column")
        usual = (str(name) for name in X.columns if str(name).lower() in SERIES_COLUMNS)
        return next(usual, None) if named is None else str(named)

    def _of_long_frame(
        self, X: Frame, y: Labels | None, column: str, *, reset: bool
    ) -> tuple[list[np.ndarray], Labels, Times | None]:  # fmt: skip
        table, asked = table_of(X)[0], self._asked()
        how = {name: value for name, value in asked.items() if name in Reading._fields}
        usual = (name for name in table.column_names if name.lower() in LABEL_COLUMNS)
        named = y if isinstance(y, str) else next(usual, None)
        if not reset:
            named = named if self.label_column_ is None else self.label_column_
        inputs = table if named is None or named not in table.column_names else table.drop_columns([named])
        reading = Reading(**{**how, "series_column": column})  # type: ignore[arg-type]
        channels = None if reset else self.feature_names_in_.tolist()
        series = read_series(Table.of_arrow(inputs), reading, channels=channels, labelled=False)
        self._check_channels(len(series.channels), reset=reset)
        if not reset:
            check_channels(series, self.feature_names_in_.tolist(), "X")
            return series.values, None, series.times
        self.feature_names_in_, self.label_column_ = np.array(series.channels, dtype=object), named
        if isinstance(y, str) or y is None:
            if named is None or named not in table.column_names:
                raise ValueError(
                    f"X has no column {named!r}" if named else "give y, or the name of X's column of labels"
                )
            assert series.rows is not None
            values = table[named].to_pylist()
            y = np.array([values[int(rows[0]) - 1] for rows in series.rows])
            if any(len({values[int(row) - 1] for row in rows}) > 1 for rows in series.rows):
                raise ValueError(f"column {named!r} has several labels within one series")
        return series.values, y, series.times

    def _check_channels(self, channels: int, *, reset: bool) -> None:
        if reset:
            self.n_features_in_ = channels
        elif channels != self.n_features_in_:
            raise ValueError(
                f"X has {channels} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.three_d_array = True
        return tags


class SeriesClassifier(OfClasses, _SeriesEstimator):
    """A classifier of series of numbers, of one channel or several, of equal lengths or not.

    Args:
        cell: name of the cell, with options as in "gru:reset_after=false".
        hidden_size: channels of its state.
        num_layers: layers of cells.
        bidirectional: read series from both ends.
        epochs: passes over the data; or
        total_steps: optimizer steps, in their place.
        learning_rate: its highest value.
        batch_size: series in a step.
        dropout: between layers.
        members: networks whose answers are averaged.
        random_convolutions: features of fixed random convolutions that a linear path reads beside the network.
        validation_fraction: series that are set apart to choose weights by; 0 for none.
        random_state: the seed: initialisation, order of batches and dropout follow from it.
        threads: threads of torch while it trains.
        settings: any other setting of `gatedrnn train --task series-classification`, as in `Settings(clip=0.5)`;
            `settings__clip` reaches into it.

    What is None is what the recipe of `gatedrnn train` has: the data decide some of it, and `settings_` tells it after
    `fit`.

    Attributes:
        classes_: the classes, in the order of `predict_proba`'s columns.
        n_features_in_: steps of series of one array (series, time), else channels.

    Example:
        >>> import numpy as np
        >>> from gatedrnn.estimators import SeriesClassifier
        >>> X = np.random.default_rng(0).normal(size=(20, 30))
        >>> y = np.where(X[:, -5:].mean(1) > 0, "up", "down")
        >>> model = SeriesClassifier(total_steps=20, random_convolutions=100).fit(X, y)
        >>> model.predict(X[:2]).shape, model.classes_.tolist()
        ((2,), ['down', 'up'])
    """

    _task = SERIES

    def fit(
        self, X: Data, y: Labels = None, *, times: Times | None = None, sample_weight: Labels | None = None
    ) -> Self:
        """Train on series with a class each.

        Args:
            X: (series, time), (series, channels, time), a list of (time,) or (time, channels), NaN where nothing was
                measured; or a frame with a row a step and a column that names the series.
            y: (series,), a class each; of a frame, the name of a column, or classes in the order of its series.
            times: of the steps, where these are unevenly far apart: (series, time), or a list of (time,), rising.
            sample_weight: (series,), what each counts in the loss; 2 is the same as twice that series.

        Raises:
            ValueError: there is one class, or a shape, a label or a value cannot be used.
        """
        self._fit(X, y, times, sample_weight)
        return self

    def predict_proba(self, X: Data, *, times: Times | None = None) -> np.ndarray:
        """Return the probability of each class, (series, classes), in the order of `classes_`."""
        return np.exp(log_probabilities(self._outputs(X, times)))

    def predict(self, X: Data, *, times: Times | None = None) -> np.ndarray:
        """Return the likeliest class of each series, (series,)."""
        outputs = self._outputs(X, times)
        return cast(np.ndarray, self.classes_[outputs.argmax(1)])


class SeriesRegressor(OfNumbers, _SeriesEstimator):
    """A regressor of series of numbers: one number for each series.

    Args and attributes are those of `SeriesClassifier`, without classes.

    Example:
        >>> import numpy as np
        >>> from gatedrnn.estimators import SeriesRegressor
        >>> X = np.random.default_rng(0).normal(size=(20, 30))
        >>> SeriesRegressor(total_steps=20, random_convolutions=100).fit(X, X.mean(1)).predict(X[:2]).shape
        (2,)
    """

    _task = SERIES_REGRESSION

    def fit(
        self, X: Data, y: Labels = None, *, times: Times | None = None, sample_weight: Labels | None = None
    ) -> Self:
        """Train on series with a number each; arguments as of `SeriesClassifier.fit`."""
        self._fit(X, y, times, sample_weight)
        return self

    def predict(self, X: Data, *, times: Times | None = None) -> np.ndarray:
        """Return the number of each series, (series,), float64."""
        return self._outputs(X, times)[:, 0]
