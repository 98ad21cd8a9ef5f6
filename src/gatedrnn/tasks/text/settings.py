"""Settings of texts with labels."""

from typing import Literal

from gatedrnn.data.settings import NO_CLASSES, TextFileSettings


class TextSettings(TextFileSettings):
    """Text classification: AG News, or the user's own files."""

    several_labels: bool | None = None
    """A text has any number of labels: a list, or words with | between them. Found out if not given; it is asked for
    where a column could be either."""
    metric: (
        Literal["accuracy", "balanced-accuracy", "micro-f1", "macro-f1", "auroc", "average-precision", "log-loss"]
        | None
    ) = None
    """The metric that the best weights are chosen by, and that is reported first; accuracy if not given, micro-f1 where
    a text has several labels. auroc and average-precision of more than two classes or labels: their mean over these."""


class TextRegressionSettings(TextFileSettings):
    """Texts with a number each."""

    holds = "number"
    refuses = NO_CLASSES
    metric: Literal["mae", "r2", "spearman"] = "mae"
    """The metric that the best weights are chosen by, and that is reported first: the mean absolute error, the share of
    variance that is explained, or the rank correlation."""
