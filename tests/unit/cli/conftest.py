"""Imports of commands are no part of what a test takes."""

from importlib import import_module

import pytest


@pytest.fixture(scope="session", autouse=True)
def what_commands_import() -> None:
    for name in ("bench.run", "data", "models", "study.experiment", "study.probes", "train.loop", "verify.contract"):
        import_module(f"gatedrnn.{name}")
