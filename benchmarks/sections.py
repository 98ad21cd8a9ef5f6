"""The sections that time layers: contenders, shapes and ratios."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from benchmarks.contenders import Contender, Expected, Setting
from benchmarks.layers import (
    PYTHON_LOOP,
    TORCHS_LAYERS,
    VARIANTS,
    OneStep,
    PlainScan,
    by_loop,
    is_scan_cell,
    looped,
    ours,
    products_alone,
    products_of,
    products_of_rows,
    python_loop_lstm,
    torch_layer,
)
from benchmarks.measure import BOTH, FORWARD, Bench, Mode
from benchmarks.sizes import Shape, Sizes
from gatedrnn.ops import linear_scan

AUTOCAST = Mode("forward+backward, bfloat16 autocast", lambda contender: contender.forward_backward, backward=True)
NARROW = ", bfloat16"
"""The suffix of modes in which all tensors are in bfloat16."""
STEP = Mode("one token", lambda contender: contender.forward, backward=False)
FORWARD_MOVES, BOTH_MOVE = 3, 9
"""Numbers that a scan moves for each of its states: decay and drive are read and states written; the gradient scans in
reverse, and multiplies by the states before, each with three again."""
LONG, SHORT = 65_536, 4_096
"""Lengths whose ratio shows whether a scan is linear in time."""


def layers(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare scan cells with their projection, torch's layers and a python loop."""
    scans = [cell for cell in cells if is_scan_cell(cell)]
    if not scans:
        bench.leave_out("layers", "none of the cells is a scan cell")
        return
    pairs = [(cell, products_of(cell)) for cell in scans]
    pairs += [(other, cell) for cell in scans for other in (*TORCHS_LAYERS, PYTHON_LOOP)] + [("lstm", "nn.LSTM")]
    work = sum(map(numbers, sizes.layers))
    for shape in sizes.layers:
        contenders = _layers(scans, Setting(shape, bench.device))
        bench.compare("layers", contenders, pairs, (FORWARD, BOTH), 0.9 * seconds * numbers(shape) / work)
    for shape in sizes.autocast:
        both = [contender for cell in scans for contender in _under_autocast(cell, Setting(shape, bench.device))]
        bench.compare("layers", both, pairs, (AUTOCAST,), 0.1 * seconds / len(sizes.autocast))


def _layers(cells: Sequence[str], setting: Setting) -> Iterator[Contender]:
    for cell in cells:
        layer = ours(cell, setting)
        yield from (layer.contender, products_alone(layer))
    lstm, gru = ours("lstm", setting), ours("gru", setting)
    yield from (lstm.contender, torch_layer(lstm), python_loop_lstm(lstm), torch_layer(gru))


def _under_autocast(cell: str, setting: Setting) -> tuple[Contender, Contender]:
    layer = ours(cell, setting, autocast=True)
    return layer.contender, products_alone(layer)


def scan(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare the bare scan with one pass over the same bytes."""
    compare_scans(bench, "scan", sizes, seconds, roof, ("copy", "torch.add"))


def compare_scans(
    bench: Bench, section: str, sizes: Sizes, seconds: float, others: Callable[[Contender], Iterable[Contender]],
    names: Sequence[str],
) -> None:  # fmt: skip
    """Compare our bare scan with other contenders on its tensors; on a GPU with gradients and in bfloat16 too.

    Args:
        others: makes the other contenders from ours.
        names: names of the others, whose ratios to ours are taken.
    """
    gpu, pairs = bench.device == "cuda", [(name, "linear_scan") for name in names]
    modes = (FORWARD, BOTH) if gpu else (FORWARD,)
    for shape, dtype in product(sizes.scan, (torch.float32, torch.bfloat16) if gpu else (torch.float32,)):
        narrow = "" if dtype == torch.float32 else NARROW
        for mode in modes:
            bare = bare_scan(Setting(shape, bench.device), dtype, mode.backward)
            contenders = [bare, *(replace(other, work=bare.work) for other in others(bare))]
            part = seconds / len(sizes.scan) / (4 if gpu else 1)
            bench.compare(section, contenders, pairs, (mode._replace(name=mode.name + narrow),), part)


def bare_scan(setting: Setting, dtype: torch.dtype, backward: bool = False) -> Contender:
    """Make a contender of `linear_scan` of a decay and a drive.

    Args:
        backward: its work is that of both passes.
    """
    decay = torch.sigmoid(setting.normal(*setting.shape)).to(dtype).requires_grad_()
    drive = setting.normal(*setting.shape[::-1]).reshape(setting.shape).to(dtype).requires_grad_()
    leaves: dict[str, Tensor] = {"decay": decay, "drive": drive}
    upstream = setting.normal(*setting.shape).to(dtype)
    expected = Expected(lambda w: [scanned(w["decay"], w["drive"])], leaves, upstream)
    return Contender(
        "linear_scan", setting, lambda: linear_scan(decay, drive)[0], leaves, expected, dtype,
        work=((BOTH_MOVE if backward else FORWARD_MOVES) * decay.numel() * decay.element_size(), "B/s"),
    )  # fmt: skip


def scanned(decay: Tensor, drive: Tensor) -> Tensor:
    """Compute all states from zeros, one step after another in plain torch."""
    states: Tensor = PlainScan.apply(decay, drive, torch.zeros_like(drive[:, 0]))
    return states


def roof(bare: Contender) -> Iterator[Contender]:
    """Make a contender of one pass over as many bytes as a scan reads and writes."""
    decay, drive = bare.leaves["decay"], bare.leaves["drive"]
    if bare.setting.device == "cuda":
        assert bare.work is not None
        moved, _ = bare.work
        copied = int(moved) // decay.element_size() // 2  # each number is read and written
        both = torch.cat([decay.detach().flatten(), drive.detach().flatten()])
        source = both.repeat(-(-copied // len(both)))[:copied].clone()
        expected = Expected(lambda w: [w["source"]], {"source": source}, None)
        yield Contender("copy", bare.setting, source.clone, {"source": source}, expected, decay.dtype)
    else:
        added = Expected(lambda w: [w["decay"] + w["drive"]], bare.leaves, None)
        yield Contender("torch.add", bare.setting, lambda: torch.add(decay, drive), bare.leaves, added, decay.dtype)


def loops(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare loop cells with torch's kernels and with their own python loop."""
    variants = [name for name, word in VARIANTS.items() if word.partition(":")[0] in cells]
    names = [name for name in (*cells, *variants) if not is_scan_cell(name)]
    if not names:
        bench.leave_out("loops", "none of the cells is a loop cell")
        return
    others = [name for name in names if name not in TORCHS_LAYERS.values()]
    pairs = [("nn.GRU", "gru"), ("lstm", "nn.LSTM")]
    pairs += [(name, "nn.LSTM") for name in others] + [(by_loop(name), name) for name in others]
    work = sum(map(numbers, sizes.loops))
    for shape in sizes.loops:
        contenders = _loops(names, Setting(shape, bench.device))
        bench.compare("loops", contenders, pairs, (BOTH,), seconds * numbers(shape) / work)


def _loops(names: Sequence[str], setting: Setting) -> Iterator[Contender]:
    lstm, gru = ours("lstm", setting), ours("gru", setting)
    yield from (torch_layer(lstm), torch_layer(gru))
    for name in names:
        layer = {"lstm": lstm, "gru": gru}.get(name) or ours(name, setting)
        yield layer.contender
        if name not in TORCHS_LAYERS.values():
            yield looped(layer)


def step(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare one token of a stream with its matrix-vector products."""
    pairs = [(cell, products_of(cell)) for cell in cells]
    for width in sizes.step_widths:
        setting = Setting((1, 1, width), bench.device)
        both = [contender for cell in cells for contender in _step(cell, setting)]
        bench.compare("step", both, pairs, (STEP,), seconds / len(sizes.step_widths))


def _step(cell: str, setting: Setting) -> tuple[Contender, Contender]:
    one = OneStep(cell, setting)
    weights = dict(one.layer.named_parameters())
    names = [("weight_ih_l0", "bias_ih_l0"), ("weight_hh_l0", "bias_hh_l0")]
    read = [(weights[name], weights.get(bias)) for name, bias in names if name in weights]
    return one.step(cell), products_of_rows(products_of(cell), setting, read)


def length(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Time one sequence at several lengths."""
    settings = [Setting((1, steps, sizes.length_width), bench.device) for steps in sizes.lengths]
    contenders = (
        ours(cell, setting).contender
        for cell, setting in product(cells, settings)
        if is_scan_cell(cell) or setting.shape[1] <= sizes.loop_lengths
    )
    long, short = (1, LONG, sizes.length_width), (1, SHORT, sizes.length_width)
    bench.compare("length", contenders, (), (BOTH,), seconds, across=[((cell, long), (cell, short)) for cell in cells])


def numbers(shape: Shape) -> int:
    """Count the elements of a layer's input."""
    batch, time, width = shape
    return batch * time * width
