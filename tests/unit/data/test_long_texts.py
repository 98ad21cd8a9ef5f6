"""Long texts: shards, batches under way together and folders change no token."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import few
from text_files import refused

from gatedrnn.data import data_settings, encoding, load_task, shards, stream, token_cache
from gatedrnn.data.corpus import between, characters_of, read_corpus
from gatedrnn.data.encoding import encode_long
from gatedrnn.data.shards import ShardWriter, opened
from gatedrnn.data.tokenizers import encode_stream, learn_tokenizer
from gatedrnn.records import cores

KINDS = ("words", "whitespace", "tokens", "bpe", "characters", "bytes")
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


def test_batches_under_way_together_have_the_tokens_of_one_after_another(monkeypatch):
    monkeypatch.setattr(encoding, "AT_ONCE", 500)
    lines = [line for text in TEXTS for line in text.split("\n")][:200]
    for kind in KINDS:
        tokenizer = learn_tokenizer(kind, lines, 1, 300, stream=True)
        found, expected = list(encode_long(tokenizer, TEXTS)), list(encode_stream(tokenizer, TEXTS))
        assert len(found) == len(TEXTS) and [ids.tolist() for ids in found] == expected, kind


def test_a_reader_reads_little_ahead_and_leaves_no_thread_behind_where_it_stops(monkeypatch):
    """A text is read as far ahead as batches are under way."""
    monkeypatch.setattr(encoding, "AT_ONCE", 500)
    taken, before = [], threading.active_count()
    reader = encode_long(learn_tokenizer("words", TEXTS, 1, 300, stream=True), (taken.append(t) or t for t in TEXTS))
    next(reader)
    assert sum(map(len, taken)) < (cores() + 2) * 700
    assert all(len(next(reader)) for _ in range(20)) and threading.active_count() > before
    reader.close()
    assert threading.active_count() == before


@pytest.fixture
def books(tmp_path):
    folder = tmp_path / "books"
    (folder / "more").mkdir(parents=True)
    (folder / "b.txt").write_text("".join(TEXTS[:100]))
    (folder / "a.txt").write_text("".join(TEXTS[100:200]))
    (folder / "more" / "c.txt").write_text("".join(TEXTS[200:]))
    (folder / "notes.md").write_text("not a text of the corpus")
    (folder / "none").mkdir()
    return folder


def test_a_folder_or_a_pattern_is_the_text_of_its_files_one_document_each(books):
    whole = read_corpus(books, None, None)
    pieces = list(whole.pieces())
    assert "".join(piece.text for piece in pieces) == "".join([*TEXTS[100:200], *TEXTS[:100], *TEXTS[200:]])
    assert sum(piece.begins for piece in pieces) == 3 and whole.name == "books (3 files)"
    pattern = read_corpus(books / "*.txt", None, None)
    assert "".join(piece.text for piece in pattern.pieces()) == "".join([*TEXTS[100:200], *TEXTS[:100]])
    assert pattern.digest != whole.digest
    for path in (books / "none", books / "more" / "*.md"):
        refused(r"holds no file that ends in one of \.txt", read_corpus, path, None, None)


def test_characters_are_counted_once(books, monkeypatch):
    whole = read_corpus(books / "a.txt", None, None)
    count = characters_of(whole)
    assert count == sum(map(len, TEXTS[100:200]))
    for damaged in (b"", b"12", b"12 abc", b"\xff\xfe", str(count).encode()):
        for kept in token_cache.counts_folder().iterdir():
            kept.write_bytes(damaged)
        assert characters_of(read_corpus(books / "a.txt", None, None)) == count
    monkeypatch.setattr("gatedrnn.data.corpus._blocks", lambda path: pytest.fail("read again"))
    assert characters_of(read_corpus(books / "a.txt", None, None)) == count
    half = between(read_corpus(books / "a.txt", None, None), 0.25, 0.75, True)
    assert characters_of(half) == count * 3 // 4 - count // 4


def test_a_shard_that_is_missing_or_changed_is_named_and_made_again(books, monkeypatch, caplog):
    monkeypatch.setattr(shards, "LENGTH", 500)
    settings = data_settings("language-model", train_file=books, min_count=1, tokenizer="characters")

    def tokens():
        load_task.cache_clear()
        return np.asarray(load_task(settings).train.stream.tokens).copy()

    first = tokens()
    folder = next(path for path in token_cache.cache_folder().iterdir() if (path / "train-00003.tokens").exists())
    (folder / "train-00003.tokens").unlink()
    assert np.array_equal(tokens(), first) and "train-00003.tokens is missing" in caplog.text
    content = (folder / "train-00001.tokens").read_bytes()
    (folder / "train-00001.tokens").write_bytes(content[:-2] + b"\1\1")
    assert np.array_equal(tokens(), first) and "train-00001.tokens does not match its sha256 sum" in caplog.text


def test_how_far_a_text_is_is_told_and_the_sums_of_files_are_in_the_record(books, monkeypatch, caplog):
    monkeypatch.setattr(stream, "TELLS_EVERY", 1000)
    caplog.set_level("INFO", "gatedrnn")
    load_task.cache_clear()
    data = load_task(data_settings("language-model", train_file=books, min_count=1, tokenizer="bytes"))
    (source, *_) = data.sources
    assert list(source["files"]) == ["a.txt", "b.txt", "c.txt"] and all(len(s) == 64 for s in source["files"].values())
    told = [(record.getMessage(), record.part) for record in caplog.records if hasattr(record, "part")]
    assert {doing.split()[0] for doing, _ in told} == {"learning", "tokenising"}
    parts = [part for doing, part in told if doing.startswith("learning")]
    assert parts == sorted(parts) and 0 < parts[0] < 1 and parts[-1] <= 1
