"""gatedrnn forecast."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from gatedrnn.cli.arguments import DATA, MODEL, RUN, TRAINING, Baselines, TrainMinutes, use_large_pages
from gatedrnn.cli.progress import RunsDisplay
from gatedrnn.cli.train import OneRun, begin, say_plain_part, say_standing
from gatedrnn.data import FORECAST, load_task, tasks_kept
from gatedrnn.data.settings import ForecastTask, TaskSettings
from gatedrnn.errors import UsageError
from gatedrnn.terminal import Console
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

if TYPE_CHECKING:
    from gatedrnn.models import GatedRNNForForecasting


@tasks_kept()
def forecast(
    file: Path | None = None,
    /,
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task=FORECAST),
    one: Annotated[OneRun, Parameter(name="*", group=MODEL)] = OneRun(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    train_minutes: TrainMinutes = None,
    baselines: Annotated[Baselines, Parameter(group=RUN)] = "plain",
) -> None:
    """Forecast a table: train a model on it, test it on the last part, and predict what comes next.

    Writes forecast.csv, with the names of the table and a column for each quantile, and report.html with pictures. The
    same command again writes them again, and continues where it was stopped. `gatedrnn compare --task forecast` tells
    which cell is best, and whether a simpler method would do.

    Args:
        file: CSV, TSV, JSON lines or Parquet: long, with a row for each series and time, or wide, with a row for each
            time. Without it: weekly carbon dioxide above Mauna Loa.
        output: Folder of the run; runs/forecast-FILE if not given.
        train_minutes: Minutes that training may take on this machine: measured before it begins, and written into
            config.yaml as steps, no more than the recipe has.
        baselines: plain: after training, plain methods on the same data, begun within a fifth of its time; none: leave
            them out.
    """
    use_large_pages()
    if data.task != FORECAST:
        raise UsageError(f"--task {data.task}: this command forecasts; gatedrnn train has all tasks")
    from gatedrnn.locks import sole_writer
    from gatedrnn.training.chosen import with_values
    from gatedrnn.training.finished import open_finished
    from gatedrnn.training.folder import RunFolder
    from gatedrnn.training.forecasts import asked_of_data, write_forecast, write_forecasts
    from gatedrnn.training.loop import run
    from gatedrnn.training.report import write_report

    given = data.model_dump() | ({} if file is None else {"train_file": file})
    settings = RunSettings.model_validate(
        {**one.model_dump(), "data": given, "model": model.model_dump(), "train": train.model_dump()}
    )
    folder = output or Path("runs") / f"forecast-{'co2' if file is None else file.stem}"
    console = Console()
    with RunsDisplay(console, f"forecast {settings.cell}") as display:
        display.show_notes(load_task(settings.data).notes)
        asked = asked_of_data(cast(ForecastTask, settings.data))  # before anything is trained for it
        if train_minutes is not None and (held := RunFolder(folder)).config.exists():  # as they were measured for it
            settings, train_minutes = with_values(settings, {"total_steps": held.settings().train.total_steps}), None
        settings = begin(settings, train.model_fields_set, train_minutes, display)
        result = run(settings, folder, display.show_one)
    say_plain_part(console, result)
    with sole_writer(folder, wait=True):
        forecasts = write_forecasts(folder)
        own = cast("GatedRNNForForecasting", open_finished(folder).model)
        write_forecast(own, asked, folder / "forecast.csv")
        for sentence in forecasts.sentences():
            console.print(sentence, highlight=False)
        say_standing(console, folder, baselines)
        page = write_report(folder)
    for what, place in (("forecast", folder / "forecast.csv"), ("pictures", page), ("model", folder / "model")):
        console.print(f"{what}: {place}", soft_wrap=True, highlight=False)
