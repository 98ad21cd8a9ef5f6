"""Texts as lists of words with a tag for each: files of the user."""

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.batches import Examples, weights_of
from gatedrnn.data.files import LabelledTexts
from gatedrnn.data.label_arrays import (
    names_held,
    numbers_of_groups,
)
from gatedrnn.data.task import TaskData, Texts
from gatedrnn.data.text import WHOLE, check_unlike, read_splits
from gatedrnn.data.tokenizers import encoded, learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.tasks.tagging.settings import TaggingSettings

IGNORED = -100
"""The label of a step, or a word, without a tag."""


def load_tagging(settings: TaggingSettings) -> TaskData:
    """Words and tags of the user's.

    Raises:
        DataError: a file cannot be used, or a row has another number of tags than of words.
    """
    if settings.train_file is None:
        raise DataError("token-classification: needs --train-file (JSON lines, Parquet, CSV or TSV)")
    notes: list[str] = []
    splits, sources = read_splits(settings, None, notes)
    names = _names(splits, notes)
    train = splits["train"]
    check_unlike(train)
    tokenizer = learn_tokenizer(settings.tokenizer, train.texts, settings.min_count, settings.vocabulary_size)
    longest = settings.max_tokens or WHOLE
    tokenizer.model_max_length = longest
    tokenizer.init_kwargs |= {
        "text_column": train.columns[0], "label_column": train.columns[-1], **settings.dialect._asdict(),
    }  # fmt: skip
    evaluation, texts = {}, {}
    for split, table in splits.items():
        assert table.words is not None and table.sets is not None
        inputs, firsts = encode_words(tokenizer, table.words, longest, split, notes)
        labels = step_labels(table.sets, names, inputs, firsts)
        weights = weights_of(table.weights, str(table.source["name"]))
        evaluation[split] = Examples(
            inputs, labels, metric=settings.metric.replace("-", "_"), weights=weights,
            groups=numbers_of_groups(table.groups),
        )  # fmt: skip
        tagged = [
            [word for word, tag in zip(words, tags[: len(row)], strict=False) if tag != str(IGNORED)]
            for words, tags, row in zip(table.words, table.sets, firsts, strict=True)
        ]
        texts[split] = Texts(table.texts, [row[row != IGNORED].tolist() for row in labels], tagged)
    return TaskData(
        name=settings.task,
        model_inputs={
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "unk_token_id": tokenizer.unk_token_id,
            "label_type": train.label_type,
        },
        label_names=names,
        train=evaluation.pop("train"),
        evaluation=evaluation,
        sources=sources,
        notes=notes,
        tokenizer=tokenizer,
        texts=texts,
    )


def _names(splits: dict[str, LabelledTexts], notes: list[str]) -> tuple[str, ...]:
    """The tags of the training file; those of other files are among them."""
    train = splits["train"]
    held = {split: [tag for tags in table.sets or () for tag in tags if tag != str(IGNORED)]
            for split, table in splits.items()}  # fmt: skip
    names = names_held(splits, held, notes)
    return train.label_names or names


def encode_words(
    tokenizer: PreTrainedTokenizerFast, rows: Sequence[Sequence[str]], longest: int, split: str, notes: list[str]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The token numbers of each row of words, (time,), cut to `longest`, and where each word begins, (words,); a word
    that has no token is one unknown token. What was cut or empty is added to `notes`."""
    inputs, firsts = list[np.ndarray](), list[np.ndarray]()
    cut = empty = 0
    for row in encoded(tokenizer, [list(words) for words in rows], split, words=True):
        words = len(rows[len(inputs)])
        tokens, of = np.array(row.ids, dtype=np.int64), np.array(row.word_ids, dtype=np.int64)
        without = np.setdiff1d(np.arange(words), of)
        places = np.searchsorted(of, without)
        tokens, of = np.insert(tokens, places, tokenizer.unk_token_id), np.insert(of, places, without)
        begins = np.searchsorted(of, np.arange(words))
        cut, empty = cut + (len(tokens) > longest), empty + (not words)
        inputs.append(tokens[:longest] if words else np.array([tokenizer.unk_token_id], dtype=np.int64))
        firsts.append(begins[begins < longest])
    if empty:
        notes.append(f"Rows in {split} without words: {empty}; each is read as one unknown token.")
    if cut:
        notes.append(f"Texts in {split} of more than {longest} tokens, truncated to them: {cut}.")
    return inputs, firsts


def step_labels(
    tags: Sequence[Sequence[str]], names: Sequence[str], inputs: Sequence[np.ndarray], firsts: Sequence[np.ndarray]
) -> np.ndarray:
    """(rows, time): the number of a tag where its word begins, -100 at all other steps."""
    number = {str(IGNORED): IGNORED} | {name: index for index, name in enumerate(names)}
    labels = np.full((len(inputs), max(map(len, inputs))), IGNORED, np.int64)
    for row, row_labels, begins in zip(labels, tags, firsts, strict=True):
        row[begins] = [number[tag] for tag in row_labels[: len(begins)]]
    return labels
