"""outcomes.npz of a run: what its scores are means of, example by example, for verdicts that pair examples."""

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from gatedrnn.errors import Damaged
from gatedrnn.records import write_whole
from gatedrnn.unpacking import check_arrays

OUTCOMES = "outcomes.npz"
ERROR = 0.05
"""The share of intervals that leave out the truth."""
_MIN_DOCUMENTS = 20
"""The fewest documents that are examples each: fewer are too few to stand for others: the text is cut into blocks
then."""
_MIN_SERIES = 20
"""The fewest series of forecasts that are examples each."""
MAX_PIECES = 2000
BLOCKS, MIN_BLOCK = 200, 100
"""The most blocks of consecutive tokens, and the fewest tokens of one: more than the losses of tokens are correlated
over."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of one run on one split."""

    values: np.ndarray
    """(examples,), float64: how many labels of each example are right, the nats of each piece of a text, or the scaled
    errors of each series."""
    counts: np.ndarray
    """(examples,), int64: the labels of each example, or the tokens of each piece."""
    unit: str
    """The name of an example: "example", "document", "block of 279 tokens", "series", "block of 48 steps"."""
    groups: np.ndarray | None = None
    """(examples,): the number of the group that each example belongs to; None where each stands for itself."""

    @property
    def rate(self) -> float:
        """The accuracy, nats per token, or the scaled error."""
        return float(self.values.sum() / self.counts.sum())

    @property
    def independent(self) -> "Outcomes":
        """The outcomes of what intervals and tests draw anew: whole groups where examples belong to such."""
        if self.groups is None:
            return self
        counts = np.bincount(self.groups, self.counts).astype(np.int64)
        return Outcomes(np.bincount(self.groups, self.values), counts, "group")


def difference_of(one: Outcomes, other: Outcomes) -> tuple[float, float]:
    """The 95 % interval of the difference of two rates, of the first less the second, over the examples that both
    have; from minus to plus infinity where there are fewer than two.

    By Student's t of the differences of single examples, or of groups of them, with as many degrees of freedom as there
    are of these but one.
    """
    one, other = one.independent, other.independent
    off, examples = one.values - other.values, len(other.counts)
    if examples < 2:
        return -math.inf, math.inf
    labels = float(other.counts.sum())
    rate = float(off.sum()) / labels
    spread = float(np.square(off - rate * other.counts).sum()) * examples / (examples - 1)
    half = -float(stdtrit(examples - 1, ERROR / 2)) * math.sqrt(spread) / labels
    return rate - half, rate + half


def of_rows(right: np.ndarray, counts: np.ndarray) -> Outcomes:
    """Outcomes of rows with labels, each (rows,): right ones, errors, or shares; and how many labels there are."""
    return Outcomes(right.astype(np.float64), counts.astype(np.int64), "example")


def of_ranks(outputs: np.ndarray, labels: np.ndarray) -> Outcomes:
    """Outcomes of two classes, by how well the outputs rank them: values whose mean is the area under the ROC curve,
    and whose variance over examples is that of the area (DeLong et al. 1988, Biometrics 44, 837-845): the area, and how
    far each example moves it.

    Args:
        outputs: (rows,), larger for class 1.
        labels: (rows,), 0 or 1.
    """
    ones, zeros = np.sort(outputs[labels == 1]), np.sort(outputs[labels == 0])
    if not len(ones) or not len(zeros):  # there is nothing to rank
        return of_rows(np.full(len(labels), 0.5), np.ones(len(labels)))

    def share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The share of the others that lies below each value, with half of those that are equal."""
        shares: np.ndarray = (
            (np.searchsorted(others, values) + np.searchsorted(others, values, "right")) / 2 / len(others)
        )
        return shares

    placed = np.where(labels == 1, share_below(outputs, zeros), 1 - share_below(outputs, ones))
    area = placed[labels == 1].mean()
    size = np.where(labels == 1, len(ones), len(zeros))
    return of_rows(area + (placed - area) * len(labels) / size, np.ones(len(labels)))


def of_text(losses: np.ndarray, starts: np.ndarray) -> Outcomes:
    """Outcomes of a text: its documents, neighbours together where there are very many; or blocks where there are few.

    Args:
        losses: of each token in nats, (tokens,).
        starts: where documents begin in the stream, whose first token is not predicted.
    """
    edges = np.asarray(starts) - 1
    edges = edges[edges < len(losses)]
    if len(edges) >= _MIN_DOCUMENTS:
        unit = "document" if len(edges) <= MAX_PIECES else "group of documents"
        if len(edges) > MAX_PIECES:
            edges = edges[np.linspace(0, len(edges), MAX_PIECES, endpoint=False).astype(int)]
    else:
        length = max(MIN_BLOCK, -(-len(losses) // BLOCKS))
        edges, unit = np.arange(0, len(losses), length), f"block of {length:,} tokens"
    counts = np.diff(np.append(edges, len(losses)))
    return Outcomes(np.add.reduceat(losses.astype(np.float64), edges), counts, unit)


def of_windows(errors: np.ndarray, labels: np.ndarray, places: np.ndarray, horizon: int) -> Outcomes:
    """Outcomes of forecasts: each series an example, or, where there are few, each block of time.

    Args:
        errors: sums over the labels of each window, (windows,); `labels`: how many, (windows,).
        places: series and origin of each window, (windows, 2).
        horizon: the shortest block, since forecasts of neighbouring origins have most labels in common.
    """
    if len(np.unique(places[:, 0])) >= _MIN_SERIES:
        _, group, unit = *np.unique(places[:, 0], return_inverse=True), "series"
    else:
        times = places[:, 1] - places[:, 1].min()
        length = max(horizon, -(-int(times.max() + 1) // BLOCKS))
        _, group = np.unique(times // length, return_inverse=True)
        unit = f"block of {length:,} steps"
    counts = np.bincount(group, labels).astype(np.int64)
    return Outcomes(np.bincount(group, errors), counts, unit)


def write_outcomes(path: Path, outcomes: Mapping[str, Outcomes]) -> None:
    """Write a file of outcomes by name, whole or as it was: splits of a run, or runs and splits of a study."""
    arrays: dict[str, Any] = {}  # its values are arrays; numpy's signature has a flag beside them
    for name, outcome in outcomes.items():
        arrays[f"{name}/values"] = _narrowed(outcome.values)
        arrays[f"{name}/counts"] = _narrowed(outcome.counts)
        arrays[f"{name}/unit"] = np.array(outcome.unit)
        if outcome.groups is not None:
            arrays[f"{name}/groups"] = _narrowed(outcome.groups)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_whole(path, content.getvalue())


def read_outcomes(path: Path) -> dict[str, Outcomes]:
    """Read what `write_outcomes` wrote.

    Raises:
        Damaged: the file is missing, cannot be read, or holds something else.
    """
    try:
        check_arrays(path)
        with np.load(path) as held:
            names = [name.removesuffix("/values") for name in held.files if name.endswith("/values")]
            return {
                name: Outcomes(
                    held[f"{name}/values"].astype(np.float64), held[f"{name}/counts"].astype(np.int64),
                    str(held[f"{name}/unit"]),
                    held[f"{name}/groups"].astype(np.int64) if f"{name}/groups" in held.files else None,
                )
                for name in names
            }  # fmt: skip
    except FileNotFoundError as error:
        raise Damaged(f"{path}: is missing") from error
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Damaged(f"{path}: is damaged ({error})") from error


def _narrowed(values: np.ndarray) -> np.ndarray:
    """The values in the smallest type that holds the same numbers."""
    if not np.array_equal(values, values.astype(np.int64)):
        return values
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
