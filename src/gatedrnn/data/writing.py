"""Tables as files, with columns beside their own; each file is whole or as it was."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from gatedrnn.data.rows import RawTable
from gatedrnn.errors import DataError
from gatedrnn.records import Json

OUTPUTS = (".csv", ".tsv", ".jsonl", ".parquet")


def check_output(output: Path, file: Path) -> None:
    """Check that predictions can be written there, before there are any.

    Raises:
        DataError: the ending is of no kind of file that is written, or it is the file that is read.
    """
    if output.suffix.lower() not in OUTPUTS:
        raise DataError(f"--output {output}: must end in one of {', '.join(OUTPUTS)}, got {output.suffix or 'none'!r}")
    if output.resolve() == file.resolve():
        raise DataError(f"--output {output}: is the file that is read; give another")
    if not output.parent.is_dir():
        raise DataError(f"--output {output}: there is no folder {output.parent}")


def write_predictions(output: Path, data: RawTable, added: dict[str, list[Json]], place: str) -> None:
    """All columns of `data`, then those that are added, row by row; the file is whole or as it was.

    Raises:
        DataError: the data have a column of an added name already.
    """
    taken = [name for name in added if name in data.column_names]
    if taken:
        raise DataError(f"{place}: has a column {taken[0]!r} already, which would be overwritten; rename it first")
    temporary = output.with_name(f"{output.name}.writing")
    ending = output.suffix.lower()
    if ending == ".parquet":
        pq.write_table(pa.table({**data.columns, **added}), temporary)
    else:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            if ending == ".jsonl":
                for row in _joined(data, added):
                    file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            else:
                rows = ([_field(value) for value in row.values()] for row in _joined(data, added))
                _write_separated(file, ending, [[*data.column_names, *added], *rows], output)
    os.replace(temporary, output)


def _write_separated(file: TextIO, ending: str, rows: list[list[Any]], output: Path) -> None:
    """CSV, or TSV without quotation marks, as it is read.

    Raises:
        DataError: a field of a TSV would hold a tab or a line break.
    """
    if ending == ".csv":
        csv.writer(file, lineterminator="\n").writerows(rows)
        return
    try:
        csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n").writerows(rows)
    except csv.Error as error:
        raise DataError(
            f"--output {output}: a field holds a tab or a line break, which no .tsv can; give a .csv, .jsonl or "
            ".parquet"
        ) from error


def _joined(data: RawTable, added: dict[str, list[Json]]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(data.rows()):
        yield row | {name: values[number] for name, values in added.items()}


def _field(value: Any) -> Any:
    """A value of a CSV file: lists and records as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value
