"""Token streams hold every token of a text, and what its perplexity is divided by; lanes predict each of them once."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from properties import few
from shared_data import SHARED, needs_shared_data
from text_files import refused, write

from gatedrnn.data import Lanes, data_settings, load_task, shards, stream
from gatedrnn.data.corpus import Corpus, Piece, between, read_corpus
from gatedrnn.data.running_text import ShuffledChunks
from gatedrnn.data.stream import tokenise, tokenise_with
from gatedrnn.data.token_cache import cache_folder
from gatedrnn.data.tokenizers import decode_stream, encode_stream, learn_tokenizer, unknown_in

LINES = "The cat sat.\nA Dog ran!\n\nthe cat ran.\n"
KINDS = ("words", "whitespace", "tokens", "bpe", "characters", "bytes")


def corpus_of(*documents):
    pieces = [Piece(line, number == 0) for text in documents for number, line in enumerate(text.splitlines(True))]
    return Corpus("here", "here", lambda: iter(pieces), "-".join(documents))


def made(kind, *documents, min_count=1):
    tokenizer, streams = tokenise({"train": corpus_of(*documents)}, kind, min_count, 300)
    return tokenizer, streams["train"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_begins_with_eos_and_decodes_again_and_documents_begin_after_one(kind):
    tokenizer, found = made(kind, LINES)
    assert found.tokens[0] == tokenizer.eos_token_id == 1 and tokenizer.unk_token_id == 0
    expected = {"whitespace": LINES.lower(), "words": "the cat sat .\na dog ran !\n\nthe cat ran .\n"}
    assert decode_stream(tokenizer, found.tokens[1:].tolist()) == expected.get(kind, LINES)
    assert found.text_bytes == len(LINES.encode()) and found.unknown == 0
    tokenizer, found = made(kind, "one two\n", "three\n", "four five six\n")
    assert len(found.starts) == 3 and found.starts[0] == 1
    assert all(found.tokens[start - 1] == tokenizer.eos_token_id for start in found.starts)
    ends = int((found.tokens[1:] == tokenizer.eos_token_id).sum())
    assert ends == (3 if kind in ("words", "whitespace", "tokens") else 2), "of every line, or between documents"
    second = found.tokens[found.starts[1] : found.starts[2] - 1].tolist()
    assert decode_stream(tokenizer, second).strip() == "three"


WORDS = ("the", "cat", "sat", "A", "Dog", "ran", "0.5", ".", "\n")
some_words = st.lists(st.sampled_from(WORDS), max_size=12)


@few(max_examples=40)
@given(first=some_words, second=some_words)
@pytest.mark.parametrize("kind", ["words", "whitespace", "tokens"])
def test_words_come_back_with_single_spaces_whole_or_in_parts(kind, first, second):
    tokenizer = learn_tokenizer(kind, WORDS, 1, 300, stream=True)
    parts = [next(encode_stream(tokenizer, [" \t".join(words)])) for words in (first, second)]
    whole = parts[0] + parts[1]
    read = [tokenizer.convert_ids_to_tokens(number) for number in whole]
    expected = [word if kind == "tokens" else word.lower() for word in first + second]
    assert "".join(read).replace("<eos>", "\n") == "".join(expected)
    assert decode_stream(tokenizer, whole) == re.sub(" ?\n ?", "\n", " ".join(read).replace("<eos>", "\n"))
    # As transformers decodes, for pipelines and streams: each word has its space before it.
    assert "".join(map(tokenizer.decode, parts)) == tokenizer.decode(whole) == "".join(f" {word}" for word in read)


@pytest.mark.slow
@needs_shared_data
def test_wikitext_has_the_published_vocabulary_and_numbers_of_tokens():
    folder = SHARED / "wikitext-2-v1"
    files = {f"{split}_file": folder / f"{split}.parquet" for split in ("train", "validation", "test")}
    settings = data_settings(
        task="language-model", tokenizer="tokens", min_count=1, document_start=r"^ = [^=]", **files
    )
    data = load_task(settings)
    assert data.model_inputs["vocab_size"] == len(data.tokenizer) == 33_278
    streams = {"train": data.train.stream, **{name: lanes.stream for name, lanes in data.evaluation.items()}}
    assert {name: one.predictions for name, one in streams.items()} == {
        "train": 2_088_628, "validation": 217_646, "test": 245_569,
    }  # fmt: skip
    assert max(int(one.tokens.max()) for one in streams.values()) == 33_277
    rows = [piece.text for piece in read_corpus(folder / "test.parquet", None, None).pieces()]
    words = Counter(word for row in rows for word in row.split())
    by_number = Counter(streams["test"].tokens[1:].tolist())
    numbers = data.tokenizer.get_vocab()
    assert all(by_number[numbers[word]] == count for word, count in words.items())
    assert by_number[numbers["<eos>"]] == len(rows) == 4_358


def test_the_origins_rule_counts_words_on_train_alone(tmp_path):
    train = write(tmp_path / "train.txt", "Often often OFTEN often often rare\n")
    other = write(tmp_path / "other.txt", "rare new often\n" * 5)
    settings = data_settings(
        task="language-model", train_file=train, validation_file=other, test_file=other, tokenizer="whitespace",
        min_count=5,
    )  # fmt: skip
    refused("at least 2", load_task, settings)  # one word is left
    write(tmp_path / "train.txt", "Often often OFTEN often often rare a a a a a\n")
    data = load_task(settings.model_copy(update={"split_seed": 1}))  # another key of the cache in memory
    assert set(data.tokenizer.get_vocab()) == {"<unk>", "<eos>", "often", "a"}
    assert data.evaluation["test"].stream.unknown == 10


def test_a_word_of_the_text_that_is_a_special_token_is_that_token():
    tokenizer, found = made("tokens", "a <unk> b <eos> c a b\n")
    assert found.tokens.tolist()[:7] == [1, *tokenizer.convert_tokens_to_ids(["a", "<unk>", "b", "<eos>", "c", "a"])]
    assert len(tokenizer) == 5 and found.unknown == 1


def test_what_was_tokenised_is_not_tokenised_again_and_lies_on_the_disk(monkeypatch):
    _, first = made("characters", LINES)
    monkeypatch.setattr(stream, "_make", lambda *_: pytest.fail("tokenised again"))
    _, second = made("characters", LINES)
    assert isinstance(second.tokens, np.memmap) and second.tokens.tolist() == first.tokens.tolist()


def test_the_same_file_read_otherwise_is_tokenised_anew(tmp_path):
    """By another column, other documents, another part."""
    path = write(tmp_path / "rows.jsonl", '{"text": "a b", "other": "c"}\n{"text": "a", "other": "d e f"}\n')
    read = [(None, None), ("other", None), (None, "a$")]
    found = [tokenise({"train": read_corpus(path, *way)}, "tokens", 1, 300).streams["train"] for way in read]
    assert [one.predictions for one in found] == [5, 6, 5]
    assert [len(one.starts) for one in found] == [2, 2, 2] and found[0].starts.tolist() == [1, 4]
    half = between(read_corpus(path, None, None), 0.0, 0.5, False)
    assert tokenise({"train": half}, "tokens", 1, 300).streams["train"].predictions == 3


def test_a_failure_while_tokenising_leaves_nothing_behind():
    refused("at least 2", made, "words", "\n")
    left = list(cache_folder().iterdir())
    refused("at least 2", made, "words", "\n")
    assert list(cache_folder().iterdir()) == left


def test_another_text_is_read_in_the_vocabulary_that_is_there_and_what_it_lacks_is_named():
    tokenizer, _ = made("words", LINES)
    found = tokenise_with(tokenizer, corpus_of("the dog flew.\n"))
    assert decode_stream(tokenizer, found.tokens[1:].tolist()) == "the dog <unk> .\n" and found.unknown == 1
    for kind, unknown in {"words": ["xyz"], "characters": ["x", "y", "z"], "bytes": []}.items():
        tokenizer, _ = made(kind, LINES)
        assert unknown_in(tokenizer, "the xyz") == unknown and unknown_in(tokenizer, "the <unk>") == []


def test_encoding_in_pieces_is_encoding_the_whole(monkeypatch):
    tokenizer, found = made("tokens", LINES)
    monkeypatch.setattr("gatedrnn.data.tokenizers.AT_ONCE", 1)
    pieces = encode_stream(tokenizer, LINES.splitlines(True))
    assert [number for ids in pieces for number in ids] == found.tokens[1:].tolist()


@pytest.fixture(scope="module")
def found():
    return made("characters", LINES * 3, LINES)[1]


def test_every_token_of_every_lane_is_predicted_once_from_the_one_before(found):
    tokens = torch.from_numpy(found.tokens.astype(np.int64))
    for lanes, length in ((1, 5), (3, 7), (4, 1000), (5, 1)):
        source = Lanes(found, length, resets=False)
        batches = [source.batch(0, 0, i, lanes) for i in range(source.steps_per_epoch(lanes))]
        read = torch.cat([batch["input_ids"] for batch in batches], 1)
        predicted = torch.cat([batch["shift_labels"] for batch in batches], 1)
        each = found.predictions // lanes
        assert torch.equal(predicted.flatten(), tokens[1 : lanes * each + 1]), (lanes, length)
        assert torch.equal(read[:, 1:], predicted[:, :-1]) and torch.equal(read[:, 0], tokens[: lanes * each : each])
        assert {batch["input_ids"].shape[1] for batch in batches[:-1]} <= {length}


def test_a_reset_stands_at_the_eos_before_a_document(found):
    source = Lanes(found, 10, resets=True)
    batches = [source.batch(0, 0, i, 2) for i in range(source.steps_per_epoch(2))]
    flags = torch.cat([batch["resets"] for batch in batches], 1).flatten()
    places = flags.nonzero().flatten().tolist()
    assert places == [start - 1 for start in found.starts if start - 1 < len(flags)] and len(places) == 2


def test_more_lanes_than_tokens_and_a_text_shorter_than_a_chunk_are_refused(found):
    refused("--length: 100000 tokens are more than the training text has", ShuffledChunks, found, 100_000, resets=False)
    lanes = Lanes(found, 5, resets=False)
    refused(r"--batch-size: 100000 lanes are more than the training text has tokens", lanes.steps_per_epoch, 100_000)


@pytest.fixture
def few_tokens_a_shard(monkeypatch):
    monkeypatch.setattr(shards, "LENGTH", 40)


def test_every_chunk_is_read_once_an_epoch_in_another_order(found, few_tokens_a_shard):
    for length, rows in ((5, 4), (7, 3), (40, 2), (60, 1)):
        source, orders = ShuffledChunks(found, length, resets=False), []
        tokens = found.tokens[: found.predictions // length * length].reshape(-1, length)
        for seed, epoch in ((0, 0), (0, 1), (1, 0)):
            batches = [source.batch(seed, epoch, i, rows) for i in range(source.steps_per_epoch(rows))]
            read = torch.cat([batch["input_ids"] for batch in batches])
            predicted = torch.cat([batch["shift_labels"] for batch in batches])
            assert torch.equal(read[:, 1:], predicted[:, :-1])
            orders.append([tuple(row.tolist()) for row in read])
            assert Counter(orders[-1]) == Counter(map(tuple, tokens.tolist())), (length, rows)
        assert len(tokens) <= 3 or (orders[0] != orders[1] and orders[0] != orders[2])


def test_a_batch_is_the_same_whatever_was_asked_before(found, few_tokens_a_shard):
    source = ShuffledChunks(found, 5, resets=True)
    asked = [(seed, epoch, index) for seed in (0, 1) for epoch in (0, 1) for index in (0, 3, 1)]
    first = {one: source.batch(*one, 4) for one in asked}
    for one in reversed(asked):
        again = source.batch(*one, 4)
        assert all(torch.equal(again[name], tensor) for name, tensor in first[one].items())


def test_chunks_of_a_shard_are_read_together(found, few_tokens_a_shard):
    """So that what is in memory is a shard's, whatever the length of the text."""
    source = ShuffledChunks(found, 4, resets=False)
    shard = [source._chunk(0, 0, number) // 10 for number in range(source.steps_per_epoch(1))]
    changes = sum(one != other for one, other in pairwise(shard))
    assert changes == len(set(shard)) - 1 and shard != sorted(shard)
