"""A file is read as it stands: the same rows in any format give the same texts and labels."""

import hashlib

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from text_files import as_separated, load, numbered_rows, write, write_rows

from gatedrnn.data.files import read_file

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
AWKWARD = [
    "NA", "null", "nan", "None", "", "true", "1", "007", "1.50", "-", "#N/A", "a, b; c", 'she said "no"',
    "two\nlines", "a\ttab", "  spaces  ", "한국어 문장, 그리고 👍", "'", "\\n", "<b>bold</b>", "a" * 200_000,
]  # fmt: skip


def table_of(path, text=None, label=None):
    return read_file(path, text, label)


def rows_of(table):
    return list(zip(table.texts, table.labels, strict=True))


@pytest.mark.parametrize("ending", ENDINGS)
def test_awkward_texts_and_whole_numbers_come_back_as_they_are_without_the_network(ending, tmp_path, hosts_asked):
    rows = [(text, f"label {i % 3}") for i, text in enumerate(AWKWARD)]
    table = table_of(write_rows(tmp_path / f"rows{ending}", rows))
    assert table.texts == AWKWARD and table.labels == [label for _, label in rows]
    numbers = table_of(write_rows(tmp_path / f"numbers{ending}", [("good", 1), ("bad", 0), ("ugly", 10)]))
    assert rows_of(numbers) == [("good", "1"), ("bad", "0"), ("ugly", "10")]
    assert hosts_asked == []


def test_marks_of_other_systems_change_nothing(tmp_path):
    rows = [("좋은 영화", "긍정"), ("나쁜 영화", "부정")]
    for ending in (".csv", ".tsv", ".jsonl"):
        content = write_rows(tmp_path / f"rows{ending}", rows).read_bytes()
        for start in (b"", b"\xef\xbb\xbf"):
            for line_end in (b"\n", b"\r\n"):
                path = write(tmp_path / f"rows{ending}", start + content.replace(b"\n", line_end))
                assert rows_of(table_of(path)) == rows, (ending, start, line_end)


def test_fields_of_csv_are_read_as_text_and_blank_lines_are_no_rows(tmp_path):
    def labels(content):
        return table_of(write(tmp_path / "rows.csv", content)).labels

    assert labels("text,label\na,1\nb,01\nc,1.0\nd,NA\n") == ["1", "01", "1.0", "NA"]
    assert labels("text,label\n\na,1\n\nb,0") == ["1", "0"]
    rows = [("warm, dry", "good"), ("cold; wet", "bad")]
    assert rows_of(table_of(write(tmp_path / "sheet.csv", as_separated(rows, ";")))) == rows


def test_a_text_that_is_missing_reads_as_an_empty_one(tmp_path):
    content = '{"text": "a", "label": "x"}\n{"text": null, "label": "y"}\n{"label": "x"}\n'
    assert table_of(write(tmp_path / "rows.jsonl", content)).texts == ["a", "", ""]


def test_columns_with_a_usual_name_are_found_wherever_they_stand_and_named_ones_win(tmp_path):
    for text, label in (("text", "label"), ("Document", "Class"), ("review", "sentiment")):
        path = write(tmp_path / "rows.csv", f"id,{label},{text},score\n7,x,hello,3\n8,y,world,4\n")
        assert rows_of(table_of(path)) == [("hello", "x"), ("world", "y")]
    path = write(tmp_path / "rows.csv", "text,label,제목,분류\na,1,b,x\nc,2,d,y\n")
    assert rows_of(table_of(path, "제목", "분류")) == [("b", "x"), ("d", "y")]


def test_names_of_classes_in_parquet_are_kept_in_their_order(tmp_path):
    names = ["Zebra", "apple", "Mango"]
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    rows = {"text": [f"text {i}" for i in range(60)], "label": [2, 0] * 30}
    path = tmp_path / "rows.parquet"
    Dataset.from_dict(rows, features=features).to_parquet(path)
    table, task = table_of(path), load(path)
    assert table.label_names == tuple(names) and table.labels == ["Mango", "Zebra"] * 30
    assert task.label_names == tuple(names), "a name that no row has keeps its number"
    assert set(task.train.labels.tolist()) == {0, 2}


NUMBERS = ("0001", "1", "00001", "01", "001", "-0", "0", "00")
ORDERS = [
    ("-1", "2", "9", "10", "100", "B", "b", "가"),
    ("2", "-", "--1", "1-", "²"),  # some only look like numbers
    tuple(sorted(NUMBERS, key=lambda label: (int(label), label))),  # a tie would follow the order of a set of strings
]


def test_labels_that_are_numbers_sort_as_numbers_and_before_words(tmp_path):
    for number, labels in enumerate(ORDERS):
        rows = numbered_rows(len(labels) * 20, labels[::-1])
        assert load(write_rows(tmp_path / f"{number}.csv", rows)).label_names == labels


def test_sources_name_the_file_without_its_path_and_hash_its_bytes(tmp_path):
    content = as_separated(numbered_rows(50))
    task = load(write(tmp_path / "rows.csv", content))
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert task.sources == [{"split": "train", "name": "rows.csv", "rows": 50, "sha256": digest}]
    assert str(tmp_path) not in f"{task.sources} {task.notes}"
