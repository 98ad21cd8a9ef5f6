"""A run: its sections in turn, compared with the bars, and its record."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from benchmarks import sections
from benchmarks.bars import MINIMAL, WHOLE_RUN, bars, judged
from benchmarks.drop_in import drop_in, few_steps, with_kernels
from benchmarks.family import family
from benchmarks.layers import TORCHS_LAYERS
from benchmarks.measure import Bench, OnStep
from benchmarks.memory import SCAN_CELLS, memory
from benchmarks.models import forecast, language, model
from benchmarks.peers import peers
from benchmarks.record import VERSION, BenchRecord, BenchSettings, Count, Findings, Measured, Request
from benchmarks.sizes import SIZES, Sizes
from benchmarks.training import training
from gatedrnn.records import commit, environment
from gatedrnn.registry import CELLS


class Section(NamedTuple):
    """A group of measurements."""

    title: str
    """The title of its tables."""
    measure: Callable[[Bench, Sizes, Sequence[str], float], None]
    """Add the measurements of some cells to the findings, in about `seconds`."""
    part: float
    """Its share of the time for measurements."""
    cells: tuple[str, ...] = ()
    """The cells measured by default; all if empty."""


SECTIONS = {
    "layers": Section("Layers", sections.layers, 0.5, MINIMAL),
    "scan": Section("The bare scan", sections.scan, 0.06),
    "memory": Section("Memory", memory, 0.0, SCAN_CELLS),  # is counted, and takes none of the time
    "loops": Section("Loop cells", sections.loops, 0.2, ("lstm", "gru", "lstm-peephole", "mgu")),
    "step": Section("Streaming", sections.step, 0.09),
    "length": Section("Time against length", sections.length, 0.15, (*MINIMAL, "lstm")),
    "training": Section("Training", training, 2.0, ("mingru", "lstm")),
    "peers": Section("Other libraries", peers, 0.3, MINIMAL),
    "model": Section("Whole models", model, 0.08),
    "language": Section("Language models", language, 0.08, ("mingru",)),
    "forecast": Section("Forecasts", forecast, 0.05, ("gru", "mingru")),
    "family": Section("The family", family, 3.0),
    "drop-in": Section("In the place of torch's", drop_in, 4.0, with_kernels()),
    "few-steps": Section("Few steps", few_steps, 1.0, tuple(TORCHS_LAYERS.values())),
}
"""Sections in the order of the report. The parts of the default ones add up to 1; the others come on top."""


def bench(request: Request, on_step: OnStep = lambda _: None) -> Findings:
    """Run the requested measurements."""
    commit()  # cached for the record before anything changes
    started = time.perf_counter()
    at_work = Bench(request.device, on_step=on_step, compile=request.compile)
    for name in request.only:
        section = SECTIONS[name]
        cells = request.cells or section.cells or tuple(CELLS)
        section.measure(at_work, sizes_of(request), cells, section.part * request.seconds)
    if request == Request(device=request.device):
        at_work.findings.counts.append(Count("run", WHOLE_RUN, "", None, time.perf_counter() - started, "s"))
    return at_work.findings


def sizes_of(request: Request) -> Sizes:
    """Return the sizes of the device, with the requested shapes."""
    sizes = SIZES[request.device]
    return sizes.at(request.shapes) if request.shapes else sizes


def record_of(findings: Findings, request: Request, command: str) -> BenchRecord:
    """Return the content of bench.json."""
    here, gpu = environment(), torch.cuda.get_device_name() if request.device == "cuda" else None
    return BenchRecord(
        schema=VERSION,
        passed=not findings.wrong,
        command=command,
        settings=BenchSettings(
            only=request.only, cells=request.cells, device=request.device, dtype="float32", seconds=request.seconds,
            sizes=sizes_of(request),
        ),
        timings=findings.timings, ratios=findings.ratios, counts=findings.counts, wrong=findings.wrong,
        left_out=findings.left_out, bars=judged(findings, bars()),
        measured=Measured(here["date"], here["environment"], torch.get_num_threads(), gpu),
    )  # fmt: skip
