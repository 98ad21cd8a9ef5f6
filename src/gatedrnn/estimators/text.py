"""A classifier and a regressor of texts."""

from abc import abstractmethod
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.random import RandomState
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gatedrnn.data import TEXT, TEXT_REGRESSION
from gatedrnn.data.frames import Data, InMemory, is_frame, table_of, with_classes
from gatedrnn.data.text import encode_texts
from gatedrnn.estimators.base import GatedEstimator, Settings, as_value_errors
from gatedrnn.estimators.labels import Labels, OfClasses, OfNumbers, checked_labels, merged
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.models.opening import Finished
from gatedrnn.tables.table import with_whole_characters
from gatedrnn.training.predict import log_probabilities, outputs_of

LONGEST = 1 << 40
"""transformers' number for no limit fits no slice."""


class _TextEstimator(GatedEstimator):
    """The base of both."""

    def __init__(
        self, cell: str = "mingru", *, hidden_size: int | None = None, num_layers: int | None = None,
        bidirectional: bool | None = None, epochs: int | None = None, total_steps: int | None = None,
        learning_rate: float | None = None, batch_size: int | None = None, dropout: float | None = None,
        members: int | None = None, tokenizer: str | None = None, max_tokens: int | None = None,
        linear_path: bool | None = None, validation_fraction: float | None = None,
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
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.linear_path = linear_path
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.threads = threads
        self.settings = settings

    def _fit(self, X: Data, y: Labels, sample_weight: Labels | None) -> None:
        texts = _texts(X)
        rows, labels, weights = checked_labels(texts, y, sample_weight)
        labels, texts = self._labels(labels), [texts[row] for row in rows]
        with as_value_errors():
            rows, weights = merged(texts, labels, None, weights)
        columns: dict[str, Any] = {"text": [texts[row] for row in rows], "label": labels[rows]}
        asked: dict[str, Any] = {"text_column": "text", "label_column": "label", "test_fraction": 0.0} | self._asked()
        if weights is not None:
            columns["weight"], asked["weight_column"] = weights, "weight"
        names, table = self._names(), pa.table(columns)
        if names is not None:
            asked["several_labels"] = False
        held = InMemory({"train": table if names is None else with_classes(table, names)})
        finished = self._trained(held, asked)
        # In float64 what is predicted of a text is the same whatever others it is predicted with.
        self.model_: GatedRNNForSequenceClassification = cast(Any, finished.model.double())
        self.tokenizer_ = finished.tokenizer

    @abstractmethod
    def _labels(self, y: np.ndarray) -> np.ndarray:
        """The labels as they are learned: numbers, or numbers of classes."""

    @abstractmethod
    def _names(self) -> list[str] | None:
        """The names of classes."""

    def _outputs(self, X: Data) -> np.ndarray:
        """The model's output for each text, (texts, labels), float64."""
        check_is_fitted(self)
        assert self.tokenizer_ is not None
        longest = min(self.tokenizer_.model_max_length, LONGEST)
        inputs = encode_texts(self.tokenizer_, _texts(X), longest, "X", [])
        return np.stack(outputs_of(Finished(self.model_, self.tokenizer_, self._task), inputs))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _texts(X: Data) -> list[str]:
    """Texts of a list, an array, a column, or a frame of one column.

    Raises:
        ValueError: one is no text, or there are none.
    """
    if is_frame(X):
        table = table_of(X)[0]
        if table.num_columns != 1:
            raise ValueError(f"X must be one column of texts, got the columns {', '.join(table.column_names)}")
        X = table[0].to_pylist()
    if isinstance(X, str):
        raise ValueError("X must be several texts, got one str: put it into a list")
    texts = np.asarray(X, dtype=object)
    texts = texts[:, 0] if texts.ndim == 2 and texts.shape[1] == 1 else texts
    if texts.ndim != 1 or not len(texts):
        raise ValueError(f"X must be a list or a column of texts, got the shape {texts.shape}")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X: row {row} is no text but {type(text).__name__} {str(text)[:40]!r}")
    mended: list[str] = with_whole_characters(texts.tolist(), "X")
    return mended


class TextClassifier(OfClasses, _TextEstimator):
    """A classifier of texts.

    Args:
        cell: name of the cell, with options as in "gru:reset_after=false".
        hidden_size: channels of its state.
        num_layers: layers of cells.
        bidirectional: read texts from both ends.
        epochs: passes over the data; or
        total_steps: optimizer steps, in their place.
        learning_rate: its highest value.
        batch_size: texts in a step.
        dropout: between layers.
        members: networks whose answers are averaged.
        tokenizer: "words", "pieces", "whitespace", "tokens", "bpe", "characters" or "bytes".
        max_tokens: longer texts are cut there; 0 for none.
        linear_path: put a linear model of TF-IDF n-grams beside the network.
        validation_fraction: texts that are set apart to choose weights by; 0 for none.
        random_state: the seed: initialisation, order of batches and dropout follow from it.
        threads: threads of torch while it trains.
        settings: any other setting of `gatedrnn train --task text-classification`, as in `Settings(clip=0.5)`;
            `settings__clip` reaches into it.

    What is None is what the recipe of `gatedrnn train` has: the data decide some of it, and `settings_` tells it after
    `fit`.

    Attributes:
        classes_: the classes, in the order of `predict_proba`'s columns.

    Example:
        >>> from gatedrnn.estimators import TextClassifier
        >>> texts = ["a good film", "a bad film", "good", "quite bad"]
        >>> model = TextClassifier(total_steps=10, hidden_size=8).fit(texts, [1, 0, 1, 0])
        >>> model.predict_proba(["good", "bad"]).shape
        (2, 2)
    """

    _task = TEXT

    def fit(self, X: Data, y: Labels = None, *, sample_weight: Labels | None = None) -> Self:
        """Train on texts with a class each.

        Args:
            X: texts: a list, an array, a column, or a frame of one column.
            y: (texts,), a class each.
            sample_weight: (texts,), what each counts in the loss; 2 is the same as twice that text.

        Raises:
            ValueError: there is one class, or something is no text.
        """
        self._fit(X, y, sample_weight)
        return self

    def predict_proba(self, X: Data) -> np.ndarray:
        """Return the probability of each class, (texts, classes), in the order of `classes_`."""
        return np.exp(log_probabilities(self._outputs(X)))

    def predict(self, X: Data) -> np.ndarray:
        """Return the likeliest class of each text, (texts,)."""
        outputs = self._outputs(X)
        return cast(np.ndarray, self.classes_[outputs.argmax(1)])


class TextRegressor(OfNumbers, _TextEstimator):
    """A regressor of texts: one number for each text.

    Args and attributes are those of `TextClassifier`, without classes.

    Example:
        >>> from gatedrnn.estimators import TextRegressor
        >>> texts = ["very good", "good", "bad", "very bad"]
        >>> TextRegressor(total_steps=10, hidden_size=8).fit(texts, [2.0, 1.0, -1.0, -2.0]).predict(["good"]).shape
        (1,)
    """

    _task = TEXT_REGRESSION

    def fit(self, X: Data, y: Labels = None, *, sample_weight: Labels | None = None) -> Self:
        """Train on texts with a number each; arguments as of `TextClassifier.fit`."""
        self._fit(X, y, sample_weight)
        return self

    def predict(self, X: Data) -> np.ndarray:
        """Return the number of each text, (texts,), float64."""
        return self._outputs(X)[:, 0]
