"""Files of texts and labels, as a user may have them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from gatedrnn.data import data_settings
from gatedrnn.errors import DataError
from gatedrnn.tasks.text.read import load_text_classification


def refused(said, read, *given, **named):
    """The message, in one line that a terminal can show, with which `read` refuses what it is given."""
    with pytest.raises(DataError, match=said) as caught:
        read(*given, **named)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1_000
    return str(caught.value)


def same(one, other):
    """Whether two batches are."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def as_separated(rows, separator=","):
    def quoted(field):
        special = any(mark in field for mark in (separator, '"', "\n", "\r"))
        return '"' + field.replace('"', '""') + '"' if special else field

    return "".join(separator.join(map(quoted, map(str, row))) + "\n" for row in [("text", "label"), *rows])


def write(path, content):
    """The file at `path`, from text in UTF-8 or from bytes as they are."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def written(folder, text, name="table.csv"):
    return write(folder / name, text)


def write_rows(path, rows):
    """Rows of (text, label) in the format that the ending of `path` names."""
    if path.suffix == ".parquet":
        texts, labels = zip(*rows, strict=True)
        pq.write_table(pa.table({"text": list(texts), "label": list(labels)}), path)
        return path
    if path.suffix in (".json", ".jsonl"):
        objects = ({"text": text, "label": label} for text, label in rows)
        return write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects))
    return write(path, as_separated(rows, "\t" if path.suffix == ".tsv" else ","))


def numbered_rows(count, labels=("no", "yes"), word="word"):
    """Rows that no other row equals."""
    return [(f"{word} number {i}", labels[i % len(labels)]) for i in range(count)]


def load(train_file, **settings):
    """A text task from files."""
    return load_text_classification(data_settings(task="text-classification", train_file=train_file, **settings))
