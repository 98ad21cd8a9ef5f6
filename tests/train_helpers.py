"""Small runs for the tests of training and comparison."""

from typing import Any

from gatedrnn.data import DataSettings
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings


def digits_run(cell: str = "mingru", seed: int = 0, **train: Any) -> RunSettings:
    """A few epochs on the digits, dropout included so that random numbers matter."""
    settings = {"epochs": 2, "batch_size": 64, "learning_rate": 5e-3, "log_every": 5, "checkpoint_every": 7, **train}
    return RunSettings(
        cell=cell, hidden_size=16, seed=seed, threads=1, data=DataSettings(task="digits"),
        model=ModelSettings(embedding_size=8, head_dropout=0.3, embedding_dropout=0.2),
        train=TrainSettings(**settings),
    )  # fmt: skip
