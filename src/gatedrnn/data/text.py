"""Tasks of texts: a class, several labels or a number for each, or a tag for each of its words."""

import logging
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.batches import Examples, weights_of
from gatedrnn.data.files import LabelledTexts, Wanted, read_file, read_hub
from gatedrnn.data.label_arrays import (
    LabelArrays,
    labels_of,
    names_held,
    notes_on_repeats,
    numbers_of_groups,
    of_groups,
    of_times,
)
from gatedrnn.data.labels import as_trained
from gatedrnn.data.scripts import MIN_SHARE, undivided_share
from gatedrnn.data.settings import TaggingSettings, TextFileSettings, TextRegressionSettings, TextSettings
from gatedrnn.data.task import TaskData, Texts
from gatedrnn.data.tokenizers import encoded, learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.records import Json

LOG = logging.getLogger("gatedrnn")
_AG_NEWS = "fancyzhx/ag_news"
WHOLE = 1 << 40
"""Tokens of a text, where all are read whole."""


def load_ag_news(settings: TextSettings) -> TaskData:
    """AG News from the hub, or from local copies."""
    files = [file for file in (settings.train_file, settings.validation_file, settings.test_file) if file is not None]
    if files and (settings.train_file is None or settings.test_file is None):
        raise DataError("ag_news: give both --train-file and --test-file, or neither to load it from the hub")
    return _load("ag_news", settings, hub=_AG_NEWS)


def load_text_classification(settings: TextSettings) -> TaskData:
    """Any text and label of the user's."""
    if settings.train_file is None:
        raise DataError("text-classification: needs --train-file (CSV, TSV, JSON lines or Parquet)")
    return _load("text-classification", settings, hub=None)


def load_text_regression(settings: TextRegressionSettings) -> TaskData:
    """Any text and number of the user's."""
    if settings.train_file is None:
        raise DataError("text-regression: needs --train-file (CSV, TSV, JSON lines or Parquet)")
    return _load("text-regression", settings, hub=None)


def _load(name: str, settings: TextSettings | TextRegressionSettings, hub: str | None) -> TaskData:
    notes: list[str] = []
    splits, sources = read_splits(settings, hub, notes)
    labels = labels_of(splits, isinstance(settings, TextRegressionSettings), notes)
    metric = _metric(settings, labels)
    check_unlike(splits["train"])
    rows = sum(len(table.texts) for table in splits.values())
    LOG.info("tokenising %s texts of %s by %s", f"{rows:,}", name, settings.tokenizer)
    share = undivided_share(splits["train"].texts)
    undivided = share >= MIN_SHARE
    if undivided:
        notes.append(
            f"Scripts without blanks between words have {share:.0%} of the letters (as Chinese, Japanese, Thai, Lao, "
            "Khmer and Burmese): each of these letters is read by itself, in n-grams with its neighbours."
        )
    tokenizer = learn_tokenizer(
        settings.tokenizer, splits["train"].texts, settings.min_count, settings.vocabulary_size, undivided=undivided
    )
    # What a file is read by that the model is used on; `model_max_length` is transformers' own name.
    longest = settings.max_tokens or WHOLE
    tokenizer.model_max_length = longest
    text_column, *label_columns = splits["train"].columns
    tokenizer.init_kwargs |= {
        "text_column": text_column, **settings.dialect._asdict(),
        "label_column": label_columns[0] if len(label_columns) == 1 else label_columns,
    }  # fmt: skip
    evaluation, texts = {}, {}
    for split, table in splits.items():
        inputs = encode_texts(tokenizer, table.texts, longest, split, notes)
        targets = labels.arrays[split]
        weights = weights_of(table.weights, str(table.source["name"]))
        evaluation[split] = Examples(
            inputs, targets, unit=labels.unit, several=labels.several, metric=metric, weights=weights,
            groups=numbers_of_groups(table.groups),
        )  # fmt: skip
        texts[split] = Texts(table.texts, targets.tolist())
    return TaskData(
        name=name,
        model_inputs={
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "unk_token_id": tokenizer.unk_token_id,
            **labels.model_inputs,
            "label_type": splits["train"].label_type if labels.are_classes else None,
        },
        label_names=labels.names,
        train=evaluation.pop("train"),
        evaluation=evaluation,
        sources=sources,
        notes=notes,
        tokenizer=tokenizer,
        texts=texts,
        undivided_share=share,
    )


def _metric(settings: TextSettings | TextRegressionSettings, labels: LabelArrays) -> str | None:
    """The score that counts, by its name in `Scores`; None for the accuracy of classes.

    Raises:
        DataError: it is not of labels like these.
    """
    asked = None if settings.metric is None else settings.metric.replace("-", "_")
    if isinstance(settings, TextRegressionSettings):
        return "scaled_mae" if asked == "mae" else asked
    if not labels.several:
        return None if asked == "accuracy" else asked
    if asked == "balanced_accuracy":
        raise DataError("--metric balanced-accuracy: is of texts with one label each; of several, take macro-f1")
    return asked or "micro_f1"


def read_splits(
    settings: TextFileSettings, hub: str | None, notes: list[str]
) -> tuple[dict[str, LabelledTexts], list[dict[str, Json]]]:
    """The training, validation and test rows, and what was read; what is to be known of them is added to `notes`.

    Args:
        hub: the data set to read where no file is given.

    Raises:
        DataError: a file cannot be used, or a split cannot be made.
    """
    several = settings.several_labels if isinstance(settings, TextSettings) else None
    wanted = Wanted(
        settings.text_column, settings.label_column or None, settings.group, settings.time_column,
        settings.split == "time", settings.date_order, kind=settings.holds, several=several,
        weight=settings.weight_column,
    )  # fmt: skip
    tables: dict[str, LabelledTexts] = {}
    if settings.train_file is None:
        assert hub is not None
        tables = {split: read_hub(hub, split, wanted) for split in ("train", "test")}
    else:
        files = {"train": settings.train_file, "validation": settings.validation_file, "test": settings.test_file}
        named = {split: path for split, path in files.items() if path is not None}
        for split, path in named.items():
            first = tables.get("train")
            # What the first table says of its labels holds for all.
            several = wanted.several if first is None else first.sets is not None
            roles = wanted._replace(like=None if first is None else first.columns, several=several)
            table = read_file(path, roles, settings.dialect)
            tables[split] = table if first is None else _named_alike(table, first)
    sources = [{"split": split, **table.source} for split, table in tables.items()]
    notes += dict.fromkeys(table.said for table in tables.values())
    for split, fraction in (("test", settings.test_fraction), ("validation", settings.validation_fraction)):
        if split in tables:
            continue
        if not fraction:
            if split == "validation":
                notes.append("Validation: no rows are set apart; the last weights are taken.")
            continue
        train, held_out = _hold_out(tables["train"], fraction, settings.split_seed)
        tables |= {"train": train, split: held_out}
        how = f"seed {settings.split_seed}" if settings.split == "random" else "the last in time"
        how += "" if settings.group is None else f", {settings.group} on one side"
        rows = f"{len(held_out.texts)} rows set apart from the training data"
        notes.append(f"{split.capitalize()}: {rows} (fraction {fraction}, {how}).")
    notes += notes_on_repeats(
        {split: [" ".join(text.lower().split()) for text in table.texts] for split, table in tables.items()}, "texts"
    )
    return tables, sources


def _named_alike(table: LabelledTexts, train: LabelledTexts) -> LabelledTexts:
    """A table with the labels of another one by its names."""
    if train.sets is None:
        return table._replace(labels=as_trained(table.labels, train.label_names or set(train.labels)))
    names = train.label_names or {label for labels in train.sets for label in labels}
    return table._replace(sets=[tuple(as_trained(labels, names)) for labels in table.sets or ()])


def _hold_out(table: LabelledTexts, fraction: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """The rows but a fraction, and these: the last in time where times are read, whole groups where there are some."""
    rows, place = len(table.texts), str(table.source["name"])
    held_out = round(fraction * rows)
    if not 0 < held_out < rows:
        raise DataError(f"{place}: the number of rows, {rows}, cannot be split at fraction {fraction}; add rows")
    if table.times is not None:
        chosen = of_times(table.times, fraction, place)
    elif table.groups is not None:
        chosen = of_groups(table.groups, fraction, seed, place)
    else:
        order = np.random.default_rng([seed, rows]).permutation(rows)
        chosen = np.sort(order[held_out:]), np.sort(order[:held_out])

    def take(chosen: np.ndarray) -> LabelledTexts:
        return table._replace(
            texts=[table.texts[i] for i in chosen], labels=[table.labels[i] for i in chosen],
            sets=None if table.sets is None else [table.sets[i] for i in chosen],
            words=None if table.words is None else [table.words[i] for i in chosen],
            groups=None if table.groups is None else [table.groups[i] for i in chosen],
            times=None if table.times is None else table.times[chosen],
            weights=None if table.weights is None else table.weights[chosen],
        )  # fmt: skip

    return take(chosen[0]), take(chosen[1])


def check_unlike(train: LabelledTexts) -> None:
    """Refuse texts of which a model can learn nothing."""
    first = train.texts[0].strip()
    if all(text.strip() == first for text in train.texts):
        which = "empty" if not first else f"{first[:40]!r}"
        raise DataError(
            f"{train.source['name']}: every training text, in column {train.columns[0]!r}, is {which}: there is "
            "nothing to learn; name another column with --text-column"
        )


def encode_texts(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], longest: int, split: str, notes: list[str]
) -> list[np.ndarray]:
    """The token numbers of each text, cut to `longest`; what was cut or empty is added to `notes`."""
    rows = [np.array(row.ids, dtype=np.int64) for row in encoded(tokenizer, texts, split)]
    empty = sum(len(row) == 0 for row in rows)
    cut = sum(len(row) > longest for row in rows)
    if empty:
        notes.append(f"Empty texts in {split}: {empty}; each is read as one unknown token.")
    if cut:
        notes.append(f"Texts in {split} of more than {longest} tokens, truncated to them: {cut}.")
    unknown = np.array([tokenizer.unk_token_id], dtype=np.int64)
    return [row[:longest] if len(row) else unknown for row in rows]


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
