"""What has to hold: every bar with its bound. The one place for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from gatedrnn.bench.drop_in import (
    CELL,
    ONE_STEP,
    THREADS,
    TORCHS_CELLS,
    by_step,
    cell_of,
    larger_than_gru,
    on,
    with_kernels,
)
from gatedrnn.bench.layers import by_loop, products_of, step_of
from gatedrnn.bench.measure import BOTH, FORWARD
from gatedrnn.bench.memory import KEPT
from gatedrnn.bench.peers import PEER_SCANS
from gatedrnn.bench.record import Findings, Judged
from gatedrnn.bench.sections import AUTOCAST, NARROW
from gatedrnn.bench.sizes import LONG, SHORT, Shape

WHOLE_RUN = "whole default run"
ONE_TOKEN = "one token, one thread"


@dataclass(frozen=True)
class Bar:
    """A number and what it may be at most, or must be at least."""

    device: str
    measure: str
    shape: Shape | None
    find: Callable[[Findings], float | None]
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


def judged(findings: Findings) -> list[Judged]:
    """Every bar beside what was found."""
    found = []
    for bar in bars():
        value = bar.find(findings)
        verdict = None if value is None else bar.holds(value)
        found.append(Judged(bar.device, bar.measure, bar.shape, bar.at_most, bar.at_least, value, verdict))
    return found


A, B, C, D = (8, 1024, 256), (2, 4096, 256), (64, 64, 128), (32, 512, 64)
LOOPS = {(8, 512, 256): 2.2, (32, 128, 256): 1.7}
MINIMAL = {"mingru": "minGRU-pytorch minGRU", "minlstm": "minGRU-pytorch minLSTM"}
TRAINING = {"AG News": 2.0} | dict.fromkeys(("Tiny Shakespeare", "WikiText-2", "MNIST", "ETTh1"), 1.6)
"""Whole training steps over their products, by model."""
WITHOUT_TORCHS_KERNEL = ("lstm-peephole", "mgu", "gru reset-before")
"""Loop cells."""


def bars() -> Iterator[Bar]:
    """In the order of the report. Times are of forward and backward together, unless said otherwise."""
    for cell, (shape, most) in product(MINIMAL, {A: 1.10, B: 1.10, C: 1.15, D: 1.35}.items()):
        yield _ratio("layers", BOTH.name, cell, products_of(cell), shape, at_most=most)
    for cell in MINIMAL:
        yield _ratio("layers", AUTOCAST.name, cell, products_of(cell), A, at_most=1.5)
    for (cell, peer), shape in product(MINIMAL.items(), (A, B, C, D)):
        large, small = {"mingru": (4.3, 6.5), "minlstm": (3.3, 5.0)}[cell]
        yield _ratio("layers", BOTH.name, peer, cell, shape, at_least=large if shape in (A, B) else small)
    yield _ratio("layers", BOTH.name, "nn.GRU", "mingru", B, at_least=20)
    yield _ratio("layers", BOTH.name, "nn.LSTM", "minlstm", B, at_least=2.7)
    for shape in (A, (1, 65536, 256)):
        yield _ratio("scan", FORWARD.name, "torch.add", "linear_scan", shape, at_least=0.85)
    for cell in MINIMAL:
        yield _kept(cell, A)
    for shape in LOOPS:
        yield _ratio("loops", BOTH.name, "nn.GRU", "gru", shape, at_least=1.25)
    for section, shape in (*(("layers", shape) for shape in (A, B, C, D)), *(("loops", shape) for shape in LOOPS)):
        yield _ratio(section, BOTH.name, "lstm", "nn.LSTM", shape, at_most=1.05)
    for cell, (shape, most) in product(WITHOUT_TORCHS_KERNEL, LOOPS.items()):
        yield _ratio("loops", BOTH.name, cell, "nn.LSTM", shape, at_most=most)
    for cell, shape in product(WITHOUT_TORCHS_KERNEL, LOOPS):
        yield _ratio("loops", BOTH.name, by_loop(cell), cell, shape, at_least=5)
    for cell in MINIMAL:
        yield _ratio("length", BOTH.name, cell, cell, (1, LONG, 256), (1, SHORT, 256), at_most=18)
    yield _ratio(
        "language", BOTH.name, "embedding and loss", "the three products of the scores", (20, 35, 256), at_most=1.3
    )
    yield _ratio("language", ONE_TOKEN, "mingru", products_of("mingru"), (1, 1, 512), at_most=2)
    for title, most in TRAINING.items():
        yield _largest(step_of(title), ["mingru"], "mingru", products_of("mingru"), most, section="training")
    yield Bar("cpu", f"{WHOLE_RUN}, seconds", None, lambda found: found.count("run", WHOLE_RUN, "", None), at_most=180)
    yield from _drop_in()
    yield from _on_gpu()


def _drop_in() -> Iterator[Bar]:
    """The largest ratio over all batches and widths."""
    larger = [cell for cell in with_kernels() if larger_than_gru(cell)]
    others = [cell for cell in with_kernels() if cell not in larger]
    for count in THREADS:
        yield _largest(on(count, BOTH).name, ["gru"], "gru", "nn.GRU", 1.05)
        for cells, title, most in ((others, "gru and cells with as few weights", 1.05), (larger, "larger cells", 1.45)):
            yield _largest(on(count, ONE_STEP).name, cells, title, "nn.GRU", most)
            yield _largest(on(count, ONE_STEP).name, [by_step(cell) for cell in cells], by_step(title), "nn.GRU", most)
        for theirs, cell in TORCHS_CELLS.items():
            yield _largest(on(count, CELL).name, [cell_of(cell)], cell_of(cell), theirs, 1.05)


def _largest(
    mode: str, numerators: list[str], title: str, denominator: str, most: float, section: str = "drop-in"
) -> Bar:
    return Bar(
        "cpu", f"{title} ÷ {denominator} ({mode}), the largest", None,
        lambda found: found.largest_ratio(section, mode, numerators, denominator), at_most=most,
    )  # fmt: skip


def _on_gpu() -> Iterator[Bar]:
    shape = (16, 4096, 1024)
    for narrow in ("", NARROW):
        yield _ratio("scan", FORWARD.name + narrow, "copy", "linear_scan", shape, at_least=0.85, device="cuda")
        for peer in PEER_SCANS:
            yield _ratio("scan", BOTH.name + narrow, peer, "linear_scan", shape, at_least=1, device="cuda")


def _ratio(
    section: str, mode: str, numerator: str, denominator: str, shape: Shape, other: Shape | None = None, *,
    at_most: float | None = None, at_least: float | None = None, device: str = "cpu",
) -> Bar:  # fmt: skip
    measure = f"{numerator} ÷ {denominator}"
    if other is not None:
        measure = f"{numerator}, {shape[1]:,} steps ÷ {other[1]:,} steps"
    if mode != BOTH.name:
        measure += f" ({mode})"
    return Bar(
        device, measure, shape,
        lambda found: found.ratio(section, mode, numerator, denominator, shape, other), at_most, at_least,
    )  # fmt: skip


def _kept(cell: str, shape: Shape) -> Bar:
    return Bar(
        "cpu", f"tensors that {cell} keeps for backward beyond projection and output", shape,
        lambda found: found.count("memory", KEPT, cell, shape), at_most=0,
    )  # fmt: skip
