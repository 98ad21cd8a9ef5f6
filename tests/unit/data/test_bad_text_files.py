"""Every file that cannot be used ends in one line that names the file and the rule, and never in a traceback."""

import gzip
import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
from text_files import as_separated, load, numbered_rows, refused, write, write_rows

from gatedrnn.data.files import read_file

GOOD = as_separated([("good", "yes"), ("bad", "no")])
KOREAN = as_separated([("좋아요", "긍정"), ("별로예요", "부정")])


def parquet(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


PARQUET = parquet({"text": ["a", "b"] * 100, "label": [0, 1] * 100})

# name of the file: content, and what the message must say of the rule that is broken
BAD = {
    "empty.csv": ("", "empty"),
    "empty.parquet": ("", "empty"),
    "blank.csv": ("\n\n\n", "empty|no rows|no columns"),
    "blank.jsonl": ("\n\n", "empty|no rows"),
    "header_only.csv": ("text,label\n", "no rows"),
    "header_only.tsv": ("text\tlabel", "no rows"),
    "header_only.parquet": (parquet({"text": pa.array([], pa.string()), "label": pa.array([], pa.int64())}), "no rows"),
    "ending.txt": (GOOD, r"ending must be one of \.csv, \.tsv, \.jsonl, \.json, \.parquet, got '\.txt'"),
    "ending": (GOOD, "ending must be one of .* got 'none'"),
    "image.csv": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "UTF-8|binary"),
    "zeros.csv": (b"text,label\n\x00\x00\x00,yes\nb,no\n", "line 2 .*binary"),
    "zipped.csv": (gzip.compress(GOOD.encode()), "UTF-8|binary"),
    "parquet.csv": (PARQUET, "UTF-8|binary"),
    "korean_cp949.csv": (KOREAN.encode("cp949"), "not UTF-8 near line"),
    "korean_cp949.jsonl": ('{"text": "좋아요", "label": 1}\n'.encode("cp949"), "not UTF-8 near line 1"),
    "windows_utf16.csv": (KOREAN.encode("utf-16"), "not UTF-8"),
    "malformed.jsonl": ('{"text": "a", "label": 1}\n{"text": "b", "label"\n', "json"),
    "not_objects.jsonl": ("1\n2\n", "json|column"),
    "truncated.parquet": (PARQUET[: len(PARQUET) // 2], "parquet"),
    "cut_at_the_end.parquet": (PARQUET[:-8], "parquet"),
    "csv.parquet": (GOOD, "parquet"),
    "one_field_more.csv": ("text,label\na,1\nb,1,2\nc,0\n", "line 3|row 2"),
    "one_field_more_everywhere.csv": ("text,label\na,b,1\nc,d,0\n", "line 2|row 1|fields"),
    "one_field_less.csv": ("text,label\na,1\nb\nc,0\n", "line 3|row 2"),
    "one_field_less_at_a_text.csv": ("label,text\n1,a\n0\n1,c\n", "line 3|row 2"),
    "one_field_less.tsv": ("text\tlabel\na\t1\nb\nc\t0\n", "line 3|row 2"),
    "open_quote.csv": ('text,label\n"never closed,1\nb,0\n', "csv"),
    "no_label.csv": ("text,label\na,1\nb,0\nc,\nd,1\n", "row 3 has no label in column 'label'"),
    "no_label.jsonl": ('{"text": "a", "label": 1}\n{"text": "b"}\n{"text": "c", "label": 0}\n', "row 2 has no label"),
    "null_label.jsonl": ('{"text": "a", "label": null}\n{"text": "b", "label": "x"}\n', "row 1 has no label"),
    "null_label.parquet": (parquet({"text": ["a", "b"], "label": ["x", None]}), "row 2 has no label"),
    "unusual.csv": ("x,y\na,1\nb,0\n", "text.* --text-column.* x, y"),
    "no_label_column.csv": ("text,y\na,1\nb,0\n", "label.* --label-column.* text, y"),
    "two_texts.csv": ("text,review,label\na,b,1\nc,d,0\n", r"text, review.*--text-column.* text, review, label"),
    "two_labels.csv": ("text,label,class\na,1,x\nb,0,y\n", r"label, class.*--label-column.* text, label, class"),
    "same_name.csv": ("text,label,text\na,1,b\n", "two columns have the same name, 'text'"),
    "no_header.csv": ("a good film,1\na bad film,0\n", "--text-column.* a good film, 1"),
}


def refusal(path, text=None, label=None):
    """The message with which a file is refused: one line that names the file."""
    message = refused(re.escape(str(path)), read_file, path, text, label)
    assert len(message) < len(str(path)) + 200
    return message


def test_a_file_that_cannot_be_used_is_refused_with_its_name_and_the_rule(tmp_path):
    said = {name: refusal(write(tmp_path / name, content)) for name, (content, _) in BAD.items()}
    rules = {name: said[name].removeprefix(str(tmp_path / name)) for name in BAD}
    assert {name: rules[name] for name, (_, rule) in BAD.items() if not re.search(rule, rules[name], re.I)} == {}


def test_a_file_that_is_not_there_is_refused(tmp_path):
    for ending in (".csv", ".jsonl", ".parquet"):
        assert "no such file" in refusal(tmp_path / f"missing{ending}")
        (tmp_path / f"folder{ending}").mkdir()
        assert "not a file" in refusal(tmp_path / f"folder{ending}")


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    path = write(tmp_path / "rows.csv", GOOD)
    assert re.search("no column 'body'.* text, label", refusal(path, text="body"))
    assert re.search("no column 'stars'.* text, label", refusal(path, label="stars"))


def test_an_error_without_words_is_still_one_line(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr("gatedrnn.data.files.load_dataset", fail)
    assert "cannot be read" in refusal(write(tmp_path / "rows.jsonl", "{}\n"))


def test_rows_that_cannot_be_learned_from_are_refused(tmp_path):
    good = write(tmp_path / "good.csv", as_separated(numbered_rows(20)))
    same = write(tmp_path / "same.csv", as_separated(numbered_rows(20, ["same"])))
    other = write(tmp_path / "other.csv", as_separated(numbered_rows(20, ["yes", "no", "perhaps"])))
    few = write(tmp_path / "few.csv", GOOD)
    rows = [(f"text {number}", float(number % 2)) for number in range(20)] + [("text", float("nan"))]
    for train, given, said in (
        (same, {}, r"same\.csv: every training row has the label 'same'"),
        (few, {"test_fraction": 0.1}, r"few\.csv: the number of rows, 2, cannot be split"),
        (write_rows(tmp_path / "nan.parquet", rows), {}, "row 21 has no label in column 'label'"),
        *((good, {f"{split}_file": other}, rf"other\.csv: {split} has the label 'perhaps', which training never saw")
          for split in ("validation", "test")),
    ):  # fmt: skip
        refused(said, load, train, **given)
