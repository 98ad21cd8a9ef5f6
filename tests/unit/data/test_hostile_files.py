"""Files of strangers: too wide, nested, or packed to burst; each is refused by one line, and soon."""

import gzip
import json
import time

import pytest
from text_files import refused

from gatedrnn.data import data_settings, files
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.files import read_file
from gatedrnn.data.mnist import load_mnist

WIDE = 30_000


def test_a_table_of_too_many_columns_is_refused_soon_and_of_many_some_are_named(tmp_path):
    columns = ["text", "label", *(f"column{number}" for number in range(WIDE - 2))]
    contents = {
        "wide.jsonl": "\n".join(json.dumps(dict.fromkeys(columns, value)) for value in "ab"),
        "growing.jsonl": "\n".join(json.dumps({"text": "a", "label": "b", column: 1}) for column in columns),
        "wide.csv": "\n".join(map(",".join, (columns, ["a"] * WIDE, ["b"] * WIDE))),
        "wide.tsv": "\n".join(map("\t".join, (columns, ["a"] * WIDE, ["b"] * WIDE))),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        started = time.process_time()
        refused(r"has [\d,]+ columns, at most 10,000", read_file, tmp_path / name, "text", "label")
        assert time.process_time() - started < 1, f"{name}: reads far more than it refuses"
    path = tmp_path / "many.csv"
    path.write_text(",".join(f"c{number}" for number in range(1_000)) + "\n" + "," * 999 + "\n")
    refused(r"c29 and 970 more", read_file, path, None, None)


def test_a_parquet_file_is_judged_by_the_size_of_its_footer(tmp_path):
    path = tmp_path / "wide.parquet"
    path.write_bytes(b"PAR1" + bytes(100) + (60_000_000).to_bytes(4, "little") + b"PAR1")
    refused(r"description of columns takes 60,000,000 bytes", read_file, path, "text", "label")


@pytest.mark.parametrize("column", ["text", "label"])
def test_nested_json_is_refused_with_its_row_and_column(tmp_path, column):
    path, row = tmp_path / "nested.jsonl", {"text": "a", "label": "b"}
    for value, kind in (({"a": 1}, "an object"), (["a", "b"], "a list"), ([{"a": [1]}], "a list")):
        path.write_text("\n".join(json.dumps(row | {column: value}) for _ in range(3)))
        refused(rf"row 1, column '{column}': holds {kind}, not", read_file, path, None, None)
        if column == "text":
            refused(rf"row 1, column 'text': holds {kind}, not", lambda: list(read_corpus(path, None, None).pieces()))


def test_a_bomb_of_gzip_stops_at_the_stated_size_and_a_text_that_packs_well_is_read(tmp_path, monkeypatch):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"the cat sat on a mat\n" * 100_000))
    assert sum(len(piece.text) for piece in read_corpus(path, None, None).pieces()) == 2_100_000
    monkeypatch.setattr(files, "ALWAYS_ALLOWED", 1 << 20)
    for name, match in (
        ("txt.gz", r"unpacks to more than [\d,]+ bytes"),
        ("jsonl", "cannot be read"),
        ("parquet", "cannot be read"),
    ):
        path = tmp_path / f"bomb.{name}"
        path.write_bytes(gzip.compress(b"a" * (8 << 20)))
        refused(match, lambda path=path: list(read_corpus(path, "text", None).pieces()))
    for name in ("t-images-idx3-ubyte.gz", "t-labels-idx1-ubyte.gz"):
        (tmp_path / name).write_bytes(gzip.compress(bytes(8 << 20)))
    images = tmp_path / "t-images-idx3-ubyte.gz"
    refused("unpacks to more than", load_mnist, data_settings(task="mnist", train_file=images, test_file=images))
