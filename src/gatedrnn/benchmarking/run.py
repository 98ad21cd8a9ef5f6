"""A run of the benchmark: sections in turn, compared with bars, saved as a record."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

import torch

from gatedrnn.benchmarking import sections
from gatedrnn.benchmarking.layers import by_loop, over_floor, products_of, step_of
from gatedrnn.benchmarking.measure import BOTH, FORWARD, Bench, OnStep
from gatedrnn.benchmarking.memory import KEPT, SCAN_CELLS, memory
from gatedrnn.benchmarking.record import (
    SIZES,
    VERSION,
    BarResult,
    BenchRecord,
    BenchSettings,
    Count,
    Findings,
    Measured,
    Request,
    Shape,
    Sizes,
)
from gatedrnn.benchmarking.sections import AUTOCAST, LONG, NARROW, SHORT
from gatedrnn.records import commit, environment
from gatedrnn.registry import CELLS

SizesT = TypeVar("SizesT", bound=Sizes)
WHOLE_RUN = "whole default run"


@dataclass(frozen=True)
class Section(Generic[SizesT]):
    """A group of measurements."""

    title: str
    """The title of its tables."""
    measure: Callable[[Bench, SizesT, Sequence[str], float], None]
    """Add the measurements of some cells to the findings, in about `seconds`."""
    part: float
    """Its share of the time for measurements."""
    cells: tuple[str, ...] = ()
    """The cells measured by default; all if empty."""


@dataclass(frozen=True)
class Bar:
    """A bound on a measured number."""

    device: str
    measure: str
    shape: Shape | None
    find: Callable[[Findings], float | None]
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


@dataclass(frozen=True)
class Suite(Generic[SizesT]):
    """All measurements of a command."""

    sections: Mapping[str, Section[SizesT]]
    """Sections by name, in the order of the report."""
    sizes: Mapping[str, SizesT]
    """Sizes by device."""
    bars: Callable[[], Iterable[Bar]]
    """The bars that must hold."""

    def sizes_of(self, request: Request) -> SizesT:
        """Return the sizes of the device, with the requested shapes."""
        sizes = self.sizes[request.device]
        return sizes.at(request.shapes) if request.shapes else sizes


def bench(request: Request, suite: Suite[SizesT], on_step: OnStep = lambda _: None) -> Findings:
    """Run the requested measurements.

    Raises:
        ModuleNotFoundError: a section of whole models is requested, and the extra `train` is not installed.
    """
    commit()  # cached for the record before anything changes
    started = time.perf_counter()
    at_work, sizes = Bench(request.device, on_step=on_step), suite.sizes_of(request)
    for name in request.only:
        section = suite.sections[name]
        cells = request.cells or section.cells or tuple(CELLS)
        section.measure(at_work, sizes, cells, section.part * request.seconds)
    if request == Request(device=request.device):
        at_work.findings.counts.append(Count("run", WHOLE_RUN, "", None, time.perf_counter() - started, "s"))
    return at_work.findings


def record_of(findings: Findings, request: Request, suite: Suite[SizesT], command: str) -> BenchRecord:
    """Return the content of bench.json."""
    here, gpu = environment(), torch.cuda.get_device_name() if request.device == "cuda" else None
    return BenchRecord(
        schema=VERSION,
        passed=not findings.wrong,
        command=command,
        settings=BenchSettings(
            only=request.only, cells=request.cells, device=request.device, dtype="float32", seconds=request.seconds,
            sizes=suite.sizes_of(request),
        ),
        timings=findings.timings, ratios=findings.ratios, counts=findings.counts, wrong=findings.wrong,
        left_out=findings.left_out, bars=judged(findings, suite.bars()),
        measured=Measured(here["date"], here["environment"], torch.get_num_threads(), gpu),
    )  # fmt: skip


def judged(findings: Findings, bars: Iterable[Bar]) -> list[BarResult]:
    """Compare every bar with the findings."""
    results = []
    for bar in bars:
        value = bar.find(findings)
        verdict = None if value is None else bar.holds(value)
        results.append(BarResult(bar.device, bar.measure, bar.shape, bar.at_most, bar.at_least, value, verdict))
    return results


A, B, C, D = (8, 1024, 256), (2, 4096, 256), (64, 64, 128), (32, 512, 64)
LOOPS = {(8, 512, 256): 2.2, (32, 128, 256): 1.7}
MINIMAL = ("mingru", "minlstm")
TRAINING = {
    "AG News": (1.2, 1.4), "Tiny Shakespeare": (1.2, 1.4), "WikiText-2": (1.2, 1.4), "MNIST": (1.2, 3.0),
    "ETTh1": (1.5, 1.6),
}  # fmt: skip
"""The largest ratios of training steps to their floors, by model: of a minGRU and of an LSTM."""
WITHOUT_TORCHS_KERNEL = ("lstm-peephole", "mgu", "gru reset-before")
"""Loop cells that torch has no kernel for."""


def bars() -> Iterator[Bar]:
    """Bars in the order of the report. Times are those of forward and backward, unless said otherwise."""
    for cell, (shape, most) in product(MINIMAL, {A: 1.10, B: 1.10, C: 1.40, D: 1.30}.items()):
        yield ratio_bar("layers", BOTH.name, cell, products_of(cell), shape, at_most=most)
    for cell in MINIMAL:
        yield ratio_bar("layers", AUTOCAST.name, cell, products_of(cell), A, at_most=1.5)
    yield ratio_bar("layers", BOTH.name, "nn.GRU", "mingru", B, at_least=20)
    yield ratio_bar("layers", BOTH.name, "nn.LSTM", "minlstm", B, at_least=2.7)
    for shape in (A, (1, 65536, 256)):
        yield ratio_bar("scan", FORWARD.name, "torch.add", "linear_scan", shape, at_least=0.85)
    for cell in MINIMAL:
        yield _kept(cell, A)
    for shape in LOOPS:
        yield ratio_bar("loops", BOTH.name, "nn.GRU", "gru", shape, at_least=1.25)
    for section, shape in (*(("layers", shape) for shape in (A, B, C, D)), *(("loops", shape) for shape in LOOPS)):
        yield ratio_bar(section, BOTH.name, "lstm", "nn.LSTM", shape, at_most=1.05)
    for cell, (shape, most) in product(WITHOUT_TORCHS_KERNEL, LOOPS.items()):
        yield ratio_bar("loops", BOTH.name, cell, "nn.LSTM", shape, at_most=most)
    for cell, shape in product(WITHOUT_TORCHS_KERNEL, LOOPS):
        yield ratio_bar("loops", BOTH.name, by_loop(cell), cell, shape, at_least=5)
    for cell in MINIMAL:
        yield ratio_bar("length", BOTH.name, cell, cell, (1, LONG, 256), (1, SHORT, 256), at_most=18)
    for title, largest in TRAINING.items():
        for cell, most in zip(("mingru", "lstm"), largest, strict=True):
            yield _over_floor(title, cell, most)
    yield Bar(
        "cpu", f"{WHOLE_RUN}, seconds", None, lambda findings: findings.count("run", WHOLE_RUN, "", None), at_most=180
    )
    for narrow in ("", NARROW):
        mode = FORWARD.name + narrow
        yield ratio_bar("scan", mode, "copy", "linear_scan", (16, 4096, 1024), at_least=0.85, device="cuda")


def ratio_bar(
    section: str, mode: str, numerator: str, denominator: str, shape: Shape, other: Shape | None = None, *,
    at_most: float | None = None, at_least: float | None = None, device: str = "cpu",
) -> Bar:  # fmt: skip
    """Make a bar for a ratio at one shape, or of one shape to another."""
    measure = f"{numerator} ÷ {denominator}"
    if other is not None:
        measure = f"{numerator}, {shape[1]:,} steps ÷ {other[1]:,} steps"
    if mode != BOTH.name:
        measure += f" ({mode})"
    return Bar(
        device, measure, shape,
        lambda findings: findings.ratio(section, mode, numerator, denominator, shape, other), at_most, at_least,
    )  # fmt: skip


def largest_bar(
    section: str, mode: str, numerators: Sequence[str], title: str, denominator: str, most: float
) -> Bar:  # fmt: skip
    """Make a bar for the largest ratio of several contenders over all shapes."""
    return Bar(
        "cpu", f"{title} ÷ {denominator} ({mode}), the largest", None,
        lambda findings: findings.largest_ratio(section, mode, numerators, denominator), at_most=most,
    )  # fmt: skip


def _kept(cell: str, shape: Shape) -> Bar:
    return Bar(
        "cpu", f"tensors that {cell} keeps for backward beyond projection and output", shape,
        lambda findings: findings.count("memory", KEPT, cell, shape), at_most=0,
    )  # fmt: skip


def _over_floor(title: str, cell: str, most: float) -> Bar:
    return Bar(
        "cpu", f"{cell} ÷ floor ({step_of(title)})", None,
        lambda findings: findings.count("training", over_floor(title), cell, None), at_most=most,
    )  # fmt: skip


def _training(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    from gatedrnn.benchmarking.training import training  # needs the extra `train`

    training(bench, sizes, cells, seconds)


SECTIONS = {
    "layers": Section("Layers", sections.layers, 0.5, MINIMAL),
    "scan": Section("The bare scan", sections.scan, 0.06),
    "memory": Section("Memory", lambda bench, sizes, cells, _: memory(bench, sizes, cells), 0.0, SCAN_CELLS),
    "loops": Section("Loop cells", sections.loops, 0.2, ("lstm", "gru", "lstm-peephole", "mgu")),
    "step": Section("Streaming", sections.step, 0.09),
    "length": Section("Time against length", sections.length, 0.15, (*MINIMAL, "lstm")),
    "training": Section("Training", _training, 2.0, ("mingru", "lstm")),
}
"""The sections; memory is counted and takes none of the time for measurements, training comes on top of it."""
SUITE = Suite(SECTIONS, SIZES, bars)
