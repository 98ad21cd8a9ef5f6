"""The baseline of tagged words: the most frequent tag of each."""

from collections.abc import Iterator
from typing import cast

import numpy as np

from gatedrnn.data import Examples, TaskData
from gatedrnn.training.baseline import Fit, Fitted
from gatedrnn.training.metrics import IGNORED, judge
from gatedrnn.training.outcomes import Outcomes


def tag_baselines(data: TaskData) -> Iterator[tuple[str, Fit]]:
    """Each with its name."""
    yield "most frequent tag of a word", lambda: _tags(data)


def _tags(data: TaskData) -> Fitted:
    """A baseline that counts how often a word, as it is written, has each tag in training, with one more of the usual
    shares: the likeliest is the most frequent one; of an unseen word that of all.
    """
    counts = dict[str, np.ndarray]()
    for words, tags in zip(_words(data, "train"), data.texts["train"].labels, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, np.zeros(len(data.label_names)))[tag] += 1
    usual = np.sum(list(counts.values()), axis=0) + 1
    usual /= usual.sum()

    def answer(split: str) -> Outcomes:
        examples, outputs = cast(Examples, data.evaluation[split]), []
        for words, inputs, labels in zip(_words(data, split), examples.inputs, examples.labels, strict=True):
            scores = np.zeros((len(inputs), len(usual)))
            places = np.flatnonzero(labels[: len(inputs)] != IGNORED)
            for place, word in zip(places, words, strict=True):
                scores[place] = np.log(counts.get(word, 0.0) + usual)
            outputs.append(scores)
        return judge(examples, outputs).outcomes

    return Fitted(len(counts), answer)


def _words(data: TaskData, split: str) -> list[list[str]]:
    words = data.texts[split].words
    assert words is not None
    return words
