"""Training runs from Python: `train` begins a run or continues it, `load` opens one, and each gives a `Run`."""

import html
import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from gatedrnn.errors import DataError, UsageError
from gatedrnn.records import Json, read_json

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from transformers import PreTrainedTokenizerFast

    from gatedrnn.data.forecast.future import Asked
    from gatedrnn.models import GatedRNNForForecasting
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.training.forecasts import Forecasts
    from gatedrnn.training.loop import OnStep
    from gatedrnn.training.result import RunResult
    from gatedrnn.training.settings import RunSettings
    from gatedrnn.training.standing import Standing

Baselines: TypeAlias = Literal["plain", "none"]
"""Whether plain methods are fitted beside a run."""
OnNotes: TypeAlias = Callable[[Sequence[str]], None]
FORECAST_FILE = "forecast.csv"


class Run:
    """A training run, in its folder: settings, scores, model, predictions.

    Args:
        folder: the folder of a run, finished or stopped.

    Raises:
        DataError: the folder holds no run.

    Example:
        >>> run = gatedrnn.load("runs/digits-mingru-0")  # doctest: +SKIP
        >>> run.scores["test"]["accuracy"]  # doctest: +SKIP
        0.9722
    """

    def __init__(self, folder: Path | str) -> None:
        from gatedrnn.training.folder import RunFolder

        self.folder = Path(folder)
        self._files = RunFolder(self.folder)
        if not self._files.config.exists():
            raise DataError(f"{self.folder}: holds no run (no config.yaml)")

    @cached_property
    def settings(self) -> "RunSettings":
        """The settings in config.yaml."""
        return self._files.settings()

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended."""
        return self._files.finished() is not None

    @property
    def result(self) -> "RunResult":
        """The record result.json.

        Raises:
            DataError: the run has not ended.
        """
        result = self._files.finished()
        if result is None:
            raise DataError(f"{self.folder}: has not ended yet; resume() continues it")
        return result

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The scores by split and name; the first of each split is the one that the best weights were chosen by."""
        from gatedrnn.training.model import scores_of

        return scores_of(self.result)

    @property
    def metrics(self) -> "pd.DataFrame":
        """The lines of metrics.jsonl, one for each logged step."""
        import pandas as pd

        from gatedrnn.training.folder import read_metrics

        return pd.DataFrame(read_metrics(self._files.metrics))

    @property
    def standing(self) -> "Standing | None":
        """The run beside plain methods on the same test split; None if they were left out."""
        from gatedrnn.training.result import read_record
        from gatedrnn.training.standing import Standing

        return read_record(self._files.standing, Standing) if self._files.standing.exists() else None

    @property
    def forecasts(self) -> "Forecasts | None":
        """Forecasts of single series, and errors by step and by series; None of a run of another task."""
        from gatedrnn.training.forecasts import Forecasts
        from gatedrnn.training.result import read_record

        return read_record(self._files.forecasts, Forecasts) if self._files.forecasts.exists() else None

    @property
    def samples(self) -> dict[str, str]:
        """Texts that a language model writes by itself, by the temperature of the draws."""
        return cast(dict[str, str], read_json(self._files.samples))

    @property
    def report(self) -> Path:
        """The page report.html, one file that needs no network."""
        return self._files.report

    @cached_property
    def model(self) -> "GatedRNNPreTrainedModel":
        """The trained model, in `eval()`; of a run that has not ended, that of its newest checkpoint."""
        from gatedrnn.training.finished import open_finished

        return open_finished(self.folder).model

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerFast | None":
        """The tokenizer of the model; None for a model that reads numbers."""
        from gatedrnn.training.finished import open_finished

        return open_finished(self.folder).tokenizer

    def resume(
        self, *, epochs: int | None = None, total_steps: int | None = None, wait: bool = False, workers: int = 0,
        baselines: Baselines = "plain", on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None,
    ) -> "Run":  # fmt: skip
        """Continue a run that was stopped, to the same bits as if it never was, and return it at its end.

        Args:
            epochs, total_steps: another length, where the learning rates so far do not depend on it.
            wait, workers, baselines, on_step, on_notes: as in `train`.

        Raises:
            DataError: the run has ended, or its learning rates so far depend on its length.
        """
        length = {"epochs": epochs, "total_steps": total_steps}
        change = {name: value for name, value in length.items() if value is not None}
        settings = self.settings
        if change:
            if os.environ.get("WORLD_SIZE", "1") != "1":
                raise DataError(
                    "--resume with another length is for one process; torchrun can go on with it afterwards"
                )
            from gatedrnn.training.loop import with_length

            settings = with_length(self.folder, change)
        return _run(settings, self.folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes)

    def finish(
        self, *, wait: bool = False, workers: int = 0, baselines: Baselines = "plain",
        on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None,
    ) -> "Run":  # fmt: skip
        """End a run that was stopped at its newest checkpoint, with the best weights so far; arguments as in `train`.

        Raises:
            DataError: there is no checkpoint to end with.
        """
        return _run(
            self.settings, self.folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes,
            end=True,
        )  # fmt: skip

    def generate(
        self, prompt: str = "", length: int = 200, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
        no_unk: bool = False, seed: int = 0,
    ) -> str:  # fmt: skip
        """Continue a text; of a language model.

        Args:
            prompt: the beginning of the text; nothing for a new text.
            length: tokens to add.
            temperature: 0 takes the likeliest token each time; the larger, the more surprising.
            top_k: draw from so many of the likeliest tokens; 0 for all.
            top_p: draw from the likeliest tokens that have this probability together.
            no_unk: never write `<unk>`.
            seed: seed of the draws.
        """
        from gatedrnn.training.sample import load_language_model, sample

        model, tokenizer = load_language_model(self.folder)
        return sample(
            model, tokenizer, prompt, length, temperature=temperature, top_k=top_k, top_p=top_p, no_unk=no_unk,
            seed=seed,
        )  # fmt: skip

    def __repr__(self) -> str:
        if not self.is_finished:
            return f"Run({str(self.folder)!r}): not ended"
        parts = [
            f"{split} {name} {value:.4f}" for split, scores in self.scores.items() for name, value in scores.items()
        ]
        return f"Run({str(self.folder)!r}): {', '.join(parts)}"

    def _repr_html_(self) -> str:
        if not self.is_finished:
            return f"<p>{html.escape(repr(self))}</p>"
        columns = list(dict.fromkeys(name for scores in self.scores.values() for name in scores))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *columns))
        rows = "".join(
            f"<tr><th>{html.escape(split)}</th>"
            + "".join(f"<td>{scores[name]:.4f}</td>" if name in scores else "<td></td>" for name in columns)
            + "</tr>"
            for split, scores in self.scores.items()
        )
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{said}"

    def sentences(self) -> list[str]:
        """Return sentences on the run: whether its plain part would do, how it compares with plain methods, what would help."""
        records = self.forecasts, self.standing
        plain = self.result.plain_part
        said = [sentence for record in records if record is not None for sentence in record.sentences()]
        return said if plain is None else [plain.sentence(), *said]


class Forecast(Run):
    """A run that forecasts a table, and what comes after the table's last values."""

    @property
    def table(self) -> "pd.DataFrame":
        """The forecast, named as the table: a row for each series and step, a column for each quantile."""
        import pandas as pd

        return pd.read_csv(self.file)

    @property
    def file(self) -> Path:
        """The file of the table, forecast.csv."""
        return self.folder / FORECAST_FILE

    def plot(self) -> dict[str, "go.Figure"]:
        """Return figures by their titles: forecasts beside the last values, of the test and of the future; errors."""
        from gatedrnn.training.forecast_figures import forecast_figures

        assert self.forecasts is not None
        return forecast_figures(self.forecasts)


def load(folder: Path | str) -> Run:
    """Open the folder of a run.

    Raises:
        DataError: the folder holds no run.
    """
    run = Run(folder)
    return Forecast(folder) if (run.folder / FORECAST_FILE).exists() else run


def train(
    data: Path | str | None = None, *, task: str | None = None, output: Path | str | None = None,
    exist_ok: bool = True, train_minutes: float | None = None, baselines: Baselines = "plain", wait: bool = False,
    workers: int = 0, on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None, **settings: Json,
) -> Run:  # fmt: skip
    """Train one model on a task, score it on the test split, and return the run.

    The same call again continues a run that was stopped, and returns one that has ended.

    Args:
        data: training file; None for the task's own data, or for the files that `settings` name.
        task: name of the task; guessed from the file if None, a language model without one.
        output: folder of the run; runs/TASK-CELL-SEED if None.
        exist_ok: False to refuse a folder that holds a run already.
        train_minutes: minutes that training may take on this machine, measured before it begins.
        baselines: "plain" to fit plain methods to the same data after training, "none" to leave them out.
        wait: wait while another process writes into the folder, instead of an error.
        workers: processes that prepare batches ahead of the step.
        on_step: called with the progress after every step.
        on_notes: called with the notes on the data before training.
        settings: every setting of the task, the model and the training, named as the flags of `gatedrnn train`; the
            task's recipe and the data decide the others.

    Raises:
        UsageError: a setting is unknown, or does not go with another.
        DataError: the data cannot be used.
        FolderTaken: the folder holds another run.

    Example:
        >>> run = gatedrnn.train(task="digits", cell="mingru", epochs=2)  # doctest: +SKIP
        >>> run.scores["test"]["accuracy"]  # doctest: +SKIP
        0.85
    """
    from gatedrnn.data import LANGUAGE, tasks_kept
    from gatedrnn.training.chosen import completed, run_of_recipe

    with tasks_kept():
        if data is not None:
            settings["train_file"] = str(data)
        if task is None and settings.get("train_file") is not None:
            from gatedrnn.data.task_of_file import task_of_file

            task = task_of_file(Path(str(settings["train_file"])))
        chosen = run_of_recipe(task or LANGUAGE, **settings)
        folder = default_folder(chosen) if output is None else Path(output)
        if not exist_ok and (folder / "config.yaml").exists():
            from gatedrnn.locks import sole_writer

            with sole_writer(folder, wait=wait):  # first, so that a run under way is reported as such
                raise DataError(f"{folder}: there is a run already; continue it by --resume, or give another --output")
        chosen = completed(chosen, settings)
        if train_minutes is not None:
            chosen = _within(chosen, train_minutes, settings, on_notes)
        return _run(chosen, folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes)


def forecast(
    data: Path | str | None = None, *, output: Path | str | None = None, train_minutes: float | None = None,
    baselines: Baselines = "plain", on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None,
    **settings: Json,
) -> Forecast:  # fmt: skip
    """Train a model on a table of series, test it on the last part, and forecast what comes after the table.

    The same call again writes the forecast again, and continues a run that was stopped.

    Args:
        data: CSV, TSV, JSON lines or Parquet: long, with a row for each series and time, or wide, with a row for each
            time. None for weekly carbon dioxide above Mauna Loa.
        output: folder of the run; runs/forecast-FILE if None.
        train_minutes, baselines, on_step, on_notes, settings: as in `train`; settings such as `target`, `horizon`,
            `season`, `known`.

    Raises:
        UsageError, DataError, FolderTaken: as in `train`.

    Example:
        >>> future = gatedrnn.forecast("energy.csv", target="OT", horizon=24)  # doctest: +SKIP
        >>> list(future.table.columns)  # doctest: +SKIP
        ['date', 'OT', 'OT_0.1', 'OT_0.9']
    """
    from gatedrnn.data import FORECAST, load_task, tasks_kept
    from gatedrnn.data.settings import ForecastTask
    from gatedrnn.training.chosen import completed, run_of_recipe, with_values
    from gatedrnn.training.folder import RunFolder
    from gatedrnn.training.forecasts import asked_of_data

    with tasks_kept():
        if data is not None:
            settings["train_file"] = str(data)
        chosen = run_of_recipe(FORECAST, **settings)
        folder = (
            Path("runs") / f"forecast-{'co2' if data is None else Path(data).stem}" if output is None else Path(output)
        )
        if on_notes is not None:
            on_notes(load_task(chosen.data).notes)
        asked = asked_of_data(cast(ForecastTask, chosen.data))  # before anything is trained for it
        held = RunFolder(folder)
        if train_minutes is not None and held.config.exists():  # as they were measured for it
            chosen, train_minutes = with_values(chosen, {"total_steps": held.settings().train.total_steps}), None
            settings["total_steps"] = held.settings().train.total_steps
        chosen = completed(chosen, settings)
        if train_minutes is not None:
            chosen = _within(chosen, train_minutes, settings, on_notes)
        _run(chosen, folder, baselines, wait=False, workers=0, on_step=on_step, on_notes=None, asked=asked)
    return Forecast(folder)


def default_folder(settings: "RunSettings") -> Path:
    """Return the folder of a run without an `output`."""
    return Path("runs") / f"{settings.data.task}-{settings.cell.replace(':', '-')}-{settings.seed}"


def _within(
    settings: "RunSettings", minutes: float, given: Collection[str], on_notes: "OnNotes | None"
) -> "RunSettings":
    """Return the settings with as many steps as the minutes allow on this machine."""
    from gatedrnn.training.budget import within

    if both := next((name for name in ("epochs", "total_steps") if name in given), None):
        raise UsageError(f"--train-minutes and --{both.replace('_', '-')} both say how long; give one")
    budgeted = within(settings, minutes)
    if on_notes is not None:
        on_notes([budgeted.said])
    return budgeted.settings


def _run(
    settings: "RunSettings", folder: Path, baselines: Baselines, *, wait: bool, workers: int,
    on_step: "OnStep | None", on_notes: "OnNotes | None", end: bool = False, asked: "Asked | None" = None,
) -> Run:  # fmt: skip
    from gatedrnn.training.loop import run

    run(settings, folder, on_step, wait=wait, workers=workers, on_notes=on_notes, end=end)
    if os.environ.get("RANK", "0") == "0":  # the first process of torchrun writes for all
        _complete(folder, settings.data.task, baselines, asked)
    return Run(folder)


def _complete(folder: Path, task: str, baselines: Baselines, asked: "Asked | None") -> None:
    """Write what a finished run's page shows (samples, forecasts, hardest examples, plain methods), and the page; and
    what is asked of the future."""
    from gatedrnn.data import FORECAST, LANGUAGE
    from gatedrnn.locks import sole_writer
    from gatedrnn.training.report import write_report

    with sole_writer(folder, wait=True):
        if task == LANGUAGE:
            from gatedrnn.training.sample import write_samples

            write_samples(folder)
        elif task == FORECAST:
            from gatedrnn.training.finished import open_finished
            from gatedrnn.training.forecasts import write_forecast, write_forecasts

            write_forecasts(folder)
            if asked is not None:
                model = cast("GatedRNNForForecasting", open_finished(folder).model)
                write_forecast(model, asked, folder / FORECAST_FILE)
        else:
            from gatedrnn.training.hardest import write_hardest

            write_hardest(folder)
        if baselines != "none":
            from gatedrnn.study.standing import write_standing

            write_standing(folder)
        write_report(folder)
