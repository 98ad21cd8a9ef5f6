"""A file is read as it stands: the same rows in any format give the same texts and labels."""

import hashlib

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from text_files import as_separated, load, numbered_rows, write, write_rows

from gatedrnn.data.files import read_file

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
every_ending = pytest.mark.parametrize("ending", ENDINGS)
AWKWARD = [
    "NA", "null", "nan", "None", "", "true", "1", "007", "1.50", "-", "#N/A", "a, b; c", 'she said "no"',
    "two\nlines", "a\ttab", "  spaces  ", "한국어 문장, 그리고 👍", "'", "\\n", "<b>bold</b>", "a" * 200_000,
]  # fmt: skip


def table_of(path, text=None, label=None):
    return read_file(path, text, label)


@every_ending
def test_awkward_texts_come_back_as_they_are(ending, tmp_path):
    rows = [(text, f"label {i % 3}") for i, text in enumerate(AWKWARD)]
    table = table_of(write_rows(tmp_path / f"rows{ending}", rows))
    assert table.texts == AWKWARD
    assert table.labels == [label for _, label in rows]


@every_ending
def test_whole_numbers_as_labels_are_the_same_in_every_format(ending, tmp_path):
    rows = [("good", 1), ("bad", 0), ("ugly", 10)]
    table = table_of(write_rows(tmp_path / f"rows{ending}", rows))
    assert (table.texts, table.labels) == (["good", "bad", "ugly"], ["1", "0", "10"])


def test_labels_that_differ_as_text_stay_apart(tmp_path):
    table = table_of(write(tmp_path / "rows.csv", "text,label\na,1\nb,01\nc,1.0\nd,NA\n"))
    assert table.labels == ["1", "01", "1.0", "NA"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_marks_of_other_systems_change_nothing(ending, start, line_end, tmp_path):
    rows = [("좋은 영화", "긍정"), ("나쁜 영화", "부정")]
    path = write_rows(tmp_path / f"rows{ending}", rows)
    path.write_bytes(start + path.read_bytes().replace(b"\n", line_end))
    table = table_of(path)
    assert list(zip(table.texts, table.labels, strict=True)) == rows


def test_quotes_in_csv_hold_commas_newlines_and_quotes(tmp_path):
    content = 'label,text\nyes,"one, two"\nno,"first line\nsecond line"\nyes,"a ""quoted"" word"\n'
    table = table_of(write(tmp_path / "rows.csv", content))
    assert table.texts == ["one, two", "first line\nsecond line", 'a "quoted" word']
    assert table.labels == ["yes", "no", "yes"]


def test_semicolons_part_the_fields_where_the_first_line_has_no_comma(tmp_path):
    rows = [("warm, dry", "good"), ("cold; wet", "bad")]
    found = read_file(write(tmp_path / "sheet.csv", as_separated(rows, ";")), None, None)
    assert list(zip(found.texts, found.labels, strict=True)) == rows


def test_blank_lines_and_a_missing_last_newline_are_no_rows(tmp_path):
    table = table_of(write(tmp_path / "rows.csv", "text,label\n\na,1\n\nb,0"))
    assert (table.texts, table.labels) == (["a", "b"], ["1", "0"])


def test_a_text_that_is_missing_reads_as_an_empty_one(tmp_path):
    content = '{"text": "a", "label": "x"}\n{"text": null, "label": "y"}\n{"label": "x"}\n'
    assert table_of(write(tmp_path / "rows.jsonl", content)).texts == ["a", "", ""]


@pytest.mark.parametrize("text, label", [("text", "label"), ("Document", "Class"), ("review", "sentiment")])
def test_columns_with_a_usual_name_are_found_wherever_they_stand(text, label, tmp_path):
    path = write(tmp_path / "rows.csv", f"id,{label},{text},score\n7,x,hello,3\n8,y,world,4\n")
    table = table_of(path)
    assert (table.texts, table.labels) == (["hello", "world"], ["x", "y"])


def test_named_columns_win_over_usual_names(tmp_path):
    path = write(tmp_path / "rows.csv", "text,label,제목,분류\na,1,b,x\nc,2,d,y\n")
    table = table_of(path, "제목", "분류")
    assert (table.texts, table.labels) == (["b", "d"], ["x", "y"])


def test_names_of_classes_in_parquet_are_kept_in_their_order(tmp_path):
    names = ["Zebra", "apple", "Mango"]
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    rows = {"text": [f"text {i}" for i in range(60)], "label": [2, 0] * 30}
    path = tmp_path / "rows.parquet"
    Dataset.from_dict(rows, features=features).to_parquet(path)
    table = table_of(path)
    assert table.label_names == tuple(names)
    assert table.labels == ["Mango", "Zebra"] * 30
    task = load(path)
    assert task.label_names == tuple(names), "a name that no row has keeps its number"
    assert set(task.train.labels.tolist()) == {0, 2}


def sorted_names(labels, tmp_path):
    return load(write_rows(tmp_path / "rows.csv", numbered_rows(len(labels) * 20, labels))).label_names


def test_labels_that_are_numbers_sort_as_numbers_and_before_words(tmp_path):
    labels = ("10", "9", "b", "-1", "100", "2", "B", "가")
    assert sorted_names(labels, tmp_path) == ("-1", "2", "9", "10", "100", "B", "b", "가")


def test_labels_that_only_look_like_numbers_sort_as_words(tmp_path):
    assert sorted_names(("--1", "2", "1-", "-", "²"), tmp_path) == ("2", "-", "--1", "1-", "²")


def test_numbers_in_several_notations_have_one_order(tmp_path):
    # A tie would follow the order of a set of strings, which differs from process to process.
    labels = ("0001", "1", "00001", "01", "001", "-0", "0", "00")
    assert sorted_names(labels, tmp_path) == tuple(sorted(labels, key=lambda label: (int(label), label)))


def test_sources_name_the_file_without_its_path_and_hash_its_bytes(tmp_path):
    content = as_separated(numbered_rows(50))
    path = write(tmp_path / "rows.csv", content)
    task = load(path)
    (source,) = task.sources
    expected = {
        "split": "train",
        "name": "rows.csv",
        "rows": 50,
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
    }
    assert source == expected
    assert str(tmp_path) not in f"{task.sources} {task.notes}"


@every_ending
def test_a_file_of_the_users_own_is_read_without_the_network(ending, tmp_path, hosts_asked):
    read_file(write_rows(tmp_path / f"rows{ending}", numbered_rows(4)), None, None)
    assert hosts_asked == []
