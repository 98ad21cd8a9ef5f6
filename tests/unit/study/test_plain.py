"""Plain baselines: one at least for every task, from its training split alone, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from train_helpers import small_text, text_settings

from gatedrnn.data import Examples, data_settings, load_task
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.outcomes import Outcomes

CONSTANT = {"parity": "majority class", "selective-copying": "majority class", "adding": "mean answer"}


def outcomes_of(data, threads=1) -> dict[str, dict[str, Outcomes]]:
    return {one.name: one.outcomes for one in plain_baselines(data, threads)}


def assert_every_example_has_its_answer(found, data):
    assert list(found) == list(data.evaluation)
    for split, own in found.items():
        assert len(own.values) == len(data.evaluation[split])
        assert np.all(own.values <= own.counts)


@pytest.mark.parametrize("task, name", CONSTANT.items())
def test_a_task_without_another_baseline_has_one_answer_for_every_example(task, name):
    data = load_task(data_settings(task=task))
    found = outcomes_of(data)
    assert list(found) == [name]
    assert_every_example_has_its_answer(found[name], data)
    if task == "parity":
        assert found[name]["test"].rate == pytest.approx(0.5, abs=0.05)


@pytest.fixture(scope="module")
def digits():
    data = load_task(data_settings(task="digits"))
    return data, outcomes_of(data)


def test_digits_are_told_apart_by_a_linear_model_and_by_trees(digits):
    data, found = digits
    assert list(found) == ["logistic regression", "gradient boosting"]
    for own in found.values():
        assert_every_example_has_its_answer(own, data)
        assert own["test"].rate > 0.95


def test_test_labels_do_not_change_what_is_answered(digits):
    data, found = digits
    test = data.evaluation["test"]
    turned = Examples(test.inputs, (test.labels + 1) % 10)
    other = outcomes_of(replace(data, evaluation={**data.evaluation, "test": turned}))
    for name in found:
        np.testing.assert_array_equal(found[name]["validation"].values, other[name]["validation"].values)
        assert not np.any(found[name]["test"].values * other[name]["test"].values), "right under both labels"


def test_texts_without_a_word_fall_back_to_the_most_frequent_class(tmp_path):
    file = tmp_path / "letters.csv"
    file.write_text("text,label\n" + "".join(f"{'ab'[n % 3 == 0]} {n % 7},{'xy'[n % 3 == 0]}\n" for n in range(90)))
    data = load_task(data_settings(task="text-classification", train_file=file, min_count=1))
    assert list(outcomes_of(data)) == ["majority class"]


def test_a_language_model_is_compared_with_n_grams_on_the_same_tokens(tmp_path):
    data = load_task(text_settings(small_text(tmp_path / "text.txt")).data)
    (found,) = outcomes_of(data).values()
    for split, own in found.items():
        assert own.counts.sum() == data.evaluation[split].stream.predictions
    # Numbers are hard to guess, the words between them are not: far below the log of the vocabulary's size.
    assert 0.1 < found["test"].rate < 0.5 * np.log(data.model_inputs["vocab_size"])
