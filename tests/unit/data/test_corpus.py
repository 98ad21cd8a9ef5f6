"""Running text from files: every piece of it once, in order, cut where it should be, and read a piece at a time."""

import gzip
import json
import subprocess
import sys
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shared_data import SHARED, needs_shared_data
from text_files import write

from gatedrnn.data import corpus as corpora
from gatedrnn.data.corpus import HubSet, between, characters_of, python_topics, read_corpus
from gatedrnn.errors import DataError

TEXT = "one line\ntwo words here\n\nfour ✓ 한국어\nthe end"


def whole(corpus):
    return "".join(piece.text for piece in corpus.pieces())


def documents(corpus):
    found = []
    for text, begins in corpus.pieces():
        if begins:
            found.append("")
        found[-1] += text
    return found


@pytest.mark.parametrize("block", [1, 3, 10, 1000])
def test_a_text_file_comes_back_whole_whatever_is_read_at_a_time(tmp_path, monkeypatch, block):
    monkeypatch.setattr(corpora, "BLOCK", block)
    plain = read_corpus(write(tmp_path / "a.txt", TEXT), None, None)
    packed = read_corpus(write(tmp_path / "a.txt.gz", gzip.compress(TEXT.encode())), None, None)
    assert whole(plain) == whole(packed) == TEXT
    assert documents(plain) == [TEXT]
    ends = {text[-1] for text, _ in list(plain.pieces())[:-1]}
    assert ends <= {"\n"} if block >= 10 else {"\n", " "}, "with a line; an endless one between words"


def test_line_ends_of_other_systems_read_as_one(tmp_path):
    assert whole(read_corpus(write(tmp_path / "a.txt", "a\r\nb\r\nc"), None, None)) == "a\nb\nc"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_row_is_a_document_and_ends_with_a_line(tmp_path, ending):
    rows, path = ["first", "second\n", "", "fourth"], tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"text": rows}), path)
    else:
        write(path, "".join(json.dumps({"text": row}) + "\n" for row in rows))
    assert documents(read_corpus(path, None, None)) == ["first\n", "second\n", "\n", "fourth\n"]


def test_documents_begin_where_the_expression_says(tmp_path):
    text = "preface\n= A =\nof a\n= = part = =\n= B =\nof b\n"
    found = documents(read_corpus(write(tmp_path / "a.txt", text), None, r"= [^=]"))
    assert found == ["preface\n", "= A =\nof a\n= = part = =\n", "= B =\nof b\n"]
    assert read_corpus(tmp_path / "a.txt", None, r"= [^=]").digest == read_corpus(tmp_path / "a.txt", None, None).digest


@pytest.mark.parametrize("inside_lines", [True, False])
@pytest.mark.parametrize("cuts", [(0.5,), (0.8, 0.9), (0.01, 0.02, 0.99)])
def test_parts_of_a_text_make_up_the_whole(tmp_path, monkeypatch, cuts, inside_lines):
    monkeypatch.setattr(corpora, "BLOCK", 7 if inside_lines else 100)
    corpus = read_corpus(write(tmp_path / "a.txt", TEXT * 5), None, None)
    edges = (0.0, *cuts, 1.0)
    parts = [whole(between(corpus, *pair, inside_lines)) for pair in pairwise(edges)]
    assert "".join(parts) == TEXT * 5
    if inside_lines:
        assert len(parts[0]) == int(cuts[0] * len(TEXT * 5))
    else:
        assert all(part.endswith("\n") for part in [part for part in parts if part][:-1])


@needs_shared_data
def test_tiny_shakespeare_is_cut_as_it_usually_is():
    corpus = read_corpus(SHARED / "tiny_shakespeare" / "input.txt.gz", None, None)
    text = whole(corpus)
    assert len(text) == 1_115_394 and len(set(text)) == 65
    assert whole(between(corpus, 0.0, 0.9, True)) == text[: int(len(text) * 0.9)]
    assert whole(between(corpus, 0.9, 1.0, True)) == text[int(len(text) * 0.9) :]


def test_the_python_reference_is_english_prose_without_any_download(hosts_asked):
    text = whole(python_topics())
    assert len(text) > 300_000 and text.count(" the ") > 3_000 and not hosts_asked


BAD = {
    "missing.txt": (None, "no such file"),
    "empty.txt": (b"", "the file is empty"),
    "latin.txt": ("caf\xe9 ".encode("latin-1") * 9, "not UTF-8"),
    "binary.txt": (b"ab\0cd", "zero byte"),
    "torn.txt.gz": (gzip.compress(b"a text" * 99)[:-9], "not a whole gzip file"),
    "no.txt.gz": (b"plain text", "not a whole gzip file"),
    "table.csv": (b"text\na\n", "the ending must be one of"),
    "none.jsonl": (b'{"words": 3}\n', "which column is the text"),
    "numbers.jsonl": (b'{"text": 3}\n', "holds int, not text"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_text_is_refused_by_name(tmp_path, name):
    content, said = BAD[name]
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(DataError, match=said) as refused:
        whole(read_corpus(tmp_path / name, None, None))
    assert name in str(refused.value)


def test_an_expression_that_is_none_is_refused(tmp_path):
    with pytest.raises(DataError, match="no regular expression"):
        read_corpus(write(tmp_path / "a.txt", TEXT), None, "(")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_data_set_of_the_hub_is_read_by_split_and_column(streaming, tmp_path):
    """A folder with the layout of one: `datasets` reads both alike."""
    for split, rows in (("train", ["= A =", "of a"]), ("test", ["= B ="])):
        pq.write_table(pa.table({"text": rows, "id": [1] * len(rows)}), tmp_path / f"{split}.parquet")
    hub = HubSet(str(tmp_path), None, streaming)
    train = hub.corpus("train", None, "= ")
    assert documents(train) == ["= A =\nof a\n"] and hub.splits() == ["train", "test"]
    assert whole(hub.corpus("test", "text", None)) == "= B =\n"
    other = hub.corpus("train", None, None)
    assert (other.digest, other.reading) != (train.digest, train.reading)


def test_a_stream_whose_files_change_is_another_text(tmp_path):
    """Its sum is not that of its rows, which would have to be loaded."""
    path = tmp_path / "train.txt"
    digests = set()
    for content in ("one\ntwo\n", "one\nthree\n"):
        path.write_text(content)
        corpus = HubSet(str(tmp_path), streaming=True).corpus("train", None, None)
        assert whole(corpus) == content and characters_of(corpus) == len(content)
        digests.add(corpus.digest)
    assert len(digests) == 2


def test_a_hub_that_cannot_be_reached_says_what_to_do(hosts_asked, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between one attempt and the next
    with pytest.raises(DataError, match=r"Salesforce/wikitext train: could not be loaded .* give local copies"):
        HubSet("Salesforce/wikitext", "wikitext-2-v1").corpus("train", None, None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_text_larger_than_what_may_be_in_memory_is_tokenised_in_pieces(tmp_path):
    """60 MB, which would be gigabytes as lists of numbers, in a process that has done the same with 2 MB before."""
    line = "the quick brown fox jumps over the lazy dog and then it jumps back again, every day.\n"
    with (tmp_path / "large.txt").open("w") as file:
        for number in range(60):
            file.write(f"{number} " + line * (1_000_000 // len(line)))
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
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "large.txt")], capture_output=True, text=True, check=True
    )
    assert float(found.stdout) < 200, "MiB"
