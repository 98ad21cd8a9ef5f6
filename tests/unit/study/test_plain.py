"""Plain baselines: one at least for every task, from its training split alone, the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from train_helpers import small_text, text_run

from gatedrnn.data import Examples, data_settings, load_task
from gatedrnn.study.plain import plain_baselines
from gatedrnn.train.outcomes import Outcomes

OF_TASK = {
    "digits": ["logistic regression", "gradient boosting"],
    "parity": ["majority class"],
    "selective-copying": ["majority class"],
    "adding": ["mean answer"],
}


def outcomes_of(data, threads=1) -> dict[str, dict[str, Outcomes]]:
    return {one.name: one.outcomes for one in plain_baselines(data, threads)}


@pytest.mark.parametrize("task, names", OF_TASK.items())
def test_every_example_of_every_split_is_answered_the_same_every_time(task, names):
    data = load_task(data_settings(task=task))
    found, again = outcomes_of(data), outcomes_of(data)
    assert list(found) == names
    for name, of_split in found.items():
        assert list(of_split) == list(data.evaluation)
        for split, own in of_split.items():
            assert len(own.values) == len(data.evaluation[split])
            assert np.all(own.values <= own.counts)
            np.testing.assert_array_equal(own.values, again[name][split].values)


def test_digits_are_told_apart_and_coin_tosses_are_not():
    found = outcomes_of(load_task(data_settings(task="digits")))
    assert all(of_split["test"].rate > 0.95 for of_split in found.values())
    (tosses,) = outcomes_of(load_task(data_settings(task="parity"))).values()
    assert tosses["test"].rate == pytest.approx(0.5, abs=0.05)


def test_test_labels_do_not_change_what_is_answered():
    data = load_task(data_settings(task="digits"))
    test = data.evaluation["test"]
    turned = Examples(test.inputs, (test.labels + 1) % 10)
    found = outcomes_of(data)
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
    data = load_task(text_run(small_text(tmp_path / "text.txt")).data)
    (found,) = outcomes_of(data).values()
    for split, own in found.items():
        assert own.counts.sum() == data.evaluation[split].stream.predictions
    # Numbers are hard to guess, the words between them are not: far below the log of the vocabulary's size.
    assert 0.1 < found["test"].rate < 0.5 * np.log(data.model_inputs["vocab_size"])
