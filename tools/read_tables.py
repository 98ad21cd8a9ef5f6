"""How tables are read without a flag: one line a file, with its task and its series, or the question or refusal.

python tools/read_tables.py FILE ...     PYTHONPATH=OTHER/src in front reads with another checkout
"""

import logging
import sys
from pathlib import Path

from gatedrnn.errors import Error
from gatedrnn.tasks.claims import task_of_file
from gatedrnn.tasks.forecast.table import Columns, read_series_table
from gatedrnn.tasks.series.files import Reading, read_series

WIDTH = 200


def outcome_of(path: Path) -> str:
    """Say what becomes of a file that is named to `gatedrnn train`, or of a table without a task to `forecast`."""
    try:
        task = task_of_file(path)
    except Error:
        task = "forecast"
    if task == "forecast":
        return series_over_time(path)
    if not task.startswith("series"):
        return task
    try:
        found = read_series(path, Reading())
    except Error as error:
        return refusal(path, error)
    labels = f", {len({*found.labels})} labels" if found.labels else ""
    lengths = sorted(map(len, found.values))
    return f"{task}: {len(found.values)} series of {lengths[0]} to {lengths[-1]} steps{labels}"


def series_over_time(path: Path) -> str:
    """Say what `gatedrnn forecast` reads."""
    try:
        table = read_series_table(path, Columns())
    except Error as error:
        return refusal(path, error)
    first, lengths = table.series[0], sorted(len(one.values) for one in table.series)
    begin, end = first.form.written(first.times[[0, -1]])
    steps = f"{lengths[0]}" if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
    return f"forecast: {len(table.series)} series of {steps} steps, {table.frequency}, {first.name}: {begin} to {end}"


def refusal(path: Path, error: Error) -> str:
    """The message of an error without the folder."""
    return f"{type(error).__name__}: {str(error).replace(str(path), path.name)}"


def main(files: list[str]) -> None:
    """Print a line for each of some files."""
    logging.getLogger("gatedrnn").setLevel(logging.ERROR)
    for name in files:
        print(f"{Path(name).parent.name}/{Path(name).name}: {' '.join(outcome_of(Path(name)).split())[:WIDTH]}")


if __name__ == "__main__":
    main(sys.argv[1:])
