"""A run is a folder: config.yaml, data.json (what was read), metrics.jsonl, checkpoint/, then model/, result.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gatedrnn.records import write_whole
from gatedrnn.train.settings import RunSettings


class FolderTaken(Exception):
    """A run folder exists with another configuration."""


class RunFolder:
    """Names and writes what stands in a run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.data, self.metrics = path / "config.yaml", path / "data.json", path / "metrics.jsonl"
        self.checkpoints, self.model, self.result = path / "checkpoint", path / "model", path / "result.json"
        self.samples, self.report, self.curves = path / "samples.json", path / "report.html", path / "curves.svg"

    def claim(self, settings: RunSettings, sources: list[dict[str, Any]]) -> None:
        """Make the folder this run's own, or see that it already is: the same settings, the same data.

        Raises:
            FolderTaken: it holds a run with another configuration, or something else.
        """
        ours = settings.flat()
        if self.config.exists():
            held = yaml.safe_load(self.config.read_text(encoding="utf-8"))
            theirs = as_of_now(held, lambda: RunSettings.from_flat(held).flat())
            if theirs != ours:
                raise FolderTaken(f"{self.path}: holds a run with another configuration ({differences(theirs, ours)})")
            if json.loads(self.data.read_text(encoding="utf-8")) != sources:
                raise FolderTaken(f"{self.path}: the data have changed since this run began; give another --output")
            return
        if not is_free(self.path):
            raise FolderTaken(f"{self.path}: is not empty and holds no run; give another --output")
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.data, json.dumps(sources, indent=1, ensure_ascii=False))
        write_whole(self.config, yaml.safe_dump(ours, sort_keys=False, allow_unicode=True))

    def finished(self) -> dict[str, Any] | None:
        """The result, if the run has ended."""
        return json.loads(self.result.read_text(encoding="utf-8")) if self.result.exists() else None


def is_free(path: Path) -> bool:
    """Whether a folder can be taken: it is not there, or holds nothing but what a killed process left half-written."""
    leftovers = ("data.json", ".writing")  # data.json is written just before the configuration
    return not path.exists() or all(child.name.endswith(leftovers) for child in path.iterdir())


def as_of_now(held: Any, read: Callable[[], Any]) -> Any:
    """What was `held`, with the defaults of settings that came later; as it is if it cannot be read as settings."""
    try:
        return read()
    except (ValidationError, AttributeError, KeyError, TypeError):
        return held


def differences(theirs: Any, ours: Any, prefix: str = "") -> str:
    """The keys in which two configurations differ, with both values."""
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return f"{prefix}: {theirs!r} there, {ours!r} here"
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    dot = f"{prefix}." if prefix else ""
    return "; ".join(differences(theirs.get(key), ours.get(key), f"{dot}{key}") for key in keys)
