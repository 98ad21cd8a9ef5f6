"""Settings of comparisons and probes, with the ladder from the full cell to the minimal one."""

from typing import Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from gatedrnn.data import DataSettings, Settings
from gatedrnn.data.settings import Seed, unknown_name
from gatedrnn.names import PROBES
from gatedrnn.study.space import Space
from gatedrnn.training.settings import CellWord, ModelSettings, RunSettings, TrainSettings, canonical

LADDERS = {
    "lstm": ("lstm", "lstm-no-output-gate", "lstm-input-gated", "lstm-normalized", "minlstm"),
    "gru": ("gru", "gru-no-reset-gate", "gru-input-gated", "mingru"),
}
"""The ladders from the full cell to the minimal one."""
BESIDE = {"gru": ("mgu",)}
"""Cells that are shown with a ladder without being a step of it."""
_INITIALISATION = {"weight_init": "fan-in", "bias_init": "time-scales"}
"""The initialisation of every step, unless another is asked for: the cost of a removal must not include a change of
initialisation. The biases are a spread of time scales, after the chrono initialisation that Tallec & Ollivier 2018
(arXiv:1804.11188) gave LSTM and GRU."""
FIRST_SEED = 1_000_000
"""Trials of a search have seeds from here on, so that the runs on which a verdict rests have others."""


def step_above(ladder: str, cell: str) -> str | None:
    """The cell that a step is compared with; None for the first step."""
    steps = LADDERS[ladder]
    if cell in steps:
        return steps[steps.index(cell) - 1] if cell != steps[0] else None
    return steps[0]


class ContenderSettings(Settings):
    """The cells that are compared, how they are matched, and seeds."""

    ladder: Literal["lstm", "gru"] | None = None
    """Instead of cells: the steps from lstm to minlstm, or from gru to mingru (and mgu), one at a time."""
    cells: list[CellWord] = ["lstm", "gru", "minlstm", "mingru"]
    """Cells to compare, with options as in gru:reset_after=false; the first is the baseline that the others are matched
    to."""
    match: list[Literal["layers", "params", "multiply-adds", "time"]] = ["layers", "params"]
    """layers: same depth and width. params: same depth, width solved for the baseline's recurrent parameters.
    multiply-adds: width solved for those of a step. time: as params, and as many steps as take the baseline's seconds
    on this machine."""
    hidden_size: int = Field(64, ge=1)
    """Channels of the baseline's state."""
    core: int | None = Field(None, ge=1)
    """Recurrent parameters that every cell is matched to; those of the baseline at its hidden_size if not given."""
    train_minutes: float | None = Field(None, gt=0)
    """match time: minutes of training of every run; those that the baseline's epochs take if not given."""
    seeds: list[Seed] = [0, 1, 2]
    """One run each; initialisation, data order and dropout follow from it."""
    recipes: bool = False
    """Compare what `train` and `forecast` give, with the parts that they put beside cells and the settings that the
    data decide, in the place of cells alone."""

    @model_validator(mode="before")
    @classmethod
    def _cells_of_ladder(cls, values: dict[str, object]) -> dict[str, object]:
        ladder = values.get("ladder")
        if not isinstance(ladder, str) or ladder not in LADDERS:
            return values
        cells = [*LADDERS[ladder], *BESIDE.get(ladder, ())]
        if values.get("cells", cells) != cells:
            raise ValueError("--ladder and --cells both name the cells; give one")
        return {**values, "cells": cells}

    @model_validator(mode="after")
    def _time_is_matched(self) -> "ContenderSettings":
        if self.train_minutes is not None and "time" not in self.match:
            raise ValueError("--train-minutes belongs to --match time")
        return self

    @model_validator(mode="after")
    def _no_repeats(self) -> "ContenderSettings":
        for name in ("cells", "match", "seeds"):
            values = getattr(self, name)
            if name == "cells":
                values = [canonical(cell) for cell in values]
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name} must be given, each once; got {values}")
        return self


class SearchSettings(Settings):
    """A search for the settings of each contender."""

    trials: int = Field(ge=1)
    """Trials of each contender."""
    seed: Seed = 0
    """Seed of the draws; another one draws others."""
    minutes: float | None = Field(None, gt=0)
    """Minutes after which no new round of trials begins; None for all."""
    space: Space
    """Distributions that trials draw settings from; a file of one's own, or the published ones."""


class CompareSettings(Settings):
    """A whole comparison."""

    contenders: ContenderSettings
    search: SearchSettings | None = None
    """The search for each contender's settings; None for one recipe for all."""
    threads: int = Field(ge=1)
    data: DataSettings
    model: ModelSettings
    train: TrainSettings

    @model_validator(mode="after")
    def _same_steps_for_all(self) -> "CompareSettings":
        if self.train.early_stop:
            raise ValueError("--early-stop: all contenders take the same number of steps; leave it at 0")
        if self.train.precision == "auto":
            raise ValueError("--precision auto: contenders would train in different precisions; name one for all")
        return self

    @model_validator(mode="after")
    def _search_fits(self) -> "CompareSettings":
        if self.search is None:
            return self
        if max(self.contenders.seeds) >= FIRST_SEED:
            raise ValueError(f"--seeds from {FIRST_SEED:,} on are those of trials; give others")
        if "time" in self.contenders.match:
            raise ValueError("--match time: a batch size that is searched would change the time of a step")
        compared = {canonical(cell).partition(":")[0] for cell in self.contenders.cells}
        for cell in self.search.space.contenders:
            if cell.partition(":")[0] not in compared:
                raise ValueError(f"--space: {cell} is not among the contenders, {' '.join(self.contenders.cells)}")
        return self

    def run(self, cell: str, hidden_size: int, seed: int) -> RunSettings:
        """The settings of one run; all steps of a ladder have the same initialisation."""
        schemes = _INITIALISATION if self.contenders.ladder else {}
        unset = {name: scheme for name, scheme in schemes.items() if getattr(self.model, name) is None}
        return RunSettings(
            cell=cell, hidden_size=hidden_size, seed=seed, threads=self.threads,
            data=self.data, model=self.model.model_copy(update=unset), train=self.train,
        )  # fmt: skip


_PROBE_TASKS = ("parity", "modular-addition", "s3", "mqar", "selective-copying")
PROBE_CELLS = ("lstm", "gru", "mingru", "minlstm", "signed-mingru", "block-orthogonal")


class ProbeSettings(Settings):
    """Cells, probes, seeds and lengths."""

    cells: tuple[CellWord, ...] = PROBE_CELLS
    """Cells, each as wide as gives the same number of recurrent parameters."""
    tasks: tuple[str, ...] = _PROBE_TASKS
    """Probes."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """One run each; initialisation, data and their order follow from it."""
    lengths: tuple[PositiveInt, ...] = ()
    """Lengths of the tests, beside the training length; those below it are left out. If none is given: 256 to 4,096, or
    to 65,536 where the number of labels grows with the length."""
    threads: int = Field(1, ge=1)
    """Threads of each run."""

    @field_validator("cells", "tasks", "seeds", "lengths")
    @classmethod
    def _each_once(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if len(set(values)) != len(values):
            raise ValueError("must be given, each once")
        return values

    @field_validator("cells", "tasks", "seeds")
    @classmethod
    def _some(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if not values:
            raise ValueError("must name one at least")
        return values

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        for task in tasks:
            if task not in PROBES:
                raise ValueError(unknown_name("probe", task, PROBES))
        return tasks
