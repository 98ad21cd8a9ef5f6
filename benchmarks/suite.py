"""The sections of `python -m benchmarks`, and what has to hold of them."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Literal, TypeAlias

from benchmarks import drop_in
from benchmarks.drop_in import (
    CELL,
    ONE_STEP,
    THREADS,
    TORCHS_CELLS,
    TORCHS_LAYERS,
    by_step,
    cell_of,
    larger_than_gru,
    on,
)
from benchmarks.family import family
from benchmarks.models import PRODUCTS, TOKEN, VOCABULARY, forecast, language, model
from benchmarks.peers import PEER_SCANS, peers
from benchmarks.sizes import SIZES, Sizes
from gatedrnn.benchmarking.layers import products_of
from gatedrnn.benchmarking.measure import BOTH, FORWARD
from gatedrnn.benchmarking.run import MINIMAL, A, B, Bar, C, D, Section, Suite, largest_bar, ratio_bar
from gatedrnn.benchmarking.sections import NARROW

SectionName: TypeAlias = Literal["peers", "model", "language", "forecast", "family", "drop-in", "few-steps"]


def bars() -> Iterator[Bar]:
    """Bars in the order of the report. Times are of forward and backward together, unless said otherwise."""
    for cell, shape in product(MINIMAL, (A, B, C, D)):
        large, small = {"mingru": (4.3, 6.5), "minlstm": (3.3, 5.0)}[cell]
        peer = {"mingru": "minGRU-pytorch minGRU", "minlstm": "minGRU-pytorch minLSTM"}[cell]
        yield ratio_bar("peers", BOTH.name, peer, cell, shape, at_least=large if shape in (A, B) else small)
    yield ratio_bar("language", BOTH.name, VOCABULARY, PRODUCTS, (20, 35, 256), at_most=1.3)
    yield ratio_bar("language", TOKEN.name, "mingru", products_of("mingru"), (1, 1, 512), at_most=2)
    yield from _drop_in()
    yield from _one_step()
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


def suite(compile: bool = False) -> Suite[Sizes]:
    """All sections; those of the family and of torch's layers in place take minutes.

    Args:
        compile: measure whole models under torch.compile too.
    """
    sections = {
        "peers": Section("Other libraries", peers, 0.3, MINIMAL),
        "model": Section("Whole models", partial(model, compile=compile), 0.08),
        "language": Section("Language models", language, 0.08, ("mingru",)),
        "forecast": Section("Forecasts", forecast, 0.05, ("gru", "mingru")),
        "family": Section("The family", family, 3.0),
        "drop-in": Section("In the place of torch's", drop_in.drop_in, 4.0, drop_in.with_kernels()),
        "few-steps": Section("Few steps", drop_in.few_steps, 1.0, tuple(TORCHS_LAYERS.values())),
    }
    return Suite(sections, SIZES, bars)
