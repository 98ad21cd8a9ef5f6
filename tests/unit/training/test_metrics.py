"""Scores by name: scikit-learn's numbers; and what each row adds to one is what leaving the row out takes away."""

from dataclasses import astuple
from functools import partial

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import spearmanr
from sklearn import metrics as sklearn

from gatedrnn.data import Examples
from gatedrnn.training.metrics import _METRICS, IGNORED, Answers, class_scores, judge, label_scores

ROWS = 120
close = partial(pytest.approx, rel=1e-10, abs=1e-12)


def of_classes(classes=3, seed=0, rows=ROWS):
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, rows)
    return Answers(random.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[true], true)


def of_several(seed=0, rows=ROWS):
    """Outputs are rounded, so that some are equal."""
    random = np.random.default_rng(seed)
    true = (random.random((rows, 4)) < 0.3).astype(np.float32)
    return Answers(np.round(random.normal(size=(rows, 4)) + 2 * true - 1, 1), true)


def of_numbers(seed=0, rows=ROWS):
    random = np.random.default_rng(seed)
    true = random.normal(3, 2, rows)
    return Answers((true + random.normal(size=rows))[:, None], true, unit=2.0)


def one_against_rest(score, answers):
    return score(answers.true, softmax(answers.outputs, axis=1))


BY_SKLEARN = {
    (of_classes, "accuracy"): lambda a: sklearn.accuracy_score(a.true, a.outputs.argmax(1)),
    (of_classes, "balanced_accuracy"): lambda a: sklearn.balanced_accuracy_score(a.true, a.outputs.argmax(1)),
    (of_classes, "micro_f1"): lambda a: sklearn.f1_score(a.true, a.outputs.argmax(1), average="micro"),
    (of_classes, "macro_f1"): lambda a: sklearn.f1_score(a.true, a.outputs.argmax(1), average="macro"),
    (of_classes, "auroc"): lambda a: sklearn.roc_auc_score(a.true, softmax(a.outputs, axis=1), multi_class="ovr"),
    (of_classes, "average_precision"): lambda a: sklearn.average_precision_score(a.true, softmax(a.outputs, axis=1)),
    (of_classes, "log_loss"): lambda a: sklearn.log_loss(a.true, softmax(a.outputs, axis=1)),
    (of_several, "accuracy"): lambda a: sklearn.accuracy_score(a.true, a.outputs > 0),
    (of_several, "micro_f1"): lambda a: sklearn.f1_score(a.true, a.outputs > 0, average="micro"),
    (of_several, "macro_f1"): lambda a: sklearn.f1_score(a.true, a.outputs > 0, average="macro"),
    (of_several, "auroc"): lambda a: sklearn.roc_auc_score(a.true, a.outputs),
    (of_several, "average_precision"): lambda a: sklearn.average_precision_score(a.true, a.outputs),
    (of_several, "log_loss"): lambda a: sklearn.log_loss(a.true.ravel(), expit(a.outputs.ravel())),
    (of_numbers, "r2"): lambda a: sklearn.r2_score(a.true, a.outputs[:, 0]),
    (of_numbers, "spearman"): lambda a: spearmanr(a.true, a.outputs[:, 0]).statistic,
    (of_numbers, "scaled_mae"): lambda a: sklearn.mean_absolute_error(a.true, a.outputs[:, 0]) / 2,
}
CASES = [pytest.param(make, name, id=f"{name}-{make.__name__}") for make, name in BY_SKLEARN]


@pytest.mark.parametrize("make, name", CASES)
def test_the_mean_over_rows_is_the_score_of_scikit_learn(make, name):
    for seed in range(3):
        answers = make(seed=seed)
        assert _METRICS[name](answers).mean() == close(BY_SKLEARN[make, name](answers))


@pytest.mark.parametrize("make, name", CASES)
def test_a_row_moves_the_score_as_leaving_it_out_does(make, name):
    """The jackknife's pseudo-values agree with influences up to a part of about 1 / rows."""
    answers, rows = make(), np.arange(ROWS)
    whole, some = _METRICS[name](answers), rows[::3]

    def without(row):
        kept = rows != row
        return BY_SKLEARN[make, name](answers._replace(outputs=answers.outputs[kept], true=answers.true[kept]))

    moved = np.array([(ROWS - 1) * (whole.mean() - without(row)) for row in some])
    found = (whole - whole.mean())[some]
    assert np.abs(moved - found).max() < 0.15 * np.abs(found).max(), name
    assert np.corrcoef(moved, found)[0, 1] > 0.999


@pytest.mark.parametrize("name", ["auroc", "average_precision"])
def test_of_two_classes_the_second_is_what_is_ranked(name):
    answers = of_classes(classes=2)
    score = {"auroc": sklearn.roc_auc_score, "average_precision": sklearn.average_precision_score}[name]
    found = _METRICS[name](answers).mean()
    assert found == close(score(answers.true, softmax(answers.outputs, axis=1)[:, 1]))


def test_what_has_no_order_has_no_rank_correlation_and_no_area_and_classes_that_are_not_there_do_not_count():
    numbers = of_numbers()._replace(outputs=np.ones((ROWS, 1)))
    assert _METRICS["spearman"](numbers).mean() == 0
    alone = Answers(np.random.default_rng(0).normal(size=(5, 2)), np.zeros(5, np.int64))
    assert _METRICS["auroc"](alone).mean() == 0.5 and _METRICS["average_precision"](alone).mean() == 0
    several = of_several()
    several.true[:, 2] = 0
    there = [0, 1, 3]
    theirs = sklearn.roc_auc_score(several.true[:, there], several.outputs[:, there])
    assert _METRICS["auroc"](several).mean() == close(theirs)


def test_tags_are_scored_word_by_word_and_paired_row_by_row():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 8, 30)
    inputs = [np.zeros(length, np.int64) for length in lengths]
    labels = np.full((30, lengths.max()), IGNORED)
    for row, length in enumerate(lengths):
        labels[row, :length] = random.integers(0, 3, length)
        labels[row, 0] = IGNORED  # a step that begins no word
    outputs = [random.normal(size=(length, 3)) for length in lengths]
    true = labels[labels != IGNORED]
    predicted = np.concatenate([output.argmax(1)[1:] for output in outputs])
    for metric, expected in (
        ("accuracy", sklearn.accuracy_score(true, predicted)),
        ("macro_f1", sklearn.f1_score(true, predicted, average="macro")),
    ):
        found = judge(Examples(inputs, labels, metric=metric), outputs)
        assert found.outcomes.rate == close(expected)
        assert getattr(found.scores, metric) == close(expected)
        assert found.outcomes.counts.tolist() == (lengths - 1).tolist()
    assert found.confusion == sklearn.confusion_matrix(true, predicted).tolist()


def test_the_scores_of_each_class_and_label_follow_from_their_counts():
    answers, names = of_classes(), ["a", "b", "c"]
    predicted = answers.outputs.argmax(1)
    found = class_scores(sklearn.confusion_matrix(answers.true, predicted).tolist(), names)
    several = of_several()
    each = sklearn.multilabel_confusion_matrix(several.true, several.outputs > 0).tolist()
    for ours, true, guess, what in (
        (found, answers.true, predicted, names),
        (label_scores(each, list("abcd")), several.true, several.outputs > 0, list("abcd")),
    ):
        theirs = sklearn.precision_recall_fscore_support(true, guess)
        for place, name in enumerate(what):
            assert ours[place].name == name and ours[place].support == theirs[3][place]
            assert list(astuple(ours[place])[1:4]) == close([one[place] for one in theirs[:3]])


def test_outputs_that_are_no_numbers_leave_a_loss_that_is_none():
    examples = Examples([np.zeros(1, np.int64)] * 4, np.array([0, 1, 0, 1]), metric="auroc")
    assert np.isnan(judge(examples, [np.array([np.nan, 0.0])] * 4).scores.loss)
