"""Settings of tagged words."""

from typing import Literal

from gatedrnn.data.settings import NOT_POOLED, TextFileSettings


class TaggingSettings(TextFileSettings):
    """Texts as lists of words, with a tag for each word."""

    holds = "tags"
    uses = ()
    refuses = NOT_POOLED
    metric: Literal["accuracy", "balanced-accuracy", "macro-f1", "log-loss"] = "accuracy"
    """The metric that the best weights are chosen by, and that is reported first; over all words."""
