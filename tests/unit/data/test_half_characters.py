"""Half of a character, which a text has that was cut in the middle of an emoji."""

import json

import pandas as pd
import pytest
from text_files import written

from gatedrnn.data.frames import in_memory, new_data
from gatedrnn.data.text import encode_texts
from gatedrnn.data.tokenizers import encode_stream, learn_tokenizer, unknown_in
from gatedrnn.tables.files import read_table
from gatedrnn.tables.table import with_whole_characters

HALF, WHOLE = "cut \ud83d", "cut \ufffd"


def test_json_holds_it_as_the_replacement_character_and_whole_ones_as_they_are(tmp_path, caplog):
    rows = [{"text": HALF, "label": "a"}, {"text": "\U0001f600", "label": "\udc00"}, {"text": ["x", {HALF: HALF}]}]
    expected = {"text": [WHOLE, "\U0001f600", ["x", {WHOLE: WHOLE}]], "label": ["a", "\ufffd", None]}
    for name, content in (("a.jsonl", "\n".join(map(json.dumps, rows))), ("b.json", json.dumps(rows))):
        caplog.clear()
        assert read_table(written(tmp_path, content, name)).columns == expected
        assert f"{name}" in caplog.text and "half a character" in caplog.text
    caplog.clear()
    assert read_table(written(tmp_path, json.dumps(rows[1:2]).replace("udc00", "u0041"), "c.json"))
    assert caplog.text == ""


@pytest.mark.parametrize("data", [
    [HALF, "x"], ([HALF, "x"], [HALF, "b"]), {"text": [HALF, "x"], HALF: ["a", "b"]},
    pd.DataFrame({"text": [HALF, "x"], "label": ["a", HALF]}, dtype=object),
    pd.Series([HALF, "x"], name="text", dtype=object),  # which pandas 3 would make strings of, and refuse
], ids=["texts", "labelled", "columns", "frame", "series"])  # fmt: skip
def test_data_in_memory_hold_it_as_the_replacement_character(data):
    assert in_memory(data).tables["train"].column(0).to_pylist() == [WHOLE, "x"]
    assert next(iter(read_table(new_data(data).source).lists().values())) == [WHOLE, "x"]


def test_what_is_whole_is_the_very_same_object():
    rows = ["a", ["b", {"c": 1.5}], None]
    assert with_whole_characters(rows, "rows") is rows


def test_tokenizers_read_it_as_the_replacement_character():
    tokenizer = learn_tokenizer("characters", ["cut it"], 1, 0, stream=True)
    assert list(encode_stream(tokenizer, [HALF])) == list(encode_stream(tokenizer, [WHOLE]))
    assert (
        encode_texts(tokenizer, [HALF], 10, "x", [])[0].tolist()
        == encode_texts(tokenizer, [WHOLE], 10, "x", [])[0].tolist()
    )
    assert unknown_in(tokenizer, HALF) == ["\ufffd"]
