"""The abstract task, which a run, a comparison and a page ask; each is a package of `gatedrnn.tasks`, or of others."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from gatedrnn.data.registry import Recipe, registered_task
from gatedrnn.data.settings import TaskSettings
from gatedrnn.records import Json

if TYPE_CHECKING:
    from torch.nn import Module

    from gatedrnn.data.frames import Frame, NewData
    from gatedrnn.data.task import Split, TaskData

if TYPE_CHECKING:
    from accelerate import Accelerator
    from plotly.graph_objects import Figure

    from gatedrnn.data.task import TaskData
    from gatedrnn.models import GatedRNNConfig
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.models.opening import Finished
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.metrics import Evaluation
    from gatedrnn.training.objective import Objective
    from gatedrnn.training.predict import Predicted
    from gatedrnn.training.result import PlainPart
    from gatedrnn.training.score import Scored
    from gatedrnn.training.settings import RunSettings, TrainSettings

SettingsT = TypeVar("SettingsT", bound=TaskSettings)


class Chosen(NamedTuple):
    """The value of a setting that the data decide."""

    value: Json
    reason: str


class Trained(NamedTuple):
    """A model whose first training has ended, with its best weights, in `eval()` where it is asked."""

    settings: "RunSettings"
    data: "TaskData"
    model: "GatedRNNPreTrainedModel"
    steps: int
    """The steps after which it was best."""
    accelerator: "Accelerator"

    @property
    def unseen_split(self) -> str | None:
        """The split that it was neither trained on nor, as far as there are two, tested on; None without one."""
        return next((split for split in ("validation", "test") if split in self.data.evaluation), None)


class Further(NamedTuple):
    """A further training of a run."""

    name: str
    description: str
    """Words that follow "trained" in messages."""
    settings: "RunSettings"


class Ended(NamedTuple):
    """The models of a run, and what was measured beside them."""

    tested: "GatedRNNPreTrainedModel"
    """The one that is scored on the test."""
    final: "GatedRNNPreTrainedModel"
    """The one that is handed out."""
    plain_part: "PlainPart | None"


class Shown(NamedTuple):
    """The part of a run's page that its task has."""

    figures: "Mapping[str, Figure]" = {}
    """Figures by their titles."""
    first: Sequence[str] = ()
    """Sentences before all others."""
    sentences: Sequence[str] = ()
    record: Any = None
    """The record that they are from."""


class Ending:
    """The end of a run, after its first training: before its test, and for its page. This one does nothing more."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def further(self) -> list[Further]:
        """Return the further trainings, one after another."""
        return []

    def finish(self, models: "Mapping[str, GatedRNNPreTrainedModel]") -> Ended:
        """Set what is chosen after training, and return the run's models.

        Args:
            models: those of `further`, by name.
        """
        return Ended(self.trained.model, self.trained.model, None)

    @staticmethod
    def trainings(settings: "RunSettings", data: "TaskData") -> int:
        """Return how often a run trains a model."""
        return 1

    @staticmethod
    def why_unwritten(data: "TaskData") -> str | None:
        """Return why `write` cannot write all that it may, in a sentence; None if it can."""
        return None

    @staticmethod
    def write(path: Path) -> None:
        """Write into a finished run's folder what its page shows beside scores."""

    @staticmethod
    def shown(path: Path) -> Shown:
        """Return what of it the page shows in a way of its own."""
        return Shown()


class Asked(NamedTuple):
    """Columns and folders of new data, where these do not show them themselves."""

    text_column: str | None = None
    label_column: tuple[str, ...] = ()
    data_root: Path | None = None
    """The folder of the files that a table names; the table's own if None."""


class Answering(ABC):
    """The predictions and scores of a finished model on new data.

    Args:
        path: the folder of a run, or of a model that one wrote.
        finished: the model, where it is open; opened when it is first read if None.
    """

    answers: ClassVar[str]
    """The plural of what is answered; scores of others are never put side by side with these."""

    def __init__(self, path: Path, finished: "Finished | None" = None) -> None:
        self.path, self._finished = path, finished

    @abstractmethod
    def predict(self, new: "NewData", asked: Asked, baseline: str | None = None) -> "Predicted":
        """Return the columns of some data with those that the model adds to them.

        Args:
            baseline: the name of a plain method that answers instead; the plain part is this model without its network
                from now on.

        Raises:
            DataError: the data cannot be read or do not fit the model, or there is no such method.
        """

    @abstractmethod
    def read(self, file: Path, backend: str) -> "Frame":
        """Read predictions that were written as CSV, with the types that columns came in.

        Args:
            backend: the library of the frame.
        """

    @abstractmethod
    def score(self, split: str, new: "NewData | None", asked: Asked) -> "Scored":
        """Score the model on labelled data, or on a split of its own.

        Raises:
            UsageError: an argument is not for models of this kind.
            DataError: there is no such split, the data have changed, or do not fit the model.
        """


class Task(ABC, Generic[SettingsT]):
    """One kind of problem: how its data are read, which model answers, what is minimised, scored and shown.

    A class is made with the task's name. `gatedrnn.tasks.labelled.LabelledTask` has all but the reading for sequences
    with a label each.

    Example:
        >>> task_named("forecast").settings.__name__
        'ForecastSettings'
    """

    settings: ClassVar[type[TaskSettings]]
    """The settings of the data: they are the task's flags."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """The settings of a run where the user gives none."""

    @abstractmethod
    def read(self, settings: SettingsT) -> "TaskData":
        """Read the data.

        Raises:
            DataError: they cannot be used; the file and the place are named.
        """

    @abstractmethod
    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        """Return the settings that these data decide where nobody gave them, by name.

        Args:
            explain: those too that the reading of the data has decided already.
        """

    @abstractmethod
    def model_class(self, data: "TaskData") -> "type[GatedRNNPreTrainedModel]":
        """Return the class of the model that answers."""

    @abstractmethod
    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        """Return fields of the model's configuration that follow from the settings and the training data together."""

    @abstractmethod
    def fill(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Put into a new model what is no weight: tables that the training data decide."""

    @abstractmethod
    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Fit to the training data what a model begins with, before the first step; a function of data and seed."""

    @abstractmethod
    def objective(self, data: "TaskData", config: "GatedRNNConfig", train: "TrainSettings") -> "Objective":
        """Return the loss that is minimised."""

    @abstractmethod
    def evaluate(self, model: "Module", split: "Split", accelerator: "Accelerator") -> "Evaluation":
        """Return scores and outcomes of a model, in `eval()`, on a split of the data."""

    @abstractmethod
    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        """Return the plain methods that are scored beside a run, the cheapest first.

        Args:
            threads: of boosted trees.
            refits: windows to each of which a method is fitted, at most; 1,000 if None.

        Raises:
            BackendUnavailable: a library of the system is missing, when a method is called.
        """

    @abstractmethod
    def answering(self) -> "type[Answering]":
        """Return the class that predicts and scores with a finished model."""

    @abstractmethod
    def ending(self) -> type[Ending]:
        """Return the class of what a run does after its first training."""


def task_named(name: str) -> Task[TaskSettings]:
    """Return the task of a name; raises as `gatedrnn.data.registry.registered_task`."""
    return cast(Task[TaskSettings], registered_task(name))
