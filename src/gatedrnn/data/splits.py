"""The split of rows into training, validation and test, and the notes where a split is no test."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from gatedrnn.data.series.fields import is_number
from gatedrnn.errors import DataError

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
