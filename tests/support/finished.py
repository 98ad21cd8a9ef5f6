"""A finished run of each kind, the smallest from which most can be read; trained once for all tests that read it.

Who changes a run takes a copy of it. What stands in a fixture beside the run was its data.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from once import made_once

FORECAST_FLAGS = (
    "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --total-steps 40 --validate-every 20 --threads 1 "
    "--horizon 6 --season 12 --context 24"
).split()
ROLES = "--target heat --series-column place --time-column when --known price --calendar hour-of-day".split()
SERIES_FLAGS = "--cell mingru --hidden-size 8 --embedding-size 8 --layers 1 --validate-every 20 --threads 1".split()


def copy_of(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run")


def made(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Iterator[Path]:
    folder = made_once(factory, name, make)
    before = contents(folder)
    yield folder
    assert contents(folder) == before, f"a test changed {name}, which others read: let it take a copy"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trained(factory: pytest.TempPathFactory, name: str, settings: object) -> Iterator[Path]:
    """By the command, which writes reports and samples beside the run; the settings come from a file."""
    import yaml
    from commands import call

    config = factory.mktemp("settings") / f"{name}.yaml"
    config.write_text(yaml.safe_dump(settings.flat()))
    yield from made(factory, name, lambda folder: call("train", "--config", config, "--output", folder))


@pytest.fixture(scope="session")
def first_training(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the first of a process imports and compiles takes longer than the training of most tests."""
    from commands import call

    flags = ["--hidden-size", 4, "--total-steps", 1, "--threads", 1]
    call("train", "--task", "digits", *flags, "--output", tmp_path_factory.mktemp("first") / "run")


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The text of `text_run` and `words_run`."""
    from train_helpers import small_text

    for folder in made(tmp_path_factory, "book", lambda folder: small_text(folder / "book.txt")):
        yield folder / "book.txt"


@pytest.fixture(scope="session")
def text_run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A language model by characters: `text_settings(book)`."""
    from train_helpers import text_settings

    yield from trained(tmp_path_factory, "text-run", text_settings(book))


@pytest.fixture(scope="session")
def words_run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A language model of one layer by words, which lacks some."""
    from train_helpers import text_settings

    settings = text_settings(book, "mingru", tokenizer="words", min_count=2, layers=1, batch_size=4, epochs=1)
    yield from trained(tmp_path_factory, "words-run", settings)


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier of series of equal steps: `digits_settings()`."""
    from train_helpers import digits_settings

    yield from trained(tmp_path_factory, "digits-run", digits_settings())


@pytest.fixture(scope="session")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The table of `series_run`."""
    from train_helpers import rising_and_falling

    for folder in made(tmp_path_factory, "rising", lambda folder: rising_and_falling(folder / "rising.csv", 80)):
        yield folder / "rising.csv"


@pytest.fixture(scope="session")
def series_run(rising: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier of series of unequal lengths with missing values, from a table."""
    from commands import call

    data = ["--task", "series-classification", "--train-file", rising]
    flags = [*data, *SERIES_FLAGS, "--total-steps", 40, "--learning-rate", 0.03]
    yield from made(tmp_path_factory, "series-run", lambda folder: call("train", *flags, "--output", folder))


@pytest.fixture(scope="session")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The table of `forecast_run`."""
    from train_helpers import seasons

    for folder in made(tmp_path_factory, "heat", lambda folder: seasons(folder / "heat.csv")):
        yield folder / "heat.csv"


@pytest.fixture(scope="session")
def forecast_run(heat: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A forecast of two series with a season and a covariate that is known ahead."""
    from commands import call

    flags = [heat, *ROLES, *FORECAST_FLAGS]
    yield from made(tmp_path_factory, "forecast-run", lambda folder: call("forecast", *flags, "--output", folder))
