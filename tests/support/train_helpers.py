"""Small runs for the tests of training and comparison."""

from pathlib import Path
from typing import Any

from gatedrnn.data import data_settings
from gatedrnn.data.settings import LanguageTask
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings


def digits_run(cell: str = "mingru", seed: int = 0, **train: Any) -> RunSettings:
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


def text_run(text: Path, cell: str = "mingru,lstm", **changes: Any) -> RunSettings:
    """A few epochs over a text by characters, in lanes; dropout included so that random numbers matter."""
    train = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "log_every": 5, "checkpoint_every": 7}
    model = {"layers": 2, "embedding_size": 12, "dropout": 0.2, "embedding_dropout": 0.1}
    data = {"tokenizer": "characters", "min_count": 1, "length": 16, "test_fraction": 0.1}
    run = {"hidden_size": 16, "threads": 1}
    kinds = ((train, TrainSettings), (model, ModelSettings), (data, LanguageTask), (run, RunSettings))
    for name, value in changes.items():
        next(part for part, kind in kinds if name in kind.model_fields)[name] = value
    return RunSettings(
        cell=cell, **run, data=data_settings(task="language-model", train_file=text, **data),
        model=ModelSettings(**model), train=TrainSettings(**train),
    )  # fmt: skip
