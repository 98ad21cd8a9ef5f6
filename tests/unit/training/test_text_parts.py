"""Parts of a model of texts that come from its training texts: word vectors as plain numpy has them, a fitted linear
path.
"""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from text_targets import moods, write_lines

from gatedrnn.data import data_settings, load_task
from gatedrnn.export.text import export_text_classifier
from gatedrnn.tasks.text.parts import _SMOOTHING, WINDOW, class_ratios, company, company_vectors, text_fields
from gatedrnn.training.finished import open_finished
from gatedrnn.training.loop import run
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

VOCABULARY = 9
LINEAR = ModelSettings(linear_path=True)


@pytest.fixture(scope="module")
def texts():
    random = np.random.default_rng(0)
    return [random.integers(0, VOCABULARY - 1, size) for size in (1, 2, 30, 40, 7, 12)]


def test_tokens_keep_each_other_company_within_a_window_of_one_text(texts):
    counts = Counter()
    for text in texts:
        for here, first in enumerate(text):
            for there, second in enumerate(text):
                counts[first, second] += 0 < abs(here - there) <= WINDOW
    found = company(texts, VOCABULARY).toarray()
    assert all(found[a, b] == counts[a, b] for a in range(VOCABULARY) for b in range(VOCABULARY))


def test_vectors_of_company_are_the_best_approximation_of_positive_mutual_information(texts):
    counts = company(texts, VOCABULARY).toarray()
    own = counts.sum(1)
    around = own**_SMOOTHING / (own**_SMOOTHING).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(counts / counts.sum() / (own / counts.sum())[:, None] / around)
    positive = np.where(counts > 0, np.maximum(gain, 0), 0)
    found = company_vectors(texts, VOCABULARY, 4, seed=0)
    assert not found[VOCABULARY - 1].any(), "of a token that occurs nowhere"
    assert math.isclose(np.square(found[: VOCABULARY - 1]).mean(), 1)
    left, sizes, _ = np.linalg.svd(positive)
    expected = (left[:, :4] * sizes[:4]) @ left[:, :4].T  # does not depend on the signs that a decomposition chooses
    np.testing.assert_allclose(found @ found.T * expected.trace() / (found @ found.T).trace(), expected, atol=1e-3)
    np.testing.assert_array_equal(found, company_vectors(texts, VOCABULARY, 4, seed=0))
    assert company_vectors(texts[:2], 3 * VOCABULARY, 64, seed=0).shape == (3 * VOCABULARY, 64)


@pytest.mark.parametrize("classes", [2, 3])
def test_ratios_of_classes_count_the_texts_that_hold_a_token(texts, classes):
    labels = np.arange(len(texts)) % classes
    has = np.array([[token in text for token in range(VOCABULARY)] for text in texts])
    found = class_ratios(texts, labels, VOCABULARY, classes)
    for column, label in enumerate([1] if classes == 2 else range(classes)):
        within, without = has[labels == label].sum(0) + 1, has[labels != label].sum(0) + 1
        expected = np.log(within / within.sum() / (without / without.sum()))
        np.testing.assert_allclose(found[:-1, column], expected[:-1])
    assert not found[-1].any() and found.shape[1] == (1 if classes == 2 else classes)


def test_word_vectors_and_the_linear_path_are_what_training_began_with(tmp_path):
    file = write_lines(tmp_path / "moods.jsonl", moods(60))
    model = ModelSettings(embedding_size=12, character_grams=500, word_vectors=True, linear_path=True, members=2)
    settings = RunSettings(
        cell="mingru", hidden_size=6, model=model, train=TrainSettings(total_steps=1, learning_rate=1e-30),
        data=data_settings("text-classification", train_file=file, tokenizer="pieces", max_tokens=12),
    )  # fmt: skip
    data = load_task(settings.data)
    run(settings, tmp_path / "begun")
    model = open_finished(tmp_path / "begun").model
    ratios = class_ratios(data.train.inputs, data.train.labels, model.config.vocab_size, 2)
    for network in model.networks:
        found = network.model.embeddings.map.weight[:, -1].detach()
        torch.testing.assert_close(found, torch.from_numpy(ratios[:, 0]).float() * 0.1)
    correct = model.linear_path(torch.from_numpy(data.train.inputs[0])[None], None).argmax() == data.train.labels[0]
    assert correct and model.linear_path.weight.any()


@pytest.mark.parametrize(
    ("language", "exported"),
    [("Chinese", False), ("Japanese", False), ("Thai", False), pytest.param("Chinese", True, marks=pytest.mark.slow)],
)
def test_a_model_of_texts_without_blanks_answers_by_n_grams_of_letters_from_its_folder(language, exported, tmp_path):
    fine, poor, filling = {
        "Chinese": ("很好", "不行", "这本书我看完了"), "Japanese": ("最高", "残念", "この映画を見た"),
        "Thai": ("ดีมาก", "แย่จัง", "หนังเรื่องนี้"),
    }[language]  # fmt: skip
    rows = [{"text": f"{filling}{fine if n % 2 else poor}{filling[: n % 7]}", "label": "ab"[n % 2]} for n in range(60)]
    file = write_lines(tmp_path / "rows.jsonl", rows)
    model = ModelSettings(embedding_size=12, character_grams=500, word_vectors=True, linear_path=True)
    settings = RunSettings(
        cell="mingru", hidden_size=6, model=model, train=TrainSettings(total_steps=1, learning_rate=1e-30),
        data=data_settings("text-classification", train_file=file, tokenizer="pieces", min_count=1, max_tokens=99),
    )  # fmt: skip
    run(settings, tmp_path / "run")
    finished = open_finished(tmp_path / "run")
    path, tokenizer = finished.model.linear_path, finished.tokenizer
    assert len(path.triples) > 9 and path.features == path.words == path.one_length, "no word between the letters"
    good = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(fine))
    pair = good[0] * path.tokens + good[1]
    place = int(np.searchsorted(path.pairs.numpy(), pair))
    assert path.pairs[place] == pair and len(good) >= 2
    ids = [torch.tensor([tokenizer(filling + mood)["input_ids"]]) for mood in (fine, poor)]
    assert [int(path(one, None).argmax()) for one in ids] == [1, 0]
    assert finished.model.eval()(ids[0]).logits.argmax() == 1
    if exported:
        assert export_text_classifier(finished.model, tmp_path / "onnx")["text.onnx"] < 1e-3


def test_words_with_blanks_keep_their_n_grams_among_letters_where_they_are_a_notable_share(tmp_path):
    rows = [{"text": f"{'很好' if n % 2 else '不行'}的书 remarkable 감동적인", "label": "ab"[n % 2]} for n in range(40)]
    file = write_lines(tmp_path / "rows.jsonl", rows)
    for letters, undivided in (("", True), (" remarkable" * 9, False)):
        rows = [row | {"text": row["text"] + letters} for row in rows]
        asked = data_settings("text-classification", train_file=write_lines(file, rows), tokenizer="pieces")
        data, train = load_task(asked), TrainSettings(total_steps=1)
        fields = text_fields(RunSettings(cell="mingru", hidden_size=6, data=asked, model=LINEAR, train=train), data)
        assert data.undivided == undivided == ("triples" in fields["linear_path"]) and fields["linear_path"]["grams"]
