"""Readers of files that are almost of their kind: nothing but our errors leaves them, and nothing read is lost."""

import csv
import sys

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pages import ROOT
from properties import few

sys.path.insert(0, str(ROOT / "tools"))
from fuzz_readers import READERS, fuzz

from gatedrnn.data.files import read_file

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@pytest.mark.parametrize("inputs", [8, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS)
def test_nothing_but_our_errors_leaves_a_reader(reader, inputs, tmp_path):
    fuzz(reader, inputs, tmp_path)


@few(max_examples=20)
@given(st.lists(st.tuples(TEXTS, TEXTS.map(str.strip).filter(bool)), min_size=1))
def test_rows_that_are_written_are_read_as_they_were(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    plain = [tuple(" ".join(field.splitlines()).replace("\t", " ") for field in row) for row in rows]
    plain = [(text, label.strip()) for text, label in plain if label.strip()]
    lines = ["text\tlabel", *map("\t".join, plain)]
    (folder / "a.tsv").write_bytes("\n".join(lines).encode())
    for name, expected in (("a.csv", rows), ("a.tsv", plain)):
        if expected:
            found = read_file(folder / name)
            assert list(zip(found.texts, found.labels, strict=True)) == expected
