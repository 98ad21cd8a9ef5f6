"""Bars: bounds on measured numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from benchmarks import drop_in
from benchmarks.drop_in import (
    CELL,
    ONE_STEP,
    THREADS,
    TORCHS_CELLS,
    by_step,
    cell_of,
    larger_than_gru,
    on,
)
from benchmarks.layers import TORCHS_LAYERS, by_loop, over_floor, products_of, step_of
from benchmarks.measure import BOTH, FORWARD
from benchmarks.memory import KEPT
from benchmarks.models import PRODUCTS, TOKEN, VOCABULARY
from benchmarks.peers import PEER_SCANS
from benchmarks.record import BarResult, Findings
from benchmarks.sections import AUTOCAST, LONG, NARROW, SHORT
from benchmarks.sizes import SIZES, Shape

WHOLE_RUN = "whole default run"


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
    for cell, shape in product(MINIMAL, (A, B, C, D)):
        large, small = {"mingru": (4.3, 6.5), "minlstm": (3.3, 5.0)}[cell]
        peer = {"mingru": "minGRU-pytorch minGRU", "minlstm": "minGRU-pytorch minLSTM"}[cell]
        yield ratio_bar("peers", BOTH.name, peer, cell, shape, at_least=large if shape in (A, B) else small)
    yield ratio_bar("language", BOTH.name, VOCABULARY, PRODUCTS, (20, 35, 256), at_most=1.3)
    yield ratio_bar("language", TOKEN.name, "mingru", products_of("mingru"), (1, 1, 512), at_most=2)
    yield from _drop_in()
    yield from _one_step()
    for narrow in ("", NARROW):
        mode = FORWARD.name + narrow
        yield ratio_bar("scan", mode, "copy", "linear_scan", (16, 4096, 1024), at_least=0.85, device="cuda")
    for narrow, peer in product(("", NARROW), PEER_SCANS):
        mode = BOTH.name + narrow
        yield ratio_bar("peers", mode, peer, "linear_scan", (16, 4096, 1024), at_least=1, device="cuda")


def _drop_in() -> Iterator[Bar]:
    """The largest ratio over all batches and widths."""
    largest = partial(largest_bar, "drop-in")
    larger = [cell for cell in drop_in.with_kernels() if larger_than_gru(cell)]
    others = [cell for cell in drop_in.with_kernels() if cell not in larger]
    for count in THREADS:
        yield largest(on(count, BOTH).name, ["gru"], "gru", "nn.GRU", 1.05)
        for cells, title, most in ((others, "gru and cells with as few weights", 1.05), (larger, "larger cells", 1.45)):
            yield largest(on(count, ONE_STEP).name, cells, title, "nn.GRU", most)
            yield largest(on(count, ONE_STEP).name, [by_step(cell) for cell in cells], by_step(title), "nn.GRU", most)
        for theirs, cell in TORCHS_CELLS.items():
            yield largest(on(count, CELL).name, [cell_of(cell)], cell_of(cell), theirs, 1.05)


def _one_step() -> Iterator[Bar]:
    """A layer that is called for one step, with and without gradients."""
    for shape in [shape for shape in SIZES["cpu"].few_steps if shape[1] == 1]:
        for (theirs, cell), mode in product(TORCHS_LAYERS.items(), (FORWARD, BOTH)):
            yield ratio_bar("few-steps", mode.name, cell, theirs, shape, at_most=1.05)


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
