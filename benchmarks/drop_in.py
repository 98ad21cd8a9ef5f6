"""The section on our layers in the place of torch's: a GRU over sequences, steps of one row, single-step cells."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from benchmarks.sizes import Sizes
from gatedrnn.benchmarking.layers import as_hx, by_kernel, flat, our_layer, ours, run_equations, torch_layer
from gatedrnn.benchmarking.measure import BOTH, FORWARD, Bench, Contender, Expected, Leaves, Mode, Setting, threads
from gatedrnn.benchmarking.record import Shape
from gatedrnn.layers import RecurrentLayer, SingleStep
from gatedrnn.registry import CELLS

THREADS = (1, 2)
TORCHS_LAYERS = {"nn.GRU": "gru", "nn.LSTM": "lstm"}
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
        layer, x = our_layer(cell, setting.shape[2], setting.device), setting.normal(*setting.shape)
        state = tuple(setting.normal(1, 1, size) for size in layer.state_sizes())
        leaves = {"input": x, **_named(state), **dict(layer.named_parameters())}
        called = Expected(_formula(layer), leaves, None)
        if cell in cells:
            yield Contender(cell, setting, _call(layer, x, state), leaves, called)
            stepped = Expected(_formula(layer, lambda output: output[:, 0]), leaves, None)
            yield Contender(by_step(cell), setting, _call(layer.step, x[:, 0], state), leaves, stepped)
        if cell == "gru":
            theirs = nn.GRU(layer.input_size, layer.hidden_size, batch_first=True)
            theirs.load_state_dict(layer.state_dict())
            yield Contender("nn.GRU", setting, _call(theirs, x, state), leaves, called)


def _modules(torchs: str, cell: str, setting: Setting) -> Iterator[Contender]:
    """Single-step modules with the very tensors of torch's: where weights lie in memory decides how fast they come."""
    width = setting.shape[2]
    kind: Any = getattr(nn, torchs.removeprefix("nn."))
    theirs, own = kind(width, width), _module(cell)(width, width)
    for parameter, weight in theirs.named_parameters():
        setattr(own, parameter, weight)
    layer, x = our_layer(cell, width, setting.device), setting.normal(1, width)
    state = tuple(setting.normal(1, width) for _ in layer.state_sizes())
    leaves = {"input": x[None], **_named(state)}
    leaves |= {f"{parameter}_l0": weight for parameter, weight in theirs.named_parameters()}
    expected = Expected(_formula(layer, None), leaves, None)
    for title, module in ((torchs, theirs), (cell_of(cell), own)):
        yield Contender(title, setting, partial(module, x, as_hx(state)), leaves, expected)


def _formula(
    layer: RecurrentLayer, output_of: Callable[[Tensor], Tensor] | None = lambda output: output
) -> Callable[[Leaves], list[Tensor]]:
    """Output and states of one step; with None the states alone, as a single-step module gives them."""

    def found(w: Leaves) -> list[Tensor]:
        states = (w[f"state {n}"].reshape(1, -1) for n in range(len(layer.state_names)))
        output, *after = run_equations(layer, w, w["input"], *states)
        return [state[0] for state in after] if output_of is None else [output_of(output), *after]

    return found


def _call(run: Callable[..., Any], x: Tensor, state: tuple[Tensor, ...]) -> Callable[[], tuple[Tensor, ...]]:
    """A call of a layer, as (output, states …)."""
    hx = as_hx(state)
    return lambda: flat(run(x, hx))


def _named(state: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return {f"state {n}": tensor for n, tensor in enumerate(state)}
