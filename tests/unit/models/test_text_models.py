"""Parts of a model of texts beside those of a plain one: composed embeddings, a linear path, several members."""

from itertools import pairwise

import numpy as np
import pytest
import small_models as small
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_union
from tolerances import assert_equal_within
from transformers import AutoModelForSequenceClassification

from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.modeling import LockedDropout, pool
from gatedrnn.models.structure import count_parameters
from gatedrnn.tasks.text.parts import _LETTERS_SHARE, ABSENT, fit_linear_path, frequent_pairs, frequent_triples

GRAMS, WIDTH = 9, 4
LINEAR = {"pairs": 6, "grams": 9, "grams_per_token": 3}


def text_model(dtype=torch.float64, **fields):
    """A model with tables in which some tokens have no gram."""
    model = small.model_of(GatedRNNForSequenceClassification, dtype=dtype, **fields)
    for module in model.modules():
        for name, table in module.named_buffers(recurse=False):
            most = small.VOCABULARY**2 if name == "pairs" else GRAMS + 1
            drawn = torch.randint(most, table.shape)
            table.copy_(drawn.sort().values if name == "pairs" else drawn)
    if model.linear_path is not None:
        model.linear_path.idf.data.abs_()
    return model


def test_a_token_is_its_own_vector_and_the_mean_of_those_of_its_grams_times_the_root_of_their_number():
    embedding = CharacterEmbedding(5, 3, 0, grams=GRAMS, grams_per_token=WIDTH).double()
    embedding.grams.copy_(torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0], [9, 3, 9, 1], [4, 5, 6, 0]]))
    expected = embedding.weight.detach().numpy().copy()
    for token, row in enumerate(embedding.grams.numpy()):
        if any(row):
            vectors = embedding.parts.weight.detach().numpy()[row[row > 0]]
            expected[token] += np.sqrt(len(vectors)) * vectors.mean(0)
    tokens = torch.tensor([[0, 3, 2], [4, 1, 3]])
    found = embedding(tokens)
    assert_equal_within(found, torch.from_numpy(expected)[tokens], torch.float64, "vectors")
    assert not found[0, 0].any(), "padding embeds to zero"
    learned = torch.autograd.grad(found.square().sum(), embedding.parts.weight)[0]
    assert {int(row) for row in learned.any(1).nonzero()} == {1, 3, 4, 5, 6, 9}


def test_locked_dropout_drops_the_same_features_at_all_steps_of_a_sequence_and_others_in_the_next():
    dropout, x = LockedDropout(0.4), torch.rand(50, 6, 40) + 1
    found = dropout(x)
    assert torch.equal(found == 0, (found == 0)[:, :1].expand_as(found))
    assert_equal_within(found[found > 0], x[found > 0] / 0.6, torch.float32, "kept")
    assert abs(float((found == 0).float().mean()) - 0.4) < 0.05 and (found[0] == 0).ne(found[1] == 0).any()
    assert torch.equal(dropout.eval()(x), x)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_all_three_poolings_are_each_of_them_one_beside_another(bidirectional):
    states, mask = torch.randn(7, 5, 6).double(), torch.rand(7, 5) < 0.6
    for given in (mask, None):
        parts = [pool(states, given, how, bidirectional) for how in ("last", "mean", "max")]
        assert torch.equal(pool(states, given, "last-mean-max", bidirectional), torch.cat(parts, 1))
    build = "both-directions" if bidirectional else "plain"
    model = small.model_of(GatedRNNForSequenceClassification, build=build, pooling="last-mean-max")
    assert model.classifier.in_features == 3 * small.HIDDEN * (1 + bidirectional)


def texts_of(random, rows):
    """Tokens of which some occur in training alone, in both classes of two or three."""
    return [random.integers(2, small.VOCABULARY, random.integers(1, 12)) for _ in range(rows)]


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "several labels", "numbers"])
def test_a_linear_path_is_scikit_learns_linear_model_of_its_tf_idf(kind, letters):
    random = np.random.default_rng(len(kind))
    train, test = texts_of(random, 60), texts_of(random, 30)
    sums = np.array([int(text.sum()) for text in train])
    labels = {
        "two classes": sums % 2, "three classes": sums % 3, "numbers": sums / 7,
        "several labels": np.stack([sums % 2 > 0, sums % 3 > 0], axis=1),
    }[kind]  # fmt: skip
    table = random.integers(0, GRAMS + 1, (small.VOCABULARY, WIDTH)).astype(np.int32)
    pairs = frequent_pairs(train, small.VOCABULARY, most=25)
    triples = frequent_triples(train, pairs, small.VOCABULARY, most=12)

    def tokens(text):
        both = [f"{a} {b}" for a, b in pairwise(text) if a * small.VOCABULARY + b in set(pairs)]
        numbers = list(pairs)
        three = [
            f"{a} {b} {c}" for a, b, c in zip(text, text[1:], text[2:], strict=False)
            if f"{a} {b}" in both and numbers.index(a * small.VOCABULARY + b) * small.VOCABULARY + c in set(triples)
        ]  # fmt: skip
        return [*map(str, text), *both, *(three if letters else [])]

    def grams(text):
        return [gram for token in text for gram in table[token] if gram]

    def both_kinds(text):
        return [*tokens(text), *(f"gram {gram}" for gram in grams(text))]

    kinds = [both_kinds] if letters else [tokens, grams]  # which are brought to length 1 together, or each
    reading = make_union(*(TfidfVectorizer(analyzer=how, sublinear_tf=True) for how in kinds))
    features, of_test = reading.fit_transform(train), reading.transform(test)
    if kind == "numbers":
        expected = Ridge(1.0).fit(features, labels).predict(of_test)[:, None]
    else:
        parts = labels.T if labels.ndim == 2 else [labels]
        fitted = [LogisticRegression(C=10.0, max_iter=1000).fit(features, part) for part in parts]
        odds = np.stack([one.predict_log_proba(of_test) for one in fitted])
        expected = (odds[..., 1] - odds[..., 0]).T if labels.ndim == 2 else odds[0]

    sizes = {"pairs": len(pairs), "grams": GRAMS, "grams_per_token": WIDTH}
    sizes |= {"triples": len(triples)} if letters else {}
    answers = expected.shape[1]
    problem = {"numbers": "regression", "several labels": "multi_label_classification"}.get(kind)
    model = small.model_of(small.HEADS[0], num_labels=answers, linear_path=sizes, problem_type=problem).eval()
    path = model.linear_path
    path.pairs.copy_(torch.from_numpy(pairs))
    path.grams.copy_(torch.from_numpy(table))
    if letters:
        path.triples.copy_(torch.from_numpy(triples))
    with torch.no_grad():
        fit_linear_path(path, train, labels)
    batch, mask = (torch.zeros(len(test), 14, dtype=torch.long) for _ in range(2))
    for row, (text, start) in enumerate(zip(test, random.integers(0, 3, len(test)), strict=True)):  # on both sides
        batch[row, start : start + len(text)], mask[row, start : start + len(text)] = torch.from_numpy(text), 1
    found = path(batch, mask.bool())
    # Each of the two stops where it has converged.
    torch.testing.assert_close(model.path_alone(batch, mask), torch.from_numpy(expected), atol=5e-3, rtol=0)
    dense = path._in_dense_rows(path.features_in(batch, mask.bool())) + path.bias
    assert_equal_within(dense, found, torch.float64, "as it is exported")
    assert_equal_within(path(batch[:1, :5], None), path(batch[:1, :5], torch.ones(1, 5).bool()), torch.float64, "whole")
    network = small.model_of(small.HEADS[0], num_labels=answers, problem_type=problem).eval()
    network.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        share = model.config.path_share = _LETTERS_SHARE if letters else 0.5
        alone = model.comparable(network(batch, attention_mask=mask).logits)
        both = (1 - share) * alone + share * model.path_alone(batch, mask)
        assert_equal_within(model(batch, attention_mask=mask).logits, both, torch.float64, "the mean by weight")


def test_labels_that_no_text_or_every_text_has_are_as_likely_on_the_linear_path():
    path = text_model(linear_path=LINEAR, num_labels=2, problem_type="multi_label_classification").linear_path
    texts = texts_of(np.random.default_rng(0), 20)
    with torch.no_grad():
        fit_linear_path(path, texts, np.stack([np.zeros(20, dtype=bool), np.ones(20, dtype=bool)], axis=1))
    assert path.bias.tolist() == [ABSENT, -ABSENT] and not path.weight.any()


def test_a_class_without_a_training_text_is_never_likely_on_the_linear_path():
    path = text_model(linear_path=LINEAR).linear_path
    texts = texts_of(np.random.default_rng(0), 20)
    with torch.no_grad():
        fit_linear_path(path, texts, np.arange(20) % 2 * 3)  # of four classes two
    assert path.bias[[1, 2]].tolist() == [ABSENT] * 2 and not path.weight[[1, 2]].any()
    assert (path(small.tokens(5, 6), None).softmax(1)[:, [1, 2]] < 1e-6).all()


@torch.no_grad()
def test_members_and_a_linear_path_answer_together_by_the_mean_of_their_log_probabilities():
    model = text_model(members=3, linear_path=LINEAR, character_grams=GRAMS, grams_per_token=WIDTH, pooling="mean")
    batch, mask = small.tokens(3, 6), torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1] * 6])
    found = model(batch, attention_mask=mask)
    alone = [
        network.classifier(pool(network.model(batch, attention_mask=mask)[0], mask.bool(), "mean")).log_softmax(-1)
        for network in model.networks
    ]  # fmt: skip
    assert len(alone) == 3 and not torch.equal(alone[0], alone[1])
    expected = (sum(alone) / 3).log_softmax(-1) / 2 + model.path_alone(batch, mask) / 2
    assert_equal_within(found.logits, expected, torch.float64, "logits")
    assert found.votes is None, "transformers' Trainer would take them for further logits"


def test_members_learn_each_for_itself_and_what_is_fitted_does_not_learn():
    fields = {"members": 2, "linear_path": LINEAR, "problem_type": "single_label_classification"}
    model, labels = text_model(**fields).train(), torch.tensor([0, 1, 2])
    batch = small.tokens(3, 6)
    found = model(batch, labels=labels)
    losses = [torch.nn.functional.cross_entropy(vote, labels) for vote in found.votes]
    assert_equal_within(found.loss, (losses[0] + losses[1]) / 2, torch.float64, "loss")
    found.loss.backward()
    still = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert still == {f"linear_path.{name}" for name in ("idf", "weight", "bias")}
    steps = small.model_of(small.HEADS[1], members=2).train()(batch)
    assert steps.votes.shape == (2, 3, 6, small.LABELS)
    numbers = small.model_of(small.HEADS[0], members=2, num_labels=1, problem_type="regression")
    both = [numbers.scores(pool(one.model(batch)[0], None, "last"), one) for one in numbers.networks]
    assert_equal_within(numbers(batch).logits, (both[0] + both[1]) / 2, torch.float64, "the mean of numbers")


@torch.no_grad()
def test_a_text_model_comes_back_from_its_folder_bit_for_bit_and_its_parts_are_counted(tmp_path):
    fields = {"members": 2, "linear_path": LINEAR, "character_grams": GRAMS, "grams_per_token": WIDTH}
    model = text_model(torch.float32, **fields, pooling="last-mean-max", build="both-directions", locked_dropout=True)
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    batch = small.tokens(3, 6)
    assert torch.equal(again(batch).logits, model(batch).logits)
    counts, plain = count_parameters(model), count_parameters(text_model(build="both-directions"))
    features = small.VOCABULARY + LINEAR["pairs"] + LINEAR["grams"]
    assert counts.linear_path == features * (1 + small.LABELS) + small.LABELS and plain.linear_path == 0
    assert counts.core == 2 * plain.core
    assert counts.embedding == 2 * small.EMBEDDING * (small.VOCABULARY + GRAMS + 1)
    assert counts.head == 2 * (3 * 2 * small.HIDDEN + 1) * small.LABELS
    assert counts.total == sum(parameter.numel() for parameter in model.parameters())
