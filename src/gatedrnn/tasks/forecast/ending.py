"""The end of a forecaster's run, after its first training: it is trained again on more of its data, calibrated, and its
forecasts are written."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from accelerate import Accelerator

from gatedrnn.data import TaskData
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.tasks.forecast.figures import forecast_figures
from gatedrnn.tasks.forecast.forecasts import (
    FORECAST_FILE,
    Forecasts,
    asked_of_data,
    write_forecast,
    write_forecasts,
)
from gatedrnn.tasks.forecast.refit import Errors, from_validation, set_intervals
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.finished import data_of, open_finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.plain_part import plain_part_of
from gatedrnn.training.result import PlainPart, read_record
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import Ended, Ending, Further, Shown, Trained

DESCRIPTIONS = {"tested": "again, on all before the test", "final": "again, on everything"}
"""Words for each further training, by its name."""


def parts_of(settings: RunSettings, data: TaskData) -> dict[str, str]:
    """The further trainings of a run, each with the part of the data that it sees."""
    if not settings.train.refit or not data.evaluation:
        return {}
    tested = {"tested": "train+validation"} if "validation" in data.evaluation else {}
    return {**tested, "final": "all"}


class ForecastEnding(Ending):
    """A forecaster is trained on all before the test and on everything, if the run shall; and the intervals of both are
    found."""

    def __init__(self, trained: Trained) -> None:
        super().__init__(trained)
        self.model, data = cast(GatedRNNForForecasting, trained.model), trained.data
        # A trial keeps no weights and has no test: nothing would read its intervals.
        self.calibrates = trained.settings.train.calibrate and not trained.settings.trial
        self.shrinkage, self.held = from_validation(data, self.model) if self.calibrates else (0.0, list[Errors]())

    def further(self) -> list[Further]:
        settings = self.trained.settings
        if settings.trial:
            return []
        # Where forecasts are those of the start, whatever is learned, a step is enough.
        steps = 1 if self.shrinkage == 1 else self.trained.steps
        train = settings.train.model_copy(update={"total_steps": steps, "refit": False})
        return [
            Further(
                name, DESCRIPTIONS[name],
                settings.model_copy(
                    update={"data": settings.data.model_copy(update={"train_on": part}), "train": train}
                ),
            )
            for name, part in parts_of(settings, self.trained.data).items()
        ]  # fmt: skip

    def finish(self, models: Mapping[str, GatedRNNPreTrainedModel]) -> Ended:
        data, model = self.trained.data, self.model
        tested, final = (cast(GatedRNNForForecasting, models.get(name, model)) for name in ("tested", "final"))
        if self.calibrates:
            for trained in (model, tested, final):
                trained.config.shrinkage = self.shrinkage
            set_intervals(data, model, tested, final, self.held)
        split = self.trained.unseen_split
        beside = self.calibrates and split is not None
        plain = beside_smoothers(model, data, cast(str, split), self.trained.accelerator) if beside else None
        return Ended(tested, final, plain)

    @staticmethod
    def trainings(settings: RunSettings, data: TaskData) -> int:
        return 1 + len(parts_of(settings, data))

    @staticmethod
    def why_unwritten(data: TaskData) -> str | None:
        try:
            asked_of_data(data)
        except DataError as error:  # the future of known covariates is not in the file
            return str(error)
        return None

    @staticmethod
    def write(path: Path) -> None:
        model = cast(GatedRNNForForecasting, open_finished(path).model)
        write_forecasts(path, model)
        data = data_of(RunFolder(path))
        if ForecastEnding.why_unwritten(data) is None:
            write_forecast(model, asked_of_data(data), path / FORECAST_FILE)

    @staticmethod
    def shown(path: Path) -> Shown:
        file = RunFolder(path).forecasts
        if not file.exists():
            return Shown()
        forecasts = read_record(file, Forecasts)
        return Shown(forecast_figures(forecasts), forecasts.on_unused(), forecasts.sentences(), forecasts)


def beside_smoothers(
    model: GatedRNNForForecasting, data: TaskData, split: str, accelerator: Accelerator
) -> PlainPart:  # fmt: skip
    """A forecaster beside the smoothers that it begins with, by the scaled errors of a part that it was not trained
    on."""
    shrinkage = model.config.shrinkage
    whole = evaluate(model, data, split, accelerator).outcomes
    model.config.shrinkage = 1.0
    alone = evaluate(model, data, split, accelerator).outcomes
    model.config.shrinkage = shrinkage
    known = "" if model.config.known_regression is None else " with a regression on known columns"
    return plain_part_of(f"smoothers{known}", split, "MASE", whole, alone)
