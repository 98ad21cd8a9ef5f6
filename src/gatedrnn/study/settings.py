"""What a comparison is made of."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from gatedrnn.data import DataSettings, Settings
from gatedrnn.data.settings import Seed, unknown_name
from gatedrnn.registry import CELLS
from gatedrnn.study.ladder import BESIDE, INITIALISATION, LADDERS
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings


class ContenderSettings(Settings):
    """Who takes part."""

    ladder: Literal["lstm", "gru"] | None = None
    """Instead of cells: the steps from lstm to minlstm, or from gru to mingru (with mgu beside them), one at a time."""
    cells: list[str] = ["lstm", "gru", "minlstm", "mingru"]
    """Cells to compare; the first is the baseline that the others are matched to."""
    match: list[Literal["layers", "params"]] = ["layers", "params"]
    """layers: same depth and width. params: same depth, width solved for the baseline's recurrent parameters."""
    hidden_size: int = Field(64, ge=1)
    """Channels of the baseline's state."""
    core: int | None = Field(None, ge=1)
    """Recurrent parameters that every cell is matched to; the baseline's own, at its hidden_size, if not given."""
    seeds: list[Seed] = [0, 1, 2]
    """One run each; initial weights, data order and dropout follow from it."""

    @model_validator(mode="before")
    @classmethod
    def _cells_of_ladder(cls, given: dict[str, Any]) -> dict[str, Any]:
        ladder = given.get("ladder")
        if ladder not in LADDERS:
            return given
        cells = [*LADDERS[ladder], *BESIDE.get(ladder, ())]
        if given.get("cells", cells) != cells:
            raise ValueError("--ladder and --cells both say who takes part; give one")
        return {**given, "cells": cells}

    @field_validator("cells")
    @classmethod
    def _known_cells(cls, cells: list[str]) -> list[str]:
        for cell in cells:
            if cell not in CELLS:
                raise ValueError(unknown_name("cell", cell, CELLS))
        return cells

    @model_validator(mode="after")
    def _no_repeats(self) -> "ContenderSettings":
        for name in ("cells", "match", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name} must be given, each once; got {values}")
        return self


class CompareSettings(Settings):
    """A whole comparison."""

    contenders: ContenderSettings
    threads: int = Field(ge=1)
    data: DataSettings
    model: ModelSettings
    train: TrainSettings

    @model_validator(mode="after")
    def _same_steps_for_all(self) -> "CompareSettings":
        if self.train.early_stop:
            raise ValueError("--early-stop: all contenders take the same number of steps; leave it at 0")
        return self

    def run(self, cell: str, hidden_size: int, seed: int) -> RunSettings:
        """The settings of one run; all steps of a ladder have one initialisation."""
        schemes = INITIALISATION if self.contenders.ladder else {}
        unset = {name: scheme for name, scheme in schemes.items() if getattr(self.model, name) is None}
        return RunSettings(
            cell=cell, hidden_size=hidden_size, seed=seed, threads=self.threads,
            data=self.data, model=self.model.model_copy(update=unset), train=self.train,
        )  # fmt: skip
