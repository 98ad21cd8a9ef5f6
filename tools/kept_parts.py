"""The first steps of kept runs, run again and compared with those that are kept under results/parts/.

    python tools/kept_parts.py check [NAME ...]     all parts, or those named, as wikitext-2 or digits/gru-layers
    python tools/kept_parts.py write [NAME ...]     keep them as they are here and now

A part has the settings, the data and the seed of a kept run and ends early: learning rates are those of the whole run.
It runs on one thread and looks at no clock. With the versions and on the processor that made what is kept, it must come
out to the bit; elsewhere within `Allowed`. `check` names each part that differs, and the first step that does.
"""

import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Before numpy and torch are loaded. As in the tests: some virtual machines announce AMX and end who uses it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ["OMP_NUM_THREADS"] = "1"

import cross_validate
import numpy as np
import series_tables
import torch
import yaml
from cyclopts import App
from llvmlite import binding
from torch import Tensor

from gatedrnn.data import SERIES, Examples, Lanes, TaskData, Windows, load_task
from gatedrnn.errors import DataError
from gatedrnn.processes import SignalFlag
from gatedrnn.progress import Progress
from gatedrnn.records import Machine, environment
from gatedrnn.study.results import ComparisonResults, ProbeResults
from gatedrnn.study.settings import CompareSettings
from gatedrnn.study.space import with_values
from gatedrnn.tasks.probes.settings import ProbeTaskSettings
from gatedrnn.tasks.series.settings import SeriesSettings
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.folder import RunFolder, differences
from gatedrnn.training.loop import Trainer
from gatedrnn.training.optimise import weights_of
from gatedrnn.training.recipes import with_options, with_recipe
from gatedrnn.training.result import Record, read_record
from gatedrnn.training.settings import ModelSettings, RunSettings, TrainSettings

app = App(help=__doc__)
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
KEPT = RESULTS / "parts"
DATA = ROOT.parent / "shared" / "data"
PARTS = {
    "digits/gru-layers": 205, "digits/lstm": 82, "digits/mingru-params": 205, "digits/minlstm-layers": 205,
    "ag_news/gru-layers": 200, "ag_news/mingru-layers": 200, "ag_news/minlstm-layers": 200,
    "ag_news-bfloat16/mingru-layers": 60,
    "ag_news-family/cifg-params": 40, "ag_news-family/rg-lru-params": 40, "ag_news-family/slstm-params": 20,
    "ag_news-tuned/mingru-params": 40, "ag_news-tuned/transformer-params": 20,
    "ladder/gru/gru-input-gated-layers": 60, "ladder/gru/mgu-layers": 40, "ladder/lstm/lstm-normalized-layers": 60,
    "etth1-96/gru-layers": 100, "etth1-96/mingru-layers": 100, "etth1-720/minlstm-layers": 50,
    "etth1-96-others/gru-d-layers": 20, "etth1-96-others/lstm-peephole": 30,
    "m4-hourly/mingru": 50, "m4-hourly/minlstm-layers": 40,
    "mnist/permuted": 40, "mnist/sequential": 40,
    "physionet/gru-d": 30, "physionet/mingru": 60,
    "probes/bfloat16/signed-mingru": 100,
    "probes/default/modular-addition/minlstm": 200, "probes/default/mqar/gru": 150, "probes/default/parity/mingru": 400,
    "probes/default/parity/signed-mingru": 400, "probes/default/s3/block-orthogonal": 200,
    "probes/default/selective-copying/mingru": 150, "probes/family/parity/lru": 100, "probes/family/parity/sru": 100,
    "probes/million/parity/minlstm": 100, "probes/more/copying/gru": 100, "probes/more-seeds/s3/minlstm": 100,
    "probes/other-seeds/mqar/mingru": 100, "probes/s5/s5/gru": 40,
    "selective-copying/seed-0": 30, "selective-copying/seed-1": 10, "selective-copying/seed-2": 10,
    "series/arrowhead/gru": 40, "series/basicmotions/gru": 60, "series/italypowerdemand/gru": 100,
    "series/japanesevowels/gru": 100,
    "spoken-digits/gru": 100, "spoken-digits/minlstm-layers": 100, "spoken-digits-raw/mingru": 10,
    "tiny-shakespeare/lstm": 5, "tiny-shakespeare/mingru": 20, "tiny-shakespeare/minlstm": 20,
    "tiny-shakespeare-family/gru-params": 30, "tiny-shakespeare-time/gru-time": 10,
    "wikitext-2/lstm": 4, "wikitext-2/mingru": 10, "wikitext-2/minlstm": 10, "wikitext-2/origin": 4,
}  # fmt: skip
"""Steps of each. A part's name is its folder under results/, and the contender in it (of probes: task and cell)."""
EVALUATED = 16_384
"""Steps of sequences on which the last weights are evaluated: the first of each split, one sequence at least."""
EVALUATED_TEXT, EVALUATED_SERIES = 1024, 20
"""The evaluated tokens of a text with a large vocabulary, and the evaluated forecasts."""
FIRST, GROWS, SAYS_NOTHING = {"float32": 1e-6, "bfloat16": 5e-4}, 1.2, 0.1
"""The bounds of losses made elsewhere; see `allowed`."""
LIMITS = (
    "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_FEATURES",
    "NUMBA_CPU_NAME", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE",
)  # fmt: skip
"""Variables by which a user makes a processor another one."""


class Part(Record):
    """The record of a part."""

    losses: list[float]
    """The losses of every step."""
    scores: dict[str, dict[str, float]]
    """The scores of the last weights by split, on its first examples."""
    weights: str
    """sha256 of the last weights."""
    precision: str
    """The precision of matrix products."""
    date: str
    environment: Machine
    instructions: dict[str, str]
    """The instruction sets that libraries use of the processor."""

    def text(self) -> str:
        """A line for each field."""
        fields = [f' "{name}": {json.dumps(value)}' for name, value in self.model_dump(mode="json").items()]
        return "{\n" + ",\n".join(fields) + "\n}"

    @property
    def made_by(self) -> dict[str, object]:
        """The versions and instructions that the bits depend on beside the code."""
        versions = {name: version for name, version in self.environment["versions"].items() if name != "gatedrnn"}
        return {"processor": self.environment["processor"], **versions, **self.instructions}


class Kept(NamedTuple):
    """A kept run."""

    settings: RunSettings
    """Files by their names alone."""
    sources: dict[str, str | None]
    """The sha256 of what it read, by name; empty where that was not kept."""

    @property
    def files(self) -> dict[str, Path]:
        """The files that it read, by setting."""
        held = self.settings.data.model_dump()
        return {name: Path(file) for name, file in held.items() if name.endswith("_file") and file is not None}


class Compared(NamedTuple):
    """A part beside what is kept of it."""

    agrees: bool
    words: str


class Enough(Exception):
    """The last step of a part is done."""


@app.command
def check(*names: str, data: Path = DATA) -> None:
    """Run parts and compare them with what is kept; ends with 1 if one differs.

    Args:
        names: parts, or folders of results/ that have some; all if none is named.
        data: folder of the shared data; without it, parts that read none of it are checked.
    """
    differing = list[str]()
    with tempfile.TemporaryDirectory() as place:
        for name in chosen(names):
            report = checked(name, data, Path(place))
            if not report.agrees:
                differing.append(name)
            print(f"{name}: {report.words}", flush=True)
    if differing:
        raise SystemExit(f"{len(differing)} of {len(chosen(names))} parts differ: {' '.join(differing)}")


def checked(name: str, data: Path, place: Path) -> Compared:
    """A part, run and compared."""
    try:
        if kept(name).files and not data.is_dir():
            return Compared(True, f"not checked: there is no {data}")
        return compared(read_record(file_of(name), Part), run(name, data, place))
    except Exception as error:  # whatever it is: the others are still checked, and the exit code says so
        return Compared(False, f"FAILS: {type(error).__name__}: {' '.join(str(error).split())}")


def compared(kept: Part, made: Part) -> Compared:
    """Compare two records: to the bit where both were made by the same versions on the same processor, else within what
    is allowed.
    """
    steps = len(kept.losses)
    if len(made.losses) != steps:
        return Compared(False, f"DIFFERS: {steps} steps are kept, {len(made.losses)} were run; write it anew")
    if kept.made_by != made.made_by:
        return nearly(kept, made)
    for step, (theirs, mine) in enumerate(zip(kept.losses, made.losses, strict=True), start=1):
        if mine != theirs:
            return Compared(False, f"DIFFERS from step {step} on: {beside(mine, theirs)}")
    if kept.weights != made.weights or kept.scores != made.scores:
        return Compared(
            False, f"DIFFERS after step {steps}: the losses are the same, the last weights or scores are not"
        )
    return Compared(True, f"the same {steps} steps, weights and scores, to the bit")


def nearly(kept: Part, made: Part) -> Compared:
    """Within what is allowed, as far as that says anything; scores, where it does so of the last step."""
    elsewhere = f"made elsewhere ({differences(kept.made_by, made.made_by, words=('kept', 'here'))})"
    pairs = [(step, *losses) for step, losses in enumerate(zip(kept.losses, made.losses, strict=True), start=1)]
    pairs += [(len(pairs), kept.scores[split]["loss"], made.scores[split]["loss"]) for split in kept.scores]
    largest, last = 0.0, 0
    for step, theirs, mine in pairs:
        most = allowed(step, kept.precision)
        if most > SAYS_NOTHING:
            continue
        share, last = abs(mine / theirs - 1) / most, step
        if not share <= 1:  # nor is a NaN
            return Compared(
                False, f"DIFFERS from step {step} on: {beside(mine, theirs)}; allowed {most:.1e}, {elsewhere}"
            )
        largest = max(largest, share)
    return Compared(True, f"agrees in {last} steps, off by {largest:.0%} of what is allowed, {elsewhere}")


def allowed(step: int, precision: str) -> float:
    """The relative difference that a loss may have at a step where another processor or other versions made it.

    There sums are taken in another order. With a processor of AVX-512 held to AVX2, in oneDNN, MKL, torch and Numba,
    losses of these parts were off by 3e-7 at most in the first ten steps, 9e-4 in bfloat16; training then doubled that
    every four steps at worst, so that after some sixty (thirty in bfloat16) two runs have no digit in common.
    """
    return FIRST[precision] * GROWS**step


def beside(mine: float, theirs: float) -> str:
    """Two losses in words."""
    return f"loss {mine!r}, kept {theirs!r}, off by {abs(mine / theirs - 1):.1e} of it"


@app.command
def write(*names: str, data: Path = DATA) -> None:
    """Run parts and keep them.

    Args:
        names: parts, or folders of results/ that have some; all if none is named.
        data: folder of the shared data.
    """
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for name in chosen(names):
            part = run(name, data, Path(place))
            part.write(file_of(name))
            print(f"{name}: {len(part.losses)} steps, loss {part.losses[0]:.4f} to {part.losses[-1]:.4f}", flush=True)


def chosen(names: Sequence[str]) -> list[str]:
    """Parts by name or by folder, in the order of `PARTS`; all of them by none."""
    for name in names:
        if not any(f"{part}/".startswith(f"{name}/") for part in PARTS):
            raise SystemExit(f"there is no part {name}; there are {' '.join(PARTS)}")
    return [part for part in PARTS if not names or any(f"{part}/".startswith(f"{name}/") for name in names)]


def file_of(name: str) -> Path:
    """The file of a kept part."""
    return KEPT / f"{name.replace('/', '.')}.json"


def run(name: str, data: Path, place: Path) -> Part:
    """The first steps of a kept run.

    Args:
        name: of the part.
        data: folder of the shared data.
        place: where files are made of these, for all parts of a process.
    """
    record, steps, losses = kept(name), PARTS[name], list[float]()

    def on_step(progress: Progress) -> None:
        losses.append(progress.loss)
        if progress.step == steps:
            raise Enough

    settings = with_files(name, record, data, place)
    task = load_task(settings.data)
    check_same(record, task)
    task = replace(task, evaluation={split: first_of(whole) for split, whole in task.evaluation.items()})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(settings, task, RunFolder(Path(folder)))
        with suppress(Enough):
            trainer.fit(on_step, SignalFlag())
    with trainer.average.in_place(trainer.bare) if trainer.average is not None else nullcontext():
        evaluations = {split: evaluate(trainer.bare, task, split, trainer.accelerator) for split in task.evaluation}
        weights = sum_of(weights_of(trainer.bare))
    return Part(
        losses=losses, scores={split: part.scores.model_dump(exclude_none=True) for split, part in evaluations.items()},
        weights=weights, precision=settings.train.precision, instructions=instructions(), **environment(),
    )  # fmt: skip


def kept(name: str) -> Kept:
    """The run of which a part is the beginning: its settings, from its record."""
    folder = next(path for path in (RESULTS / name, *(RESULTS / name).parents) if path.is_dir())
    contender = (RESULTS / name).relative_to(folder).as_posix()
    if (folder / "settings.yaml").exists():
        flat = yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8"))
        sources = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        return Kept(RunSettings.from_flat(flat), {source["name"]: source.get("sha256") for source in sources})
    if (folder / ComparisonResults.FILE).exists():
        return of_comparison(read_record(folder / ComparisonResults.FILE, ComparisonResults), contender)
    if (folder / ProbeResults.FILE).exists():
        return of_probe(read_record(folder / ProbeResults.FILE, ProbeResults), *contender.split("/"))
    return of_fold(contender)


def of_comparison(results: ComparisonResults, contender: str) -> Kept:
    """The first run of a contender, as long as it was."""
    row = results.contender(contender)
    asked = CompareSettings.model_validate(results.settings.model_dump())
    run = asked.run(row.cell, row.structure.hidden_size, row.runs[0].seed)
    if results.search is not None:
        run = with_values(run, results.search.best[contender].values)
    if "time" in asked.contenders.match:
        run = run.model_copy(update={"train": run.train.model_copy(update={"total_steps": row.runs[0].steps})})
    return Kept(run, {source.name: source.sha256 for source in results.data.sources})


def of_probe(results: ProbeResults, task: str, cell: str) -> Kept:
    """The first run of a cell, by the task's recipe, which is not kept."""
    run = RunSettings(
        cell=with_options(task, cell), hidden_size=results.tasks[task].cells[cell].hidden_size,
        seed=results.settings.seeds[0], data=with_recipe(task, "data", ProbeTaskSettings(task=task)),
        model=with_recipe(task, "model", ModelSettings()), train=with_recipe(task, "train", TrainSettings()),
    )  # fmt: skip
    return Kept(run, {})


def of_fold(cell: str) -> Kept:
    """The first fold of PhysioNet, by its command in results/README.md: what is kept of it has no settings."""
    data = SeriesSettings(
        task=SERIES, train_file=Path("train-0.csv"), test_file=Path("test-0.csv"), metric="auroc", missing=("-1",)
    )
    model = ModelSettings(bidirectional=False, pooling="last", layers=1, head_dropout=0.3)
    run = RunSettings(
        cell=cell, hidden_size=64, data=data, model=with_recipe(SERIES, "model", model),
        train=with_recipe(SERIES, "train", TrainSettings(batch_size=64, total_steps=500, validate_every=50)),
    )  # fmt: skip
    return Kept(run, {})


def with_files(name: str, record: Kept, data: Path, place: Path) -> RunSettings:
    """The settings of a run on one thread, with the files that they name: those made of shared data, or these."""
    folder = name.partition("/")[0]
    made = made_by(TABLES[folder], data, place) if folder in TABLES else None

    def found(file: Path) -> Path:
        if made is not None:
            return next(made.rglob(file.name))
        for path in sorted(data.rglob(file.name)):
            if record.sources[file.name] == hashlib.sha256(path.read_bytes()).hexdigest():
                return path
        raise DataError(f"{data}: there is no {file.name} that is the one of the kept record")

    files = {key: found(file) for key, file in record.files.items()}
    if made is not None and isinstance(record.settings.data, SeriesSettings):
        files["data_root"] = made  # tables of folds name files beside their folder
    return record.settings.model_copy(update={"threads": 1, "data": record.settings.data.model_copy(update=files)})


@cache
def made_by(make: Callable[[Path, Path], None], data: Path, place: Path) -> Path:
    """The folder of files that are made of shared data; once a process."""
    folder = place / make.__name__
    folder.mkdir()
    make(data, folder)
    return folder


def etth1(data: Path, into: Path) -> None:
    """Unpacked."""
    (into / "ETTh1.csv").write_bytes(gzip.decompress((data / "ett" / "ETTh1.csv.gz").read_bytes()))


def m4_hourly(data: Path, into: Path) -> None:
    """Write the table by the command in results/README.md."""
    series_tables.m4(data / "m4" / "Hourly-train.csv.gz", data / "m4" / "Hourly-test.csv.gz", output=into)


def spoken_digits(data: Path, into: Path) -> None:
    """Write the table by the command in results/README.md."""
    with tarfile.open(data / "fsdd" / "recordings.tar.xz") as packed:
        packed.extractall(into, filter="data")
    series_tables.spoken_digits(into / "recordings", output=into)


def physionet(data: Path, into: Path) -> None:
    """Write the tables by the command in results/README.md."""
    with tarfile.open(data / "physionet-2012" / "set-a.tar.xz") as packed:
        packed.extractall(into, filter="data")
    shutil.copyfile(data / "physionet-2012" / "Outcomes-a.txt", into / "Outcomes-a.txt")
    names = "set-a/{RecordID}.txt"
    cross_validate.split(into / "Outcomes-a.txt", file=names, label="In-hospital_death", output=into / "folds")


TABLES = {
    "etth1-96": etth1, "etth1-96-others": etth1, "etth1-720": etth1, "m4-hourly": m4_hourly, "physionet": physionet,
    "spoken-digits": spoken_digits, "spoken-digits-raw": spoken_digits,
}  # fmt: skip
"""The function that makes the files that runs read, by folder under results/."""


def check_same(record: Kept, task: TaskData) -> None:
    """Check that a task's data are those that the kept run read.

    Raises:
        DataError: they are others.
    """
    sums = {source["name"]: source.get("sha256") for source in task.sources}
    if record.sources and record.sources != sums:
        raise DataError(f"the data are not those of the kept record: {differences(record.sources, sums)}")


def first_of(split: Examples | Lanes | Windows) -> Examples | Lanes | Windows:
    """The first examples of a split, so that its evaluation takes a moment."""
    if isinstance(split, Examples):
        rows = max(1, int(np.searchsorted(split.lengths.cumsum(), EVALUATED, side="right")))
        gaps = None if split.gaps is None else split.gaps[:rows]
        return replace(split, inputs=split.inputs[:rows], labels=split.labels[:rows], gaps=gaps)
    if isinstance(split, Windows):
        fields = ("series", "first", "stop", "naive_error", "deviation")
        some = {field: getattr(split, field)[:EVALUATED_SERIES] for field in fields}
        return replace(split, **some, stride=split.horizon)
    text = split.stream
    starts = text.starts[text.starts <= EVALUATED_TEXT]
    return replace(split, stream=text._replace(tokens=np.asarray(text.tokens[: EVALUATED_TEXT + 1]), starts=starts))


def sum_of(weights: Mapping[str, Tensor]) -> str:
    """sha256 of all bits, by name."""
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def instructions() -> dict[str, str]:
    """The instruction sets that torch and numba use of this processor, and the limits that a user sets."""
    sets = {"torch": torch.backends.cpu.get_cpu_capability(), "numba": binding.get_host_cpu_name()}
    return sets | {name: os.environ[name] for name in LIMITS if name in os.environ}


if __name__ == "__main__":
    app()
