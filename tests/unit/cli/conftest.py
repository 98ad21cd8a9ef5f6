"""Imports of commands are no part of what a test takes."""

import io
from contextlib import redirect_stdout, suppress
from importlib import import_module

import pytest


@pytest.fixture(scope="session", autouse=True)
def what_commands_import(first_training: None) -> None:
    for name in ("bench.run", "data", "models", "study.experiment", "study.probes", "train.loop", "verify.contract"):
        import_module(f"gatedrnn.{name}")
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        import_module("gatedrnn.cli.app").main(["train", "--help"])
