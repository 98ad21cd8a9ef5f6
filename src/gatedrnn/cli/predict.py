"""gatedrnn predict."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gatedrnn.cli.arguments import at_least_one
from gatedrnn.errors import DataError
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
    """
    from gatedrnn.training.finished import labelled_by, open_finished
    from gatedrnn.training.predict import (
        check_output,
        outputs_of,
        prediction_columns,
        read_labelled_rows,
        word_columns,
        write_predictions,
    )
    from gatedrnn.training.resources import use_threads

    check_output(output, file)
    labelled = labelled_by(model)
    if labelled == "next":
        raise DataError(
            f"{model}: is a language model, which predicts tokens and no labels; `gatedrnn evaluate` scores a text, "
            "`gatedrnn generate` writes one"
        )
    use_threads(threads)
    finished = open_finished(model)
    if labelled == "future":
        _forecast(finished.model, file, output)
        return
    rows = read_labelled_rows(finished, file, text_column, (), data_root, labelled=False)
    added = prediction_columns(finished, outputs_of(finished, rows.inputs, rows.gaps))
    if rows.words is not None:
        added = word_columns(added, rows.words)
    write_predictions(output, rows.data, added, str(file))
    console = Console()
    for note in rows.notes:
        console.print(note, markup=False, highlight=False)
    console.print(f"{len(rows.inputs):,} predictions: {output}", soft_wrap=True)


def _forecast(model: Any, file: Path, output: Path) -> None:
    from gatedrnn.pages.words import plural
    from gatedrnn.training.forecasts import asked_of_file, write_forecast

    asked = asked_of_file(model, file)
    write_forecast(model, asked, output)
    steps, what, console = model.config.horizon, plural(len(asked.origins), "series"), Console()
    console.print(asked.table.said, markup=False, highlight=False)
    console.print(f"{steps} steps of {what}: {output}", soft_wrap=True, highlight=False)
