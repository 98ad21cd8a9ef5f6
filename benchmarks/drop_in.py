"""The section on our layers in the place of torch's: a GRU over sequences, steps of one row, single-step cells."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from benchmarks.contenders import Contender, Expected, Setting
from benchmarks.layers import (
    TORCHS_LAYERS,
    OneStep,
    after_a_step,
    as_hx,
    by_kernel,
    named_states,
    our_layer,
    ours,
    torch_layer,
)
from benchmarks.measure import BOTH, FORWARD, Bench, Mode, threads
from benchmarks.sizes import Shape, Sizes
from gatedrnn.layers import SingleStep
from gatedrnn.registry import CELLS

THREADS = (1, 2)
TORCHS_CELLS = {"nn.LSTMCell": "lstm", "nn.GRUCell": "gru"}
ONE_STEP = Mode("one step", lambda contender: contender.forward, backward=False)
CELL = Mode("one step of a cell", lambda contender: contender.forward, backward=False)
SEQUENCES, STEPS = 0.5, 0.25
"""Shares of the time; the cells get the rest."""


def by_step(cell: str) -> str:
    """The name of a layer's `step`, beside a call of the layer with one step."""
    return f"{cell} by step"


def cell_of(cell: str) -> str:
    """The name of a single-step module."""
    return _module(cell).__name__


def on(count: int, mode: Mode) -> Mode:
    """A mode on so many threads."""
    return mode._replace(name=f"{mode.name}, {count} thread{'s' if count > 1 else ''}")


def with_kernels() -> tuple[str, ...]:
    """The cells that are held to torch's speed: those that a kernel of ours runs."""
    return tuple(name for name, cell in CELLS.items() if "native" in cell.layer(8, 8).backends)


def larger_than_gru(cell: str) -> bool:
    """Whether a layer of that cell has more weights to read than one of a GRU."""
    return _weights(cell) > _weights("gru")


def _module(cell: str) -> type[SingleStep]:
    found = CELLS[cell].single_step
    assert found is not None
    return found


def _weights(cell: str) -> int:
    return sum(weight.numel() for weight in our_layer(cell, 8, "cpu").parameters() if weight.dim() == 2)


def drop_in(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Ours over torch's, on one thread and on two."""
    if bench.device != "cpu":
        bench.leave_out("drop-in", "its bounds are those of a CPU")
        return
    # Large shapes get more of the time, so that each runs more than a few rounds.
    work = sum(map(_work, sizes.drop_in))
    steps = [(name, "nn.GRU") for cell in cells for name in (by_step(cell), cell)]
    for count in THREADS:
        with threads(count):
            for shape in sizes.drop_in:
                gru = ours("gru", Setting(shape))
                share = SEQUENCES * seconds / len(THREADS) * _work(shape) / work
                both = [gru.contender, torch_layer(gru)]
                bench.compare("drop-in", both, [("gru", "nn.GRU")], (on(count, BOTH),), share)
            for width in sizes.drop_in_widths:
                setting, part = Setting((1, 1, width)), seconds / len(THREADS) / len(sizes.drop_in_widths)
                bench.compare("drop-in", _steps(cells, setting), steps, (on(count, ONE_STEP),), STEPS * part)
                rest = (1 - SEQUENCES - STEPS) * part / len(TORCHS_CELLS)
                for theirs, cell in TORCHS_CELLS.items():
                    pair = [(cell_of(cell), theirs)]
                    bench.compare("drop-in", _modules(theirs, cell, setting), pair, (on(count, CELL),), rest)


def few_steps(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Ours over torch's where a layer is called for few steps, on one thread; and our kernel alone, from whose ratios
    `gatedrnn.kinds.torch.path` has the lengths at which it takes over from torch's."""
    if bench.device != "cpu":
        bench.leave_out("few-steps", "its bounds are those of a CPU")
        return
    names = {cell: name for name, cell in TORCHS_LAYERS.items() if cell in cells}
    work = len(names) * sum(map(_work, sizes.few_steps))
    with threads(1):
        for shape in sizes.few_steps:
            for cell, theirs in names.items():
                pair = ours(cell, Setting(shape))
                kernel = [by_kernel(pair)] if "native" in pair.layer.backends else []
                contenders = [pair.contender, torch_layer(pair), *kernel]
                ratios = [(contender.name, theirs) for contender in (pair.contender, *kernel)]
                bench.compare("few-steps", contenders, ratios, (FORWARD, BOTH), seconds * _work(shape) / work)


def _work(shape: Shape) -> float:
    return math.sqrt(math.prod(shape))


def _steps(cells: Sequence[str], setting: Setting) -> Iterator[Contender]:
    for cell in dict.fromkeys((*cells, "gru")):
        one = OneStep(cell, setting)
        if cell in cells:
            yield from (one.call(cell, one.layer), one.step(by_step(cell)))
        if cell == "gru":
            theirs = nn.GRU(one.layer.input_size, one.layer.hidden_size, batch_first=True)
            theirs.load_state_dict(one.layer.state_dict())
            yield one.call("nn.GRU", theirs)


def _modules(torchs: str, cell: str, setting: Setting) -> Iterator[Contender]:
    """Single-step modules with the very tensors of torch's: where weights lie in memory decides how fast they come."""
    width = setting.shape[2]
    kind: Any = getattr(nn, torchs.removeprefix("nn."))
    theirs, own = kind(width, width), _module(cell)(width, width)
    for parameter, weight in theirs.named_parameters():
        setattr(own, parameter, weight)
    layer, x = our_layer(cell, width, setting.device), setting.normal(1, width)
    hx = as_hx([setting.normal(1, width) for _ in layer.state_sizes()])
    leaves = {"input": x[None], **named_states(hx)}
    leaves |= {f"{parameter}_l0": weight for parameter, weight in theirs.named_parameters()}
    expected = Expected(lambda w: [state[0] for state in after_a_step(layer, w)[1:]], leaves, None)
    for title, module in ((torchs, theirs), (cell_of(cell), own)):
        yield Contender(title, setting, partial(module, x, hx), leaves, expected)
