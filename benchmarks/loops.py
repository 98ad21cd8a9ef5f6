"""Training by several libraries' loops, the same of each: `python -m benchmarks.loops OUTPUT.json`, on one thread.

A text classifier and a language model of this project are trained on the same arrays by `gatedrnn train`'s loop, by a
plain loop in PyTorch, by the Trainer of transformers and by Lightning: the same batches in size and shape, AdamW and
clipping, no validation, the loader included. A forecaster is beside the LSTM and GRU of neuralforecast of the same
width, context, horizon, quantiles and windows in a batch, whose windows have one forecast each; with --origins N ours
learn from N in each. All train in turn in one process, some rounds of `STEPS` steps; of a round the median step counts,
without its first ones. Needs an environment that has neuralforecast, which brings Lightning, beside this project.
"""

import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytorch_lightning as lightning
import torch
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import MQLoss
from neuralforecast.models import GRU, LSTM
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from gatedrnn.data import TaskData, load_task
from gatedrnn.records import environment, write_whole
from gatedrnn.timing import spread_of
from gatedrnn.training.chosen import run_of_recipe
from gatedrnn.training.loop import run
from gatedrnn.training.model import build_model
from gatedrnn.training.settings import RunSettings

ROUNDS, STEPS, UNCOUNTED = 5, 60, 10
WORDS, TEXTS, LENGTH, CLASSES = 23_000, 4_000, 35, 4
HOURS, CONTEXT, HORIZON, WIDTH, WINDOWS = 8_640, 96, 96, 128, 32
LEVELS = [0.1, 0.5, 0.9]
Batch = dict[str, Tensor]


class Clock:
    """Times between the ends of steps."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def tick(self, *_: object, **__: object) -> None:
        self.ends.append(time.perf_counter())

    @property
    def step(self) -> float:
        """The median seconds of a step."""
        return statistics.median(np.diff(self.ends[UNCOUNTED:]))


def ours(settings: RunSettings) -> float:
    """Train by this project's loop, with its own loader."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        run(settings, Path(folder) / "run", clock.tick)
    clock.ends = clock.ends[:STEPS]  # then comes the test
    return clock.step


def plain(task: "Task") -> float:
    """Train by a loop as one writes it down."""
    clock, model = Clock(), task.make().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.rate, fused=True)
    for batch in _endless(task.loader):
        model(**batch).loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()
        if len(clock.ends) == STEPS:
            return clock.step
    raise AssertionError


def trainer(task: "Task") -> float:
    """Train by the Trainer of transformers."""
    clock = Clock()

    class Ends(TrainerCallback):
        def on_step_end(self, *arguments: object, **named: object) -> None:
            clock.tick()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=task.size, learning_rate=task.rate,
            optim="adamw_torch_fused", max_grad_norm=1.0, logging_strategy="no", save_strategy="no", report_to=[],
            use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        rows: Any = task.rows
        Trainer(task.make(), arguments, data_collator=task.collate, train_dataset=rows, callbacks=[Ends()]).train()
    return clock.step


class Module(lightning.LightningModule):
    """A model as Lightning trains it."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        super().__init__()
        self.model, self.rate = model, rate

    def training_step(self, batch: Batch) -> Tensor:
        loss: Tensor = self.model(**batch).loss
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.rate, fused=True)


class Ticks(lightning.Callback):
    """Tells a clock of each step's end."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_train_batch_end(self, *arguments: object, **named: object) -> None:
        self.clock.tick()


def quiet(clock: Clock) -> dict[str, Any]:
    """Arguments of a Lightning trainer that only trains."""
    return {
        "accelerator": "cpu", "max_steps": STEPS, "logger": False, "enable_checkpointing": False,
        "enable_progress_bar": False, "enable_model_summary": False, "callbacks": [Ticks(clock)],
    }  # fmt: skip


def by_lightning(task: "Task") -> float:
    """Train by Lightning."""
    clock, module = Clock(), Module(task.make(), task.rate)
    lightning.Trainer(gradient_clip_val=1.0, max_epochs=-1, **quiet(clock)).fit(module, task.loader)
    return clock.step


def by_neuralforecast(kind: type[Any], frame: pd.DataFrame) -> float:
    """Train a model of neuralforecast."""
    model = kind(
        h=HORIZON, input_size=CONTEXT, encoder_hidden_size=WIDTH, encoder_n_layers=1, decoder_hidden_size=WIDTH,
        loss=MQLoss(quantiles=LEVELS), batch_size=1, windows_batch_size=WINDOWS, val_check_steps=10**9,
        optimizer=torch.optim.AdamW, learning_rate=1e-3, **quiet(Clock()),
    )  # fmt: skip
    fitted = NeuralForecast([model], freq="h")
    fitted.fit(frame, val_size=0)
    ticks: Ticks = next(each for each in fitted.models[0].trainer_kwargs["callbacks"] if isinstance(each, Ticks))
    return ticks.clock.step  # of the copy that was trained


def _endless(loader: DataLoader[Any]) -> Iterator[Batch]:
    while True:
        yield from loader


def _texts(folder: Path) -> RunSettings:
    """A file of texts without a rule, and the run of the recipe of AG News on it."""
    random = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in random.integers(0, WORDS, LENGTH)) for _ in range(TEXTS)]
    file = folder / "texts.parquet"
    pd.DataFrame({"text": texts, "label": random.integers(0, CLASSES, TEXTS)}).to_parquet(file)
    return run_of_recipe(
        "ag_news", train_file=str(file), test_file=str(file), cell="mingru", hidden_size=512, min_count=1, seed=0,
        threads=1, epochs=1, total_steps=STEPS, validate_every=10**6, checkpoint_every=10**6,
    )  # fmt: skip


def _text_batches(data: TaskData) -> tuple[list[Batch], Callable[[list[Batch]], Batch]]:
    examples: Any = data.train
    rows = [
        {"input_ids": torch.from_numpy(tokens), "labels": torch.tensor(int(label))}
        for tokens, label in zip(examples.inputs, examples.labels, strict=True)
    ]
    return rows, lambda batch: {name: torch.stack([row[name] for row in batch]) for name in batch[0]}


def _characters(folder: Path) -> RunSettings:
    """A text without a rule, and a language model of characters as of Tiny Shakespeare."""
    random, file = np.random.default_rng(0), folder / "text.txt"
    file.write_text("".join(random.choice([*"abcdefghijklmnopqrstuvwxyz ,.\n"], 600_000)), encoding="utf-8")
    return run_of_recipe(
        "language-model", train_file=str(file), cell="mingru", hidden_size=340, tokenizer="characters", min_count=1,
        embedding_size=128, layers=4, block=True, feed_forward_factor=2, dropout=0.1, length=128, batch_size=32,
        seed=0, threads=1, epochs=1, total_steps=STEPS, validate_every=10**6, checkpoint_every=10**6,
    )  # fmt: skip


def _character_batches(data: TaskData) -> tuple[list[Batch], Callable[[list[Batch]], Batch]]:
    batch = data.train.batch(0, 0, 0, 32)
    rows = [{"input_ids": row, "labels": row} for row in batch["input_ids"]] * 100
    return rows, lambda batch: {name: torch.stack([row[name] for row in batch]) for name in batch[0]}


def _series() -> pd.DataFrame:
    """A day's season and noise, by the hour."""
    random, hours = np.random.default_rng(0), pd.date_range("2020-01-01", periods=HOURS, freq="h")
    values = 10 + np.sin(np.arange(HOURS) * 2 * np.pi / 24) + 0.3 * random.standard_normal(HOURS)
    return pd.DataFrame({"unique_id": "a", "ds": hours, "y": values})


def _forecast(file: Path, cell: str, origins: int) -> RunSettings:
    return run_of_recipe(
        "forecast", train_file=str(file), cell=cell, hidden_size=WIDTH, embedding_size=64, horizon=HORIZON,
        season=[24], context=CONTEXT, origins=origins, batch_size=WINDOWS, total_steps=STEPS, refit=False, seed=0,
        threads=1, validate_every=10**6, checkpoint_every=10**6,
    )  # fmt: skip


class Task(NamedTuple):
    """One model and its data, as loops of others take them."""

    make: Callable[[], nn.Module]
    rows: list[Batch]
    collate: Callable[[list[Batch]], Batch]
    size: int
    rate: float

    @property
    def loader(self) -> DataLoader[Any]:
        """Shuffled batches."""
        return DataLoader(self.rows, self.size, shuffle=True, collate_fn=self.collate)  # type: ignore[arg-type]


def contenders(folder: Path, origins: int) -> Iterator[tuple[str, str, Callable[[], float]]]:
    """Yield a training, the library, and what trains for a round."""
    for title, settings, batches in (
        ("text classifier", _texts(folder), _text_batches), ("language model", _characters(folder), _character_batches),
    ):  # fmt: skip
        data = load_task(settings.data)
        make = partial(build_model, settings, data)
        task = Task(make, *batches(data), settings.train.batch_size, settings.train.learning_rate)
        yield title, "gatedrnn", partial(ours, settings)
        for library, train in (("plain loop", plain), ("transformers", trainer), ("lightning", by_lightning)):
            yield title, library, partial(train, task)
    frame, file = _series(), folder / "series.csv"
    frame.to_csv(file, index=False)
    for cell, kind in (("lstm", LSTM), ("gru", GRU)):
        title = f"forecast, {cell}"
        yield title, "gatedrnn", partial(ours, _forecast(file, cell, origins))
        yield title, "neuralforecast", partial(by_neuralforecast, kind, frame)


def main(arguments: Sequence[str]) -> None:
    """Train in turn, and write the medians of rounds."""
    output, origins = Path(arguments[0]), int(arguments[2]) if arguments[1:2] == ["--origins"] else 1
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        named = list(contenders(Path(folder), origins))
        for number in range(ROUNDS):
            for title, library, train in named if number % 2 == 0 else reversed(named):
                torch.manual_seed(number)
                found.setdefault(title, {}).setdefault(library, []).append(train())
                print(title, library, f"{1000 * found[title][library][-1]:.2f} ms", flush=True)
    tables = {
        title: {
            library: {
                "milliseconds": [round(1000 * x, 2) for x in spread_of(seconds)],
                "ours_is_as_many_times_as_fast": [
                    round(x, 3)
                    for x in spread_of([a / b for a, b in zip(seconds, each["gatedrnn"], strict=True)])
                ],
            }
            for library, seconds in each.items()
        }
        for title, each in found.items()
    }  # fmt: skip
    record = {**environment(), "steps": STEPS, "rounds": ROUNDS, "origins": origins, "tables": tables}
    write_whole(output, json.dumps(record, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
