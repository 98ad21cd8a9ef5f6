"""Text classification: files or hub, splits, vocabulary from the training split, token numbers."""

import logging

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.batches import Examples
from gatedrnn.data.files import Table, Wanted, in_order, read_file, read_hub
from gatedrnn.data.settings import TextTask
from gatedrnn.data.splits import notes_on_classes, notes_on_repeats, of_groups, of_times
from gatedrnn.data.task import TaskData, Texts
from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.errors import DataError
from gatedrnn.records import Json

LOG = logging.getLogger("gatedrnn")
AG_NEWS = "fancyzhx/ag_news"


def load_ag_news(settings: TextTask) -> TaskData:
    """AG News from the hub, or from local copies."""
    given = [file for file in (settings.train_file, settings.validation_file, settings.test_file) if file is not None]
    if given and (settings.train_file is None or settings.test_file is None):
        raise DataError("ag_news: give both --train-file and --test-file, or neither to load it from the hub")
    return _load("ag_news", settings, hub=AG_NEWS)


def load_text_classification(settings: TextTask) -> TaskData:
    """Any text and label of the user's."""
    if settings.train_file is None:
        raise DataError("text-classification: needs --train-file (CSV, TSV, JSON lines or Parquet)")
    return _load("text-classification", settings, hub=None)


def _load(name: str, settings: TextTask, hub: str | None) -> TaskData:
    notes: list[str] = []
    splits, sources = _splits(settings, hub, notes)
    names = _label_names(splits)
    notes += notes_on_classes({split: table.labels for split, table in splits.items()})
    _demand_unlike(splits["train"])
    number = {label: i for i, label in enumerate(names)}
    rows = sum(len(table.texts) for table in splits.values())
    LOG.info("tokenising %s texts of %s by %s", f"{rows:,}", name, settings.tokenizer)
    tokenizer = learn_tokenizer(settings.tokenizer, splits["train"].texts, settings.min_count, settings.vocabulary_size)
    # What a file is read by that the model is used on; `model_max_length` is transformers' own name.
    tokenizer.model_max_length = settings.max_tokens
    text_column, label_column = splits["train"].columns
    tokenizer.init_kwargs |= {"text_column": text_column, "label_column": label_column, "quoting": settings.quoting}
    evaluation, texts = {}, {}
    for split, table in splits.items():
        labels = [number[label] for label in table.labels]
        inputs = encode_texts(tokenizer, table.texts, settings.max_tokens, split, notes)
        evaluation[split] = Examples(inputs, np.array(labels, dtype=np.int64))
        texts[split] = Texts(table.texts, labels)
    return TaskData(
        name=name,
        model_inputs={
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "unk_token_id": tokenizer.unk_token_id,
        },
        label_names=names,
        labelled="sequence",
        train=evaluation.pop("train"),
        evaluation=evaluation,
        sources=sources,
        notes=notes,
        tokenizer=tokenizer,
        texts=texts,
    )


def _splits(settings: TextTask, hub: str | None, notes: list[str]) -> tuple[dict[str, Table], list[dict[str, Json]]]:
    wanted = Wanted(
        settings.text_column, settings.label_column, settings.group, settings.time_column, settings.split == "time",
        settings.date_order,
    )  # fmt: skip
    tables: dict[str, Table] = {}
    if settings.train_file is None:
        assert hub is not None
        tables = {split: read_hub(hub, split, wanted) for split in ("train", "test")}
    else:
        files = {"train": settings.train_file, "validation": settings.validation_file, "test": settings.test_file}
        given = {split: path for split, path in files.items() if path is not None}
        for split, path in given.items():
            first = tables.get("train")
            own = wanted if first is None else wanted._replace(like=first.columns)
            tables[split] = read_file(path, own, quoting=settings.quoting)
    sources = [{"split": split, **table.source} for split, table in tables.items()]
    notes += dict.fromkeys(table.said for table in tables.values())
    for split, fraction in (("test", settings.test_fraction), ("validation", settings.validation_fraction)):
        if split in tables:
            continue
        train, apart = _set_apart(tables["train"], fraction, settings.split_seed)
        tables |= {"train": train, split: apart}
        how = f"seed {settings.split_seed}" if settings.split == "random" else "the last in time"
        how += "" if settings.group is None else f", {settings.group} on one side"
        rows = f"{len(apart.texts)} rows set apart from the training data"
        notes.append(f"{split.capitalize()}: {rows} (fraction {fraction}, {how}).")
    notes += notes_on_repeats(
        {split: [" ".join(text.lower().split()) for text in table.texts] for split, table in tables.items()}, "texts"
    )
    return tables, sources


def _set_apart(table: Table, fraction: float, seed: int) -> tuple[Table, Table]:
    """The rows but a fraction, and these: the last in time where times are read, whole groups where there are some."""
    rows, place = len(table.texts), str(table.source["name"])
    apart = round(fraction * rows)
    if not 0 < apart < rows:
        raise DataError(f"{place}: the number of rows, {rows}, cannot be split at fraction {fraction}; add rows")
    if table.times is not None:
        chosen = of_times(table.times, fraction, place)
    elif table.groups is not None:
        chosen = of_groups(table.groups, fraction, seed, place)
    else:
        order = np.random.default_rng([seed, rows]).permutation(rows)
        chosen = np.sort(order[apart:]), np.sort(order[:apart])

    def take(chosen: np.ndarray) -> Table:
        return table._replace(
            texts=[table.texts[i] for i in chosen], labels=[table.labels[i] for i in chosen],
            groups=None if table.groups is None else [table.groups[i] for i in chosen],
            times=None if table.times is None else table.times[chosen],
        )  # fmt: skip

    return take(chosen[0]), take(chosen[1])


def _label_names(splits: dict[str, Table]) -> tuple[str, ...]:
    """The classes, as the training split shows them."""
    train = splits["train"]
    seen = set(train.labels)
    if len(seen) < 2:
        raise DataError(
            f"{train.source['name']}: every training row has the label {train.labels[0]!r}; at least two are needed"
        )
    for split, table in splits.items():
        unknown = sorted(set(table.labels) - seen)
        if unknown and table.source is train.source:
            raise DataError(
                f"{train.source['name']}: the label {unknown[0]!r} is so rare that the {split} rows set apart took all "
                "of it; add rows, or leave the label out"
            )
        if unknown:
            raise DataError(f"{table.source['name']}: {split} has the label {unknown[0]!r}, which training never saw")
    if train.label_names is not None:
        return train.label_names
    return in_order(seen)


def _demand_unlike(train: Table) -> None:
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
    encoded = [np.array(row.ids, dtype=np.int64) for row in tokenizer.backend_tokenizer.encode_batch(texts)]
    empty = sum(len(row) == 0 for row in encoded)
    cut = sum(len(row) > longest for row in encoded)
    if empty:
        notes.append(f"Empty texts in {split}: {empty}; each is read as one unknown token.")
    if cut:
        notes.append(f"Texts in {split} of more than {longest} tokens, truncated to them: {cut}.")
    unknown = np.array([tokenizer.unk_token_id], dtype=np.int64)
    return [row[:longest] if len(row) else unknown for row in encoded]
