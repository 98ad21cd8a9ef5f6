"""The recipe of series with a class each beside plain methods, on several data sets: accuracy and seconds.

    python tools/recipe_series.py kept.json Coffee=Coffee_TRAIN.ts.gz,Coffee_TEST.ts.gz digits=train.csv,test.csv

Each set is named with its training and its test file. Whatever is in the JSON file already is not measured again, so
that the command can be stopped and given once more. It prints the table of all sets in the file.

Columns: the library's plain methods, fitted to all training series; the cells alone, as `compare` trains them; the
recipe of `train`; of it the network and the linear path alone; and the mean of the probabilities of all seeds.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from cyclopts import App, Parameter
from transformers import AutoModelForSequenceClassification

from gatedrnn.data import SERIES, Examples, TaskData, load_task
from gatedrnn.models.modeling import GatedRNNForSequenceClassification
from gatedrnn.records import Json, environment
from gatedrnn.training.chosen import default_run
from gatedrnn.training.loop import run
from gatedrnn.training.recipes import recipe_of
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import task_named

app = App(help=__doc__)
MINIROCKET = "MiniRocket + ridge"
RECIPE, CELLS, MEMBERS = "recipe", "cells alone", "recipe, mean of seeds"
NETWORK, PATH = "network of the recipe", "linear path of the recipe"
COLUMNS = (MINIROCKET, CELLS, RECIPE, NETWORK, PATH, MEMBERS)
Measured = dict[str, Any]
"""The accuracy and the seconds of each method; those of each seed for the recipe."""


def settings_of(train: Path, test: Path, seed: int, *, whole: bool, **flags: Json) -> RunSettings:
    """A run with the recipe for these data, or with that of the cells alone."""
    settings: dict[str, Json] = {"train_file": str(train), "test_file": str(test), "seed": seed, "threads": 1, **flags}
    if whole:
        return default_run(SERIES, **settings)
    return RunSettings.from_flat({"cell": "mingru", "task": SERIES, **recipe_of(SERIES, whole=False), **settings})


@torch.no_grad()
def probabilities(model: Callable[..., Any], test: Examples) -> np.ndarray:
    """(series, classes) of a model."""
    answers: list[np.ndarray] = [np.empty(0)] * len(test)
    for rows in test.evaluation_rows():
        batch = test.collate(rows)
        del batch["labels"]
        for row, answer in zip(rows, model(**batch).logits.softmax(1).numpy(), strict=True):
            answers[row] = answer
    return np.stack(answers)


def accuracy(of: np.ndarray, test: Examples) -> float:
    """The share of series whose likeliest class is theirs."""
    return float((of.argmax(1) == test.labels).mean())


def plain_methods(data: TaskData) -> Measured:
    """Measure the plain methods of the library."""
    measured: Measured = {}
    for name, fit in task_named(data.name).baselines(data, 1):
        if name != MINIROCKET:
            continue
        started = time.perf_counter()
        fitted = fit()
        assert fitted is not None
        outcomes = fitted.outcomes["test"]
        measured[name] = {"accuracy": outcomes.rate, "seconds": time.perf_counter() - started}
    return measured


def trained(settings: RunSettings, folder: Path) -> tuple[GatedRNNForSequenceClassification, float]:
    """The model of a run, opened from its folder, and the seconds that the run took."""
    started = time.perf_counter()
    run(settings, folder)
    seconds = time.perf_counter() - started
    return AutoModelForSequenceClassification.from_pretrained(folder / "model").eval(), seconds


def networks(train: Path, test: Path, seeds: int, *, whole: bool, **flags: Any) -> Measured:
    """Runs of the recipe with its parts, or of the cells alone."""
    name, seconds, answers = RECIPE if whole else CELLS, list[float](), dict[str, list[np.ndarray]]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            settings = settings_of(train, test, seed, whole=whole, **flags)
            model, spent = trained(settings, Path(folder) / str(seed))
            seconds.append(spent)
            examples = cast(Examples, load_task(settings.data).evaluation["test"])
            answers.setdefault(name, []).append(probabilities(model, examples))
            if model.linear_path is not None:
                answers.setdefault(PATH, []).append(probabilities(Alone(model), examples))
                model.linear_path = None
                answers.setdefault(NETWORK, []).append(probabilities(model, examples))
    measured: Measured = {}
    for part, each in answers.items():
        scores = [accuracy(network, examples) for network in each]
        measured[part] = {"accuracy": float(np.mean(scores)), "seeds": scores}
    measured[name]["seconds"] = float(np.mean(seconds))
    if whole:
        measured[MEMBERS] = {"accuracy": accuracy(np.mean(answers[name], axis=0), examples)}
    return measured


class Alone:
    """A model's linear path, called as the model is."""

    def __init__(self, model: GatedRNNForSequenceClassification) -> None:
        assert model.linear_path is not None
        self.path = model.linear_path

    def __call__(self, input_values: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
        mask = None if attention_mask is None else attention_mask.bool()
        self.logits = self.path(input_values, mask)
        return self


def table(kept: dict[str, Measured]) -> str:
    """Markdown: a row a set, and the mean over all."""
    lines = [f"| set | {' | '.join(COLUMNS)} | seconds |", "|---|" + "---|" * (len(COLUMNS) + 1)]
    rows = {name: [of.get(column, {}).get("accuracy", np.nan) for column in COLUMNS] for name, of in kept.items()}
    for name, row in rows.items():
        lines.append(
            f"| {name} | {' | '.join(f'{accuracy:.4f}' for accuracy in row)} | {kept[name][RECIPE]['seconds']:.0f} |"
        )
    means = np.mean(list(rows.values()), axis=0)
    return "\n".join([*lines, f"| mean | {' | '.join(f'{accuracy:.4f}' for accuracy in means)} | |"])


@app.default
def main(
    results: Path,
    *sets: str,
    seeds: int = 1,
    cells: bool = True,
    flags: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
) -> None:
    """Measure what the file does not have, and print its table.

    Args:
        results: JSON file.
        sets: NAME=TRAIN,TEST each.
        seeds: of each network.
        cells: measure cells alone too.
        flags: NAME=VALUE of the recipe, in the place of its own.
    """
    record: dict[str, Any] = json.loads(results.read_text()) if results.exists() else environment() | {"sets": {}}
    named = {name: json.loads(value) for name, _, value in (flag.partition("=") for flag in flags)}
    kept: dict[str, Measured] = record["sets"]
    for one in sets:
        name, _, files = one.partition("=")
        train, test = map(Path, files.split(","))
        own = kept.setdefault(name, {})
        if MINIROCKET not in own:
            every = settings_of(train, test, 0, whole=True, validation_fraction=0.0)
            own |= plain_methods(load_task(every.data))
        if RECIPE not in own:
            own |= networks(train, test, seeds, whole=True, **named)
            results.write_text(json.dumps(record, indent=1) + "\n")
        if cells and CELLS not in own:
            own |= networks(train, test, seeds, whole=False)
        results.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{name}: " + ", ".join(f"{column} {of['accuracy']:.4f}" for column, of in own.items()), flush=True)
    print(table(kept))


if __name__ == "__main__":
    app()
