"""A forecaster that is trained again on more of its data, with the steps that its validation found."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from gatedrnn.data import TaskData, Windows
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.models.opening import open_model
from gatedrnn.training.calibration import SHRINKAGES, UNTRUSTED, Errors, bands_of, best_shrinkage, errors_of
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings

REFIT = "refit"
"""The folder in a run's folder that holds the folders of its further trainings, until it has ended."""
AGAIN = {"tested": "again, on all before the test", "final": "again, on everything"}
"""The description of each further training, by the name of its folder."""

TrainAgain = Callable[[RunSettings, str], RunResult]
"""Train with other settings, in a folder of that name, as far as it is not done."""


class Fitted(NamedTuple):
    """Models of one run, with their intervals."""

    tested: GatedRNNForForecasting
    """Was not trained on the test part."""
    final: GatedRNNForForecasting
    """The one that is handed out."""
    seconds: float
    """The seconds of further training."""


def further_trainings(settings: RunSettings, data: TaskData) -> dict[str, str]:
    """Models beside the first that a run trains, each with the part of the data that it sees."""
    if not settings.train.refit or not data.evaluation:
        return {}
    tested = {"tested": "train+validation"} if "validation" in data.evaluation else {}
    return {**tested, "final": "all"}


def fit_again(
    settings: RunSettings, data: TaskData, model: GatedRNNForForecasting, steps: int, path: Path, train: TrainAgain
) -> Fitted:  # fmt: skip
    """Train on all before the test, and on everything, if the run shall; and find the intervals of both.

    Args:
        settings: of the run.
        data: its own.
        model: trained on the training part.
        steps: of further trainings.
        path: the run's folder.
        train: trains again.
    """
    shrinkage, held = _from_validation(data, model) if settings.train.calibrate else (0.0, list[Errors]())
    if shrinkage == 1:  # forecasts are those of the start, whatever is learned
        steps = 1
    models, seconds = {"tested": model, "final": model}, 0.0
    for name, part in further_trainings(settings, data).items():
        again = settings.model_copy(
            update={
                "data": settings.data.model_copy(update={"train_on": part}),
                "train": settings.train.model_copy(update={"total_steps": steps, "refit": False}),
            }
        )
        seconds += train(again, name).measured.training_seconds
        models[name] = open_model(GatedRNNForForecasting, path / REFIT / name / "model").to(model.device)
    tested, final = models["tested"], models["final"]
    if settings.train.calibrate:
        for trained in (model, tested, final):
            trained.config.shrinkage = shrinkage
        _set_intervals(data, tested, final, held)
    return Fitted(tested, final, seconds)


def _from_validation(data: TaskData, model: GatedRNNForForecasting) -> tuple[float, list[Errors]]:
    """Return the shrinkage that the validation part asks for, and the errors with it; none without such a part."""
    if "validation" not in data.evaluation:
        return UNTRUSTED, []
    validation = cast(Windows, data.evaluation["validation"])
    errors = errors_of(model, validation, SHRINKAGES)
    best = best_shrinkage(errors, len(validation))
    return SHRINKAGES[best], [errors[best]]


def _set_intervals(
    data: TaskData, tested: GatedRNNForForecasting, final: GatedRNNForForecasting, errors: list[Errors]
) -> None:  # fmt: skip
    """Calibrate `tested` by errors of the validation part, and `final` by those of `tested` on the test part too."""
    levels = final.config.levels
    held = bands_of(errors, levels) if errors else None
    if "test" in data.evaluation and final is not tested:
        of_test = errors_of(tested, cast(Windows, data.evaluation["test"]), (final.config.shrinkage,))
        final.config.bands = bands_of([*errors, *of_test], levels)
    else:
        final.config.bands = held
    tested.config.bands = held
