"""gatedrnn forecast."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gatedrnn.cli.arguments import DATA, MODEL, RUN, TRAINING, Baselines, Log, TrainMinutes, given, use_large_pages
from gatedrnn.cli.interrupted import AGAIN, SAME, goes_on
from gatedrnn.data import FORECAST
from gatedrnn.data.settings import TaskSettings
from gatedrnn.errors import UsageError
from gatedrnn.progress import RunsDisplay
from gatedrnn.runs import forecast as forecast_table
from gatedrnn.terminal import Console
from gatedrnn.training.settings import CellSettings, ModelSettings, TrainSettings


def forecast(
    file: Path | None = None,
    /,
    *,
    data: Annotated[TaskSettings, Parameter(name="*", group=DATA)] = TaskSettings(task=FORECAST),
    one: Annotated[CellSettings, Parameter(name="*", group=MODEL)] = CellSettings(),
    model: Annotated[ModelSettings, Parameter(name="*", group=MODEL)] = ModelSettings(),
    train: Annotated[TrainSettings, Parameter(name="*", group=TRAINING)] = TrainSettings(),
    output: Annotated[Path | None, Parameter(group=RUN)] = None,
    train_minutes: TrainMinutes = None,
    log: Log = (),
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
        log: Log losses and scores with these trackers: tensorboard, wandb, mlflow, trackio.
        baselines: plain: after training, plain methods on the same data, begun within a fifth of its time; none: leave
            them out.
    """
    use_large_pages()
    if data.task != FORECAST:
        raise UsageError(f"--task {data.task}: this command forecasts; gatedrnn train has all tasks")
    console = Console()
    settings: dict[str, Any] = {**given(data, one, model, train)}
    folder = output or Path("runs") / f"forecast-{'co2' if file is None else file.stem}"
    goes_on(lambda: SAME if (folder / "config.yaml").exists() else AGAIN)
    with RunsDisplay(console, f"forecast {one.cell}") as display:
        future = forecast_table(
            file, output=folder, train_minutes=train_minutes, baselines=baselines, log=log, on_step=display.show_one,
            on_notes=display.show_notes, **settings,
        )  # fmt: skip
    for sentence in future.sentences():
        console.print(sentence, highlight=False)
    for what, place in (("forecast", future.file), ("pictures", future.report), ("model", future.folder / "model")):
        console.print(f"{what}: {place}", soft_wrap=True, highlight=False)
