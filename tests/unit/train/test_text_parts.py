"""What a model of texts takes from its training texts: word vectors as plain numpy has them; resumed to the same bits,
opened and exported with the same scores."""

import csv
import math
from collections import Counter

import numpy as np
import onnxruntime
import pytest
import torch
from outcomes import Killed, assert_same_outcome, killed_at
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from gatedrnn.data import data_settings, load_task
from gatedrnn.export.onnx import ALLOWED
from gatedrnn.export.text import NAMES, export_text_classifier
from gatedrnn.train.finished import open_finished
from gatedrnn.train.loop import run
from gatedrnn.train.predict import outputs_of, read_labelled_rows
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings
from gatedrnn.train.word_vectors import SMOOTHING, WINDOW, class_ratios, company, company_vectors

VOCABULARY = 9


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
    around = own**SMOOTHING / (own**SMOOTHING).sum()
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


WORDS = "the a film plot actor good fine great bad dull awful tedious lovely boring".split()


def moods(path, rows=60):
    """Texts with a mood each, one of them with a word that no other text has."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 9))) + " boringly!" * (i == 5) for i in range(rows)]
    good = ("good", "fine", "great", "lovely")
    with path.open("w", newline="") as file:
        rows = [(text, "up" if any(word in text for word in good) else "down") for text in texts]
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def recipe(file, **train):
    """A small run with all that a recipe of texts has."""
    model = ModelSettings(
        embedding_size=12, bidirectional=True, pooling="last-mean-max", token_dropout=0.2, embedding_dropout=0.3,
        locked_dropout=True, head_dropout=0.3, character_grams=500, word_vectors=True, linear_path=True, members=2,
    )  # fmt: skip
    data = data_settings("text-classification", train_file=file, tokenizer="pieces", max_tokens=12)
    chosen = {"total_steps": 9, "batch_size": 8, "checkpoint_every": 4, "weights": "last", **train}
    return RunSettings(cell="mingru", hidden_size=6, data=data, model=model, train=TrainSettings(**chosen))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    run(recipe(moods(folder / "moods.csv")), folder / "run")
    return folder


def test_a_run_with_all_parts_that_is_killed_resumes_to_the_same_bits(trained, tmp_path):
    for step in (1, 5, 6):
        with pytest.raises(Killed):
            run(recipe(trained / "moods.csv"), tmp_path / "run", killed_at(step))
    run(recipe(trained / "moods.csv"), tmp_path / "run")
    assert_same_outcome(trained / "run", tmp_path / "run")


def test_its_folder_opens_with_the_scores_of_predict(trained):
    """Each text by itself, and all padded together."""
    rows = read_labelled_rows(open_finished(trained / "run"), trained / "moods.csv", None, None, labelled=False)
    expected = torch.from_numpy(np.stack(outputs_of(open_finished(trained / "run"), rows.inputs)))
    model = AutoModelForSequenceClassification.from_pretrained(trained / "run" / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(trained / "run" / "model")
    texts = list(rows.data["text"])
    assert any("##" in token for token in tokenizer.tokenize(texts[5])), "an unknown word in pieces"
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    given = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(model(**given).logits.double(), expected, atol=1e-5, rtol=0)
        alone = tokenizer(texts[7], truncation=True, return_tensors="pt")["input_ids"]
        torch.testing.assert_close(model(alone).logits[0].double(), expected[7], atol=1e-5, rtol=0)


@pytest.mark.slow
def test_its_graph_has_the_scores_of_the_model(trained, tmp_path):
    model, tokenizer, _ = open_finished(trained / "run")
    assert tokenizer is not None
    assert all(error <= ALLOWED for error in export_text_classifier(model, tmp_path).values())
    batch = tokenizer(["a good film", "", "boringly " * 30], padding=True, return_tensors="np")
    given = {name: batch[name].astype(np.int64) for name in NAMES}
    session = onnxruntime.InferenceSession(tmp_path / "text.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, given)
    with torch.no_grad():
        expected = model(**{name: torch.from_numpy(one) for name, one in given.items()}).logits
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_word_vectors_and_the_linear_path_are_what_training_began_with(trained):
    settings = recipe(trained / "moods.csv", total_steps=1, learning_rate=1e-30)
    data = load_task(settings.data)
    run(settings, trained / "begun")
    model = open_finished(trained / "begun").model
    ratios = class_ratios(data.train.inputs, data.train.labels, model.config.vocab_size, 2)
    for network in model.networks:
        found = network.model.embeddings.map.weight[:, -1].detach()
        torch.testing.assert_close(found, torch.from_numpy(ratios[:, 0]).float() * 0.1)
    correct = model.linear_path(torch.from_numpy(data.train.inputs[0])[None], None).argmax() == data.train.labels[0]
    assert correct and model.linear_path.weight.any()
