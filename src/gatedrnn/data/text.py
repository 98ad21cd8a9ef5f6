"""Files of texts with labels of any kind: their splits, and texts as tokens."""

import numpy as np
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.files import LabelledTexts, Wanted, read_file, read_hub
from gatedrnn.data.label_arrays import (
    notes_on_repeats,
    of_groups,
    of_times,
)
from gatedrnn.data.labels import as_trained
from gatedrnn.data.settings import TextFileSettings
from gatedrnn.data.tokenizers import encoded
from gatedrnn.errors import DataError
from gatedrnn.records import Json

WHOLE = 1 << 40
"""Tokens of a text, where all are read whole."""


def read_splits(
    settings: TextFileSettings, hub: str | None, notes: list[str], several: bool | None = None
) -> tuple[dict[str, LabelledTexts], list[dict[str, Json]]]:
    """The training, validation and test rows, and what was read; what is to be known of them is added to `notes`.

    Args:
        hub: the data set to read where no file is given.
        several: whether a text has any number of labels; found out if None.

    Raises:
        DataError: a file cannot be used, or a split cannot be made.
    """
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
