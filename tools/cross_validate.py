"""Cross-validation of a comparison: the tables of each fold, and what the folds' results come to together.

    python tools/cross_validate.py split labels.csv --file 'set-a/{RecordID}.txt' --label died --output folds
    python tools/cross_validate.py split-series ArrowHead_TRAIN.ts.gz --output folds
    gatedrnn compare --train-file folds/train-0.csv --test-file folds/test-0.csv --data-root . --output runs/fold-0 ...
    python tools/cross_validate.py join runs/fold-0 runs/fold-1 ... --output summary.json

The interval of the mean over folds takes the correction of Nadeau and Bengio 2003 (Machine Learning 52, 239-281): the
folds have most of their training data in common.
"""

import csv
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cyclopts import App
from scipy.stats import t as student
from sklearn.model_selection import StratifiedKFold

from gatedrnn.study.results import ComparisonResults
from gatedrnn.training.result import read_record

app = App(help=__doc__)


@app.command
def split(table: Path, *, file: str, label: str, output: Path, folds: int = 5, seed: int = 0) -> None:
    """Write train-K.csv and test-K.csv of each fold, which name the files of series, with their labels.

    Args:
        table: a CSV file with a row for each series.
        file: where a row's file is, from the folder on that --data-root then names, with columns in braces.
        label: column of the labels; each fold has as many of every label.
    """
    with table.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    labels = np.array([row[label] for row in rows])
    output.mkdir(parents=True, exist_ok=True)
    names = [file.format(**row) for row in rows]
    for name, part in _folded(labels, folds, seed):
        with (output / f"{name}.csv").open("w", newline="") as written:
            writer = csv.writer(written, lineterminator="\n")
            writer.writerow(["file", "label"])
            writer.writerows([names[row], labels[row]] for row in part)


@app.command
def split_series(series: Path, *, output: Path, folds: int = 5, seed: int = 0) -> None:
    """Write train-K.ts and test-K.ts of each fold of a .ts or .ts.gz file; each has as many of every label."""
    with (gzip.open if series.suffix == ".gz" else open)(series, "rt") as opened:
        lines = [line.strip() for line in opened if line.strip()]
    first = next(i for i, line in enumerate(lines) if line.lower() == "@data") + 1
    output.mkdir(parents=True, exist_ok=True)
    for name, part in _folded(np.array([line.rpartition(":")[2] for line in lines[first:]]), folds, seed):
        (output / f"{name}.ts").write_text("\n".join([*lines[:first], *(lines[first + row] for row in part)]) + "\n")


def _folded(labels: np.ndarray, folds: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of train-K and of test-K, for each fold."""
    folded = StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)
    for number, parts in enumerate(folded):
        yield from zip((f"train-{number}", f"test-{number}"), parts, strict=True)


@app.command
def join(*studies: Path, output: Path) -> None:
    """The mean score of every contender and baseline over the folds, with a 95 % interval, as JSON and as a table in
    report.md beside it."""
    records = [read_record(study / "results.json", ComparisonResults) for study in studies]
    metric, scores = records[0].metric.name, dict[str, list[float]]()
    for results in records:
        measured = {row.name: row.scores for row in results.contenders}
        measured |= {row.name: row.scores for row in results.baseline.plain}
        for name, splits in measured.items():
            scores.setdefault(name, []).append(splits["test"].mean)
    folds, joined = len(records), {}
    lines = [f"# {metric} over {folds} folds", "", f"| contender | {metric} | each fold |", "|---|---|---|"]
    for name, values in scores.items():
        spread = np.std(values, ddof=1) * math.sqrt(1 / folds + 1 / (folds - 1))
        half = float(student.isf(0.025, folds - 1) * spread)
        mean = float(np.mean(values))
        joined[name] = {"mean": mean, "low": mean - half, "high": mean + half, "folds": values}
        each = " ".join(f"{value:.4f}" for value in values)
        lines.append(f"| {name} | {mean:.4f} [{mean - half:.4f}, {mean + half:.4f}] | {each} |")
    print("\n".join(lines))
    output.with_name("report.md").write_text("\n".join(lines) + "\n")
    first = records[0].measured
    record = {"metric": metric, "folds": folds, "scores": joined, "date": first.date, "environment": first.environment}
    output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    app()
