"""Parts that all estimators share: their settings as those of a run, and the run that `fit` makes of them."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from gatedrnn.data import tasks_kept
from gatedrnn.data.frames import InMemory
from gatedrnn.data.registry import all_settings
from gatedrnn.errors import Error, in_python, unknown
from gatedrnn.models.opening import Finished
from gatedrnn.records import Json
from gatedrnn.runs import called_from_python
from gatedrnn.training.chosen import completed, run_of_recipe
from gatedrnn.training.finished import open_finished
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.loop import run
from gatedrnn.training.model import scores_of
from gatedrnn.training.settings import ModelSettings, TrainSettings, with_words_of_cells

NAMES = {"num_layers": "layers", "random_state": "seed"}
"""Parameters by torch's and scikit-learn's names, and those of the command line."""
PARAMETERS = {setting: name for name, setting in NAMES.items()} | {"time_column": "time", "series_column": "series"}
"""Settings that are called otherwise where errors name the parameters of an estimator."""


class Settings:
    """Any settings of a run beside an estimator's own parameters, by the names of the flags of `gatedrnn train`.

    Args:
        given: settings of the data, the model and the training; what is not given is the recipe's.

    Raises:
        ValueError: a name is unknown, with the nearest that exists; or no task takes the value. Whether the
            estimator's own task does is checked by its `fit`.

    Example:
        >>> Settings(clip=0.5, schedule="linear")
        Settings(clip=0.5, schedule='linear')
    """

    def __init__(self, **given: object) -> None:
        self._given: dict[str, object] = {}
        self.set_params(**given)

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return what is given, by name; `deep` is scikit-learn's."""
        return dict(self._given)

    def set_params(self, **given: object) -> Self:
        """Set some of them, all or none."""
        fields = _fields()
        for name, value in given.items():
            if name not in fields:
                raise ValueError(unknown("setting", name, fields))
            refused = list[str]()
            for field in fields[name]:
                try:
                    field.validate_python(value)
                except ValidationError as error:
                    refused.append(error.errors()[0]["msg"])
            if len(refused) == len(fields[name]):
                raise ValueError(f"{name}: {' or: '.join(dict.fromkeys(refused))}, got {value!r}")
        self._given |= given
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self._given == other._given

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._given)))

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


@cache
def _fields() -> dict[str, list[TypeAdapter[object]]]:
    """Checks of each setting, by name: one for each kind of task that has one of its own."""
    kinds: list[type[BaseModel]] = [*dict.fromkeys(all_settings().values()), ModelSettings, TrainSettings]
    hints: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        for name, field in kind.model_fields.items():
            hint: Any = Annotated[cast(Any, field.annotation), *field.metadata, None]
            hints.setdefault(name, {})[repr(hint)] = hint
    del hints["task"]
    return {name: [TypeAdapter(hint) for hint in kinds_of.values()] for name, kinds_of in hints.items()}


class GatedEstimator(BaseEstimator):
    """The base of all estimators: parameters become settings, `fit` a run in a folder that is gone afterwards.

    Attributes:
        model_: the trained Hugging Face model, in `eval()`.
        settings_: all settings of the run, by the names of the command line.
        history_: the logged steps of the run, one dictionary each.
        scores_: the scores by split; of what was set apart for validation, where that was asked for.
    """

    _task: ClassVar[str]
    settings: Settings | None

    def set_params(self, **given: object) -> Self:
        """Set parameters; those of `settings` as in `settings__clip`."""
        if self.settings is None and any(name.startswith("settings__") for name in given):
            self.settings = Settings()
        super().set_params(**given)
        return self

    def _asked(self, without: Sequence[str] = ()) -> dict[str, Json]:
        """The settings that are given, by the names of the command line."""
        own = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        rest = own.pop("settings", Settings()).get_params()
        own["random_state"] = _seed(own.get("random_state"))
        named = {NAMES.get(name, name): value for name, value in own.items() if name not in without}
        if twice := next((name for name in rest if name in named), None):
            raise ValueError(f"{twice}: is a parameter and stands in settings; give it once")
        return cast(dict[str, Json], with_words_of_cells({**named, **rest}))

    def _trained(self, held: InMemory, asked: Mapping[str, Json]) -> Finished:
        """Train on tables, and set what a fitted estimator has."""
        with (
            tempfile.TemporaryDirectory() as place,
            tasks_kept(),
            as_value_errors(),
            called_from_python(PARAMETERS) as files,
        ):
            written = held.write(Path(place))
            files += (value for name, value in written.items() if name.endswith("_file"))
            named = {**written, **asked}
            settings = completed(run_of_recipe(self._task, **named), named)
            folder = Path(place) / "run"
            result = run(settings, folder)
            finished = open_finished(folder)
            self.history_ = read_metrics(RunFolder(folder).metrics)
            self.scores_ = scores_of(result)
        self.settings_ = {k: v for k, v in settings.flat().items() if not k.endswith("_file")}
        self.model_ = finished.model
        return finished


def _seed(random_state: object) -> int:
    """The seed of a run from whatever scikit-learn takes."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Let errors of data and settings leave as ValueError, as scikit-learn has it."""
    try:
        yield
    except Error as error:
        in_python(error, PARAMETERS)
        if isinstance(error, ValueError):
            raise
        raise ValueError(str(error)) from error
