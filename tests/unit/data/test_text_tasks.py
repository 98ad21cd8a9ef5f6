"""A text task: splits that do not overlap, a vocabulary from training alone, and a note of everything changed."""

import time

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from text_files import as_separated, load, numbered_rows, refused, write, write_rows

from gatedrnn.data import data_settings, load_task
from gatedrnn.data.text import AG_NEWS, load_ag_news, load_text_classification
from gatedrnn.data.tokenizers import UNK

SPLITS = ("train", "validation", "test")
WORLD = ("World", "Sports", "Business", "Sci/Tech")


def examples_of(task):
    return {"train": task.train, **task.evaluation}


def decoded(task, split):
    """Every row of a split as words."""
    return [task.tokenizer.convert_ids_to_tokens(row.tolist()) for row in examples_of(task)[split].inputs]


def test_splits_set_apart_lose_no_row_are_noted_and_stay_the_same_until_their_seed_changes(tmp_path):
    rows = numbered_rows(200)
    path = write_rows(tmp_path / "rows.csv", rows)
    fractions = {"test_fraction": 0.25, "validation_fraction": 0.1}
    task, again, moved = load(path, **fractions), load(path, **fractions), load(path, **fractions, split_seed=1)
    assert {split: len(task.texts[split].texts) for split in SPLITS} == {"test": 50, "validation": 15, "train": 135}
    together = [
        (text, task.label_names[label])
        for split in SPLITS
        for text, label in zip(task.texts[split].texts, task.texts[split].labels, strict=True)
    ]
    assert sorted(together) == sorted(rows)
    for split in SPLITS:
        assert task.texts[split].texts == again.texts[split].texts != moved.texts[split].texts
    assert any(note.startswith("Test: 50 rows") and "0.25" in note and "seed 1" in note for note in moved.notes)
    assert any(note.startswith("Validation: 15 rows") and "0.1" in note for note in moved.notes)


def test_a_file_for_a_split_is_that_split_and_training_keeps_every_row(tmp_path):
    rows = {split: numbered_rows(30, word=split) for split in SPLITS}
    paths = {split: write_rows(tmp_path / f"{split}.csv", rows[split]) for split in SPLITS}
    task = load(paths["train"], validation_file=paths["validation"], test_file=paths["test"])
    for split in SPLITS:
        assert task.texts[split].texts == [text for text, _ in rows[split]]
        assert [task.label_names[i] for i in task.texts[split].labels] == [label for _, label in rows[split]]
    assert [source["name"] for source in task.sources] == ["train.csv", "validation.csv", "test.csv"]
    assert task.notes == []


def test_numbers_are_those_of_the_tokenizer_and_labels_those_of_the_names(tmp_path):
    train = write_rows(tmp_path / "train.csv", [("a b b", "yes"), ("c, a", "no"), ("a", "yes")] * 10)
    task = load(train, validation_file=train, test_file=train, min_count=1)
    assert decoded(task, "train")[:3] == [["a", "b", "b"], ["c", ",", "a"], ["a"]]
    assert task.label_names == ("no", "yes")
    assert task.train.labels.tolist() == [1, 0, 1] * 10
    assert task.model_inputs == {"vocab_size": 2 + 4, "pad_token_id": 0, "unk_token_id": 1}


def test_the_vocabulary_comes_from_training_alone(tmp_path):
    train = write_rows(tmp_path / "train.csv", [("seen in training", "yes"), ("training seen in", "no")] * 10)
    other = write_rows(tmp_path / "other.csv", [("secret training", "yes"), ("secret seen", "no")] * 50)
    for tokenizer in ("words", "whitespace"):
        task = load(train, validation_file=other, test_file=other, tokenizer=tokenizer)
        assert task.tokenizer.get_vocab().keys() == {"<pad>", UNK, "seen", "in", "training"}
        assert decoded(task, "test")[:2] == [[UNK, "training"], [UNK, "seen"]]
    # Each row has a word of its own, so the vocabulary tells which rows it was learned from.
    rows = [(f"unique{i}", ("no", "yes")[i % 2]) for i in range(100)]
    task = load(write_rows(tmp_path / "rows.csv", rows), min_count=1)
    assert task.tokenizer.get_vocab().keys() - {"<pad>", UNK} == set(task.texts["train"].texts)


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "bpe"])
def test_an_empty_text_is_one_unknown_token_and_noted(tokenizer, tmp_path):
    train = write_rows(tmp_path / "train.csv", [("", "yes"), ("some words", "no"), ("other words", "yes")] * 5)
    test = write_rows(tmp_path / "test.csv", [("some words", "no"), ("", "yes")])
    task = load(train, validation_file=test, test_file=test, tokenizer=tokenizer)
    assert decoded(task, "test")[1] == [UNK]
    assert decoded(task, "train")[0] == [UNK]
    for split, count in (("train", 5), ("validation", 1), ("test", 1)):
        assert any(note.startswith(f"Empty texts in {split}: {count};") for note in task.notes)


def test_a_text_of_a_hundred_thousand_tokens_is_cut_and_noted_at_once_and_one_at_the_limit_is_not(tmp_path):
    long = " ".join(f"w{i % 997}" for i in range(100_000))
    path = write_rows(tmp_path / "rows.csv", [(long, "yes"), ("w0 w1", "no"), *numbered_rows(30)])
    other = write_rows(tmp_path / "other.csv", numbered_rows(30))
    start = time.process_time()
    task = load(path, validation_file=other, test_file=path, max_tokens=50)
    assert time.process_time() - start < 2
    assert decoded(task, "train")[0] == [f"w{i}" for i in range(50)]
    assert max(examples_of(task)["test"].lengths) == 50
    assert "Texts in train of more than 50 tokens, truncated to them: 1." in task.notes
    assert len(task.texts["train"].texts[0]) == len(long), "the raw text stays whole"
    path = write_rows(tmp_path / "short.csv", [("a b c", "yes"), ("a b", "no")] * 5)
    task = load(path, validation_file=path, test_file=path, max_tokens=3)
    assert task.notes == [] and max(task.train.lengths) == 3


def test_ag_news_with_one_file_of_two_or_without_the_network_is_refused_with_what_to_do(monkeypatch, tmp_path):
    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach the hub\nafter many\nlines")

    path = write_rows(tmp_path / "rows.csv", numbered_rows(20))
    for given in ("train_file", "test_file"):
        refused("both --train-file and --test-file", load_ag_news, data_settings(task="ag_news", **{given: path}))
    monkeypatch.setattr("gatedrnn.data.files.load_dataset", unreachable)
    said = rf"{AG_NEWS}: .*hub .*ConnectionError.*--train-file and --test-file"
    refused(said, load_ag_news, data_settings(task="ag_news"))


def test_ag_news_from_the_hub_asks_for_train_and_test_and_sets_validation_apart(monkeypatch):
    asked = []

    def hub(name, split):
        asked.append((name, split))
        features = Features({"text": Value("string"), "label": ClassLabel(names=list(WORLD))})
        rows = 100 if split == "train" else 20
        columns = {"text": [f"{split} {i}" for i in range(rows)], "label": [i % 4 for i in range(rows)]}
        return Dataset.from_dict(columns, features=features)

    monkeypatch.setattr("gatedrnn.data.files.load_dataset", hub)
    task = load_ag_news(data_settings(task="ag_news"))
    assert asked == [(AG_NEWS, "train"), (AG_NEWS, "test")]
    assert task.label_names == WORLD
    sizes = {split: len(examples) for split, examples in examples_of(task).items()}
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
