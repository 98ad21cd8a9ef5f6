"""All sections in turn, and what is kept of them."""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import torch

from gatedrnn.bench import sections
from gatedrnn.bench.bars import WHOLE_RUN, judged
from gatedrnn.bench.drop_in import drop_in, with_kernels
from gatedrnn.bench.family import family
from gatedrnn.bench.measure import Bench, OnStep
from gatedrnn.bench.memory import memory
from gatedrnn.bench.peers import PEERS
from gatedrnn.bench.record import SECTIONS, VERSION, Asked, BenchRecord, Count, Findings, Measured, Section
from gatedrnn.bench.sizes import SIZES, Sizes
from gatedrnn.equations import ScanEquations
from gatedrnn.records import commit, environment
from gatedrnn.registry import CELLS

DEFAULT = SECTIONS[:-3]
"""Of a default run; the last three sections take minutes by themselves."""
WITH_MODELS = ("model", "language", "forecast", "training")
SECONDS = 60.0
PARTS = {
    "layers": 0.46, "scan": 0.05, "loops": 0.17, "step": 0.07, "length": 0.11, "model": 0.08, "language": 0.08,
    "forecast": 0.05, "training": 2.0, "family": 3.0, "drop-in": 4.0,
}  # fmt: skip
"""Of the time for measuring; memory is counted and takes none of it. The last three come on top."""


class Request(NamedTuple):
    """What to measure."""

    only: tuple[Section, ...] = DEFAULT
    cells: tuple[str, ...] = ()
    """None for the default of each section."""
    sizes: Sizes | None = None
    """None for those of the device."""
    device: str = "cpu"
    compile: bool = False
    seconds: float = SECONDS
    """For measuring, in a run of all sections."""


def bench(request: Request, on_step: OnStep = lambda _: None) -> Findings:
    """Measure what is asked for.

    Raises:
        ModuleNotFoundError: whole models were asked for by name, and the extra `train` is not installed.
    """
    commit()  # for the record, as it is now
    started = time.perf_counter()
    at_work = Bench(request.device, on_step=on_step)
    sizes = request.sizes or SIZES[request.device]
    for peer in PEERS:
        if why := peer.missing(request.device):
            at_work.leave_out(peer.package, why)
    timed: dict[str, Callable[[Bench, Sizes, Sequence[str], float], None]] = {
        "layers": sections.layers, "scan": sections.scan, "loops": sections.loops, "step": sections.step,
        "length": sections.length, "family": family, "drop-in": drop_in,
    }  # fmt: skip
    for name in request.only:
        cells = request.cells or default_cells(name)
        if name == "memory":
            memory(at_work, sizes, cells)
        elif name in WITH_MODELS:
            _with_models(name, at_work, sizes, cells, request)
        else:
            timed[name](at_work, sizes, cells, PARTS[name] * request.seconds)
    if request == Request(device=request.device):
        taken = time.perf_counter() - started
        at_work.findings.counts.append(Count("run", WHOLE_RUN, "", None, taken, "s"))
    return at_work.findings


def default_cells(section: str) -> tuple[str, ...]:
    """The cells that a section measures if none is named."""
    scans = tuple(name for name, cell in CELLS.items() if issubclass(cell.equations, ScanEquations))
    chosen = {
        "layers": ("mingru", "minlstm"), "memory": scans, "loops": ("lstm", "gru", "lstm-peephole", "mgu"),
        "length": ("mingru", "minlstm", "lstm"), "language": ("mingru",), "forecast": ("gru", "mingru"),
        "training": ("mingru", "lstm"),
        "drop-in": with_kernels(),
    }  # fmt: skip
    return chosen.get(section, tuple(CELLS))


def _with_models(name: str, at_work: Bench, sizes: Sizes, cells: Sequence[str], request: Request) -> None:
    if request.only == DEFAULT and any(find_spec(package) is None for package in ("transformers", "pydantic")):
        at_work.leave_out(name, "needs the training extra: pip install 'gatedrnn[train]'")
        return
    from gatedrnn.bench.forecasts import forecast
    from gatedrnn.bench.models import language, model
    from gatedrnn.bench.training import training

    seconds = PARTS[name] * request.seconds
    if name == "model":
        model(at_work, sizes, cells, request.compile, seconds)
    else:
        {"language": language, "forecast": forecast, "training": training}[name](at_work, sizes, cells, seconds)


def record_of(findings: Findings, request: Request, command: str) -> BenchRecord:
    """The content of bench.json."""
    here = environment()
    return BenchRecord(
        schema=VERSION,
        passed=not findings.wrong,
        command=command,
        settings=Asked(
            only=request.only, cells=request.cells, device=request.device, dtype="float32", compile=request.compile,
            seconds=request.seconds, sizes=request.sizes or SIZES[request.device],
        ),
        timings=findings.timings, ratios=findings.ratios, counts=findings.counts, wrong=findings.wrong,
        left_out=findings.left_out, bars=judged(findings),
        measured=Measured(here["date"], here["environment"], torch.get_num_threads(), _gpu(request.device)),
    )  # fmt: skip


def _gpu(device: str) -> str | None:
    return torch.cuda.get_device_name() if device == "cuda" else None
