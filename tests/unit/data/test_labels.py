"""Labels of any kind: lists, `a|b`, columns of 0 and 1, numbers, and a tag for each word; or a question in one line."""

import json

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value
from text_files import refused, write, written
from text_targets import films, sentences, write_lines

from gatedrnn.data import data_settings, load_task
from gatedrnn.data.files import Wanted, read_file
from gatedrnn.data.labels import holds_several
from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.tasks.claims import task_of_file
from gatedrnn.tasks.tagging.read import IGNORED, encode_words

TEXTS = ["joke and tank", "a tank came", "one joke more", "none of it"]
SETS = [("comic", "war"), ("war",), ("comic",), ()]


def several_rows(form):
    if form == "columns":
        rows = "".join(
            f"{text},{int('comic' in own)},{int('war' in own)}\n" for text, own in zip(TEXTS, SETS, strict=True)
        )
        return "text,comic,war\n" + rows
    forms = {
        "joined": "|".join, "json": lambda own: json.dumps(list(own)), "python": lambda own: str(list(own)),
    }  # fmt: skip
    rows = (f'"{text}","{forms[form](own)}"'.replace('["', '[""').replace('"]', '""]').replace('", "', '"", ""')
            for text, own in zip(TEXTS, SETS, strict=True))  # fmt: skip
    return "text,label\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("form", ["joined", "json", "python", "columns", "lists"])
def test_several_labels_are_the_same_in_every_form(form, tmp_path):
    if form == "lists":
        rows = [{"text": text, "label": list(own)} for text, own in zip(TEXTS, SETS, strict=True)]
        found = read_file(write_lines(tmp_path / "a.jsonl", rows))
    else:
        label = ("comic", "war") if form == "columns" else None
        found = read_file(written(tmp_path, several_rows(form)), Wanted("text", label))
    assert found.texts == TEXTS and found.sets == SETS
    assert found.labels == ["|".join(own) for own in SETS]


def test_a_column_is_several_labels_only_where_it_cannot_be_one():
    assert holds_several(["a|b", "a", "b", None]) is True
    assert holds_several([["a"], [], ["a", "b"]]) is True
    assert holds_several(["a", "b", "|"]) is False and holds_several(["a|b", "c"]) is False
    assert holds_several(["a|b", "c|d", "e"]) is None


def test_what_could_be_either_is_asked_for_and_the_flag_answers(tmp_path):
    path = written(tmp_path, "text,label\n" + "".join(f"film {n},{'a|b' if n % 2 else 'c|d'}\n" for n in range(12)))
    said = refused("is '(a.b|c.d)' one label or several", read_file, path)
    assert "--several-labels or --several-labels=false" in said
    assert read_file(path, Wanted(several=False)).sets is None
    assert read_file(path, Wanted(several=True)).sets[1] == ("a", "b")


def test_rows_of_several_labels_become_zeros_and_ones_in_every_split(tmp_path):
    rows = films(60)
    data = load_task(data_settings("text-classification", train_file=write_lines(tmp_path / "a.jsonl", rows)))
    assert data.label_names == ("comic", "long", "war")
    assert data.model_inputs["problem_type"] == "multi_label_classification"
    wanted = {row["text"]: [float(name in row["genres"]) for name in data.label_names] for row in rows}
    for split, examples in {**data.evaluation, "train": data.train}.items():
        assert examples.several and not examples.are_numbers and examples.metric == "micro_f1"
        for text, labels in zip(data.texts[split].texts, examples.labels.tolist(), strict=True):
            assert wanted[text] == labels
    empty = sum(not row["genres"] for row in rows)
    assert any(note.startswith("Rows of training without any label") for note in data.notes) == (empty > 0)


def test_columns_of_zeros_and_ones_keep_their_order_and_a_test_file_has_no_other_label(tmp_path):
    train = written(tmp_path, "text,war,comic\n" + "".join(f"film {n},{n % 2},{n % 3 == 0:d}\n" for n in range(30)))
    data = load_task(data_settings("text-classification", train_file=train, label_column=("war", "comic")))
    assert data.label_names == ("war", "comic") and data.tokenizer.init_kwargs["label_column"] == ["war", "comic"]
    one = write_lines(tmp_path / "one.jsonl", films(30))
    other = write_lines(tmp_path / "other.jsonl", [{"text": "a film", "genres": ["opera", "war"]}])
    settings = data_settings("text-classification", train_file=one, test_file=other)
    refused("test has the label 'opera', which training never saw", load_task, settings)


def test_numbers_are_read_and_what_they_are_measured_in_is_the_models(tmp_path):
    rows = [{"text": row["text"], "score": row["score"]} for row in films(60)]
    file = write_lines(tmp_path / "a.jsonl", rows)
    assert task_of_file(file) == "text-regression"
    data = load_task(data_settings("text-regression", train_file=file))
    assert data.train.are_numbers and data.train.metric == "scaled_mae"
    assert data.model_inputs["label_mean"] == pytest.approx(data.train.labels.mean())
    assert data.model_inputs["label_deviation"] == data.train.unit == pytest.approx(data.train.labels.std())
    wanted = {row["text"]: row["score"] for row in rows}
    for text, number in zip(data.texts["test"].texts, data.evaluation["test"].labels, strict=True):
        assert wanted[text] == number


def test_words_keep_their_tags_whatever_a_tokenizer_makes_of_them(tmp_path):
    rows = [
        *sentences(40),
        {"tokens": ["two words", "", "the"], "tags": ["A", "B", "-100"]},
        {"tokens": [], "tags": []},
    ]
    file = write_lines(tmp_path / "a.jsonl", rows)
    assert task_of_file(file) == "token-classification"
    wanted = {" ".join(row["tokens"]): row["tags"] for row in rows}
    for tokenizer in ("tokens", "bpe", "characters"):
        data = load_task(data_settings("token-classification", train_file=file, tokenizer=tokenizer, min_count=1))
        assert data.train.of_steps and set(data.label_names) == {"ADJ", "A", "B", "DET", "N", "NAME", "V"}
        for split, examples in {**data.evaluation, "train": data.train}.items():
            for text, inputs, labels in zip(data.texts[split].texts, examples.inputs, examples.labels, strict=True):
                found = [data.label_names[label] for label in labels if label != IGNORED]
                assert found == [tag for tag in wanted[text] if tag != "-100"]
                assert (labels[len(inputs) :] == IGNORED).all()


def test_a_word_begins_where_its_first_token_is_and_is_cut_with_the_text():
    tokenizer, notes = learn_tokenizer("characters", ["abc"], 1, 300), []
    (inputs, empty), (firsts, none) = encode_words(tokenizer, [["ab", "", "c"], []], 3, "train", notes)
    assert tokenizer.convert_ids_to_tokens(inputs) == ["a", "b", "<unk>"] and firsts.tolist() == [0, 2]
    assert empty.tolist() == [tokenizer.unk_token_id] and none.tolist() == []
    assert notes == [
        "Rows in train without words: 1; each is read as one unknown token.",
        "Texts in train of more than 3 tokens, truncated to them: 1.",
    ]


def test_tags_that_are_numbers_of_classes_have_the_names_that_the_file_gives(tmp_path):
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "PER"]))})
    rows = {"tokens": [["Ann", "runs"], ["he", "saw", "Bob"]], "ner_tags": [[1, 0], [0, 0, 1]]}
    Dataset.from_dict(rows, features).to_parquet(tmp_path / "a.parquet")
    found = read_file(tmp_path / "a.parquet", Wanted(kind="tags"))
    assert found.sets == [("PER", "O"), ("O", "O", "PER")] and found.label_names == ("O", "PER")


def numbers(count):
    return "text,label\n" + "".join(f"film number {n},{n / 7:.3f}\n" for n in range(count))


TASKS = {"text-classification", "text-regression", "token-classification"}
BAD = {
    "many numbers": ("text-classification", numbers(60), {}, "60 different numbers: is --task text-regression meant"),
    "a word": ("text-regression", "text,label\na film,3\na book,good\n", {}, "row 2, column 'label'.*got 'good'"),
    "beyond float32": ("text-regression", "text,label\na film,3\na book,1e300\n", {}, "row 2.*too large"),
    "one number": ("text-regression", "text,label\n" + "a film,3\n" * 9, {}, "every training row has the number 3"),
    "two columns": ("text-regression", "text,a,b\nfilm,3,4\n", {"label_column": ("a", "b")}, "stands in one column"),
    "no zero": (
        "text-classification", "text,a,b\nfilm,1,0\nbook,2,1\n", {"label_column": ("a", "b")},
        "row 2, column 'a': must be 0 or 1.*got '2'",
    ),
    "no such column": (
        "text-classification", "text,a,b\nfilm,1,0\n", {"label_column": ("a", "c")}, "no column 'c'",
    ),
    "columns of one label": (
        "text-classification", "text,a,b\nfilm,1,0\n", {"label_column": ("a", "b"), "several_labels": False},
        "several columns are several labels",
    ),
    "balanced accuracy": (
        "text-classification", "text,label\n" + "a film,a|b\nno film,a\nanother,b\n" * 9,
        {"metric": "balanced-accuracy"}, "of several, take macro-f1",
    ),
    "no label at all": (
        "text-classification", "text,label\n" + "a film,\n" * 9, {"several_labels": True},
        "no training row has a label; at least two are needed",
    ),
    "a tag too few": (
        "token-classification", "tokens,tags\na dog,DET N\nthe cat runs,DET N\n", {},
        "row 2 has 3 words in 'tokens' and 2 tags in 'tags'",
    ),
    "no words": (
        "token-classification", "sentence,tags\na dog,DET N\n", {}, "which column is the text.*--text-column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_learned_from_is_refused_in_a_sentence(name, tmp_path):
    task, content, given, said = BAD[name]
    settings = data_settings(task, train_file=written(tmp_path, content), **given)
    refused(said, load_task, settings)


def test_lists_that_hold_something_else_are_refused_with_their_row(tmp_path):
    rows = [{"text": "a film", "label": ["a"]}, {"text": "a book", "label": ["a|b"]}]
    refused("row 2.*'a\\|b' holds \\|, which separates labels", read_file, write_lines(tmp_path / "a.jsonl", rows))
    rows = [{"tokens": ["a"], "tags": ["X"]}, {"tokens": ["a", None], "tags": ["X", "X"]}]
    path = write_lines(tmp_path / "b.jsonl", rows)
    refused("row 2, column 'tokens': must be a list of words", read_file, path, Wanted(kind="tags"))


def test_whole_numbers_that_come_again_are_classes(tmp_path):
    rows = "".join(f"film number {n},{n % 40}\n" for n in range(400))
    data = load_task(data_settings("text-classification", train_file=write(tmp_path / "a.csv", "text,label\n" + rows)))
    assert len(data.label_names) == 40 and np.issubdtype(data.train.labels.dtype, np.integer)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_task_of_texts_names_the_file_that_it_needs(task):
    refused("needs --train-file", load_task, data_settings(task))
