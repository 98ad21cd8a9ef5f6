"""Studies from Python: `compare` and `probe` run what is not finished yet, and give a `Study`."""

import html
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gatedrnn.errors import UsageError
from gatedrnn.progress import display_of
from gatedrnn.records import Setting
from gatedrnn.runs import Run, called_from_python, placed, refused_from_python

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from gatedrnn.data.frames import Data
    from gatedrnn.executors import OnProgress
    from gatedrnn.runs import OnNotes
    from gatedrnn.study.joined import Joined
    from gatedrnn.study.report import Report
    from gatedrnn.study.results import ComparisonResults, ProbeResults


class Study:
    """A finished comparison or suite of probes, in its folder.

    Args:
        folder: where `compare` or `probe` wrote it; or that of `gatedrnn compare`, `gatedrnn probe`.

    Raises:
        Damaged: it holds no finished study.

    Example:
        >>> small = {"seeds": [0], "match": ["layers"], "total_steps": 20, "progress": False}
        >>> study = gatedrnn.compare(task="digits", cells=["gru", "mingru"], **small)
        >>> len(study.verdict) > 0
        True
    """

    def __init__(self, folder: Path | str) -> None:
        from gatedrnn.study.report import read_comparison
        from gatedrnn.study.results import ProbeResults
        from gatedrnn.training.result import read_record

        self.folder = Path(folder)
        file = self.folder / ProbeResults.FILE
        self.results: ComparisonResults | ProbeResults = (
            read_record(file, ProbeResults) if file.exists() else read_comparison(self.folder)
        )
        """The whole record, results.json or probes.json."""

    @property
    def verdict(self) -> list[str]:
        """Sentences on what to take, what may be as good, what is worse, and what would tell more."""
        from gatedrnn.study import probe_summary, verdict
        from gatedrnn.study.results import ProbeResults

        if isinstance(self.results, ProbeResults):
            return probe_summary.sentences(self.results)
        return verdict.headline(self.results)

    @property
    def scores(self) -> "pd.DataFrame":
        """A row for each contender and plain method, the best on test first: scores of each split in the mean over
        seeds with their 95 % intervals, seconds of training, recurrent parameters. Of probes, accuracies by task, cell,
        seed and length."""
        import pandas as pd

        from gatedrnn.study.results import ProbeResults

        if isinstance(self.results, ProbeResults):
            return pd.DataFrame(
                {"task": task, "cell": cell, "seed": seed, "length": length, "accuracy": accuracy}
                for task, answers in self.results.tasks.items()
                for cell, of_cell in answers.cells.items()
                for seed, by_length in of_cell.accuracy.items()
                for length, accuracy in by_length.items()
            )
        rows = []
        for row in self.results.ranked():
            named: dict[str, Any] = {"method": row.name}
            for split, estimate in sorted(row.scores.items(), key=lambda item: (item[0] != "test", item[0])):
                named |= {split: estimate.mean, f"{split}_low": estimate.low, f"{split}_high": estimate.high}
            core = getattr(row.parameters, "core", row.parameters)
            rows.append(named | {"seconds": self.results.seconds(row.name), "parameters": core})
        return pd.DataFrame(rows).astype({"parameters": "Int64"})  # of which some methods have none

    @property
    def pairs(self) -> "pd.DataFrame":
        """A row for each pair of methods: the difference on test with its interval, and the verdict on the first.

        "better", "equivalent" and "worse" are the shares of the difference's distribution above, within and below the
        margin; a difference of perplexities is relative.

        Raises:
            UsageError: these are probes.
        """
        import pandas as pd

        fields = ("contender", "other", "verdict", "better", "equivalent", "worse")
        return pd.DataFrame(
            {name: getattr(pair, name) for name in fields}
            | {"difference": pair.difference.mean, "low": pair.difference.low, "high": pair.difference.high}
            for pair in self.comparison.pairs
        )

    @property
    def best(self) -> str:
        """The contender with the best mean validation score: the one to choose, since no test was asked for it.

        Raises:
            UsageError: these are probes.
        """
        return self.comparison.best_on_validation().name

    def run(self, contender: str | None = None, seed: int | None = None) -> Run:
        """Open the run of a contender; of the best one and its first seed if None.

        Raises:
            UsageError: these are probes, or there is no such contender.
            DataError: there is no such run.
        """
        from gatedrnn.errors import unknown
        from gatedrnn.study.results import run_name

        name, rows = contender or self.best, {row.name: row for row in self.comparison.contenders}
        if name not in rows:
            raise UsageError(unknown("contender", name, rows))
        return Run(self.folder / run_name(name, rows[name].runs[0].seed if seed is None else seed))

    def plot(self) -> "dict[str, go.Figure]":
        """Return the report's figures by their titles."""
        return self._report.draw()

    def report(self, path: Path | str | None = None) -> Path:
        """Write the page report.html into the study's folder, or into another, and return its file."""
        return self._report.write(self.folder if path is None else Path(path))

    @cached_property
    def _report(self) -> "Report":
        from gatedrnn.study.report import report_of

        return report_of(self.folder)

    @property
    def page(self) -> Path:
        """The file report.html in the study's folder, which needs no network."""
        return self.folder / "report.html"

    @property
    def probes(self) -> "ProbeResults":
        """The record of a suite of probes.

        Raises:
            UsageError: this is a comparison.
        """
        from gatedrnn.study.results import ProbeResults

        if not isinstance(self.results, ProbeResults):
            raise UsageError(f"{self.folder}: holds a comparison, and no probes")
        return self.results

    @property
    def comparison(self) -> "ComparisonResults":
        """The record of a comparison.

        Raises:
            UsageError: these are probes.
        """
        from gatedrnn.study.results import ComparisonResults

        if not isinstance(self.results, ComparisonResults):
            raise UsageError(f"{self.folder}: holds probes, which are not compared in pairs; see scores and verdict")
        return self.results

    def __repr__(self) -> str:
        return f"Study({str(self.folder)!r}): {self.verdict[0]}"

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.verdict)
        return f"<ul>{said}</ul>{self.scores.to_html(index=False, float_format='{:.4f}'.format, na_rep='')}"


def compare(
    data: "Data" = None, *, task: str | None = None, output: Path | str | None = None, on: str = "local",
    jobs: int | None = None, threads: int | None = None, memory: bool = False, margin: float | None = None,
    fresh: bool = False, wait: bool = False, progress: bool | None = None, on_progress: "OnProgress | None" = None,
    on_notes: "OnNotes | None" = None, command: str = "gatedrnn.compare", **settings: Setting,
) -> Study:  # fmt: skip
    """Compare cells on a task, over several seeds, beside plain methods: which one, and at what price?

    Finished runs are not run again: the same call continues an interrupted comparison.

    Args:
        data: as in `gatedrnn.train`.
        task: name of the task; guessed from the data if None, digits without any.
        output: folder of the comparison; one below the machine's temporary files if None.
        on: engine of the runs: local, slurm, ray, with options as in slurm,slurm_partition=long.
        jobs: runs in parallel, each in a process of its own; 1 if None, elsewhere as many as run there. A script that
            asks for more stands below `if __name__ == "__main__":`.
        threads: threads of each run; the machine's cores divided by the jobs if None.
        memory: measure the memory that training each contender takes.
        margin: the largest difference that does not matter.
        fresh: remove the comparison that is in the folder first.
        wait: wait while another process writes into the folder, instead of an error.
        progress: show a bar; if None, in a terminal or notebook alone.
        on_progress, on_notes: called with the progress of each run, and with the notes on the data, in their place.
        command: what the record names as the command.
        settings: named as the flags of `gatedrnn compare`: `cells` (or their classes), `seeds`, `match`, `ladder`,
            `recipes`, `trials`, and every setting of the task, the model and the training; the task's recipe has the
            others.

    Raises:
        UsageError: a setting is unknown, or does not go with another.
        DataError: the data cannot be used.
        FolderTaken: the folder holds another comparison.

    Example:
        >>> small = {"seeds": [0], "match": ["layers"], "total_steps": 20, "progress": False}
        >>> study = gatedrnn.compare(task="digits", cells=["gru", "mingru"], **small)
        >>> study.best in ("gru", "mingru-layers")
        True
    """
    from gatedrnn.data import load_task, tasks_kept
    from gatedrnn.executors import executor_for
    from gatedrnn.processes import threads_for
    from gatedrnn.study.experiment import compare as run_comparison
    from gatedrnn.study.report import write_report
    from gatedrnn.study.suite import comparison_of_flags
    from gatedrnn.training.settings import with_words_of_cells

    shown = progress if on_progress is None else False
    with tasks_kept(), called_from_python() as files, display_of("compare", shown) as display:
        settings = with_words_of_cells(settings)
        folder, named, of_form = placed(data, output, {"task": task, **settings}, files, replace=fresh)
        task = task or of_form or _task_of(named | settings) or "digits"
        threads = threads or (threads_for(jobs or 1) if on == "local" else 1)
        asked = comparison_of_flags({"task": task, **named, **settings}, threads)
        (on_notes or display.show_notes)(load_task(asked.data).notes)
        with executor_for(on, jobs, threads) as executor:
            run_comparison(
                asked, folder, executor=executor, memory=memory, fresh=fresh, wait=wait, margin=margin,
                command=command, on_progress=on_progress or display.show,
            )  # fmt: skip
        write_report(folder)
    return Study(folder)


class Suite(NamedTuple):
    """Several comparisons with one joined report."""

    joined: "Joined"
    """The record of what they show together."""
    page: Path
    studies: list[Study]


def compare_suite(
    file: Path | str, *, output: Path | str | None = None, on: str = "local", jobs: int | None = None,
    threads: int | None = None, memory: bool = False, margin: float | None = None, fresh: bool = False,
    wait: bool = False, progress: bool | None = None, on_progress: "OnProgress | None" = None,
    command: str = "gatedrnn.compare_suite",
) -> Suite:  # fmt: skip
    """Compare the same cells on several tasks, which a file names, and join what the comparisons show.

    Args:
        file: YAML: under tasks the settings of each comparison, beside it those of all.
        output: folder of the suite; runs/NAME-OF-FILE if None.
        on, jobs, threads, memory, margin, fresh, wait, progress, on_progress, command: as in `compare`.

    Raises:
        UsageError: a setting is unknown, or the comparisons do not go together.
    """
    from functools import partial

    from gatedrnn.data import tasks_kept
    from gatedrnn.executors import executor_for
    from gatedrnn.processes import threads_for
    from gatedrnn.study.experiment import compare as run_comparison
    from gatedrnn.study.report import joined_comparisons, report_of_joined
    from gatedrnn.study.suite import read_suite, run_suite

    folder = Path("runs") / Path(file).stem if output is None else Path(output)
    threads = threads or (threads_for(jobs or 1) if on == "local" else 1)
    shown = progress if on_progress is None else False
    with tasks_kept(), called_from_python(), display_of("compare", shown) as display:
        with executor_for(on, jobs, threads) as executor:
            run = partial(
                run_comparison, executor=executor, memory=memory, fresh=fresh, wait=wait, margin=margin,
                command=command, on_progress=on_progress or display.show,
            )  # fmt: skip
            folders = run_suite(read_suite(Path(file), threads), folder, run, fresh=fresh)
        joined = joined_comparisons(folders)
        page = report_of_joined(joined, folders, folder).write(folder)
    return Suite(joined, page, [Study(one) for one in folders])


def probe(
    cells: Sequence[str] = (), *, output: Path | str | None = None, on: str = "local", jobs: int | None = None,
    fresh: bool = False, wait: bool = False, progress: bool | None = None, on_progress: "OnProgress | None" = None,
    command: str = "gatedrnn.probe", **settings: Setting,
) -> Study:  # fmt: skip
    """Test what cells can learn, and up to what length, on small tasks drawn at random.

    Args:
        cells: names of cells; those of `gatedrnn probe` if none is given.
        output: folder of the suite; one below the machine's temporary files if None.
        on, fresh, wait, progress, on_progress, command: as in `compare`.
        jobs: runs in parallel; 1 if None, elsewhere as many as run there.
        settings: `tasks`, `seeds`, `lengths`, as the flags of `gatedrnn probe`.

    Raises:
        UsageError: a setting is unknown.
        FolderTaken: the folder holds another suite.

    Example:
        >>> study = gatedrnn.probe(["mingru"], tasks=["parity"], seeds=[0], lengths=[64], progress=False)
        >>> list(study.scores.columns)
        ['task', 'cell', 'seed', 'length', 'accuracy']
    """
    from gatedrnn.study.settings import PROBE_CELLS, ProbeSettings
    from gatedrnn.training.settings import with_words_of_cells

    # Refused before anything is imported that takes seconds.
    words = with_words_of_cells({"cells": tuple(cells) or PROBE_CELLS, **settings})
    with refused_from_python():
        asked: ProbeSettings = ProbeSettings.model_validate(words)
    from gatedrnn.executors import executor_for
    from gatedrnn.study.probes import probe as run_suite
    from gatedrnn.study.report import write_report

    folder, _, _ = placed(None, output, asked.model_dump(mode="json"), [])
    shown = progress if on_progress is None else False
    with called_from_python(), display_of("probe", shown) as display, executor_for(on, jobs) as executor:
        run_suite(
            asked, folder, executor=executor, fresh=fresh, wait=wait, command=command,
            on_progress=on_progress or display.show,
        )  # fmt: skip
        write_report(folder)
    return Study(folder)


def _task_of(settings: Mapping[str, Setting]) -> str | None:
    """The task of the file that is named, if one is."""
    if settings.get("train_file") is None:
        return None
    from gatedrnn.tables.options import recorded_dialect
    from gatedrnn.tasks.claims import task_of_file

    return task_of_file(Path(str(settings["train_file"])), recorded_dialect(settings))
