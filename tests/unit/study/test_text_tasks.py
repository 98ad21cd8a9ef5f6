"""Comparisons of texts with several labels, a number, or a tag a word: plain methods against scikit-learn, verdicts."""

from collections import Counter

import numpy as np
import pytest
from finished_comparison import small_comparison
from sklearn import metrics
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.svm import LinearSVC
from text_targets import films, sentences, write_lines

from gatedrnn.data import data_settings, load_task
from gatedrnn.study.experiment import compare
from gatedrnn.study.plain import constant, plain_baselines
from gatedrnn.study.report import write_report
from gatedrnn.study.statistics import Sample, Table
from gatedrnn.tasks.text.baselines import PENALTIES
from gatedrnn.training.metrics import IGNORED


def task(folder, name, left_out=None, **given):
    rows = sentences(80) if name == "token-classification" else films(120)
    rows = [{column: value for column, value in row.items() if column != left_out} for row in rows]
    return data_settings(name, train_file=write_lines(folder / "rows.jsonl", rows), **given)


KINDS = {
    "bigrams": {"ngram_range": (1, 2)}, "character n-grams": {"analyzer": "char_wb", "ngram_range": (1, 5)},
    "letters": {"analyzer": "char", "ngram_range": (1, 3)},
}  # fmt: skip


def features(data, kind):
    reading = TfidfVectorizer(sublinear_tf=True, **KINDS[kind]).fit(data.texts["train"].texts)
    return reading.transform(data.texts["train"].texts), reading.transform(data.texts["test"].texts)


def two_kinds(data, model):
    """The baselines of words and of characters, each with its features."""
    names = [f"TF-IDF {kind} + {model}" for kind in ("bigrams", "character n-grams")]
    found = plain_baselines(data, threads=1)
    assert [one.name for one in found] == names
    return [(one, *features(data, kind)) for one, kind in zip(found, KINDS, strict=False)]


@pytest.mark.parametrize("metric", ["macro-f1", "auroc"])
def test_each_of_several_labels_has_a_logistic_regression(metric, tmp_path):
    data = load_task(task(tmp_path, "text-classification", "score", metric=metric))
    true = data.evaluation["test"].labels
    for found, train, test in two_kinds(data, "logistic regression for each label"):
        models = [LogisticRegression(max_iter=1000).fit(train, label) for label in data.train.labels.T]
        scores = np.stack([model.decision_function(test) for model in models], axis=1)
        expected = metrics.roc_auc_score(true, scores) if metric == "auroc" else (
            metrics.f1_score(true, scores > 0, average="macro", zero_division=0)
        )  # fmt: skip
        assert found.outcomes["test"].rate == pytest.approx(expected)
        assert found.parameters == 3 * (train.shape[1] + 1)


def test_numbers_have_a_ridge_and_the_mean_explains_nothing(tmp_path):
    data = load_task(task(tmp_path, "text-regression", "genres", metric="r2"))
    true = data.evaluation["test"].labels
    for found, train, test in two_kinds(data, "ridge"):
        predicted = RidgeCV(PENALTIES).fit(train, data.train.labels).predict(test)
        assert found.outcomes["test"].rate == pytest.approx(metrics.r2_score(true, predicted))
    expected = metrics.r2_score(true, np.full(len(true), data.train.labels.mean()))
    assert constant(data).outcomes["test"].rate == pytest.approx(expected)


def test_words_have_their_most_frequent_tag_and_unseen_ones_the_most_frequent_of_all(tmp_path):
    data = load_task(task(tmp_path, "token-classification"))
    (found,) = plain_baselines(data, threads=1)
    counts = {}
    for words, tags in zip(data.texts["train"].words, data.texts["train"].labels, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    usual = sum(counts.values(), Counter()).most_common(1)[0][0]
    own = [
        [counts.get(word, Counter([usual])).most_common(1)[0][0] for word in words]
        for words in data.texts["test"].words
    ]  # fmt: skip
    right = [np.equal(one, other).sum() for one, other in zip(own, data.texts["test"].labels, strict=True)]
    assert found.outcomes["test"].values.tolist() == right
    majority = constant(data).outcomes["test"]
    labels = data.train.labels[data.train.labels != IGNORED]
    always = np.bincount(labels).argmax()
    assert majority.values.tolist() == [sum(tag == always for tag in tags) for tags in data.texts["test"].labels]


def test_a_log_loss_is_compared_with_probabilities(tmp_path):
    rows = [{"text": row["text"], "label": "long" in row["genres"]} for row in films(120)]
    file = write_lines(tmp_path / "a.jsonl", rows)
    data = load_task(data_settings("text-classification", train_file=file, metric="log-loss"))
    for found, train, test in two_kinds(data, "logistic regression"):
        shares = LogisticRegression(max_iter=1000).fit(train, data.train.labels).predict_proba(test)
        expected = metrics.log_loss(data.evaluation["test"].labels, shares)
        assert found.outcomes["test"].rate == pytest.approx(expected)


@pytest.mark.parametrize("language", ["Chinese", "Japanese", "Thai"])
def test_characters_are_read_where_no_blank_divides_words(language, tmp_path):
    fine, poor, filling = {
        "Chinese": ("很好", "不行", "这本书我看完了觉得作者写"), "Japanese": ("最高", "残念", "この映画を見たけれど"),
        "Thai": ("ดีมาก", "แย่", "หนังเรื่องนี้ฉันดูแล้วรู้สึกว่า"),
    }[language]  # fmt: skip
    random = np.random.default_rng(0)
    rows = []
    for n in range(120):
        places = random.permutation(len(filling))
        start = "".join(filling[place] for place in places)
        rows.append({"text": f"{start}{fine if n % 2 else poor}{start[::-1]}", "label": "ab"[n % 2]})
    data = load_task(data_settings("text-classification", train_file=write_lines(tmp_path / "a.jsonl", rows)))
    rates = {one.name: one.outcomes["test"].rate for one in plain_baselines(data, threads=1)}
    models = ("LinearSVC", "logistic regression")
    names = [f"TF-IDF {kind} + {model}" for model in models for kind in ("bigrams", "character n-grams")]
    assert list(rates) == names, "those that are fitted sooner come first"
    train, test = features(data, "letters")
    for model, own in zip(models, (LinearSVC(random_state=0), LogisticRegression(max_iter=1000)), strict=True):
        expected = own.fit(train, data.train.labels).score(test, data.evaluation["test"].labels)
        assert rates[f"TF-IDF character n-grams + {model}"] == pytest.approx(expected) and expected > 0.95
    if language != "Thai":  # whose signs divide what scikit-learn takes for a word
        assert rates["TF-IDF bigrams + LinearSVC"] < 0.8, "a sentence is one word"


CASES = {
    "text-classification": {"left_out": "score", "metric": "macro-f1"},
    "text-regression": {"left_out": "genres", "metric": "spearman"},
    "token-classification": {"metric": "macro-f1"},
}


@pytest.mark.parametrize("name", CASES)
def test_cells_are_compared_by_the_metric_with_plain_methods_and_a_verdict(name, tmp_path, speed_in_a_moment):
    settings = small_comparison(
        task(tmp_path, name, min_count=1, **CASES[name]), {"total_steps": 2}, cells=["mingru"], hidden_size=8,
        match=["layers"],
    )  # fmt: skip
    results = compare(settings, tmp_path / "comparison")
    assert results.metric.name == CASES[name]["metric"].replace("-", "_") and results.metric.higher_is_better
    for row in results.contenders:
        mean = np.mean([run.score("test", results.metric.name) for run in row.runs])
        assert row.scores["test"].mean == pytest.approx(mean, rel=1e-6)
    rows = 1 + len(results.baseline.plain)
    assert rows > 1 and len(results.pairs) == rows * (rows - 1) // 2
    page = write_report(tmp_path / "comparison").read_text()
    assert f"test {results.metric.name}" in page


def test_what_is_one_at_best_may_lie_below_zero_and_higher_is_better():
    random = np.random.default_rng(0)
    counts = np.ones(200, np.int64)
    low, high = (Sample(mean + random.normal(size=(3, 200)) / 2, counts, "correlation") for mean in (-0.6, 0.9))
    table = Table([low, high])
    first, second = table.estimates()
    assert first.low < first.mean < -0.4 and second.high <= 1
    (pair,) = table.pairs()
    assert pair.verdict == "worse" and pair.difference.mean == pytest.approx(low.rates.mean() - high.rates.mean())
    assert table.rivals() == ("1", [])
