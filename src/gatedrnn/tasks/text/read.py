"""Texts with a class, several labels or a number each: files of the user, and AG News."""

import logging

from gatedrnn.data.batches import Examples, weights_of
from gatedrnn.data.label_arrays import (
    LabelArrays,
    labels_of,
    numbers_of_groups,
)
from gatedrnn.data.scripts import MIN_SHARE, undivided_share
from gatedrnn.data.task import TaskData, Texts
from gatedrnn.data.text import WHOLE, check_unlike, encode_texts, read_splits
from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.tasks.text.settings import TextRegressionSettings, TextSettings

LOG = logging.getLogger("gatedrnn")
_AG_NEWS = "fancyzhx/ag_news"


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
    splits, sources = read_splits(
        settings, hub, notes, settings.several_labels if isinstance(settings, TextSettings) else None
    )
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
