"""The sections that time layers: which contenders meet, at which shapes, and which ratios are taken."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.bench.contenders import Contender, Expected, Setting, Weights
from gatedrnn.bench.layers import (
    PYTHON_LOOP,
    VARIANTS,
    PlainScan,
    by_loop,
    is_scan_cell,
    looped,
    our_layer,
    ours,
    products_alone,
    products_of,
    python_loop_lstm,
    run_equations,
    torch_layer,
)
from gatedrnn.bench.measure import BOTH, FORWARD, Bench, Mode
from gatedrnn.bench.peers import PEER_LAYERS, PEER_SCANS, peer_layers, peer_scans
from gatedrnn.bench.sizes import LONG, SHORT, Shape, Sizes
from gatedrnn.layers.window import with_last_input
from gatedrnn.ops import linear_scan
from gatedrnn.registry import CELLS

TORCH = {"nn.LSTM": "lstm", "nn.GRU": "gru"}
AUTOCAST = Mode("forward+backward, bfloat16 autocast", lambda contender: contender.forward_backward, backward=True)
NARROW = ", bfloat16"
"""Added to the name of a mode where all tensors are in bfloat16."""
STEP = Mode("one token", lambda contender: contender.forward, backward=False)


def layers(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Scan cells against their projection, torch's layers, a python loop and other libraries."""
    scans = [cell for cell in cells if is_scan_cell(cell)]
    if not scans:
        bench.leave_out("layers", "none of the cells is a scan cell")
        return
    pairs = [(cell, products_of(cell)) for cell in scans]
    pairs += [(peer, cell) for cell in scans for peer in PEER_LAYERS.get(cell, ())]
    pairs += [(other, cell) for cell in scans for other in (*TORCH, PYTHON_LOOP)] + [("lstm", "nn.LSTM")]
    work = sum(map(_numbers, sizes.layers))
    for shape in sizes.layers:
        contenders = _layers(scans, Setting(shape, bench.device))
        bench.compare("layers", contenders, pairs, (FORWARD, BOTH), 0.9 * seconds * _numbers(shape) / work)
    for shape in sizes.autocast:
        both = [contender for cell in scans for contender in _under_autocast(cell, Setting(shape, bench.device))]
        bench.compare("layers", both, pairs, (AUTOCAST,), 0.1 * seconds / len(sizes.autocast))


def _layers(cells: Sequence[str], setting: Setting) -> Iterator[Contender]:
    for cell in cells:
        own = ours(cell, setting)
        yield own.contender
        yield products_alone(own)
        yield from peer_layers(own)
    lstm, gru = ours("lstm", setting), ours("gru", setting)
    yield from (lstm.contender, torch_layer(lstm), python_loop_lstm(lstm), torch_layer(gru))


def _under_autocast(cell: str, setting: Setting) -> tuple[Contender, Contender]:
    own = ours(cell, setting, autocast=True)
    return own.contender, products_alone(own)


def scan(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """The bare scan against one pass over the same bytes."""
    gpu = bench.device == "cuda"
    roof = "copy" if gpu else "torch.add"
    pairs = [(roof, "linear_scan")] + [(peer, "linear_scan") for peer in PEER_SCANS]
    for shape, dtype in product(sizes.scan, (torch.float32, torch.bfloat16) if gpu else (torch.float32,)):
        narrow = "" if dtype == torch.float32 else NARROW
        part = seconds / len(sizes.scan) / (4 if gpu else 1)
        contenders = list(_scans(Setting(shape, bench.device), dtype))
        bench.compare("scan", contenders, pairs, (FORWARD._replace(name=FORWARD.name + narrow),), part)
        if gpu:
            scans = [contender for contender in contenders if contender.expected.upstream is not None]
            bench.compare("scan", scans, pairs, (BOTH._replace(name=BOTH.name + narrow),), part)


def _scans(setting: Setting, dtype: torch.dtype) -> Iterator[Contender]:
    decay = torch.sigmoid(setting.normal(*setting.shape)).to(dtype).requires_grad_()
    drive = setting.normal(*setting.shape[::-1]).reshape(setting.shape).to(dtype).requires_grad_()
    leaves: dict[str, Tensor] = {"decay": decay, "drive": drive}
    upstream = setting.normal(*setting.shape).to(dtype)
    moved = (3 * decay.numel() * decay.element_size(), "B/s")
    expected = Expected(
        lambda w: [PlainScan.apply(w["decay"], w["drive"], torch.zeros_like(w["drive"][:, 0]))], leaves, upstream
    )
    own = Contender("linear_scan", setting, lambda: linear_scan(decay, drive)[0], leaves, expected, dtype)
    for contender in (own, *peer_scans(setting, decay, drive, expected)):
        yield replace(contender, work=moved)
    if setting.device == "cuda":
        # Half as many again, read and written: the bytes of two read and one written.
        source = torch.cat([decay.detach().flatten(), drive.detach().flatten()[: drive.numel() // 2]])
        copied = Expected(lambda w: [w["source"]], {"source": source}, None)
        yield Contender("copy", setting, source.clone, {"source": source}, copied, dtype, work=moved)
    else:
        added = Expected(lambda w: [w["decay"] + w["drive"]], leaves, None)
        yield Contender("torch.add", setting, lambda: torch.add(decay, drive), leaves, added, dtype, work=moved)


def loops(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Loop cells against torch's kernels and against their own python loop."""
    names = [name for name in (*cells, *VARIANTS) if _base(name) in cells and not is_scan_cell(_base(name))]
    if not names:
        bench.leave_out("loops", "none of the cells is a loop cell")
        return
    own_kernel = [name for name in names if name not in TORCH.values()]
    pairs = [("nn.GRU", "gru"), ("lstm", "nn.LSTM")]
    pairs += [(name, "nn.LSTM") for name in own_kernel] + [(by_loop(name), name) for name in own_kernel]
    work = sum(map(_numbers, sizes.loops))
    for shape in sizes.loops:
        contenders = _loops(names, Setting(shape, bench.device))
        bench.compare("loops", contenders, pairs, (BOTH,), seconds * _numbers(shape) / work)


def _loops(names: Sequence[str], setting: Setting) -> Iterator[Contender]:
    lstm, gru = ours("lstm", setting), ours("gru", setting)
    yield from (torch_layer(lstm), torch_layer(gru))
    for name in names:
        own = {"lstm": lstm, "gru": gru}.get(name) or ours(name, setting)
        yield own.contender
        if name not in TORCH.values():
            yield looped(own)


def step(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """One token of a stream against its matrix-vector products."""
    pairs = [(cell, products_of(cell)) for cell in cells]
    for width in sizes.step_widths:
        setting = Setting((1, 1, width), bench.device)
        both = [contender for cell in cells for contender in _step(cell, setting)]
        bench.compare("step", both, pairs, (STEP,), seconds / len(sizes.step_widths))


def _step(cell: str, setting: Setting) -> tuple[Contender, Contender]:
    width, layer = setting.shape[2], our_layer(cell, setting.shape[2], setting.device)
    x, start = setting.normal(1, width), tuple(setting.normal(1, size) for size in layer.state_sizes())
    weights = dict(layer.named_parameters())
    hx = tuple(state.unsqueeze(0) for state in start)
    given = hx if len(hx) > 1 else hx[0]
    leaves = {"input": x, **{f"state {n}": state for n, state in enumerate(start)}, **weights}

    def run() -> tuple[Tensor, ...]:
        output, state = layer.step(x, given)
        return (output, *state) if isinstance(state, tuple) else (output, state)

    def formula(w: Weights) -> list[Tensor]:
        output, *after = run_equations(layer, w, w["input"][None], tuple(w[f"state {n}"] for n in range(len(start))))
        return [output[0], *(state.unsqueeze(0) for state in after)]

    seen, _, _ = with_last_input(layer.cell, x[None], start)
    read = [("weight_ih_l0", "bias_ih_l0", seen[0]), ("weight_hh_l0", "bias_hh_l0", start[0])]
    products = [(v, weights[name], weights.get(bias)) for name, bias, v in read if name in weights]

    def multiplied(_: Weights) -> list[Tensor]:
        return [linear(v.double(), m.double(), None if b is None else b.double()) for v, m, b in products]

    alone = Expected(multiplied, leaves, None)
    return (
        Contender(cell, setting, run, leaves, Expected(formula, leaves, None)),
        Contender(products_of(cell), setting, lambda: tuple(linear(*p) for p in products), leaves, alone),
    )


def length(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Time against the number of steps, of one sequence."""
    settings = [Setting((1, steps, sizes.length_width), bench.device) for steps in sizes.lengths]
    contenders = (
        ours(cell, setting).contender
        for cell, setting in product(cells, settings)
        if is_scan_cell(cell) or setting.shape[1] <= sizes.loop_lengths
    )
    long, short = (1, LONG, sizes.length_width), (1, SHORT, sizes.length_width)
    bench.compare("length", contenders, (), (BOTH,), seconds, across=[((cell, long), (cell, short)) for cell in cells])


def _numbers(shape: Shape) -> int:
    batch, time, width = shape
    return batch * time * width


def _base(name: str) -> str:
    """The cell of a variant; a cell itself."""
    return VARIANTS.get(name, (name, {}))[0] if name not in CELLS else name
