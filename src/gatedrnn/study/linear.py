"""The baseline without a network for texts: a linear classifier over weighted words and word pairs."""

import logging
import time

from gatedrnn.data import TaskData
from gatedrnn.study.results import LinearBaseline, LinearMeasured

LOG = logging.getLogger("gatedrnn")
NAME = "TF-IDF bigrams + LinearSVC"


def linear_baseline(data: TaskData) -> LinearBaseline | None:
    """Train on the same training split as the contenders; score validation and test.

    Returns:
        Scores, number of weights and the seconds of fitting. None if the texts hold no word of two letters or more:
        scikit-learn's rule for words leaves shorter ones out, one-syllable Korean ones too.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    LOG.info("fitting %s to %s texts", NAME, f"{len(data.texts['train'].texts):,}")
    started = time.perf_counter()
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC(random_state=0))
    try:
        pipeline.fit(data.texts["train"].texts, data.texts["train"].labels)
    except ValueError:
        return None  # no word of two letters or more in any text
    seconds = time.perf_counter() - started

    def accuracy(split: str) -> float:
        return float(pipeline.score(data.texts[split].texts, data.texts[split].labels))

    return LinearBaseline(
        name=NAME,
        parameters=int(pipeline[-1].coef_.size + pipeline[-1].intercept_.size),
        validation_accuracy=accuracy("validation"),
        test_accuracy=accuracy("test"),
        measured=LinearMeasured(training_seconds=seconds),
    )
