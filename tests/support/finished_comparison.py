"""`comparison`: a finished one, the smallest in which all that a comparison shows can be seen; made once for all tests.

Who changes it takes a copy, whose runs are finished too. Speeds of small comparisons are measured in a moment.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from finished import helper, made

if TYPE_CHECKING:
    from gatedrnn.data import DataSettings
    from gatedrnn.study.results import ComparisonResults
    from gatedrnn.study.settings import CompareSettings

COMMAND = "gatedrnn compare <script>alert(1)</script>"


class FinishedComparison(NamedTuple):
    """The settings and results of a call of `compare`."""

    settings: "CompareSettings"
    folder: Path  # with the report
    results: "ComparisonResults"

    def copy(self, folder: Path) -> Path:
        return shutil.copytree(self.folder, folder)


def small_comparison(data: "DataSettings", train: dict[str, Any] | None = None, **contenders: Any) -> "CompareSettings":
    """Two cells and a few steps each, dropout included so that random numbers matter."""
    from gatedrnn.study.settings import CompareSettings, ContenderSettings

    run = helper("digits_settings", **{"epochs": 1, "batch_size": 32, "checkpoint_every": 100, **(train or {})})
    who = ContenderSettings(**{"cells": ["lstm", "mingru"], "hidden_size": 16, "seeds": [0, 1], **contenders})
    return CompareSettings(contenders=who, threads=1, data=data, model=run.model, train=run.train)


@pytest.fixture(scope="session")
def speed_in_a_moment() -> Iterator[None]:
    from gatedrnn.study import experiment

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "SPEED_SECONDS", 0.01)
        yield


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Iterator["DataSettings"]:
    """A text task that words decide: two classes, unequal lengths, a comma and Korean in them."""
    from gatedrnn.data import data_settings

    rows = [(f"good film number {i}, 정말 좋다" + " really" * (i % 5), "pos") for i in range(60)]
    rows += [(f"bad film number {i}, 정말 나쁘다" + " truly" * (i % 7), "neg") for i in range(60)]
    text = "review,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    for folder in made(tmp_path_factory, "reviews", lambda folder: (folder / "reviews.csv").write_text(text, "utf-8")):
        yield data_settings(task="text-classification", train_file=folder / "reviews.csv", min_count=1)


@pytest.fixture(scope="session")
def comparison(
    reviews: "DataSettings", speed_in_a_moment: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FinishedComparison]:
    """LSTM and minGRU on reviews, both ways of matching, two seeds."""
    from gatedrnn.study.experiment import compare
    from gatedrnn.study.report import write_report
    from gatedrnn.study.results import ComparisonResults
    from gatedrnn.training.result import read_record

    settings = small_comparison(reviews)

    def make(folder: Path) -> None:
        compare(settings, folder, command=COMMAND)
        write_report(folder)

    for folder in made(tmp_path_factory, "comparison", make):
        yield FinishedComparison(settings, folder, read_record(folder / ComparisonResults.FILE, ComparisonResults))
