"""Files of strangers: too wide, nested, or packed to burst; each is refused by one line, and soon."""

import gzip
import json
import time

import pytest

from gatedrnn.data import data_settings, files
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.files import MOST_COLUMNS, read_file
from gatedrnn.data.mnist import load_mnist
from gatedrnn.errors import DataError

WIDE = 300_000


def refused(match, read, *arguments):
    with pytest.raises(DataError, match=match) as found:
        read(*arguments)
    assert "\n" not in str(found.value) and len(str(found.value)) < 1_000


@pytest.mark.parametrize("name", ["wide.csv", "wide.tsv", "wide.jsonl", "growing.jsonl"])
def test_a_table_of_300000_columns_is_refused_soon(tmp_path, name):
    path, columns = tmp_path / name, ["text", "label", *(f"column{number}" for number in range(WIDE - 2))]
    if name == "wide.jsonl":
        path.write_text("\n".join(json.dumps(dict.fromkeys(columns, value)) for value in "ab"))
    elif name == "growing.jsonl":
        path.write_text("\n".join(json.dumps({"text": "a", "label": "b", column: 1}) for column in columns))
    else:
        separator = "," if name == "wide.csv" else "\t"
        path.write_text("\n".join(separator.join(row) for row in (columns, ["a"] * WIDE, ["b"] * WIDE)))
    started = time.perf_counter()
    refused(r"has [\d,]+ columns, at most 10,000", read_file, path, "text", "label")
    assert time.perf_counter() - started < 5, "one second on a quiet machine"


def test_a_parquet_file_is_judged_by_the_size_of_its_footer(tmp_path):
    path = tmp_path / "wide.parquet"
    path.write_bytes(b"PAR1" + bytes(100) + (60_000_000).to_bytes(4, "little") + b"PAR1")
    refused(r"description of columns takes 60,000,000 bytes", read_file, path, "text", "label")


@pytest.mark.slow
def test_a_message_names_some_columns_and_not_all(tmp_path):
    path = tmp_path / "many.csv"
    path.write_text(",".join(f"c{number}" for number in range(MOST_COLUMNS)) + "\n" + "," * (MOST_COLUMNS - 1) + "\n")
    refused(r"c29 and 9,970 more", read_file, path, None, None)


@pytest.mark.parametrize(
    "value, kind", [({"a": 1}, "an object"), (["a", "b"], "a list"), ([{"a": [1]}], "a list")], ids=str
)
@pytest.mark.parametrize("column", ["text", "label"])
def test_nested_json_is_refused_with_its_row_and_column(tmp_path, value, kind, column):
    path, row = tmp_path / "nested.jsonl", {"text": "a", "label": "b"}
    path.write_text("\n".join(json.dumps(row | {column: value}) for _ in range(3)))
    refused(rf"row 1, column '{column}': holds {kind}, not", read_file, path, None, None)
    if column == "text":
        refused(rf"row 1, column 'text': holds {kind}, not", lambda: list(read_corpus(path, None, None).pieces()))


@pytest.mark.parametrize("name", ["bomb.txt.gz", "bomb.jsonl", "bomb.parquet"])
def test_a_bomb_of_gzip_stops_at_the_stated_size(tmp_path, monkeypatch, name):
    monkeypatch.setattr(files, "ALWAYS_ALLOWED", 1 << 20)
    path = tmp_path / name
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"a" * (1 << 20))
    match = r"unpacks to more than [\d,]+ bytes" if name.endswith(".gz") else "cannot be read as"
    refused(match, lambda: list(read_corpus(path, "text", None).pieces()))


def test_a_text_that_packs_well_is_read(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"the cat sat on a mat\n" * 100_000))
    assert sum(len(piece.text) for piece in read_corpus(path, None, None).pieces()) == 2_100_000


def test_images_that_burst_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ALWAYS_ALLOWED", 1 << 20)
    for name in ("t-images-idx3-ubyte.gz", "t-labels-idx1-ubyte.gz"):
        (tmp_path / name).write_bytes(gzip.compress(bytes(32 << 20)))
    images = tmp_path / "t-images-idx3-ubyte.gz"
    refused("unpacks to more than", load_mnist, data_settings(task="mnist", train_file=images, test_file=images))
