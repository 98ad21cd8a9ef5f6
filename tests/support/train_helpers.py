"""Small runs for the tests of training and comparison."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from gatedrnn.data import data_settings
from gatedrnn.tasks.language.settings import LanguageSettings
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings


def digits_settings(cell: str = "mingru", seed: int = 0, **train: Any) -> RunSettings:
    """A few epochs on the digits, dropout included so that random numbers matter."""
    settings = {"epochs": 2, "batch_size": 64, "learning_rate": 5e-3, "log_every": 5, "checkpoint_every": 7, **train}
    return RunSettings(
        cell=cell, hidden_size=16, seed=seed, threads=1, data=data_settings(task="digits"),
        model=ModelSettings(embedding_size=8, head_dropout=0.3, embedding_dropout=0.2),
        train=TrainSettings(**settings),
    )  # fmt: skip


def small_text(path: Path) -> Path:
    """A text with enough rule in it to learn something, and no two lines alike."""
    lines = (f"the {i} cat sat {i * i % 17} on {i % 5} mats" for i in range(300))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def text_settings(text: Path, cell: str = "mingru,lstm", **changes: Any) -> RunSettings:
    """A few epochs over a text by characters, in lanes; dropout included so that random numbers matter."""
    train = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "log_every": 5, "checkpoint_every": 7}
    model = {"layers": 2, "embedding_size": 12, "dropout": 0.2, "embedding_dropout": 0.1}
    data = {"tokenizer": "characters", "min_count": 1, "length": 16, "test_fraction": 0.1}
    run = {"hidden_size": 16, "threads": 1}
    kinds = ((train, TrainSettings), (model, ModelSettings), (data, LanguageSettings), (run, RunSettings))
    for name, value in changes.items():
        next(part for part, kind in kinds if name in kind.model_fields)[name] = value
    return RunSettings(
        cell=cell, **run, data=data_settings(task="language-model", train_file=text, **data),
        model=ModelSettings(**model), train=TrainSettings(**train),
    )  # fmt: skip


digits_run, text_run = digits_settings, text_settings  # these names are of fixtures: see support/finished.py


def rising_and_falling(path: Path, series: int, *, labelled: bool = True, seed: int = 0, wrong: int = 10_000) -> Path:
    """Series of unequal lengths, one channel with holes; a label in so many is wrong."""
    random, lines = np.random.default_rng(seed), [f"unique_id,ds,load,heat{',label' if labelled else ''}"]
    for number in range(series):
        slope, length = 1 if number % 2 else -1, int(random.integers(6, 12))
        for step in range(length):
            heat = "" if step % 4 == 1 else f"{100 + random.normal():.3f}"
            line = f"s{number},{step},{slope * step + random.normal() / 5:.3f},{heat}"
            lines.append(line + (f",{'up' if (slope > 0) != (number % wrong == 1) else 'down'}" if labelled else ""))
    path.write_text("\n".join(lines) + "\n")
    return path


def numbered(path: Path, series: int, seed: int = 0) -> Path:
    """Series with a number each: ten times the slope."""
    random, lines = np.random.default_rng(seed), ["unique_id,ds,load,label"]
    for number in range(series):
        slope = random.uniform(-1, 1)
        for step in range(int(random.integers(10, 14))):
            lines.append(f"s{number},{step},{slope * step + random.normal() / 20:.4f},{1000 + 10 * slope:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def measurements(path: Path, series: int, seed: int = 0) -> Path:
    """Measurements whose values say nothing: a series is late where the last of them come hours apart."""
    random, lines = np.random.default_rng(seed), ["id,time,parameter,value,label"]
    for number in range(series):
        late, minutes = number % 4 == 0, 0.0
        for step in range(int(random.integers(6, 12))):
            minutes += random.exponential(300 if late and step > 3 else 30) + 1
            parameter = "pulse" if random.random() < 0.7 else "heat"
            clock = f"{int(minutes // 60):02}:{int(minutes % 60):02}"
            lines.append(f"s{number},{clock},{parameter},{random.normal():.3f},{'late' if late else 'early'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def seasons(path: Path, steps: int = 240, future: int = 6) -> Path:
    """Two series with a season of 12 hours and a price that moves them, known for some hours more."""
    random, lines = np.random.default_rng(0), ["place,when,heat,price"]
    times = [datetime(2024, 1, 1) + timedelta(hours=step) for step in range(steps + future)]
    for number, place in enumerate(("north", "south")):
        prices = random.integers(0, 2, steps + future)
        for step, moment in enumerate(times):
            heat = 10 * number + 3 * np.sin(np.pi * step / 6) + 2 * prices[step] + random.normal() / 10
            lines.append(f"{place},{moment},{f'{heat:.4f}' if step < steps and step % 50 else ''},{prices[step]}")
    path.write_text("\n".join(lines) + "\n")
    return path
