"""Running text is cut where it should be, and a stream holds every token, however long; lanes predict each once."""

import gzip
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pages import SHARED, needs_shared_data
from properties import few
from text_files import refused, same, write

from gatedrnn.data import Lanes, data_settings, load_task, stream
from gatedrnn.data import corpus as corpora
from gatedrnn.data.corpus import Corpus, HubSet, Piece, between, characters_of, python_topics, read_corpus
from gatedrnn.data.stream import ShardWriter, ShuffledChunks, encode_long, opened, tokenise, tokenise_with
from gatedrnn.data.token_cache import cache_folder, counts_folder
from gatedrnn.data.tokenizers import decode_stream, encode_stream, learn_tokenizer, unknown_in
from gatedrnn.machine import cores

TEXT = "one line\ntwo words here\n\nfour ✓ 한국어\nthe end"


def whole(corpus):
    return "".join(piece.text for piece in corpus.pieces())


def documents(corpus):
    found = []
    for text, begins in corpus.pieces():
        found += [""] if begins else []
        found[-1] += text
    return found


def test_a_text_file_comes_back_whole_whatever_is_read_at_a_time(tmp_path, monkeypatch):
    for block in (1, 3, 10, 1000):
        monkeypatch.setattr(corpora, "BLOCK", block)
        plain = read_corpus(write(tmp_path / "a.txt", TEXT), None, None)
        packed = read_corpus(write(tmp_path / "a.txt.gz", gzip.compress(TEXT.encode())), None, None)
        assert whole(plain) == whole(packed) == TEXT
        assert documents(plain) == [TEXT]
        ends = {text[-1] for text, _ in list(plain.pieces())[:-1]}
        assert ends <= ({"\n"} if block >= 10 else {"\n", " "}), "with a line; an endless one between words"
    assert whole(read_corpus(write(tmp_path / "a.txt", "a\r\nb\r\nc"), None, None)) == "a\nb\nc"


def test_a_row_is_a_document_and_in_a_text_one_begins_where_the_expression_says(tmp_path):
    rows = ["first", "second\n", "", "fourth"]
    pq.write_table(pa.table({"text": rows}), tmp_path / "rows.parquet")
    write(tmp_path / "rows.jsonl", "".join(json.dumps({"text": row}) + "\n" for row in rows))
    for path in tmp_path.glob("rows.*"):
        assert documents(read_corpus(path, None, None)) == ["first\n", "second\n", "\n", "fourth\n"]
    text = "preface\n= A =\nof a\n= = part = =\n= B =\nof b\n"
    found = documents(read_corpus(write(tmp_path / "a.txt", text), None, r"= [^=]"))
    assert found == ["preface\n", "= A =\nof a\n= = part = =\n", "= B =\nof b\n"]
    assert read_corpus(tmp_path / "a.txt", None, r"= [^=]").digest == read_corpus(tmp_path / "a.txt", None, None).digest


@pytest.mark.parametrize("inside_lines", [True, False])
def test_parts_of_a_text_make_up_the_whole(tmp_path, monkeypatch, inside_lines):
    monkeypatch.setattr(corpora, "BLOCK", 7 if inside_lines else 100)
    corpus = read_corpus(write(tmp_path / "a.txt", TEXT * 5), None, None)
    for cuts in ((0.5,), (0.8, 0.9), (0.01, 0.02, 0.99)):
        parts = [whole(between(corpus, *pair, inside_lines)) for pair in pairwise((0.0, *cuts, 1.0))]
        assert "".join(parts) == TEXT * 5
        if inside_lines:
            assert len(parts[0]) == int(cuts[0] * len(TEXT * 5))
        else:
            assert all(part.endswith("\n") for part in [part for part in parts if part][:-1])


BAD = {
    "missing.txt": (None, "no such file"),
    "empty.txt": (b"", "the file is empty"),
    "latin.txt": ("caf\xe9 ".encode("latin-1") * 9, "not UTF-8"),
    "binary.txt": (b"ab\0cd", "zero byte"),
    "torn.txt.gz": (gzip.compress(b"a text" * 99)[:-9], "not a whole gzip file"),
    "no.txt.gz": (b"plain text", "not a whole gzip file"),
    "table.csv": (b"text\na\n", "a table: name --task"),
    "table.xlsx": (b"text\na\n", "the ending must be one of"),
    "none.jsonl": (b'{"words": 3}\n', "which column is the text"),
    "numbers.jsonl": (b'{"text": 3}\n', "holds int, not text"),
}


def test_what_is_no_text_is_refused_by_name_and_so_is_what_is_no_expression(tmp_path):
    for name, (content, said) in BAD.items():
        if content is not None:
            write(tmp_path / name, content)
        refused(f"{name}.*{said}", lambda path: whole(read_corpus(path, None, None)), tmp_path / name)
    refused("no regular expression", read_corpus, write(tmp_path / "a.txt", TEXT), None, "(")


def test_a_data_set_of_the_hub_is_read_by_split_and_column_and_as_a_stream_changes_with_its_files(tmp_path):
    """A folder with the layout of one: `datasets` reads both alike. The sum of a stream is not that of its rows."""
    for split, rows in (("train", ["= A =", "of a"]), ("test", ["= B ="])):
        pq.write_table(pa.table({"text": rows, "id": [1] * len(rows)}), tmp_path / f"{split}.parquet")
    for streaming in (False, True):
        hub = HubSet(str(tmp_path), None, streaming)
        train, other = hub.corpus("train", None, "= "), hub.corpus("train", None, None)
        assert documents(train) == ["= A =\nof a\n"] and hub.splits() == ["train", "test"]
        assert whole(hub.corpus("test", "text", None)) == "= B =\n"
        assert (other.digest, other.reading) != (train.digest, train.reading)
    (folder := tmp_path / "text").mkdir()
    digests = set()
    for content in ("one\ntwo\n", "one\nthree\n"):
        write(folder / "train.txt", content)
        corpus = HubSet(str(folder), streaming=True).corpus("train", None, None)
        assert whole(corpus) == content and characters_of(corpus) == len(content)
        digests.add(corpus.digest)
    assert len(digests) == 2


def test_the_python_reference_needs_no_download_and_a_hub_that_is_not_reached_says_what_to_do(hosts_asked, monkeypatch):
    text = whole(python_topics())
    assert len(text) > 300_000 and text.count(" the ") > 3_000 and not hosts_asked
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between one attempt and the next
    hub = HubSet("Salesforce/wikitext", "wikitext-2-v1")
    refused(r"Salesforce/wikitext train: could not be loaded .* give local copies", hub.corpus, "train", None, None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_text_larger_than_what_may_be_in_memory_is_tokenised_in_pieces(tmp_path):
    """30 MB, which would be a gigabyte as lists of numbers, in a process that has done the same with 2 MB before."""
    line = "the quick brown fox jumps over the lazy dog and then it jumps back again, every day.\n"
    large = write(tmp_path / "large.txt", "".join(f"{n} " + line * (1_000_000 // len(line)) for n in range(30)))
    script = """
import resource, sys
from pathlib import Path
from gatedrnn.data import data_settings, load_task
small = Path(sys.argv[1]).with_name("small.txt")
small.write_text("the quick brown fox\\n" * 100_000)
peaks = []
for file in (small, Path(sys.argv[1])):
    for kind in ("whitespace", "characters"):
        load_task(data_settings(task="language-model", train_file=file, tokenizer=kind, min_count=1))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peaks[1] - peaks[0])
"""
    found = subprocess.check_output([sys.executable, "-c", script, large])
    assert float(found) < 150, "MiB"


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
    named = {"tokenizer": "tokens", "min_count": 1, "document_start": r"^ = [^=]"}
    data = load_task(data_settings(task="language-model", **named, **files))
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
    files = {"train_file": train, "validation_file": other, "test_file": other}
    settings = data_settings(task="language-model", tokenizer="whitespace", min_count=5, **files)
    refused("at least 2", load_task, settings)  # one word is left
    write(tmp_path / "train.txt", "Often often OFTEN often often rare a a a a a\n")
    data = load_task(settings.model_copy(update={"split_seed": 1}))  # another key of the cache in memory
    assert set(data.tokenizer.get_vocab()) == {"<unk>", "<eos>", "often", "a"}
    assert data.evaluation["test"].stream.unknown == 10


def test_a_word_of_the_text_that_is_a_special_token_is_that_token_and_pieces_are_encoded_as_the_whole(monkeypatch):
    text = "a <unk> b <eos> c\n a b\n"
    tokenizer, found = made("tokens", text)
    assert found.tokens.tolist()[:6] == [1, *tokenizer.convert_tokens_to_ids(["a", "<unk>", "b", "<eos>", "c"])]
    assert len(tokenizer) == 5 and found.unknown == 1
    monkeypatch.setattr("gatedrnn.data.tokenizers.AT_ONCE", 1)
    pieces = encode_stream(tokenizer, text.splitlines(True))
    assert [number for ids in pieces for number in ids] == found.tokens[1:].tolist()


def test_what_was_tokenised_lies_on_the_disk_and_is_not_tokenised_again_and_a_failure_leaves_nothing(monkeypatch):
    _, first = made("characters", LINES)
    left = list(cache_folder().iterdir())
    refused("at least 2", made, "words", "\n")
    assert list(cache_folder().iterdir()) == left
    monkeypatch.setattr(stream, "_make", lambda *_: pytest.fail("tokenised again"))
    _, second = made("characters", LINES)
    assert isinstance(second.tokens, np.memmap) and second.tokens.tolist() == first.tokens.tolist()


def test_the_same_file_read_otherwise_is_tokenised_anew(tmp_path):
    """The file is read by another column, with other documents, in another part."""
    path = write(tmp_path / "rows.jsonl", '{"text": "a b", "other": "c"}\n{"text": "a", "other": "d e f"}\n')
    read = [(None, None), ("other", None), (None, "a$")]
    found = [tokenise({"train": read_corpus(path, *way)}, "tokens", 1, 300).streams["train"] for way in read]
    assert [one.predictions for one in found] == [5, 6, 5]
    assert [len(one.starts) for one in found] == [2, 2, 2] and found[0].starts.tolist() == [1, 4]
    half = between(read_corpus(path, None, None), 0.0, 0.5, False)
    assert tokenise({"train": half}, "tokens", 1, 300).streams["train"].predictions == 3


def test_another_text_is_read_in_the_vocabulary_that_is_there_and_what_it_lacks_is_named():
    tokenizer, _ = made("words", LINES)
    found = tokenise_with(tokenizer, corpus_of("the dog flew.\n"))
    assert decode_stream(tokenizer, found.tokens[1:].tolist()) == "the dog <unk> .\n" and found.unknown == 1
    for kind, unknown in {"words": ["xyz"], "characters": ["x", "y", "z"], "bytes": []}.items():
        tokenizer, _ = made(kind, LINES)
        assert unknown_in(tokenizer, "the xyz") == unknown and unknown_in(tokenizer, "the <unk>") == []


@pytest.fixture(scope="module")
def found():
    return made("characters", LINES * 3, LINES)[1]


def test_every_token_of_every_lane_is_predicted_once_from_the_one_before_and_a_reset_is_at_the_eos_of_a_document(found):
    tokens = torch.from_numpy(found.tokens.astype(np.int64))
    for lanes, length in ((1, 5), (3, 7), (4, 1000), (5, 1)):
        source = Lanes(found, length, resets=False)
        batches = [source.batch(0, 0, i, lanes) for i in range(source.steps_per_epoch(lanes))]
        read, predicted = (torch.cat([batch[name] for batch in batches], 1) for name in ("input_ids", "shift_labels"))
        each = found.predictions // lanes
        assert torch.equal(predicted.flatten(), tokens[1 : lanes * each + 1]), (lanes, length)
        assert torch.equal(read[:, 1:], predicted[:, :-1]) and torch.equal(read[:, 0], tokens[: lanes * each : each])
        assert {batch["input_ids"].shape[1] for batch in batches[:-1]} <= {length}
    source = Lanes(found, 10, resets=True)
    flags = torch.cat([source.batch(0, 0, i, 2)["resets"] for i in range(source.steps_per_epoch(2))], 1).flatten()
    places = flags.nonzero().flatten().tolist()
    assert places == [start - 1 for start in found.starts if start - 1 < len(flags)] and len(places) == 2
    refused(r"--batch-size: 100000 lanes are more than the training text has tokens", source.steps_per_epoch, 100_000)


def test_every_chunk_is_read_once_an_epoch_in_another_order(found, monkeypatch):
    monkeypatch.setattr(stream, "LENGTH", 40)
    for length, rows in ((5, 4), (7, 3), (40, 2), (60, 1)):
        source, orders = ShuffledChunks(found, length, resets=False), []
        tokens = found.tokens[: found.predictions // length * length].reshape(-1, length)
        for seed, epoch in ((0, 0), (0, 1), (1, 0)):
            batches = [source.batch(seed, epoch, i, rows) for i in range(source.steps_per_epoch(rows))]
            read, predicted = (torch.cat([batch[name] for batch in batches]) for name in ("input_ids", "shift_labels"))
            assert torch.equal(read[:, 1:], predicted[:, :-1])
            orders.append([tuple(row.tolist()) for row in read])
            assert Counter(orders[-1]) == Counter(map(tuple, tokens.tolist())), (length, rows)
        assert len(tokens) <= 3 or (orders[0] != orders[1] and orders[0] != orders[2])
    refused("--length: 100000 tokens are more than the training text has", ShuffledChunks, found, 100_000, resets=False)


def test_a_batch_is_the_same_whatever_was_asked_before_and_chunks_of_a_shard_are_read_together(found, monkeypatch):
    """The tokens in memory are a shard's, whatever the length of the text."""
    monkeypatch.setattr(stream, "LENGTH", 40)
    source = ShuffledChunks(found, 5, resets=True)
    asked = [(seed, epoch, index) for seed in (0, 1) for epoch in (0, 1) for index in (0, 3, 1)]
    first = {one: source.batch(*one, 4) for one in asked}
    assert all(same(source.batch(*one, 4), first[one]) for one in reversed(asked))
    source = ShuffledChunks(found, 4, resets=False)
    shard = [source._chunk(0, 0, number) // 10 for number in range(source.steps_per_epoch(1))]
    changes = sum(one != other for one, other in pairwise(shard))
    assert changes == len(set(shard)) - 1 and shard != sorted(shard)


TEXTS = [f"The {i} cat sat on {i % 7} mats.\nA dog" + " ran" * (i % 5) + ".\n" for i in range(300)]


@few(max_examples=40)
@given(
    numbers=st.lists(st.integers(0, 65_535), min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=4),
    ends=st.tuples(st.integers(-45, 45), st.integers(-45, 45)), length=st.integers(1, 9),
)  # fmt: skip
def test_shards_are_read_as_one_array(numbers, cuts, ends, length, tmp_path_factory):
    folder, whole = tmp_path_factory.mktemp("shards"), np.array(numbers, np.uint16)
    with ShardWriter(folder, "train", np.dtype(np.uint16), length) as file:
        for part in np.split(whole, sorted(min(cut, len(whole)) for cut in cuts)):
            file.write(part)
    paths = sorted(folder.iterdir())
    assert len(paths) == -(-len(whole) // length)
    found = opened(paths, np.dtype(np.uint16))
    assert len(found) == len(whole) and np.array_equal(np.asarray(found), whole)
    low, high = ends
    assert np.array_equal(found[low:high], whole[low:high]) and found[low:high].dtype == np.uint16
    assert found[len(whole) - 1] == whole[-1] and found[-1] == whole[-1]


def test_batches_under_way_have_the_tokens_of_one_after_another_and_a_reader_that_stops_leaves_no_thread(monkeypatch):
    """A text is read as far ahead as batches are under way."""
    monkeypatch.setattr(stream, "AT_ONCE", 500)
    lines = [line for text in TEXTS for line in text.split("\n")][:200]
    for kind in KINDS:
        tokenizer = learn_tokenizer(kind, lines, 1, 300, stream=True)
        found, expected = list(encode_long(tokenizer, TEXTS)), list(encode_stream(tokenizer, TEXTS))
        assert len(found) == len(TEXTS) and [ids.tolist() for ids in found] == expected, kind
    taken, before = [], threading.active_count()
    reader = encode_long(learn_tokenizer("words", TEXTS, 1, 300, stream=True), (taken.append(t) or t for t in TEXTS))
    next(reader)
    assert sum(map(len, taken)) < (cores() + 2) * 700
    assert all(len(next(reader)) for _ in range(20)) and threading.active_count() > before
    reader.close()
    assert threading.active_count() == before


def test_which_column_of_rows_is_the_text_is_said_once_for_all_files(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, columns in (("a", "text stars"), ("b", "text stars"), ("c", "review")):
        rows = [dict.fromkeys(columns.split(), f"{word} of {name}") for word in ("first", "second") * 9]
        write(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    said = read_corpus(folder, None, None).columns
    assert sorted(said) == [
        "Columns of a.jsonl: text 'text'; not used 'stars'.", "Columns of c.jsonl: text 'review'.",
    ]  # fmt: skip
    files = {f"{split}_file": folder / "a.jsonl" for split in ("train", "validation", "test")}
    assert min(said) in load_task(data_settings(task="language-model", tokenizer="words", **files)).notes


@pytest.fixture
def books(tmp_path):
    folder = tmp_path / "books"
    for subfolder in ("more", "none"):
        (folder / subfolder).mkdir(parents=True)
    for name, texts in (("b", TEXTS[:100]), ("a", TEXTS[100:200]), ("more/c", TEXTS[200:])):
        write(folder / f"{name}.txt", "".join(texts))
    write(folder / "notes.md", "not a text of the corpus")
    return folder


def test_a_folder_or_a_pattern_is_the_text_of_its_files_one_document_each_and_characters_count_once(books, monkeypatch):
    whole = read_corpus(books, None, None)
    pieces = list(whole.pieces())
    assert "".join(piece.text for piece in pieces) == "".join([*TEXTS[100:200], *TEXTS[:100], *TEXTS[200:]])
    assert sum(piece.begins for piece in pieces) == 3 and whole.name == "books (3 files)"
    pattern = read_corpus(books / "*.txt", None, None)
    assert "".join(piece.text for piece in pattern.pieces()) == "".join([*TEXTS[100:200], *TEXTS[:100]])
    assert pattern.digest != whole.digest
    for path in (books / "none", books / "more" / "*.md"):
        refused(r"holds no file that ends in one of \.txt", read_corpus, path, None, None)
    count = characters_of(read_corpus(books / "a.txt", None, None))
    assert count == sum(map(len, TEXTS[100:200]))
    for damaged in (b"", b"12", b"12 abc", b"\xff\xfe", str(count).encode()):
        for kept in counts_folder().iterdir():
            kept.write_bytes(damaged)
        assert characters_of(read_corpus(books / "a.txt", None, None)) == count
    monkeypatch.setattr("gatedrnn.data.corpus._blocks", lambda path: pytest.fail("read again"))
    assert characters_of(read_corpus(books / "a.txt", None, None)) == count
    half = between(read_corpus(books / "a.txt", None, None), 0.25, 0.75, True)
    assert characters_of(half) == count * 3 // 4 - count // 4


def test_a_shard_that_is_missing_or_changed_is_named_and_made_again(books, monkeypatch, caplog):
    monkeypatch.setattr(stream, "LENGTH", 500)
    settings = data_settings("language-model", train_file=books, min_count=1, tokenizer="characters")

    def tokens():
        return np.asarray(load_task(settings).train.stream.tokens).copy()

    first = tokens()
    missing = next(cache_folder().glob("*/train-00003.tokens"))
    missing.unlink()
    assert np.array_equal(tokens(), first) and "train-00003.tokens is missing" in caplog.text
    changed = missing.with_name("train-00001.tokens")
    changed.write_bytes(changed.read_bytes()[:-2] + b"\1\1")
    assert np.array_equal(tokens(), first) and "train-00001.tokens does not match its sha256 sum" in caplog.text


def test_how_far_a_text_is_is_told_and_the_sums_of_files_are_in_the_record(books, monkeypatch, caplog):
    monkeypatch.setattr(stream, "_TELLS_EVERY", 1000)
    caplog.set_level("INFO", "gatedrnn")
    data = load_task(data_settings("language-model", train_file=books, min_count=1, tokenizer="bytes"))
    (source, *_) = data.sources
    assert list(source["files"]) == ["a.txt", "b.txt", "c.txt"] and all(len(s) == 64 for s in source["files"].values())
    told = [(record.getMessage(), record.part) for record in caplog.records if hasattr(record, "part")]
    assert {doing.split()[0] for doing, _ in told} == {"learning", "tokenising"}
    parts = [part for doing, part in told if doing.startswith("learning")]
    assert parts == sorted(parts) and 0 < parts[0] < 1 and parts[-1] <= 1
