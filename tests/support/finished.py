"""A finished run of each kind, the smallest from which most can be read; trained once for all tests that read it.

Who changes a run takes a copy of it. What stands in a fixture beside the run was its data.
"""

import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from once import made_once

SERIES_FLAGS = "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --validate-every 20 --threads 1".split()
FORECAST_FLAGS = [*SERIES_FLAGS, *"--total-steps 40 --horizon 6 --season 12 --context 24".split()]
ROLES = "--target heat --series-column place --time-column when --known price --calendar hour-of-day".split()


def copy_of(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run")


def made(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Iterator[Path]:
    folder = made_once(factory, name, make)
    before = contents(folder)
    yield folder
    assert contents(folder) == before, f"a test changed {name}, which others read: let it take a copy"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def helper(name: str, *given: object, **named: object) -> Any:
    """The result of a function of train_helpers, which loads much of the package."""
    return getattr(import_module("train_helpers"), name)(*given, **named)


def call(*arguments: object) -> None:
    import_module("commands").call(*arguments)


def table(file: str, make: str, *given: object) -> object:
    """The fixture of a file, which a function of train_helpers writes."""

    @pytest.fixture(scope="session")
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        name = file.partition(".")[0]
        for folder in made(tmp_path_factory, name, lambda folder: helper(make, folder / file, *given)):
            yield folder / file

    return fixture


def trained(factory: pytest.TempPathFactory, name: str, settings: dict[str, Any]) -> Iterator[Path]:
    """Train by the command, which writes reports and samples beside the run; the settings come from a file."""
    config = factory.mktemp("settings") / f"{name}.yaml"
    config.write_text(import_module("yaml").safe_dump(settings))
    yield from made(factory, name, lambda folder: call("train", "--config", config, "--output", folder))


@pytest.fixture(scope="session")
def first_training(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Train once before the tests: what the first training of a process imports and compiles takes longer than the
    training of most tests.
    """
    flags = ["--hidden-size", 4, "--total-steps", 1, "--threads", 1]
    call("train", "--task", "digits", *flags, "--output", tmp_path_factory.mktemp("first") / "run")


book = table("book.txt", "small_text")


@pytest.fixture(scope="session")
def text_run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A language model by characters: `text_settings(book)`."""
    yield from trained(tmp_path_factory, "text-run", helper("text_settings", book).flat())


@pytest.fixture(scope="session")
def words_run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A language model of one layer by words, which lacks some."""
    changes = {"tokenizer": "words", "min_count": 2, "layers": 1, "batch_size": 4, "epochs": 1}
    yield from trained(tmp_path_factory, "words-run", helper("text_settings", book, "mingru", **changes).flat())


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier of series of equal steps: `digits_settings()`."""
    yield from trained(tmp_path_factory, "digits-run", helper("digits_settings").flat())


rising = table("rising.csv", "rising_and_falling", 80)


@pytest.fixture(scope="session")
def series_run(rising: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier of series of unequal lengths with missing values, from a table."""
    data = ["--task", "series-classification", "--train-file", rising]
    flags = [*data, *SERIES_FLAGS, "--total-steps", 40, "--learning-rate", 0.03]
    yield from made(tmp_path_factory, "series-run", lambda folder: call("train", *flags, "--output", folder))


heat = table("heat.csv", "seasons")


@pytest.fixture(scope="session")
def forecast_run(heat: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A forecast of two series with a season and a covariate that is known ahead."""
    flags = [heat, *ROLES, *FORECAST_FLAGS]
    yield from made(tmp_path_factory, "forecast-run", lambda folder: call("forecast", *flags, "--output", folder))
