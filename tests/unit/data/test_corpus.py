"""Running text from files: every piece of it once, in order, cut where it should be, and read a piece at a time."""

import gzip
import json
import subprocess
import sys
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from text_files import refused, write

from gatedrnn.data import corpus as corpora
from gatedrnn.data.corpus import HubSet, between, characters_of, python_topics, read_corpus

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


def test_a_hub_that_cannot_be_reached_says_what_to_do(hosts_asked, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between one attempt and the next
    hub = HubSet("Salesforce/wikitext", "wikitext-2-v1")
    refused(r"Salesforce/wikitext train: could not be loaded .* give local copies", hub.corpus, "train", None, None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_text_larger_than_what_may_be_in_memory_is_tokenised_in_pieces(tmp_path):
    """30 MB, which would be a gigabyte as lists of numbers, in a process that has done the same with 2 MB before."""
    line = "the quick brown fox jumps over the lazy dog and then it jumps back again, every day.\n"
    with (tmp_path / "large.txt").open("w") as file:
        for number in range(30):
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
    assert float(found.stdout) < 150, "MiB"
