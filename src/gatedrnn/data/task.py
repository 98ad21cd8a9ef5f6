"""The data that every task provides to a model, a training loop and a report; and those that calls share."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from transformers import PreTrainedTokenizerFast

from gatedrnn.data.batches import Examples, TrainingSource
from gatedrnn.data.scripts import MIN_SHARE
from gatedrnn.data.stream import Lanes
from gatedrnn.data.windows import Windows
from gatedrnn.records import Json

_MAX_KEPT = 3
"""Tasks and tables in memory: a forecaster's table outlives the task of its first training by one further training."""
_kept: dict[Hashable, Any] | None = None
Made = TypeVar("Made")
Split: TypeAlias = Examples | Lanes | Windows
"""A part of the data that is evaluated."""


@dataclass(frozen=True, eq=False)
class Texts:
    """The raw texts of a split with the numbers of their labels: what a baseline without a network reads."""

    texts: list[str]
    labels: list[Any]
    """A number of a class each, or a number; a list of zeros and ones, or of a class a word."""
    words: list[list[str]] | None = None
    """The words of each text that is tagged word by word."""


@dataclass(frozen=True, eq=False)
class TaskData:
    """A task's data, ready for batches."""

    name: str
    """The name of the task, as its settings have it."""
    model_inputs: dict[str, Json]
    """Fields of the model's configuration that the data decide: vocab_size or input_size, and the special tokens."""
    train: TrainingSource
    evaluation: Mapping[str, Split]
    """"validation" and "test", as far as there are such parts, and whatever else is measured at the end, by name."""
    sources: list[dict[str, Json]]
    """Name, rows and sha256 of what was read, without any path."""
    label_names: tuple[str, ...] = ()
    """The names of classes; a token's label is a token."""
    notes: list[str] = field(default_factory=list)
    """Notes for readers of the results: truncated or empty texts, splits set apart."""
    tokenizer: PreTrainedTokenizerFast | None = None
    texts: dict[str, Texts] = field(default_factory=dict)
    """Raw texts by split, for text tasks."""
    undivided_share: float = 0.0
    """The share of the training texts' letters that belong to scripts without blanks between words."""
    table: Any = None
    """The table that was read, where the task goes on to need it, as forecasts after its end do."""

    @property
    def undivided(self) -> bool:
        """Whether so many letters belong to scripts without blanks between words that texts are read by them."""
        return self.undivided_share >= MIN_SHARE

    @property
    def steps(self) -> int:
        """The mean number of steps of a training sequence: of the validation split, or of a batch of running text or
        windows.
        """
        if isinstance(self.train, Windows):
            return self.train.context
        validation = self.evaluation.get("validation", self.train)
        if isinstance(validation, Examples):
            return max(1, round(float(validation.lengths.mean())))
        return cast(Lanes, validation).length


@contextmanager
def tasks_kept() -> Iterator[None]:
    """Keep the last tasks and tables that were read in memory within this context, so that the runs of a comparison
    share them.

    One command is inside, or one call: files may have changed before the next.
    """
    global _kept
    before = _kept
    _kept = {} if before is None else before
    try:
        yield
    finally:
        _kept = before


def kept(key: Hashable, make: Callable[[], Made]) -> Made:
    """Return `make()`, or what it returned for this key before within `tasks_kept`."""
    if _kept is None:
        return make()
    if key not in _kept:
        made = make()
        while len(_kept) >= _MAX_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = made
    value: Made = _kept[key]
    return value
