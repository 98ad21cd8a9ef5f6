"""Every test begins in an empty folder and a wide terminal; imports of commands are no part of what it takes."""

import io
from contextlib import redirect_stdout, suppress
from importlib import import_module

import pytest
from commands import outcome


@pytest.fixture(scope="session", autouse=True)
def what_commands_import(first_training):
    parts = "data models study.experiment study.probes training.loop verify.contract"
    for name in parts.split():
        import_module(f"gatedrnn.{name}")
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        import_module("gatedrnn.cli.app").main(["train", "--help"])


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def refused(capsys):
    """A check of a refused command: its exit code is this, and its one line has these words; below a question stand the
    first rows of the table and the commands that answer."""

    def check(said, *arguments, code=2):
        found, error = outcome(capsys, *arguments)
        lines = error.partition("\nanswer with")[0].splitlines()
        assert found == code and error.startswith("gatedrnn: ") and said in lines[0], error
        assert all(line.startswith("  ") for line in lines[1:]), error

    return check
