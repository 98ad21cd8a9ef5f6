"""What a suite of probes is made of."""

from pydantic import Field, PositiveInt, field_validator

from gatedrnn.data import Settings
from gatedrnn.data.probes import PROBES
from gatedrnn.data.settings import Seed, unknown_name
from gatedrnn.train.settings import CellWord

TASKS = ("parity", "modular-addition", "s3", "mqar", "selective-copying")
CELLS = ("lstm", "gru", "mingru", "minlstm", "signed-mingru", "block-orthogonal")


class ProbeSettings(Settings):
    """Cells, probes, seeds and lengths."""

    cells: tuple[CellWord, ...] = CELLS
    """Cells, each as wide as gives the same number of recurrent parameters."""
    tasks: tuple[str, ...] = TASKS
    """Probes."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """One run each; initialisation, data and their order follow from it."""
    lengths: tuple[PositiveInt, ...] = ()
    """Of the tests, beside the training length; those below it are left out. If none is given: 256 to 4,096, or to
    65,536 where the number of labels grows with the length."""
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
