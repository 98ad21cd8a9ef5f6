"""Training runs from Python: `train` begins a run or continues it, `load` opens one, and each gives a `Run`."""

import hashlib
import html
import json
import os
import random
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, overload

from gatedrnn.errors import DataError, Error, Interrupted, UsageError, in_one_line, in_python, reason, unknown
from gatedrnn.progress import display_of
from gatedrnn.records import Json, Setting, environment, read_json

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pydantic import ValidationError
    from transformers import PreTrainedTokenizerFast

    from gatedrnn.data.frames import Data, Frame
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.models.opening import Finished
    from gatedrnn.tasks.forecast.forecasts import Forecasts
    from gatedrnn.training.callbacks import Callbacks
    from gatedrnn.training.loop import OnStep
    from gatedrnn.training.result import RunResult, Standing
    from gatedrnn.training.sample import OnText
    from gatedrnn.training.score import Scored
    from gatedrnn.training.settings import RunSettings
    from gatedrnn.training.task import Shown

Baselines: TypeAlias = Literal["plain", "none"]
"""Whether plain methods are fitted beside a run."""
OnNotes: TypeAlias = Callable[[Sequence[str]], None]
_FORECAST_FILE = "forecast.csv"
_EXPORTS = ("onnx",)
"""The formats of `Run.export`."""


class Run:
    """A training run, in its folder: settings, scores, model, predictions.

    Args:
        folder: the folder of a run, finished or stopped; or of a model that one wrote, which has no settings or scores
            of its own.

    Raises:
        DataError: the folder holds no run.

    Example:
        >>> run = gatedrnn.train(task="digits", cell="mingru", total_steps=20, baselines="none", progress=False)
        >>> run.is_finished, sorted(run.scores)
        (True, ['test', 'validation'])
    """

    def __init__(self, folder: Path | str) -> None:
        from gatedrnn.training.folder import RunFolder

        self.folder = Path(folder)
        self._files = RunFolder(self.folder)
        self._opened: tuple[tuple[object, ...], Finished] | None = None
        if not self._files.config.exists() and not (self.folder / "config.json").exists():
            raise DataError(f"{self.folder}: holds no run (no config.yaml) and no model (no config.json)")

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
        from gatedrnn.training.result import Standing, read_record

        return read_record(self._files.standing, Standing) if self._files.standing.exists() else None

    @property
    def forecasts(self) -> "Forecasts | None":
        """Forecasts of single series, and errors by step and by series; None of a run of another task."""
        return cast("Forecasts | None", self._shown.record)

    @property
    def _shown(self) -> "Shown":
        """The part of the page that the run's task has."""
        from gatedrnn.training.task import Shown, task_named

        if not self._files.config.exists():  # a model alone, which has no page
            return Shown()
        return task_named(self.settings.data.task).ending().shown(self.folder)

    @property
    def samples(self) -> dict[str, str]:
        """Texts that a language model writes by itself, by the temperature of the draws."""
        return cast(dict[str, str], read_json(self._files.samples))

    @property
    def report(self) -> Path:
        """The page report.html, one file that needs no network."""
        return self._files.report

    @property
    def model(self) -> "GatedRNNPreTrainedModel":
        """The trained model, in `eval()`; of a run that has not ended, that of its newest checkpoint.

        It is opened and its files are checked once; again only where a file of it has changed since.
        """
        return self._open().model

    @property
    def tokenizer(self) -> "PreTrainedTokenizerFast | None":
        """The tokenizer of the model; None for a model that reads numbers."""
        return self._open().tokenizer

    def _open(self) -> "Finished":
        from gatedrnn.training.finished import open_finished, state_of

        state = state_of(self.folder)
        if self._opened is None or self._opened[0] != state:
            self._opened = state, open_finished(self.folder)
        return self._opened[1]

    def resume(
        self, *, epochs: int | None = None, total_steps: int | None = None, wait: bool = False, workers: int = 0,
        baselines: Baselines = "plain", log: Sequence[str] = (), callbacks: "Callbacks" = (),
        progress: bool | None = None, on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None,
    ) -> "Run":  # fmt: skip
        """Continue a run that was stopped, to the same bits as if it never was, and return it at its end.

        Args:
            epochs, total_steps: another length, where the learning rates so far do not depend on it.
            wait, workers, baselines, log, callbacks, progress, on_step, on_notes: as in `train`.

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
        return _run(
            settings, self.folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes, log=log,
            callbacks=callbacks, progress=progress,
        )  # fmt: skip

    def finish(
        self, *, wait: bool = False, workers: int = 0, baselines: Baselines = "plain", log: Sequence[str] = (),
        callbacks: "Callbacks" = (), progress: bool | None = None, on_step: "OnStep | None" = None,
        on_notes: "OnNotes | None" = None,
    ) -> "Run":  # fmt: skip
        """End a run that was stopped at its newest checkpoint, with the best weights so far; arguments as in `train`.

        Raises:
            DataError: there is no checkpoint to end with.
        """
        return _run(
            self.settings, self.folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes,
            end=True, log=log, callbacks=callbacks, progress=progress,
        )  # fmt: skip

    @overload
    def generate(
        self, prompt: str = "", length: int = 200, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
        no_unk: bool = False, seed: int = 0, stop: str | Iterable[str] = (), samples: None = None,
        on_text: "OnText | None" = None,
    ) -> str: ...  # fmt: skip
    @overload
    def generate(
        self, prompt: str = "", length: int = 200, *, samples: int, temperature: float = 0.8, top_k: int = 0,
        top_p: float = 1.0, no_unk: bool = False, seed: int = 0, stop: str | Iterable[str] = (),
    ) -> list[str]: ...  # fmt: skip
    @overload
    def generate(
        self, prompt: list[str], length: int = 200, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 1.0,
        no_unk: bool = False, seed: int = 0, stop: str | Iterable[str] = (), samples: None = None,
    ) -> list[str]: ...  # fmt: skip
    @overload
    def generate(
        self, prompt: list[str], length: int = 200, *, samples: int, temperature: float = 0.8, top_k: int = 0,
        top_p: float = 1.0, no_unk: bool = False, seed: int = 0, stop: str | Iterable[str] = (),
    ) -> list[list[str]]: ...  # fmt: skip
    def generate(
        self, prompt: str | list[str] = "", length: int = 200, *, temperature: float = 0.8, top_k: int = 0,
        top_p: float = 1.0, no_unk: bool = False, seed: int = 0, stop: str | Iterable[str] = (),
        samples: int | None = None, on_text: "OnText | None" = None,
    ) -> str | list[str] | list[list[str]]:  # fmt: skip
        """Continue a text, or several; of a language model.

        Each text is drawn by itself with the same seed, so that it does not depend on the others; the model stays open
        between calls.

        Args:
            prompt: the beginning of the text; nothing for a new text. A list of prompts gives a list of texts.
            length: tokens to add at most.
            temperature: 0 takes the likeliest token each time; the larger, the more surprising.
            top_k: draw from so many of the likeliest tokens; 0 for all.
            top_p: draw from the likeliest tokens that have this probability together.
            no_unk: never write `<unk>`.
            seed: seed of the draws.
            stop: a text or several; the continuation ends before the first of them, which is left out.
            samples: texts for each prompt, as a list, with the seeds `seed`, `seed + 1`, …; one text, and no list, if
                None.
            on_text: called with each new piece of the text as it is drawn, the prompt first; the pieces join to the
                text. For one text.

        Raises:
            DataError: the model is no language model.
            TypeError, UsageError: an argument is of another type, or out of range.

        Example:
            >>> run.generate(["The ", "A "], 50, stop="\\n")  # doctest: +SKIP
            ['The end of the line', 'A word']
            >>> run.generate("The ", on_text=lambda piece: print(piece, end=""))  # doctest: +SKIP
        """
        from gatedrnn.training.sample import as_language_model, samples_of

        return samples_of(
            *as_language_model(self._open(), self.folder), prompt, length, temperature=temperature, top_k=top_k,
            top_p=top_p, no_unk=no_unk, seed=seed, stop=stop, samples=samples, on_text=on_text,
        )  # fmt: skip

    def predict(
        self, data: "Data", *, output: Path | str | None = None, text_column: str | None = None,
        data_root: Path | None = None, threads: int | None = None, on_notes: "OnNotes | None" = None,
        baseline: str | None = None,
    ) -> "Frame":  # fmt: skip
        """Predict the label of every row, with the probability of each class; or forecast what comes after a table.

        `model` predicts, which stays open from call to call.

        Args:
            data: as in `train`, without labels: a file, a frame, texts, or series.
            output: a file to write the same into; its ending decides: .csv, .tsv, .jsonl or .parquet.
            text_column: column of texts; the one of training if None.
            data_root: folder of the files that a table names; the table's own if None.
            threads: threads of torch; all cores if None.
            on_notes: called with what is to be known of the rows.
            baseline: "plain-part" for the smoothers or the linear path of the model without its network; of forecasts
                also a plain method that `standing` names, fitted to the run's training data.

        Returns:
            A frame of the library that the data were a frame of, else of pandas: the columns of the data with
            `prediction` and `probability_...`, or the steps of a forecast. Labels have the type of those of training:
            1, True or 1.0, and not "1"; names and times have that of the data.

        Raises:
            DataError: the model is a language model, or the data cannot be read or do not fit it.
        """
        from gatedrnn.data.frames import check_output, frame_of, new_data, write_predictions
        from gatedrnn.processes import use_threads
        from gatedrnn.tables.files import place_of
        from gatedrnn.training.answering import answering
        from gatedrnn.training.task import Asked

        target = None if output is None else Path(output)
        with called_from_python():
            new = new_data(data)
            if target is not None:
                check_output(target, place_of(new.source))
            use_threads(threads)
            # A baseline's model answers otherwise: the one that stays open is left as it is.
            answers = answering(self.folder, self._open() if baseline is None else None)
            predicted = answers.predict(new, Asked(text_column, data_root=data_root), baseline)
            table, added, notes, types = predicted
            if target is not None:
                write_predictions(target, table, added, place_of(new.source), types)
        if on_notes is not None:
            on_notes(notes)
        return frame_of({**table.lists(), **added}, types, new.backend)

    def evaluate(
        self, data: "Data" = None, *, split: str = "test", text_column: str | None = None,
        label_column: Sequence[str] = (), data_root: Path | None = None, threads: int | None = None,
    ) -> "Scored":  # fmt: skip
        """Score the model on labelled data, or on a split of its own.

        Args:
            data: as in `train`, with labels; a text for a language model; None for the split. Forecasts are scored on a
                split alone.
            split: test, validation or train, or another that the run was tested on.
            text_column, label_column: columns of the data; those of training if not given.
            data_root: folder of the files that a table names; the table's own if None.
            threads: threads of torch; all cores if None.

        Returns:
            A record: `scores` by name, those of each class, and the confusion.

        Raises:
            DataError: there is no such split, the data have changed since the run, or do not fit the model.
            UsageError: an argument is not for models of this kind.
        """
        from gatedrnn.data.frames import new_data
        from gatedrnn.processes import use_threads
        from gatedrnn.training.answering import answering
        from gatedrnn.training.task import Asked

        with called_from_python():
            use_threads(threads)
            new = None if data is None else new_data(data)
            return answering(self.folder).score(split, new, Asked(text_column, tuple(label_column), data_root))

    def export(self, output: Path | str | None = None, *, to: Literal["onnx"] = "onnx") -> dict[Path, float]:
        """Write the model for programs without Python, and run what was written beside it.

        Args:
            output: folder for the files; FOLDER/onnx if None.
            to: the format.

        Returns:
            The files, and by how much each differs from the model.

        Raises:
            UsageError: there is no such format.
            ExportWrong: one differs by more than rounding.
        """
        from gatedrnn.export.formats import export_model

        if to not in _EXPORTS:
            raise UsageError(unknown("format", to, _EXPORTS))
        folder = self.folder / to if output is None else Path(output)
        return {folder / name: difference for name, difference in export_model(self.model, folder).items()}

    def push_to_hub(self, name: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the model's folder, with its card, to the Hugging Face hub, and return the address.

        Args:
            name: such as "me/digits-mingru"; it is made if it is not there.
            private: whether others may not see it, where it is made; the hub's default if None.
            token: of the hub; the one that is logged in if None.

        Raises:
            DataError: the run has not ended, or the hub cannot be reached or refuses.
        """
        from huggingface_hub import HfApi

        from gatedrnn.training.finished import model_place

        folder = model_place(self.folder)
        try:
            hub = HfApi(token=token)
            place = hub.create_repo(name, private=private, exist_ok=True)
            hub.upload_folder(repo_id=place.repo_id, folder_path=folder, commit_message="Upload with gatedrnn")
        except Exception as error:  # no network, no such user, a token that may not write: all end in the same advice
            raise DataError(f"{name}: could not be uploaded to the hub: {reason(error)}") from error
        return str(place)

    def view(self, html: Path | str | None = None, *, untrained: bool = False) -> Path:
        """Write a page that shows what the gates of the model do, step by step, and return its file.

        The page runs the model in the browser, needs no network and no server.

        Args:
            html: the file; FOLDER/view.html if None.
            untrained: show the model beside itself before its training, with the same seed and initialisation.

        Raises:
            DataError: there is no model, or one that the page cannot show.
        """
        from gatedrnn.records import write_whole
        from gatedrnn.view.page import page_of

        file = self.folder / "view.html" if html is None else Path(html)
        write_whole(file, page_of([self.folder], untrained))
        return file

    def __repr__(self) -> str:
        if not self._files.config.exists():
            return f"Run({str(self.folder)!r}): a model"
        if not self.is_finished:
            return f"Run({str(self.folder)!r}): not ended"
        parts = [
            f"{split} {name} {value:.4f}" for split, scores in self.scores.items() for name, value in scores.items()
        ]
        return f"Run({str(self.folder)!r}): {', '.join(parts)}"

    def _repr_html_(self) -> str:
        if not self._files.config.exists() or not self.is_finished:
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
        """Return sentences: whether its plain part would do, how it compares with plain methods, what would help."""
        shown, standing, plain = self._shown, self.standing, self.result.plain_part
        said = [*shown.sentences, *([] if standing is None else standing.sentences())]
        return [*shown.first, *([] if plain is None else [plain.sentence()]), *said]


class Forecast(Run):
    """A run that forecasts a table, and what comes after the table's last values.

    Args:
        folder: as of `Run`.
        backend: the library of `table`'s frames: "pandas", "polars" or "pyarrow".

    Example:
        >>> import pandas
        >>> times = pandas.date_range("2024-01-01", periods=300, freq="h")
        >>> table = pandas.DataFrame({"date": times, "load": [10.0 + i % 24 for i in range(300)]})
        >>> small = {"total_steps": 20, "baselines": "none", "progress": False}
        >>> future = gatedrnn.forecast(table, target="load", horizon=24, **small)
        >>> future.file.name, isinstance(gatedrnn.load(future.folder), gatedrnn.Forecast)
        ('forecast.csv', True)
    """

    def __init__(self, folder: Path | str, backend: str = "pandas") -> None:
        super().__init__(folder)
        self.backend = backend

    @property
    def table(self) -> "Frame":
        """The forecast, named as the table: a row for each series and step, a column for each quantile; a frame of the
        library that the table was a frame of, with the types that its times and names of series had."""
        from gatedrnn.training.answering import answering

        return answering(self.folder, self._open()).read(self.file, self.backend)

    @property
    def file(self) -> Path:
        """The file of the table, forecast.csv."""
        return self.folder / _FORECAST_FILE

    def plot(self) -> dict[str, "go.Figure"]:
        """Return figures by their titles: forecasts beside the last values, of the test and of the future; errors."""
        return dict(self._shown.figures)


def load(folder: Path | str) -> Run:
    """Open the folder of a run.

    Raises:
        DataError: the folder holds no run.

    Example:
        >>> run = gatedrnn.train(task="digits", cell="mingru", total_steps=20, baselines="none", progress=False)
        >>> gatedrnn.load(run.folder).scores == run.scores
        True
    """
    run = Run(folder)
    return Forecast(folder) if (run.folder / _FORECAST_FILE).exists() else run


def train(
    data: "Data" = None, *, task: str | None = None, output: Path | str | None = None, exist_ok: bool = True,
    train_minutes: float | None = None, baselines: Baselines = "plain", wait: bool = False, workers: int = 0,
    log: Sequence[str] = (), callbacks: "Callbacks" = (), progress: bool | None = None,
    on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None, **settings: Setting,
) -> Run:  # fmt: skip
    """Train one model on a task, score it on the test split, and return the run.

    The same call again continues a run that was stopped, and returns one that has ended. What is in memory is written
    into the run's folder first, so that the folder is all that the run needs.

    Args:
        data: a file, a frame of pandas, polars or pyarrow, a Hugging Face data set, (series, labels), (texts, labels),
            or a list of texts; None for the task's own data, or for the files that `settings` name.
        task: name of the task; guessed from the data if None, a language model without any.
        output: folder of the run; one below the machine's temporary files if None, which the run's `folder` tells.
        exist_ok: False to refuse a folder that holds a run already.
        train_minutes: minutes that training may take on this machine, measured before it begins.
        baselines: "plain" to fit plain methods to the same data after training, "none" to leave them out.
        wait: wait while another process writes into the folder, instead of an error.
        workers: processes that prepare batches ahead of the step.
        log: trackers that losses and scores are logged with: "tensorboard", "wandb", "mlflow", "trackio".
        callbacks: objects with some of the methods of `gatedrnn.training.callbacks.Callback`: they are told of each
            step, each validation and the end, and may end the run.
        progress: show a bar; if None, in a terminal or notebook alone.
        on_step: called with the progress after every step, in the place of a bar.
        on_notes: called with the notes on the data before training, in the place of lines.
        settings: every setting of the task, the model and the training, named as the flags of `gatedrnn train`, and
            `cell` as a class such as `gatedrnn.MinGRU` too; the task's recipe and the data decide the others.

    Raises:
        UsageError: a setting is unknown, or does not go with another.
        DataError: the data cannot be used.
        FolderTaken: the folder holds another run.
        Interrupted: by Ctrl-C; `load` opens the folder then, and `Run.resume` continues.

    Example:
        >>> run = gatedrnn.train(task="digits", cell="mingru", total_steps=20, baselines="none", progress=False)
        >>> 0 < run.scores["test"]["accuracy"] < 1
        True
    """
    from gatedrnn.data import DEFAULT_TASK, tasks_kept
    from gatedrnn.training.chosen import completed, run_of_recipe
    from gatedrnn.training.settings import with_words_of_cells

    with (
        tasks_kept(),
        called_from_python() as files,
        display_of("train", progress if on_step is None else False) as display,
    ):
        on_step, on_notes = on_step or display.show_one, on_notes or display.show_notes
        settings = with_words_of_cells(settings)
        folder, named, of_form = placed(data, output, {"task": task, **settings}, files)
        given = cast(dict[str, Json], {**named, **settings})
        task = task or of_form
        if task is None and given.get("train_file") is not None:
            from gatedrnn.tables.options import recorded_dialect
            from gatedrnn.tasks.claims import task_of_file

            task = task_of_file(Path(str(given["train_file"])), recorded_dialect(given))
        chosen = run_of_recipe(task or DEFAULT_TASK, **given)
        if not exist_ok and (folder / "config.yaml").exists():
            from gatedrnn.locks import sole_writer

            with sole_writer(folder, wait=wait):  # first, so that a run under way is reported as such
                raise DataError(f"{folder}: there is a run already; continue it by --resume, or give another --output")
        chosen = completed(_in_precision_of(folder, chosen), given)
        if train_minutes is not None:
            chosen = _within(chosen, train_minutes, given, on_notes)
        return _run(
            chosen, folder, baselines, wait=wait, workers=workers, on_step=on_step, on_notes=on_notes, log=log,
            callbacks=callbacks,
        )  # fmt: skip


def forecast(
    data: "Data" = None, *, output: Path | str | None = None, train_minutes: float | None = None,
    baselines: Baselines = "plain", log: Sequence[str] = (), callbacks: "Callbacks" = (),
    progress: bool | None = None, on_step: "OnStep | None" = None, on_notes: "OnNotes | None" = None,
    **settings: Setting,
) -> Forecast:  # fmt: skip
    """Train a model on a table of series, test it on the last part, and forecast what comes after the table.

    The same call again writes the forecast again, and continues a run that was stopped.

    Args:
        data: a file (CSV, TSV, JSON lines, Parquet or a spreadsheet), a frame of pandas, polars or pyarrow, or a
            Hugging Face data set: long, with a row for each series and time, or wide, with a row for each time. None
            for weekly carbon dioxide above Mauna Loa.
        output, train_minutes, baselines, log, callbacks, progress, on_step, on_notes, settings: as in `train`; such as
            `target`, `horizon`, `season`, `known`.

    Raises:
        UsageError, DataError, FolderTaken, Interrupted: as in `train`.

    Example:
        >>> import pandas
        >>> times = pandas.date_range("2024-01-01", periods=300, freq="h")
        >>> table = pandas.DataFrame({"date": times, "load": [10.0 + i % 24 for i in range(300)]})
        >>> small = {"total_steps": 20, "baselines": "none", "progress": False}
        >>> future = gatedrnn.forecast(table, target="load", horizon=24, **small)
        >>> list(future.table.columns), len(future.table)
        (['date', 'load', 'load_0.1', 'load_0.9'], 24)
    """
    from gatedrnn.data import FORECAST, load_task, tasks_kept
    from gatedrnn.data.frames import library_of
    from gatedrnn.training.chosen import completed, run_of_recipe, with_values
    from gatedrnn.training.folder import RunFolder
    from gatedrnn.training.settings import with_words_of_cells
    from gatedrnn.training.task import task_named

    with (
        tasks_kept(),
        called_from_python() as files,
        display_of("forecast", progress if on_step is None else False) as display,
    ):
        on_step, on_notes = on_step or display.show_one, on_notes or display.show_notes
        settings = with_words_of_cells(settings)
        folder, named, _ = placed(data, output, {"task": FORECAST, **settings}, files)
        given = cast(dict[str, Json], {**named, **settings})
        chosen = run_of_recipe(FORECAST, **given)
        data_of_run = load_task(chosen.data)
        on_notes(data_of_run.notes)
        if (why := task_named(FORECAST).ending().why_unwritten(data_of_run)) is not None:
            raise DataError(why)  # before anything is trained for it
        held = RunFolder(folder)
        if train_minutes is not None and held.config.exists():  # as they were measured for it
            chosen, train_minutes = with_values(chosen, {"total_steps": held.settings().train.total_steps}), None
            given["total_steps"] = held.settings().train.total_steps
        chosen = completed(_in_precision_of(folder, chosen), given)
        if train_minutes is not None:
            chosen = _within(chosen, train_minutes, given, on_notes)
        _run(
            chosen, folder, baselines, wait=False, workers=0, on_step=on_step, on_notes=None, again=True, log=log,
            callbacks=callbacks,
        )  # fmt: skip
    return Forecast(folder, library_of(data))


def _in_precision_of(folder: Path, settings: "RunSettings") -> "RunSettings":
    """Settings that leave the precision to a measurement, as it came out for the run that is in the folder already."""
    from gatedrnn.training.folder import RunFolder
    from gatedrnn.training.precision import in_precision

    held = RunFolder(folder)
    if settings.train.precision != "auto" or not held.config.exists():
        return settings
    return in_precision(settings, held.settings().train.precision)


def default_folder(task: str, cell: str, seed: int) -> Path:
    """Return the folder of a run of the command line without an `output`."""
    from gatedrnn.training.recipes import with_options
    from gatedrnn.trust import canonical_name

    name = f"{canonical_name(task)}-{with_options(task, cell).replace(':', '-')}-{seed}"
    return Path("runs") / name


def placed(
    data: "Data", output: Path | str | None, settings: Mapping[str, object], files: list[object], *,
    replace: bool = False,
) -> tuple[Path, dict[str, Json], str | None]:  # fmt: skip
    """Put a caller's data where the tasks' readers find them.

    Args:
        data: as in `train`.
        output: the folder of what is made of them; None for one below the machine's temporary files, named by what is
            asked, so that the same call finds it again.
        settings: all that is asked.
        files: those that are written are put into it.
        replace: whether other data in the folder may go.

    Returns:
        The folder, the settings that name the data, and the task that their form is for, if it is for one.
    """
    from gatedrnn.data.frames import in_memory

    held = in_memory(data)
    folder = _temporary(data if held is None else held.digest(), settings) if output is None else Path(output)
    if held is not None:
        named = held.write(folder, replace=replace)
        files += (value for name, value in named.items() if name.endswith("_file"))
        return folder, named, held.task
    return folder, {} if data is None else {"train_file": str(data)}, None


def _temporary(data: object, settings: Mapping[str, object]) -> Path:
    """A folder of this user's alone."""
    machine = environment()["environment"]
    asked = json.dumps([machine, str(data), os.getcwd(), settings], default=str, sort_keys=True)
    root = Path(tempfile.gettempdir()) / f"gatedrnn-{getattr(os, 'getuid', lambda: 'runs')()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
        raise DataError(f"{root}: belongs to another user; give an output")
    return root / hashlib.sha256(asked.encode()).hexdigest()[:12]


@contextmanager
def called_from_python(names: Mapping[str, str] | None = None) -> Iterator[list[object]]:
    """The boundary of what a caller of Python begins: its random numbers and its number of threads are given back,
    whatever runs within draw and set; settings are refused in one sentence, and errors name Python's parameters. Files
    that are put into the list are not named in errors: a caller's data are in them.

    Args:
        names: parameters of the caller that are called otherwise than the settings.

    Raises:
        UsageError: a setting is unknown or out of range.
    """
    import numpy as np
    import torch

    from gatedrnn.data.frames import called_the_data

    files: list[object] = []
    threads, python, legacy = torch.get_num_threads(), random.getstate(), np.random.get_state()
    with torch.random.fork_rng(), refused_from_python(names), called_the_data(files):
        try:
            yield files
        finally:
            torch.set_num_threads(threads)
            random.setstate(python)
            np.random.set_state(legacy)


@contextmanager
def refused_from_python(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """The part of `called_from_python` that words errors, which imports nothing that takes seconds."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        raise in_python(UsageError(_refused(error)), names) from error
    except Error as error:
        in_python(error, names)
        raise


def _refused(error: "ValidationError") -> str:
    """A sentence on settings that are refused; of an unknown one with the nearest that exists."""
    from gatedrnn.training.settings import REMOVED, setting_names

    for fault in error.errors():
        if fault["type"] == "extra_forbidden":
            name = str(fault["loc"][-1])
            return f"{name} {REMOVED[name]}" if name in REMOVED else unknown("setting", name, setting_names())
    return in_one_line(error)


def _within(settings: "RunSettings", minutes: float, given: Collection[str], on_notes: "OnNotes") -> "RunSettings":
    """Return the settings with as many steps as the minutes allow on this machine."""
    from gatedrnn.training.budget import within

    if both := next((name for name in ("epochs", "total_steps") if name in given), None):
        raise UsageError(f"--train-minutes and --{both.replace('_', '-')} both say how long; give one")
    budgeted = within(settings, minutes)
    on_notes([budgeted.said])
    return budgeted.settings


def _run(
    settings: "RunSettings", folder: Path, baselines: Baselines, *, wait: bool, workers: int,
    on_step: "OnStep | None", on_notes: "OnNotes | None", end: bool = False, again: bool = False,
    log: Sequence[str] = (), callbacks: "Callbacks" = (), progress: bool | None = None,
) -> Run:  # fmt: skip
    from gatedrnn.training.loop import run

    with (
        _noting(folder, "" if again else "finish" if end else "resume"), called_from_python(),
        display_of(folder.name, progress if on_step is None else False) as display,
    ):  # fmt: skip
        run(
            settings, folder, on_step or display.show_one, wait=wait, workers=workers, on_notes=on_notes, end=end,
            log=log, callbacks=callbacks,
        )  # fmt: skip
        if os.environ.get("RANK", "0") == "0":  # the first process of torchrun writes for all
            _complete(folder, settings.data.task, baselines)
    return Run(folder)


@contextmanager
def _noting(folder: Path, method: str) -> Iterator[None]:
    """Let the traceback of what a signal interrupts end with how the run goes on; by the same call without a method."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        call = f"gatedrnn.load({str(folder)!r}).{method}()" if method else "the same call"
        error.add_note(f"To go on: {call}")
        raise


def _complete(folder: Path, task: str, baselines: Baselines) -> None:
    """Write what a finished run's page shows (that of its task, and plain methods), and the page."""
    from gatedrnn.locks import sole_writer
    from gatedrnn.training.report import write_report
    from gatedrnn.training.task import task_named

    with sole_writer(folder, wait=True):
        task_named(task).ending().write(folder)
        if baselines != "none":
            from gatedrnn.study.plain import write_standing

            write_standing(folder)
        write_report(folder)
