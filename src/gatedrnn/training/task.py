"""What a run, a comparison and a page ask of a task; each is a package of `gatedrnn.tasks`, or of somebody else."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from gatedrnn.data.registry import registered_task
from gatedrnn.data.settings import TaskSettings
from gatedrnn.records import Json

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData

Parts = Mapping[str, Mapping[str, Json]]
"""Values of settings, by the part that they are of (contenders, data, model, train) and by name."""


class Chosen(NamedTuple):
    """The value of a setting that the data decide."""

    value: Json
    reason: str


class Recipe(NamedTuple):
    """The settings that a run of a task takes where the user gives none."""

    cells: Parts = {}
    """The recipe of cells alone, which `compare` takes."""
    beside: Parts = {}
    """The values that `train` and `forecast` take besides, or instead, for the parts beside the cells."""
    options: Mapping[str, str] = {}
    """Options of cells, by the name of a cell."""
    most_steps: bool = False
    """Whether more steps than the recipe's do not pay: they learn the training data by heart."""


class Task(ABC):
    """One kind of problem: how its data are read, which model answers, what is minimised, scored and shown.

    A class of it is made with the task's name. What it does not define is as for sequences with a label each, which
    most tasks have.

    Example:
        >>> task_named("forecast").settings.__name__
        'ForecastSettings'
    """

    settings: ClassVar[type[TaskSettings]]
    """The settings of the data: they are the task's flags."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def recipe(self) -> Recipe:
        """The settings of a run where the user gives none."""
        return Recipe()

    @abstractmethod
    def read(self, settings: Any) -> "TaskData":
        """Read the data.

        Raises:
            DataError: they cannot be used; the file and the place are named.
        """

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        """Return the settings that these data decide where nobody gave them, by name.

        Args:
            explain: those too that the reading of the data has decided already.
        """
        return {}


def task_named(name: str) -> Task:
    """Return the task of a name; raises as `gatedrnn.data.registry.registered_task`."""
    return cast(Task, registered_task(name))
