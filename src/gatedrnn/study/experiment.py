"""A comparison from its settings to results.json: contenders, runs, baselines, numbers."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData, load_task
from gatedrnn.errors import Damaged, DataError, FolderTaken
from gatedrnn.layers import RecurrentLayer
from gatedrnn.locks import LOCK, empty, sole_writer
from gatedrnn.records import environment, read_json, write_whole
from gatedrnn.study.linear import linear_baseline
from gatedrnn.study.match import Contender, contenders
from gatedrnn.study.memory import training_memory
from gatedrnn.study.runs import OnProgress, Records, run_all
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.speed import training_speed
from gatedrnn.study.statistics import difference_of, over_documents, score_of
from gatedrnn.train.demand import demand_room
from gatedrnn.train.folder import as_of_now, differences, is_free
from gatedrnn.train.metrics import read_metrics
from gatedrnn.train.model import build_model
from gatedrnn.train.objective import metric_of
from gatedrnn.train.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
SCHEMA = 3
_RESTORE = "restore it, give another --output, or --fresh to start over"
SPEED_SECONDS = 3.0
"""Of measuring speeds, for each contender."""


def compare(
    settings: CompareSettings, folder: Path, *, jobs: int = 1, memory: bool = False, fresh: bool = False,
    wait: bool = False, command: str = "", on_progress: OnProgress = lambda *_: None,
) -> dict[str, Any]:  # fmt: skip
    """Run whatever is not finished yet and put the results together.

    Args:
        settings: the whole comparison.
        folder: where its runs are, or go.
        jobs: processes that work at the same time; the numbers do not depend on it, the times do.
        memory: measure each contender's memory in a process of its own.
        fresh: remove the comparison that is in `folder` first; not before the new one is seen to make sense.
        wait: wait for another process that writes into the folder, instead of giving up.
        command: the command line, for the record.
        on_progress: told how far each run is.

    Returns:
        The content of results.json, which is written into `folder`.

    Raises:
        FolderTaken: the folder holds another comparison.  InUse: another process writes into it.
        Damaged: a record of it, or of one of its runs, is not as it was written.  NoMatch: a width cannot be found.
        NonFiniteLoss: of a run, after all others are finished; and whatever else a run raises. Finished runs are
        kept, and the same call goes on from there.
    """
    comparison = Comparison(settings, folder)
    comparison.check(fresh=fresh)  # before a folder of something else gets a lock
    with sole_writer(folder, wait=wait):
        comparison.claim(fresh=fresh)
        since = None if comparison.has_begun() else time.perf_counter()
        comparison.linear()
        records, diverged = run_all(comparison.runs, folder, jobs, on_progress)
        if diverged:
            raise diverged[0]
        return comparison.put_together(
            records, speed_seconds=SPEED_SECONDS, memory=memory, since=since, jobs=jobs, command=command
        )


class Comparison:
    """What one comparison is made of: data, contenders with their widths, and a run for each of them and each seed.

    Raises:
        DataError: there is no test split.  NoMatch: a width cannot be found.
    """

    def __init__(self, settings: CompareSettings, folder: Path) -> None:
        self.settings, self.data = settings, load_task(settings.data)
        self.folder, self.config = folder, folder / "comparison.yaml"
        self.asked = _written(settings, self.data.sources)
        if "test" not in self.data.evaluation:
            raise DataError("a comparison ends on a test split; set --test-fraction above 0, or give --test-file")
        who = settings.contenders
        demand_room(settings.run(who.cells[0], who.hidden_size, who.seeds[0]), self.data)
        self.entrants = contenders(settings, self.data)
        self.runs = {
            f"{entrant.name}/seed-{seed}": settings.run(entrant.cell, entrant.hidden_size, seed)
            for seed in settings.contenders.seeds
            for entrant in self.entrants
        }

    def check(self, *, fresh: bool) -> None:
        """See that the folder is free, or is this comparison's own already: the same settings, the same data.

        Raises:
            FolderTaken: it holds another one, which is not to be removed first, or something else.
        """
        if not self.config.exists() and not is_free(self.folder):
            raise FolderTaken(f"{self.folder}: is not empty and holds no comparison; give another --output")
        if fresh or not self._holds_work():
            return
        held = self._held_settings()
        theirs = as_of_now(held, lambda: _written(CompareSettings.model_validate(_asked(held)), held["sources"]))
        if theirs != self.asked:
            raise FolderTaken(
                f"{self.config}: of a comparison with another configuration ({differences(theirs, self.asked)}); "
                "give another --output, or --fresh to start over"
            )

    def claim(self, *, fresh: bool) -> None:
        """`check`, then make the folder this comparison's own; if `fresh`, without what is in it."""
        self.check(fresh=fresh)
        if fresh and self.folder.exists():
            empty(self.folder)
        if self._holds_work():
            if not manifest.is_expected(self.config):
                return
            manifest.say_what_is_made_again(self.folder)
            if not manifest.fault_of(self.config, manifest.of(self.config) or {}):
                return
        self.folder.mkdir(parents=True, exist_ok=True)
        text = manifest.HEADING + yaml.safe_dump(self.asked, sort_keys=False, allow_unicode=True)
        write_whole(self.config, text)
        manifest.add(self.folder, self.config.name)

    def _holds_work(self) -> bool:
        """Whether the folder is a comparison's, and something was done in it."""
        ours = {self.config, self.folder / LOCK, self.folder / manifest.MANIFEST}
        return self.config.exists() and not ours.issuperset(self.folder.iterdir())

    def _held_settings(self) -> Any:
        try:
            held = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise Damaged(f"{self.config}: is damaged ({str(error).splitlines()[0]}); {_RESTORE}") from error
        if held is None:
            raise Damaged(f"{self.config}: is empty; {_RESTORE}")
        return held

    def has_begun(self) -> bool:
        """Whether a run of it was begun already."""
        return any((self.folder / name).exists() for name in self.runs)

    def linear(self) -> dict[str, Any] | None:
        """The linear baseline on a task of texts, fitted once."""
        return _once(self.folder / "linear.json", lambda: linear_baseline(self.data)) if self.data.texts else None

    def put_together(
        self, records: Records, *, speed_seconds: float, memory: bool = False,
        since: float | None = None, jobs: int = 1, command: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """Baselines and measurements, each made once, and results.json, which is returned.

        Args:
            records: every run's result.
            speed_seconds: of measuring speeds, for each contender.
            memory, jobs, command: as `compare` has them.
            since: when the first run began, by `time.perf_counter`; None if that was in an earlier call, or if other
                runs were trained in between.
        """
        settings, data, folder, linear = self.settings, self.data, self.folder, self.linear()
        seed = settings.contenders.seeds[0]
        firsts = {entrant.name: self.runs[f"{entrant.name}/seed-{seed}"] for entrant in self.entrants}
        results = _assemble(settings, data, self.entrants, records, linear, folder)
        results["measured"] = {
            "runs": {name: record["measured"] for name, record in records.items()},
            "linear": None if linear is None else linear["measured"],
            "memory_mib": _once(folder / "memory.json", lambda: _memory(firsts)) if memory else None,
            "speed": _once(folder / "speed.json", lambda: training_speed(firsts, data, speed_seconds)),
            "runs_on": {entrant.name: _runs_on(settings, data, entrant) for entrant in self.entrants},
            "jobs": jobs,
            "wall_seconds": None if since is None else time.perf_counter() - since,
            "command": command,
            **environment(),
        }
        write_whole(folder / "results.json", json.dumps(results, indent=1, ensure_ascii=False))
        manifest.add(folder, "results.json")
        return results


def _written(settings: CompareSettings, sources: list[dict[str, Any]]) -> dict[str, Any]:
    return {**settings.model_dump(mode="json"), "sources": sources}


def _asked(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name != "sources"}


def _once(path: Path, make: Callable[[], Any]) -> Any:
    """The content of `path`, made and written if it is not there, or not as it was written."""
    listed = manifest.of(path)
    if not path.exists() or (listed and manifest.fault_of(path, listed)):
        write_whole(path, json.dumps(make(), indent=1))
        manifest.add(path.parent, path.name)
    return read_json(path)


def _memory(runs: dict[str, RunSettings]) -> dict[str, float | None]:
    LOG.info("measuring the memory of training %d contenders, each in a process of its own", len(runs))
    return {name: training_memory(run) for name, run in runs.items()}


def _assemble(
    settings: CompareSettings, data: TaskData, entrants: list[Contender], records: Records,
    linear: dict[str, Any] | None, folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """Everything that is the same when the same comparison is run again."""
    seeds = settings.contenders.seeds
    tests, metric = list(data.evaluation), metric_of(data)
    score = metric.name
    counted = {name: len(split) for name, split in data.evaluation.items() if isinstance(split, Examples)}
    rows: list[dict[str, Any]] = []
    for entrant in entrants:
        own = []
        for seed in seeds:
            name = f"{entrant.name}/seed-{seed}"
            record = {k: v for k, v in records[name].items() if k not in ("measured", "cell", "hidden_size")}
            curve = [
                {k: line[k] for k in ("step", f"validation_{score}", "validation_loss")}
                for line in read_metrics(folder / name / "metrics.jsonl")
                if "validation_loss" in line
            ]
            own.append({**record, "curve": curve})
        rows.append(
            {
                "name": entrant.name,
                "cell": entrant.cell,
                "match": entrant.match,
                "structure": entrant.structure,
                "parameters": entrant.parameters,
                "core_residue": entrant.residue,
                "runs": own,
                "scores": {split: score_of(own, split, score, counted) for split in tests},
            }
        )
    for row in rows:
        row["difference_to_baseline"] = None
        if row is not rows[0]:
            row["difference_to_baseline"] = {
                split: difference_of(row["runs"], rows[0]["runs"], split, score, counted) for split in tests
            }
        if data.labelled == "next":
            row["over_documents"] = over_documents(row["runs"], rows[0]["runs"]) if row is not rows[0] else None
        if linear is not None:
            row["difference_to_linear"] = difference_of(row["runs"], [linear] * len(seeds), "test", score, counted)
    return {
        "schema": SCHEMA,
        "task": data.name,
        "metric": metric._asdict(),
        "settings": _without_paths(settings.model_dump(mode="json")),
        "data": {"sources": data.sources, "label_names": list(data.label_names), "notes": data.notes, "rows": counted},
        "contenders": rows,
        "baseline": {
            "contender": rows[0]["name"],
            "linear": None if linear is None else {k: v for k, v in linear.items() if k != "measured"},
        },
    }


def _runs_on(settings: CompareSettings, data: TaskData, entrant: Contender) -> str:
    """What runs a contender's recurrent layers in training, here."""
    model = build_model(settings.run(entrant.cell, entrant.hidden_size, 0), data)
    return next(module for module in model.modules() if isinstance(module, RecurrentLayer)).runs_on().name


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    """Files by name alone: a result says nothing about the machine's folders."""
    data = {k: Path(v).name if k.endswith("_file") and v else v for k, v in settings["data"].items()}
    return {**settings, "data": data}
