"""A run is a folder: config.yaml, data.json (what was read), metrics.jsonl, checkpoint/, then model/, outcomes.npz,
result.json; and tested/, the model that was scored on the test, where that of model/ was trained on it too.

manifest.json has the sums of what is written once: of config.yaml and data.json from the beginning, of the rest from
the end on. A file that does not match is refused by name.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import ValidationError

from gatedrnn import manifest
from gatedrnn.errors import Damaged, FolderTaken, reason
from gatedrnn.locks import LOCK
from gatedrnn.records import Json, naming, read_json, read_yaml, write_whole
from gatedrnn.training import checkpoint
from gatedrnn.training.outcomes import OUTCOMES, Outcomes, write_outcomes
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.settings import REMOVED, RunSettings

SETTINGS = "settings.json"
"""The file in a checkpoint of the settings that it was taken with."""
DERIVED = ("samples.json", "report.html", "curves.svg", "forecasts.json", "standing.json", "hardest.json")
"""The files that are made again from the rest."""
LENGTH = ("epochs", "total_steps")
"""Settings that may change while a run is stopped: `loop.with_length`."""
LOG = logging.getLogger("gatedrnn")
Held = TypeVar("Held")
_MODEL_SUMS, _TESTED_SUMS = (f"{model}/{manifest.MANIFEST}" for model in ("model", "tested"))
_RESTORE = "restore it, or begin another run in another folder"


class RunFolder:
    """Names, writes and checks what is in a run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.data, self.metrics = path / "config.yaml", path / "data.json", path / "metrics.jsonl"
        self.checkpoints, self.model, self.result = path / "checkpoint", path / "model", path / "result.json"
        self.tested = path / "tested"
        self.outcomes = path / OUTCOMES
        self.samples, self.report, self.curves, self.forecasts, self.standing, self.hardest = (
            path / name for name in DERIVED
        )

    def claim(self, settings: RunSettings, sources: list[dict[str, Json]]) -> None:
        """Make the folder this run's own, or see that it already is: the same settings, the same data.

        Raises:
            FolderTaken: it holds a run with another configuration, or something else.
            Damaged: config.yaml or data.json is not as it was written.
        """
        ours = settings.flat()
        if self.config.exists():
            held = self._held_settings()
            theirs = as_of_now(held, lambda: _settings_of(held).flat())
            if theirs != ours:
                changed = differences(theirs, ours)
                raise FolderTaken(
                    f"{self.path}: holds a run with another configuration ({changed}); give another --output"
                )
            if self.sources() != sources:
                raise FolderTaken(f"{self.path}: the data have changed since this run began; give another --output")
            return
        self.check_free()
        self.path.mkdir(parents=True, exist_ok=True)
        texts = {
            self.data: json.dumps(sources, indent=1, ensure_ascii=False),
            self.config: _as_yaml(settings),
        }
        manifest.write(self.path, {path.name: manifest.entry_of(text.encode()) for path, text in texts.items()})
        for path, text in texts.items():
            write_whole(path, text)

    def check_free(self) -> None:
        """Check that the folder holds a run, or nothing.

        Raises:
            FolderTaken: it holds something else.
        """
        if not self.config.exists() and not is_free(self.path):
            raise FolderTaken(f"{self.path}: is not empty and holds no run; give another --output")

    def settings(self) -> RunSettings:
        """The settings in config.yaml, as the run began with them.

        Raises:
            Damaged: they are missing, or were changed since; what changed is named.
        """
        held = self._held_settings()
        try:
            return _settings_of(held)
        except (ValidationError, TypeError) as error:
            raise Damaged(f"{self.config}: holds no whole settings of a run ({reason(error)})") from error

    def replace_settings(self, settings: RunSettings) -> None:
        """Write other settings of the same run. Killed at any moment the folder holds the one or the other."""
        sums, text = self._listed(), _as_yaml(settings)
        manifest.write(self.path, {name: entry for name, entry in sums.items() if name != self.config.name})
        write_whole(self.config, text)
        manifest.write(self.path, {**sums, self.config.name: manifest.entry_of(text.encode())})

    def enter_cells(self) -> None:
        """Enter what config.yaml names as the cell of the run, if this is one: a file is run, if it may be.

        Raises:
            UntrustedCode: it may not.  Damaged: as of `settings`.
        """
        if self.config.exists():
            self.settings()

    def sources(self) -> list[dict[str, Json]]:
        """The data that the run reads, from data.json.

        Raises:
            Damaged: they are missing or damaged.
        """
        self.check(self.data.name)
        return cast(list[dict[str, Json]], read_json(self.data))  # its sum was checked

    def keep_settings(self, folder: Path, settings: RunSettings) -> None:
        """Put the settings into a checkpoint, whose sums hold them."""
        write_whole(folder / SETTINGS, json.dumps(settings.flat(), indent=1, ensure_ascii=False))

    def check_same_settings(self, folder: Path, settings: RunSettings) -> None:
        """Check that a checkpoint was taken with these settings, or with another length of the run.

        Raises:
            Damaged: it was taken with others.
        """
        held = cast(dict[str, Json], read_json(folder / SETTINGS))
        theirs = as_of_now(held, lambda: _settings_of(held).flat())
        length = {name: value for name, value in settings.flat().items() if name in LENGTH}
        if {**theirs, **length} != settings.flat():
            change = differences(theirs, settings.flat(), words=("in its checkpoint", "now"))
            raise Damaged(f"{self.config}: was changed since the run began ({change}); {_RESTORE}")

    def finished(self) -> RunResult | None:
        """The result, if the run has ended; every file of the run is checked before, and it is said which report,
        picture or sample is not as it was written.

        Raises:
            Damaged: one is not as it was written.
        """
        if not self.result.exists() and any(self.checkpoints.glob("step-*")):
            return None  # it may have been killed between its manifest and its result
        if not self.result.exists() and self.result.name not in self._listed():
            return None
        self.check_all()
        listed = self._listed()
        for name in DERIVED:
            if name in listed and (fault := manifest.fault_of(self.path / name, listed[name])):
                LOG.warning("%s: %s; it is made again", self.path / name, fault)
        return read_record(self.result, RunResult)

    def check_all(self) -> None:
        """Check that all files that the manifest lists are as they were written, but for those that are made of others.

        Raises:
            Damaged: one is not.
        """
        self.check(*(name for name in self._listed() if name not in DERIVED))
        for model in (self.model, self.tested):
            if model.exists():
                manifest.check(model)

    def check(self, *names: str) -> None:
        """Check that these files, as far as the manifest lists them, are as they were written.

        Raises:
            Damaged: one is not.
        """
        listed = self._listed()
        for name in names:
            fault = manifest.fault_of(self.path / name, listed[name]) if name in listed else None
            if fault:
                raise Damaged(f"{self.path / name}: {fault}; {_RESTORE}")

    def lists(self, name: str) -> bool:
        """Whether the manifest holds the sum of a file."""
        return name in self._listed()

    def seal(self, result: RunResult, outcomes: Mapping[str, Outcomes]) -> None:
        """Write the outcomes of each split, the sums of all files, then the result, with which the run is finished."""
        write_outcomes(self.outcomes, outcomes)
        text = result.text()
        sums = self._listed()  # of settings and data: from the beginning
        for path in (self.config, self.data):
            sums.setdefault(path.name, manifest.entry_at(path))  # the user may have removed the manifest
        for name in (self.metrics.name, self.outcomes.name, _MODEL_SUMS, _TESTED_SUMS):
            if (self.path / name).exists():  # a trial has no model
                sums[name] = manifest.entry_at(self.path / name)
        manifest.write(self.path, {**sums, self.result.name: manifest.entry_of(text.encode())})
        write_whole(self.result, text)

    def _held_settings(self) -> dict[str, Any]:
        """The content of config.yaml, checked against the sum from when the run began."""
        try:
            held = read_yaml(self.config)
        except yaml.YAMLError as error:
            raise Damaged(f"{self.config}: is damaged ({reason(error)}); {_RESTORE}") from error
        if not isinstance(held, dict):
            raise Damaged(f"{self.config}: {'holds no settings' if held else 'is empty'}; {_RESTORE}")
        entry = self._listed().get(self.config.name) if manifest.is_expected(self.config) else None
        fault = entry and manifest.fault_of(self.config, entry)
        if fault:
            raise Damaged(f"{self.config}: was changed since the run began ({self._change(held) or fault}); {_RESTORE}")
        return held

    def _change(self, held: dict[str, Any]) -> str:
        """A sentence on the settings in which the newest checkpoint differs from those held now; empty if there is
        none.
        """
        kept = checkpoint.newest(self.checkpoints)
        if kept is None:
            return ""
        return differences(read_json(kept / SETTINGS), held, words=("in its checkpoint", "now"))

    def _listed(self) -> dict[str, manifest.Entry]:
        return manifest.read(self.path) if (self.path / manifest.MANIFEST).exists() else {}


def _settings_of(held: Mapping[str, Any]) -> RunSettings:
    """The settings that a folder of this version or an earlier one holds. What was removed is left out, off or on: a
    finished model is whole in any case, and of a checkpoint in parts `Sharing.load` says so."""
    return RunSettings.from_flat({name: value for name, value in held.items() if name not in REMOVED})


def _as_yaml(settings: RunSettings) -> str:
    return manifest.HEADING + yaml.safe_dump(settings.flat(), sort_keys=False, allow_unicode=True)


class MetricsLog:
    """Appends lines to a run's metrics.jsonl; `step` is in every one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **line: Json) -> None:
        """One line. What may differ between equal runs goes under `measured`."""
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep(self, folder: Path) -> None:
        """Put the lines so far into a checkpoint."""
        (folder / self.path.name).write_bytes(self.path.read_bytes() if self.path.exists() else b"")

    def go_back(self, checkpoint: Path | None) -> None:
        """Go back to the lines of a checkpoint, to none where there is no checkpoint; say so where one of them was
        changed or lost since."""
        if checkpoint is None:
            self.path.unlink(missing_ok=True)
            return
        lines = (checkpoint / self.path.name).read_bytes()
        if not (self.path.exists() and self.path.read_bytes().startswith(lines)):
            LOG.warning("%s: is damaged; its lines are taken from checkpoint %s", self.path, checkpoint.name)
        write_whole(self.path, lines)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All whole lines: numbers by name, without what was measured.

    Raises:
        Damaged: the file is missing, or a line of it is no JSON.
    """
    return [{name: value for name, value in line.items() if name != "measured"} for line in _lines(path)]


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, as they were appended."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        # What follows the last newline is empty, or half a line.
        return [json.loads(line) for line in lines[:-1]]
    except FileNotFoundError as error:
        raise Damaged(f"{path}: is missing") from error
    except ValueError as error:  # of JSON, or of UTF-8
        raise Damaged(f"{path}: is damaged ({error})") from error


IN_MEMORY = ("train.parquet", "validation.parquet", "test.parquet")
"""Files of data that were in memory when the run began."""


def is_free(path: Path) -> bool:
    """Whether a folder can be taken: it is not there, or holds nothing but what a killed process left half-written."""
    # All are written before the settings: data that a caller had in memory, too.
    leftovers = ("data.json", manifest.MANIFEST, LOCK, ".writing", *IN_MEMORY)
    return not path.exists() or all(child.name.endswith(leftovers) for child in path.iterdir())


def check_model(folder: Path) -> Path:
    """Check the files of a run's model, or of any model's folder, and return its folder.

    A folder without sums, as `save_pretrained` writes it, is taken as it is.

    Raises:
        Damaged: a file is not as it was written.
    """
    run = RunFolder(folder)
    if not run.model.is_dir():
        manifest.check(folder)
        return folder
    run.check(_MODEL_SUMS)
    manifest.check(run.model)
    return run.model


def as_of_now(held: Held, read: Callable[[], Held]) -> Held:
    """The settings that were `held`, with the defaults of settings that came later; as it is if it cannot be read as
    settings.
    """
    try:
        return read()
    except (ValidationError, AttributeError, KeyError, TypeError):
        return held


def differences(theirs: object, ours: object, prefix: str = "", words: tuple[str, str] = ("there", "here")) -> str:
    """The keys in which two configurations differ, with both values; three of them, if there are more."""
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return f"{prefix}: {theirs!r} {words[0]}, {ours!r} {words[1]}"
    keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    dot = f"{prefix}." if prefix else ""
    named = [differences(theirs.get(key), ours.get(key), f"{dot}{key}", words) for key in keys[:3]]
    return "; ".join(named + [f"and {len(keys) - 3} more"] * (len(keys) > 3))
