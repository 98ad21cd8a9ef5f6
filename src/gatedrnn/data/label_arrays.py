"""Labels as arrays, and the splits that they are balanced over."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gatedrnn.data.files import LabelledTexts, in_order
from gatedrnn.data.windows import deviation_of
from gatedrnn.errors import DataError
from gatedrnn.records import Json
from gatedrnn.tables.numbers import is_number

SHOWN = 10
"""Labels in a note, at most."""


def of_groups(groups: Sequence[str], fraction: float, seed: int, place: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that stay and of those that are set apart, (rows,) each and rising: a group is on one side.

    Raises:
        DataError: there are too few groups.
    """
    from sklearn.model_selection import GroupShuffleSplit

    chosen = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
    try:
        stays, held_out = next(chosen.split(np.zeros(len(groups)), groups=groups))
    except ValueError as error:
        raise DataError(
            f"{place}: {len(set(groups))} groups cannot be split at fraction {fraction}: {error}"
        ) from error
    return stays, held_out


def numbers_of_groups(groups: Sequence[str] | None) -> np.ndarray | None:
    """(rows,): the groups of rows by number; None for none."""
    return None if groups is None else np.unique(np.array(groups), return_inverse=True)[1]


def of_times(times: np.ndarray, fraction: float, place: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows that stay, and the last in time, which are set apart; those at one time are on one side.

    Raises:
        DataError: nothing would be left, or set apart.
    """
    order = np.sort(times)
    edge = order[min(len(order) - 1, len(order) - round(fraction * len(order)))]
    held_out = times >= edge
    if held_out.all() or not held_out.any():
        raise DataError(f"{place}: its times cannot be split at fraction {fraction}: too many are one")
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def notes_on_classes(labels: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes on classes with a single row, and on labels of several kinds.

    Args:
        labels: of the rows, by split.
    """
    counts = Counter(label for labels_of_split in labels.values() for label in labels_of_split)
    once = [label for label, count in counts.items() if count == 1]
    notes = []
    if once:
        named = ", ".join(map(repr, once[:SHOWN])) + (f" and {len(once) - SHOWN} more" if len(once) > SHOWN else "")
        notes.append(
            f"Labels with a single row: {named}; nothing shows how well such a class is found. Add rows, or leave it "
            "out."
        )
    numbers = [label for label in counts if is_number(label)]
    if numbers and len(numbers) < len(counts):
        words = next(label for label in counts if not is_number(label))
        notes.append(
            f"Labels are numbers, such as {numbers[0]!r}, and words, such as {words!r}: each is a class of its own. "
            "Where the words say that a label is missing, leave out their rows."
        )
    return notes


def notes_on_repeats(splits: Mapping[str, Iterable[Hashable]], unit: str) -> list[str]:
    """Notes on examples of validation and test that training has too.

    Args:
        splits: what says that two examples are one, by split.
        unit: what an example is called, in the plural.
    """
    seen, notes = set(splits["train"]), list[str]()
    for split in ("validation", "test"):
        keys = list(splits.get(split, ()))
        repeats = sum(key in seen for key in keys)
        if repeats:
            notes.append(
                f"{repeats:,} of {len(keys):,} {unit} of {split} are in the training data too: their score says little "
                "about new ones. Remove them, or keep together what belongs together with --group."
            )
    return notes


class LabelArrays(NamedTuple):
    """The labels of all splits."""

    arrays: dict[str, np.ndarray]
    """The labels by split: (rows,), int64 of classes and float64 of numbers; (rows, labels), float32, where a row has
    several."""
    names: tuple[str, ...]
    model_inputs: dict[str, Json]
    """Fields of the model's configuration."""
    unit: float = 1.0
    """The unit of errors of numbers."""
    several: bool = False

    @property
    def are_classes(self) -> bool:
        """Whether each row has one class."""
        return not self.several and "problem_type" not in self.model_inputs


def labels_of(splits: Mapping[str, LabelledTexts], numbers: bool, notes: list[str]) -> LabelArrays:
    """The labels of tables of texts.

    Args:
        splits: the tables; what their labels are called follows from the training split.
        numbers: whether labels are numbers.
        notes: what is to be known of them is added.

    Raises:
        DataError: there is nothing to choose from, or another split has a label that training never saw.
    """
    if numbers:
        return _numbers(splits)
    return _classes(splits, notes) if splits["train"].sets is None else _several(splits, notes)


def _classes(splits: Mapping[str, LabelledTexts], notes: list[str]) -> LabelArrays:
    train = splits["train"]
    check_two(train, train.labels)
    for split, table in splits.items():
        check_seen(train, table, split, train.labels, table.labels)
    names = train.label_names if train.label_names is not None else in_order(train.labels)
    notes += notes_on_classes({split: table.labels for split, table in splits.items()})
    number = {label: index for index, label in enumerate(names)}
    return LabelArrays(
        {split: np.array([number[label] for label in table.labels], np.int64) for split, table in splits.items()},
        names, {},
    )  # fmt: skip


def _several(splits: Mapping[str, LabelledTexts], notes: list[str]) -> LabelArrays:
    """Labels of columns are there even where no row has them; others are those of the training file."""
    train = splits["train"]
    held = {
        split: [label for row_labels in table.sets or () for label in row_labels] for split, table in splits.items()
    }
    columns = train.columns[1:]
    names = names_held(splits, held, notes, columns if len(columns) > 1 else ())
    empty = sum(not labels for labels in train.sets or ())
    if empty:
        notes.append(f"Rows of training without any label: {empty:,} of {len(train.labels):,}.")
    number = {label: index for index, label in enumerate(names)}

    def array(sets: Sequence[tuple[str, ...]]) -> np.ndarray:
        indicators = np.zeros((len(sets), len(names)), np.float32)
        for row, labels in zip(indicators, sets, strict=True):
            row[[number[label] for label in labels]] = 1.0
        return indicators

    arrays = {split: array(table.sets or ()) for split, table in splits.items()}
    return LabelArrays(arrays, names, {"problem_type": "multi_label_classification"}, several=True)


def names_held(
    splits: Mapping[str, LabelledTexts], held: Mapping[str, Sequence[str]], notes: list[str],
    given: tuple[str, ...] = (),
) -> tuple[str, ...]:  # fmt: skip
    """The labels of the training file, or those given, in order; those of other files are among them.

    Args:
        splits: with the training split among them.
        held: labels of each, one for each time that it occurs.
        notes: what is to be known of rare and unseen ones is added.
        given: names of labels.

    Raises:
        DataError: there are less than two, or another file has one more.
    """
    train = splits["train"]
    names = given or in_order(
        label for split, table in splits.items() if table.source is train.source for label in held[split]
    )
    check_two(train, names)
    for split, table in splits.items():
        check_seen(train, table, split, names, held[split])
    notes += notes_on_classes(held)
    notes += note_on_unseen(names, held["train"])
    return names


def _numbers(splits: Mapping[str, LabelledTexts]) -> LabelArrays:
    arrays = {split: np.array(table.labels, np.float64) for split, table in splits.items()}
    unit = deviation_of(arrays["train"])
    if not unit:
        train = splits["train"]
        raise DataError(
            f"{train.source['name']}: every training row has the number {train.labels[0]} in column "
            f"{train.columns[-1]!r}: there is nothing to learn; name another column with --label-column"
        )
    scale: dict[str, Json] = {
        "problem_type": "regression", "label_mean": float(arrays["train"].mean()), "label_deviation": unit,
    }  # fmt: skip
    return LabelArrays(arrays, ("number",), scale, unit)


def check_two(train: LabelledTexts, labels: Sequence[str]) -> None:
    """Check that there are two labels at least.

    Raises:
        DataError: there is one, or none.
    """
    different = set(labels)
    if len(different) < 2:
        held = repr(next(iter(different))) if different else None
        said = f"every training row has the label {held}" if held else "no training row has a label"
        raise DataError(f"{train.source['name']}: {said}; at least two are needed")


def check_seen(
    train: LabelledTexts, table: LabelledTexts, split: str, seen: Sequence[str], labels: Sequence[str]
) -> None:
    """Check that a split has no label that a model does not know.

    Raises:
        DataError: it has one.
    """
    unknown = sorted(set(labels) - set(seen))
    if unknown and table.source is train.source:
        raise DataError(
            f"{train.source['name']}: the label {unknown[0]!r} is so rare that the {split} rows set apart took all "
            "of it; add rows, or leave the label out"
        )
    if unknown:
        raise DataError(f"{table.source['name']}: {split} has the label {unknown[0]!r}, which training never saw")


def note_on_unseen(names: Sequence[str], trained: Sequence[str]) -> list[str]:
    """A note on labels of which the training split has no row."""
    unseen = [name for name in names if name not in set(trained)]
    if not unseen:
        return []
    return [f"Labels without a training row: {', '.join(map(repr, unseen[:10]))}; nothing is learned of them."]
