"""Files of texts are read as they stand or refused in one line; tokenizers count in plain Python; tasks have splits."""

import gzip
import hashlib
import io
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import product
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from pages import SHARED, needs_shared_data
from text_files import as_separated, load, numbered_rows, refused, write, write_rows, written
from transformers import AutoTokenizer

from gatedrnn import unpacking
from gatedrnn.data import data_settings, load_task
from gatedrnn.data.corpus import read_corpus
from gatedrnn.data.files import Wanted, read_file
from gatedrnn.data.tokenizers import _MAX_WORD, PAD, SPECIAL, UNK, learn_tokenizer
from gatedrnn.tables.options import AS_SHOWN, DialectOptions
from gatedrnn.tasks.images.read import load_mnist
from gatedrnn.tasks.text.read import _AG_NEWS, load_ag_news, load_text_classification

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
AWKWARD = [
    "NA", "null", "nan", "None", "", "true", "1", "007", "1.50", "-", "#N/A", "a, b; c", 'she said "no"',
    "two\nlines", "a\ttab", "  spaces  ", "한국어 문장, 그리고 👍", "'", "\\n", "<b>bold</b>", "a" * 200_000,
]  # fmt: skip


def rows_of(path, how=AS_SHOWN, text=None, label=None):
    table = read_file(path, Wanted(text, label), how)
    return list(zip(table.texts, table.labels, strict=True))


@pytest.mark.parametrize("ending", ENDINGS)
def test_awkward_texts_and_whole_numbers_come_back_as_they_are_without_the_network(ending, tmp_path, hosts_asked):
    rows = [(text, f"label {i % 3}") for i, text in enumerate(AWKWARD)]
    assert rows_of(write_rows(tmp_path / f"rows{ending}", rows), DialectOptions(quoting=True)) == rows
    numbers = write_rows(tmp_path / f"numbers{ending}", [("good", 1), ("bad", 0), ("ugly", 10)])
    assert rows_of(numbers) == [("good", "1"), ("bad", "0"), ("ugly", "10")] and hosts_asked == []


def test_marks_of_other_systems_change_nothing(tmp_path):
    rows = [("좋은 영화", "긍정"), ("나쁜 영화", "부정")]
    for ending, start, line_end in product((".csv", ".tsv", ".jsonl"), (b"", b"\xef\xbb\xbf"), (b"\n", b"\r\n")):
        path = write_rows(tmp_path / f"rows{ending}", rows)
        write(path, start + path.read_bytes().replace(b"\n", line_end))
        assert rows_of(path) == rows, (ending, start, line_end)


def test_fields_of_csv_are_read_as_text_blank_lines_are_no_rows_and_a_missing_text_is_an_empty_one(tmp_path):
    rows = [("warm, dry", "good"), ("cold; wet", "bad")]
    for content, expected in (
        ("text,label\na,1\nb,01\nc,1.0\nd,NA\n", [("a", "1"), ("b", "01"), ("c", "1.0"), ("d", "NA")]),
        ("text,label\n\na,1\n\nb,0", [("a", "1"), ("b", "0")]),
        (as_separated(rows, ";"), rows),
        ("sep=|\n text| label\na|1\nb|0\n", [("a", "1"), ("b", "0")]),
    ):
        assert rows_of(written(tmp_path, content)) == expected
    speech = [('"Never', "a"), ('said he"', "b"), ('"whole"', "a")]
    path = written(tmp_path, "text\tlabel\n" + "".join("\t".join(row) + "\n" for row in speech), "play.tsv")
    assert rows_of(path) == speech and rows_of(path, DialectOptions(quoting=True)) != speech
    path = written(tmp_path, 'text,label\na,1\n"never closed,1\nb,0\n')
    refused("the row that begins in line 3", read_file, path)
    content = '{"text": "a", "label": "x"}\n{"text": null, "label": "y"}\n{"label": "x"}\n'
    assert rows_of(written(tmp_path, content, "rows.jsonl")) == [("a", "x"), ("", "y"), ("", "x")]


def test_columns_with_a_usual_name_are_found_and_named_ones_win_and_names_of_classes_keep_their_order(tmp_path):
    for text, label in (("text", "label"), ("Document", "Class"), ("review", "sentiment")):
        path = written(tmp_path, f"id,{label},{text},score\n7,x,hello,3\n8,y,world,4\n")
        assert rows_of(path) == [("hello", "x"), ("world", "y")]
    path = written(tmp_path, "text,label,제목,분류\na,1,b,x\nc,2,d,y\n")
    assert rows_of(path, AS_SHOWN, "제목", "분류") == [("b", "x"), ("d", "y")]
    names, path = ["Zebra", "apple", "Mango"], tmp_path / "rows.parquet"
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    rows = {"text": [f"text {i}" for i in range(60)], "label": [2, 0] * 30}
    Dataset.from_dict(rows, features=features).to_parquet(path)
    table, task = read_file(path), load(path)
    assert table.label_names == tuple(names) and table.labels == ["Mango", "Zebra"] * 30
    assert task.label_names == tuple(names), "a name that no row has keeps its number"
    assert set(task.train.labels.tolist()) == {0, 2}


NUMBERS = ("0001", "1", "00001", "01", "001", "-0", "0", "00")
ORDERS = [
    ("-1", "2", "9", "10", "100", "B", "b", "가"),
    ("2", "-", "--1", "1-", "²"),  # some only look like numbers
    tuple(sorted(NUMBERS, key=lambda label: (int(label), label))),  # a tie would follow the order of a set of strings
]


def test_labels_that_are_numbers_sort_as_numbers_and_before_words_and_sources_hash_the_bytes_of_the_file(tmp_path):
    for number, labels in enumerate(ORDERS):
        path = write_rows(tmp_path / f"{number}.csv", numbered_rows(len(labels) * 20, labels[::-1]))
        task, source = load(path), {"split": "train", "name": path.name, "rows": len(labels) * 20}
        assert task.label_names == labels and str(tmp_path) not in f"{task.sources} {task.notes}"
        assert task.sources == [source | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}]


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
    "header_only.parquet": (parquet({"text": pa.array([], pa.string()), "label": pa.array([], pa.int64())}), "no rows"),
    "ending.md": (GOOD, r"ending must be one of \.csv, .*\.parquet, .*, got '\.md'"),
    "ending": (GOOD, "ending must be one of .* got 'none'"),
    "image.csv": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "UTF-8|binary"),
    "zeros.csv": (b"text,label\n\x00\x00\x00,yes\nb,no\n", "line 2 .*binary"),
    "korean_cp949.jsonl": ('{"text": "좋아요", "label": 1}\n'.encode("cp949"), "utf-8"),
    "malformed.jsonl": ('{"text": "a", "label": 1}\n{"text": "b", "label"\n', "json"),
    "not_objects.jsonl": ("1\n2\n", "json|column"),
    "truncated.parquet": (PARQUET[: len(PARQUET) // 2], "parquet"),
    "csv.parquet": (GOOD, "parquet"),
    "one_field_more.csv": ("text,label\na,1\nb,1,2\nc,0\n", "line 3|row 2"),
    "one_field_more_everywhere.csv": ("text,label\na,b,1\nc,d,0\n", "line 2|row 1|fields"),
    "one_field_less.csv": ("text,label\na,1\nb\nc,0\n", "line 3|row 2"),
    "one_field_less_at_a_text.csv": ("label,text\n1,a\n0\n1,c\n", "line 3|row 2"),
    "open_quote.csv": ('text,label\n"never closed,1\nb,0\n', "csv"),
    "no_label.csv": ("text,label\na,1\nb,0\nc,\nd,1\n", "row 3 has no label in column 'label'"),
    "no_label.jsonl": ('{"text": "a", "label": 1}\n{"text": "b"}\n{"text": "c", "label": 0}\n', "row 2 has no label"),
    "null_label.jsonl": ('{"text": "a", "label": null}\n{"text": "b", "label": "x"}\n', "row 1 has no label"),
    "null_label.parquet": (parquet({"text": ["a", "b"], "label": ["x", None]}), "row 2 has no label"),
    "unusual.csv": ("x,y\na,1\nb,0\n", "text.* --text-column x or --text-column y"),
    "no_label_column.csv": ("text,y\na,1\nb,0\n", "label.* --label-column y"),
    "two_texts.csv": ("text,review,label\na,b,1\nc,d,0\n", r"text, review.*--text-column text or --text-column review"),
    "two_labels.csv": ("text,label,class\na,1,x\nb,0,y\n", "label, class.*--label-column label or --label-col"),
    "no_header.csv": ("a good film,1\na bad film,0\n", "give --label-column 'column 2'"),
}


def refusal(path, text=None, label=None):
    """The message with which a file is refused: one line that names the file."""
    message = refused(re.escape(str(path)), read_file, path, Wanted(text, label))
    assert len(message) < len(str(path)) + 200
    return message


def test_what_cannot_be_used_or_is_not_there_is_refused_with_its_name_and_the_rule(tmp_path, monkeypatch):
    for name, (content, rule) in BAD.items():
        said = refusal(written(tmp_path, content, name)).removeprefix(str(tmp_path / name))
        assert re.search(rule, said, re.I), name
    for ending in (".csv", ".jsonl", ".parquet"):
        assert "no such file" in refusal(tmp_path / f"missing{ending}")
        (tmp_path / f"folder{ending}").mkdir()
        assert "holds no file that ends in" in refusal(tmp_path / f"folder{ending}")
    path = written(tmp_path, GOOD)
    assert re.search("no column 'body'.* text, label", refusal(path, text="body"))
    assert re.search("no column 'stars'.* text, label", refusal(path, label="stars"))

    monkeypatch.setattr("gatedrnn.tables.files._read_json", Mock(side_effect=MemoryError))  # an error without words
    assert "cannot be read" in refusal(written(tmp_path, "{}\n", "rows.jsonl"))


def test_rows_that_cannot_be_learned_from_are_refused(tmp_path):
    labels = {"good": ("yes", "no"), "same": ("same",), "other": ("yes", "no", "perhaps")}
    good, same, other = (write_rows(tmp_path / f"{name}.csv", numbered_rows(20, labels[name])) for name in labels)
    few = written(tmp_path, GOOD, "few.csv")
    rows = [(f"text {number}", float(number % 2)) for number in range(20)] + [("text", float("nan"))]
    for train, given, said in (
        (same, {}, r"same\.csv: every training row has the label 'same'"),
        (few, {"test_fraction": 0.1}, r"few\.csv: the number of rows, 2, cannot be split"),
        (write_rows(tmp_path / "nan.parquet", rows), {}, "row 21 has no label in column 'label'"),
        *((good, {f"{split}_file": other}, rf"other\.csv: {split} has the label 'perhaps', which training never saw")
          for split in ("validation", "test")),
    ):  # fmt: skip
        refused(said, load, train, **given)


WIDE = 30_000


def characters_in(path, column=None):
    return sum(len(piece.text) for piece in read_corpus(path, column, None).pieces())


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions, in Python and in C: the work that is done, on any machine."""
    counted = Counter[str]()
    sys.setprofile(lambda _, event, __: counted.update([event]))
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted["call"] + counted["c_call"]


def test_a_table_of_too_many_columns_is_refused_soon_and_of_many_some_are_named(tmp_path):
    columns = ["text", "label", *(f"column{number}" for number in range(WIDE - 2))]
    contents = {
        "wide.jsonl": "\n".join(json.dumps(dict.fromkeys(columns, value)) for value in "ab"),
        "growing.jsonl": "\n".join(json.dumps({"text": "a", "label": "b", column: 1}) for column in columns),
        "wide.csv": "\n".join(map(",".join, (columns, ["a"] * WIDE, ["b"] * WIDE))),
        "wide.tsv": "\n".join(map("\t".join, (columns, ["a"] * WIDE, ["b"] * WIDE))),
    }
    for name, content in contents.items():
        path, said = written(tmp_path, content, name), r"has [\d,]+ columns, at most 10,000|takes [\d,]+ bytes or more"
        calls = calls_of(lambda: refused(said, read_file, path, Wanted("text", "label")))  # noqa: B023, called here
        assert calls < 30 * WIDE, f"{name}: reads far more than it refuses"
    path = written(tmp_path, ",".join(f"c{number}" for number in range(1_000)) + "\n" + "a" + "," * 999 + "\n")
    refused(r"c29 and 970 more", read_file, path)
    content = b"PAR1" + bytes(100) + (60_000_000).to_bytes(4, "little") + b"PAR1"
    said = r"description of columns takes 60,000,000 bytes"
    refused(said, read_file, written(tmp_path, content, "wide.parquet"), Wanted("text", "label"))


@pytest.mark.parametrize("column", ["text", "label"])
def test_nested_json_is_refused_with_its_row_and_column(tmp_path, column):
    lists = [(["a", "b"], "a list")] if column == "text" else []  # of labels they are several of them
    for value, kind in (({"a": 1}, "an object"), ([{"a": [1]}], "a list"), *lists):
        row = json.dumps({"text": "a", "label": "b"} | {column: value})
        path = written(tmp_path, "\n".join([row] * 3), "nested.jsonl")
        refused(rf"row 1, column '{column}': holds {kind}, not", read_file, path)
        if column == "text":
            refused(rf"row 1, column 'text': holds {kind}, not", characters_in, path)


def test_a_bomb_of_gzip_stops_at_the_stated_size_and_a_text_that_packs_well_is_read(tmp_path, monkeypatch):
    path = written(tmp_path, gzip.compress(b"the cat sat on a mat\n" * 100_000), "text.txt.gz")
    assert characters_in(path) == 2_100_000
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    bomb, packed = r"unpacks to more than [\d,]+ bytes", gzip.compress(bytes(8 << 20))
    for name, match in (("txt.gz", bomb), ("jsonl", "cannot be read"), ("parquet", "cannot be read")):
        path = written(tmp_path, gzip.compress(b"a" * (8 << 20)), f"bomb.{name}")
        refused(match, characters_in, path, "text")
    images, _ = (written(tmp_path, packed, f"t-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1"))
    refused("unpacks to more than", load_mnist, data_settings(task="mnist", train_file=images, test_file=images))


SPLITS = ("train", "validation", "test")
WORLD = ("World", "Sports", "Business", "Sci/Tech")


def rows_in_split(task, split):
    """Every row of a split as its text and the name of its label."""
    rows = task.texts[split]
    return [(text, task.label_names[label]) for text, label in zip(rows.texts, rows.labels, strict=True)]


def decoded(task, split):
    """Every row of a split as words."""
    examples = task.train if split == "train" else task.evaluation[split]
    return [task.tokenizer.convert_ids_to_tokens(row.tolist()) for row in examples.inputs]


def test_splits_lose_no_row_and_those_set_apart_are_noted_and_stay_the_same_until_their_seed_changes(tmp_path):
    rows = numbered_rows(200)
    path = write_rows(tmp_path / "rows.csv", rows)
    fractions = {"test_fraction": 0.25, "validation_fraction": 0.1}
    task, again, moved = load(path, **fractions), load(path, **fractions), load(path, **fractions, split_seed=1)
    assert {split: len(task.texts[split].texts) for split in SPLITS} == {"test": 50, "validation": 15, "train": 135}
    assert sorted(row for split in SPLITS for row in rows_in_split(task, split)) == sorted(rows)
    for split in SPLITS:
        assert task.texts[split].texts == again.texts[split].texts != moved.texts[split].texts
    assert any(note.startswith("Test: 50 rows") and "0.25" in note and "seed 1" in note for note in moved.notes)
    assert any(note.startswith("Validation: 15 rows") and "0.1" in note for note in moved.notes)
    rows = {split: numbered_rows(30, word=split) for split in SPLITS}
    paths = {f"{split}_file": write_rows(tmp_path / f"{split}.csv", rows[split]) for split in SPLITS}
    task = load(**paths)
    assert all(rows_in_split(task, split) == rows[split] for split in SPLITS) and task.notes[3:] == []
    assert [source["name"] for source in task.sources] == ["train.csv", "validation.csv", "test.csv"]


def test_the_vocabulary_comes_from_training_alone_and_labels_are_numbers_of_the_names(tmp_path):
    train = write_rows(tmp_path / "train.csv", [("seen in training", "yes"), ("training, seen", "no")] * 10)
    other = write_rows(tmp_path / "other.csv", [("secret training", "yes"), ("secret seen", "no")] * 50)
    for tokenizer, words in (("words", {"training", ","}), ("whitespace", {"training", "training,"})):
        task = load(train, validation_file=other, test_file=other, tokenizer=tokenizer)
        assert task.tokenizer.get_vocab().keys() == {"<pad>", UNK, "seen", "in"} | words
        assert decoded(task, "train")[0] == ["seen", "in", "training"]
        assert decoded(task, "test")[:2] == [[UNK, "training"], [UNK, "seen"]]
        assert task.label_names == ("no", "yes") and task.train.labels.tolist() == [1, 0] * 10
        assert task.model_inputs == {
            "vocab_size": 6, "pad_token_id": 0, "unk_token_id": 1, "label_type": None,
        }  # fmt: skip
    # Each row has a word of its own, so the vocabulary tells which rows it was learned from.
    rows = [(f"unique{i}", ("no", "yes")[i % 2]) for i in range(100)]
    task = load(write_rows(tmp_path / "rows.csv", rows), min_count=1)
    assert task.tokenizer.get_vocab().keys() - {"<pad>", UNK} == set(task.texts["train"].texts)


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "bpe"])
def test_an_empty_text_is_one_unknown_token_and_noted(tokenizer, tmp_path):
    train = write_rows(tmp_path / "train.csv", [("", "yes"), ("some words", "no"), ("other words", "yes")] * 5)
    test = write_rows(tmp_path / "test.csv", [("some words", "no"), ("", "yes")])
    task = load(train, validation_file=test, test_file=test, tokenizer=tokenizer)
    assert decoded(task, "test")[1] == decoded(task, "train")[0] == [UNK]
    for split, count in (("train", 5), ("validation", 1), ("test", 1)):
        assert any(note.startswith(f"Empty texts in {split}: {count};") for note in task.notes)


def test_a_text_of_a_hundred_thousand_tokens_is_cut_and_noted_and_one_at_the_limit_is_not(tmp_path):
    long = " ".join(f"w{i % 997}" for i in range(100_000))
    path = write_rows(tmp_path / "rows.csv", [(long, "yes"), ("w0 w1", "no"), *numbered_rows(30)])
    other = write_rows(tmp_path / "other.csv", numbered_rows(30))
    task = load(path, validation_file=other, test_file=path, max_tokens=50)
    assert decoded(task, "train")[0] == [f"w{i}" for i in range(50)]
    assert max(task.evaluation["test"].lengths) == 50
    assert "Texts in train of more than 50 tokens, truncated to them: 1." in task.notes
    assert len(task.texts["train"].texts[0]) == len(long), "the raw text stays whole"
    path = write_rows(tmp_path / "short.csv", [("a b c", "yes"), ("a b", "no")] * 5)
    task = load(path, validation_file=path, test_file=path, max_tokens=3)
    assert not any("truncated" in note for note in task.notes) and max(task.train.lengths) == 3


def test_ag_news_comes_from_the_hub_or_from_two_files_or_is_refused_with_what_to_do(monkeypatch, tmp_path):
    features = Features({"text": Value("string"), "label": ClassLabel(names=list(WORLD))})

    def hub(name, split):
        rows = range({(_AG_NEWS, "train"): 100, (_AG_NEWS, "test"): 20}[name, split])
        columns = {"text": [f"{split} {i}" for i in rows], "label": [i % 4 for i in rows]}
        return Dataset.from_dict(columns, features=features)

    path = write_rows(tmp_path / "rows.csv", numbered_rows(20))
    for given in ("train_file", "test_file"):
        refused("both --train-file and --test-file", load_ag_news, data_settings(task="ag_news", **{given: path}))
    unreachable = Mock(side_effect=ConnectionError("Couldn't reach the hub\nafter many\nlines"))
    monkeypatch.setattr("datasets.load_dataset", unreachable)
    said = rf"{_AG_NEWS}: .*hub .*ConnectionError.*--train-file and --test-file"
    refused(said, load_ag_news, data_settings(task="ag_news"))
    monkeypatch.setattr("datasets.load_dataset", hub)
    task = load_ag_news(data_settings(task="ag_news"))
    assert task.label_names == WORLD
    sizes = {split: len(rows.texts) for split, rows in task.texts.items()}
    assert sizes == {"train": 90, "validation": 10, "test": 20}
    assert task.texts["test"].texts == [f"test {i}" for i in range(20)]


def test_every_task_is_found_by_its_name_and_another_is_refused_with_the_nearest_one(tmp_path):
    path = write(tmp_path / "rows.csv", as_separated(numbered_rows(20)))
    for name in ("parity", "digits", "text-classification", "ag_news"):
        files = {"train_file": path, "test_file": path} if name in ("text-classification", "ag_news") else {}
        assert load_task(data_settings(task=name, **files)).name == name
    with pytest.raises(ValueError, match=r"unknown task 'digit'.* Did you mean 'digits'\?"):
        data_settings(task="digit")
    with pytest.raises(ValueError, match="lenght"):
        data_settings(task="parity", lenght=3)
    refused("--train-file", load_text_classification, data_settings(task="text-classification"))


SENTENCES = ["이 영화는 정말 재미있다!", "별로예요... 다시는 안 봐요", "최고의 영화"]
LETTERS = ["ㅋㅋㅋ 재밌다", "ㅠㅠ 슬프다", "ㄱㅏ"]
EMOJI = ["좋아요 👍🏽 끝", "가족 👨‍👩‍👧‍👦 영화", "❤️ ❤"]


def learn(kind, texts, min_count=1, vocabulary_size=1_000):
    return learn_tokenizer(kind, texts, min_count, vocabulary_size)


def counted(texts, min_count):
    """The words of `lower().split()` that occur often enough."""
    counts = Counter(word for text in texts for word in text.lower().split())
    return {word for word, count in counts.items() if count >= min_count}


def words_of(tokenizer):
    return tokenizer.get_vocab().keys() - set(SPECIAL)


@needs_shared_data
@pytest.mark.parametrize("name", ["ag_news/test.parquet", pytest.param("nsmc/test.parquet", marks=pytest.mark.slow)])
def test_the_whitespace_vocabulary_of_real_texts_is_the_one_counted_by_hand(name):
    texts = read_file(SHARED / name).texts[:1_000]
    for min_count in (1, 3):
        tokenizer, expected = learn("whitespace", texts, min_count), counted(texts, min_count)
        assert words_of(tokenizer) == expected and len(tokenizer) == len(expected) + 2


@pytest.mark.slow
@needs_shared_data
def test_the_vocabulary_of_ag_news_has_the_published_size():
    texts = read_file(SHARED / "ag_news" / "train-subset.parquet").texts
    tokenizer = learn("whitespace", texts, min_count=5)
    assert len(tokenizer) == 22_718  # shared/data/README.md, two specials included
    assert words_of(tokenizer) == counted(texts, 5)


def test_a_word_below_the_minimum_count_reads_as_unknown_and_more_words_than_the_libraries_own_limit_enter():
    texts = [f"w{i}" for i in range(40_000)]
    for kind in ("words", "whitespace"):
        tokenizer = learn(kind, ["rare often often", "often seldom seldom"], min_count=2)
        assert tokenizer.tokenize("seldom Rare often new") == ["seldom", UNK, "often", UNK]
        assert len(learn(kind, texts)) == 40_002


def test_whitespace_keeps_punctuation_in_the_word_and_words_sets_it_apart_and_reads_forms_of_a_letter_as_one():
    texts = ["Don't stop -- the U.S.-based film, (really)!"]
    assert learn("whitespace", texts).tokenize(texts[0]) == texts[0].lower().split()
    expected = "don ' t stop - - the u . s . - based film , ( really ) !".split()
    assert learn("words", texts).tokenize(texts[0]) == expected
    # Capitals, a combining accent, and Korean syllables in their parts.
    found = learn("words", ["full café 한국"]).tokenize("FULL cafe\u0301 \u1112\u1161\u11ab\u1100\u116e\u11a8")
    assert found == ["full", "café", "한국"]


def test_bpe_restores_korean_single_letters_and_emoji_joins_what_is_frequent_and_keeps_to_its_size():
    tokenizer = learn("bpe", SENTENCES * 5, min_count=2)
    for text in [*SENTENCES, *EMOJI, "Hello, World !", "두\n줄\t그리고  두 칸", *LETTERS]:
        ids = tokenizer(text)["input_ids"]
        assert UNK not in tokenizer.convert_ids_to_tokens(ids), "no word is unknown"
        assert tokenizer.decode(ids).strip() == text.lower()
    small, large = (learn("bpe", SENTENCES * 5, 2, size) for size in (300, 400))
    assert len(small) == 300 < len(large) <= 400
    assert len(large.tokenize(SENTENCES[0])) < len(small.tokenize(SENTENCES[0])) < len(f" {SENTENCES[0]}".encode())


def test_pieces_keep_known_words_whole_and_read_others_as_the_longest_parts_that_two_words_share(tmp_path):
    texts = ["painting painted paints", "Painting, repainted!", "cafe\u0301 CAF\u00c9", "a" * 30]
    tokenizer = learn("pieces", texts, min_count=2)
    assert tokenizer.tokenize("painting CAFE\u0301 , !") == ["painting", "caf\u00e9", ",", "!"]
    vocabulary = tokenizer.get_vocab().keys()
    words = {word for text in texts for word in re.findall(r"\w+|[^\w\s]", unicodedata.normalize("NFC", text).lower())}
    for unknown in ("painter", "repaint", "gnitniap", "paintings" * 3):
        left, continues, expected = unknown, "", []
        while left:  # by hand: the longest token that the rest begins with; each character is one
            longest = max(n for n in range(1, len(left) + 1) if continues + left[:n] in vocabulary)
            expected, left, continues = [*expected, continues + left[:longest]], left[longest:], "##"
        assert tokenizer.tokenize(unknown) == expected
        for token in (token for token in expected if token not in words and len(token.removeprefix("##")) > 1):
            at = [(word.find(token.removeprefix("##"), token.startswith("##")), word) for word in words]
            assert sum(place > 0 if token.startswith("##") else place == 0 for place, _ in at) >= 2
    assert tokenizer.tokenize("paint\u00df") == [UNK], "a character that training never saw"
    assert max(len(token.removeprefix("##")) for token in words_of(tokenizer)) <= _MAX_WORD
    assert tokenizer.decode(tokenizer("Painter, repaint!")["input_ids"]) == "painter , repaint !"


@pytest.mark.parametrize("kind", ["words", "pieces", "whitespace", "bpe"])
def test_the_order_of_texts_does_not_matter_and_a_saved_tokenizer_reads_as_before(kind, tmp_path):
    tokenizer, texts = learn(kind, [*SENTENCES, *EMOJI]), [*SENTENCES, "unknown words", *EMOJI]
    assert tokenizer.convert_ids_to_tokens([0, 1]) == [PAD, UNK]
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer))), "numbers without a gap"
    for order in ([*EMOJI, *SENTENCES], (text for text in [*SENTENCES, *EMOJI][::-1])):
        assert learn(kind, order).get_vocab() == tokenizer.get_vocab()
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    assert {(one.pad_token_id, one.unk_token_id) for one in (tokenizer, again)} == {(0, 1)}
