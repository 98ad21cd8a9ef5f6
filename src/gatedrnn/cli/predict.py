"""gatedrnn predict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gatedrnn.cli.arguments import at_least_one
from gatedrnn.runs import Run
from gatedrnn.terminal import Console


def predict(
    model: Path,
    file: Path,
    /,
    *,
    output: Path,
    text_column: str | None = None,
    data_root: Path | None = None,
    threads: Annotated[int | None, Parameter(validator=at_least_one)] = None,
    baseline: str | None = None,
) -> None:
    """Predict the label of every row of a file, with the probability of each class; or forecast its series.

    The rows are written in their order with all their columns, then `prediction` and a `probability_...` for each
    class; a list with an entry for each step where the model has a label at every step, and for each word where it
    tags words. Where a row has several labels, `prediction` is those that are likelier than not, with | between them.
    Rows need no label. Texts are cut where those of training were, and it is said how many.

    A model of forecasts writes the steps after the last value of each series: columns named as in the file, the median
    under the target's name, and every other quantile with its level after it, as in `y_0.9`, or `y_q0.9` where the
    table has such a name itself. Known covariates of these steps stand in rows without a value.

    Args:
        model: Folder of a finished run of `gatedrnn train`, or of a model that one wrote.
        file: CSV, TSV, JSON lines or Parquet with a column of texts; series, in a file as that of training; for any
            other model, with `input_ids` (token numbers) or `input_values` (a list of numbers for each step). For
            forecasts, a table as that of training.
        output: File to write; the ending decides: .csv, .tsv, .jsonl or .parquet.
        text_column: Column of the file's texts; the one of training, if not given.
        data_root: Folder of the files that a table names; the table's own, if not given.
        threads: Threads of torch; all cores, or OMP_NUM_THREADS, if not given.
        baseline: plain-part: predict with the model's smoothers or linear path, without its network; of forecasts also
            a plain method that the run was compared with, such as AutoETS, fitted to the run's training data.
    """
    console = Console()

    def show(notes: Sequence[str]) -> None:
        for note in notes:
            console.print(note, markup=False, highlight=False)

    rows = Run(model).predict(
        file, output=output, text_column=text_column, data_root=data_root, threads=threads, on_notes=show,
        baseline=baseline,
    )  # fmt: skip
    console.print(f"{len(rows):,} rows: {output}", soft_wrap=True, highlight=False)
