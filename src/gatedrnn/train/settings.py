"""Settings of a run: model and training, beside those of the data."""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gatedrnn.data import LANGUAGE, DataSettings, Settings
from gatedrnn.data.probes import PROBES
from gatedrnn.data.settings import Seed, unknown_name
from gatedrnn.registry import CELLS


class ModelSettings(Settings):
    """The structure of a contender, but for the cell and the width of its state."""

    layers: int = Field(1, ge=1)
    """Recurrent layers."""
    embedding_size: int = Field(64, ge=1)
    """Width of the embedding (tokens) or of the linear map in its place (numbers)."""
    bidirectional: bool = False
    """A second set of weights walks time backwards in each layer."""
    activation: Literal["g", "identity"] | None = None
    """minlstm, mingru: candidate activation: g of their paper's appendix B.3 (the default), or identity."""
    reset_before: bool = False
    """gru: the reset gate before the recurrent product (Cho et al. 2014) instead of after it, as torch has it."""
    keep: bool = False
    """mgu: the other cell of that name, whose gate keeps."""
    block_size: Literal[2, 3, 4] | None = None
    """block-orthogonal: channels of a block; 2 if not given."""
    weight_init: Literal["torch", "fan-in", "xavier", "orthogonal"] | None = None
    """Initial weights; each cell's own scheme if not given."""
    bias_init: Literal["torch", "zeros", "forget-one", "time-scales"] | None = None
    """Initial biases; each cell's own scheme if not given."""
    longest_time_scale: float | None = Field(None, ge=2)
    """Where initial biases are time-scales: steps that the slowest channels begin with; 64 if not given."""
    zoneout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a step leaves a number of the state as it was, in training."""
    input_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on each recurrent layer's input, the same at all steps."""
    state_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the state as gates read it (scan cells: on what enters it), the same at all steps."""
    weight_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of recurrent weights; scan cells have none."""
    layer_norm: bool = False
    """Normalise each gate's input projection."""
    block: bool = False
    """A residual block (normalisation, cell, projection, feed-forward) around each layer; --block=false for none."""
    feed_forward_factor: int = Field(2, ge=1)
    """block: inner width of the feed-forward network in units of the embedding."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a whole token is read as unknown, in training."""
    embedding_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the embedding."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout between layers."""
    head_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before the head."""
    tied: bool = True
    """language-model: tokens are scored by their embeddings; the core's output is projected back to their width."""
    pooling: Literal["last", "mean", "max"] = "last"
    """What a sequence classifier reads: the last valid step, or the mean or maximum over the valid steps."""


class TrainSettings(Settings):
    """The training loop."""

    epochs: int = Field(10, ge=1)
    """Passes over the training data (probes: 100 steps each)."""
    batch_size: int = Field(64, ge=1)
    """Sequences in a step; language-model: lanes that are read side by side."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients make one step together."""
    learning_rate: float = Field(1e-3, gt=0)
    """Highest learning rate."""
    schedule: Literal["cosine", "linear", "constant", "plateau"] = "cosine"
    """After the warm-up: decay to zero along a cosine or a line, stay, or halve when validation stops improving."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Part of all steps in which the learning rate rises from zero."""
    patience: int = Field(1, ge=0)
    """plateau: evaluations without improvement that are waited for before the rate is halved."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's weight decay."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """How much of its mean of squared gradients AdamW keeps at each step."""
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is what is evaluated and kept; 0 for none."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Part of each label's weight that is spread over all labels; not in a language-model."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: matrix products in bfloat16, states and weights in float32."""
    gradient_checkpointing: bool = False
    """Keep each layer's input alone for the gradient and run the layer once more: less memory, more time."""
    validate_every: int = Field(0, ge=0)
    """Steps between validations within an epoch; 0 for the one at its end alone."""
    early_stop: int = Field(0, ge=0)
    """Validations without a better one after which training ends; 0 to go on to the last epoch."""
    log_every: int = Field(50, ge=1)
    """Steps between lines of metrics.jsonl."""
    checkpoint_every: int = Field(500, ge=1)
    """Steps between checkpoints; there is one at the end of each epoch too."""


class RunSettings(Settings):
    """One training run, complete: what config.yaml in its folder holds, and what reruns it."""

    cell: str
    hidden_size: int = Field(ge=1)
    seed: Seed = 0
    threads: int = Field(1, ge=1)
    """Threads of torch. Another number may sum in another order, so it belongs to the run."""
    processes: int = Field(1, ge=1)
    """Processes that share each batch's rows; the same holds for them."""
    data: DataSettings
    model: ModelSettings
    train: TrainSettings

    @property
    def cells(self) -> list[str]:
        """One name for all layers, or one each."""
        return self.cell.split(",")

    @field_validator("cell")
    @classmethod
    def _known_cells(cls, cell: str) -> str:
        names = [name.strip() for name in cell.split(",")]
        for name in names:
            if name not in CELLS:
                raise ValueError(unknown_name("cell", name, CELLS))
        return ",".join(names)

    @model_validator(mode="after")
    def _go_together(self) -> "RunSettings":
        if len(self.cells) not in (1, self.model.layers):
            raise ValueError(f"--cell names {len(self.cells)} layers, --layers is {self.model.layers}")
        if self.model.weight_dropout and not any(CELLS[cell].equations.reads_state for cell in self.cells):
            raise ValueError(f"--weight-dropout drops recurrent weights, and {self.cell} has none; leave it at 0")
        if self.data.curriculum > self.train.epochs:
            raise ValueError(
                f"--curriculum {self.data.curriculum}: sequences would still grow when training ends, after --epochs "
                f"{self.train.epochs}; give a smaller one, or 0 for none"
            )
        numbers = self.data.task in PROBES and not PROBES[self.data.task].classes
        if (self.data.task == LANGUAGE or numbers) and self.train.label_smoothing:
            raise ValueError(f"--label-smoothing: the loss of {self.data.task} has none; leave it at 0")
        if self.data.task == LANGUAGE and self.model.bidirectional:
            raise ValueError("--bidirectional: a language model reads forwards alone")
        return self

    def flat(self) -> dict[str, Any]:
        """All settings under one level of names, as the command line has them; what is None is left out."""
        nested = self.model_dump(mode="json")
        parts = {name: nested.pop(name) for name in PARTS}
        return {k: v for section in (nested, *parts.values()) for k, v in section.items() if v is not None}

    def shown(self) -> dict[str, Any]:
        """The same for others to read: files by name alone, nothing about this machine's folders."""
        return {k: Path(v).name if k.endswith("_file") else v for k, v in self.flat().items()}

    @classmethod
    def from_flat(cls, flat: dict[str, Any]) -> "RunSettings":
        """The settings that `flat` wrote down."""
        parts = {name: {k: v for k, v in flat.items() if k in part.model_fields} for name, part in PARTS.items()}
        own = {k: v for k, v in flat.items() if not any(k in section for section in parts.values())}
        return cls.model_validate(own | parts)


PARTS: dict[str, type[Settings]] = {"data": DataSettings, "model": ModelSettings, "train": TrainSettings}


def threads_for(jobs: int = 1) -> int:
    """Threads of each of `jobs` processes so that all cores work and none twice."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // jobs)
