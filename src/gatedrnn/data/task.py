"""What every task hands to a model, a training loop and a report."""

from dataclasses import dataclass, field
from typing import Any

from gatedrnn.data.batches import Examples, TrainingSource


@dataclass(frozen=True, eq=False)
class Texts:
    """The raw texts of a split with the numbers of their labels: what a baseline without a network reads."""

    texts: list[str]
    labels: list[int]


@dataclass(frozen=True, eq=False)
class TaskData:
    """A task's data, ready for batches."""

    name: str
    model_inputs: dict[str, Any]
    """Fields of the model's configuration that the data decide: vocab_size or input_size, and the special tokens."""
    label_names: tuple[str, ...]
    label_at_every_step: bool
    train: TrainingSource
    evaluation: dict[str, Examples]
    """"validation" and "test", and whatever else is measured at the end, by name."""
    sources: list[dict[str, Any]]
    """Name, rows and sha256 of what was read, without any path."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the results must know: cut or empty texts, splits set apart."""
    tokenizer: Any = None
    texts: dict[str, Texts] = field(default_factory=dict)
    """Raw texts by split, for text tasks."""
