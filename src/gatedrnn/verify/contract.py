"""The equivalence law, checked: every way of running a cell against its own step loop, and that against the papers."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.equations import Equations
from gatedrnn.layers import PositiveScanLayer, RecurrentLayer
from gatedrnn.registry import CELLS
from gatedrnn.verify import oracle
from gatedrnn.verify.tolerances import (
    DIFFERENCES,
    EQUAL_TO_TORCH,
    LOG_SPACE_PER_STEP,
    ROUNDED,
    allowed_error,
    largest_error,
)
from gatedrnn.verify.walk import Sequences, States, beginning, walk
from gatedrnn.verify.ways import LOG_SPACE, SETTINGS, Setting, Way, as_tuple, whole

BATCH, TIME, FEATURES, HIDDEN = 3, 9, 3, 5
DRAWS = 3
"""Sequences on which every way may be shown right in bfloat16: where a rounding decides on which side of a kink (of g,
of a clamp) a number lies, the gradients are not those of float64, and other numbers are drawn. What is wrong is wrong
on all."""
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "gru": {"gru": {}, "gru reset-before": {"reset_after": False}},
    "mgu": {"mgu": {}, "mgu keep": {"keep": True}},
    "minlstm": {"minlstm": {}, "minlstm identity": {"activation": "identity"}},
    "mingru": {"mingru": {}, "mingru identity": {"activation": "identity"}},
    "block-orthogonal": {
        "block-orthogonal": {},
        "block-orthogonal 3": {"block_size": 3},
        "block-orthogonal 4": {"block_size": 4},
    },
}
"""Cells with options: title and options of each form."""
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


class Row(NamedTuple):
    """One line of the table: the worst number of one way of running one cell."""

    cell: str
    dtype: str
    backend: str
    way: str
    worst: str
    """What differs most, in units of what is allowed."""
    error: float
    allowed: float
    informative: bool = False
    """Shown, and not part of the verdict."""

    @property
    def holds(self) -> bool:
        return self.informative or self.error <= self.allowed


def check_cell(name: str, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Iterator[Row]:
    """Everything the law says about one cell, its variants included.

    Raises:
        ValueError: there is no cell or no dtype of that name.
    """
    if name not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(CELLS)}, got {name!r}")
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    for title, options in VARIANTS.get(name, {name: {}}).items():
        if name in oracle.ORACLES and "float64" in dtypes:  # numpy's own
            yield from _against_oracle(name, options, title)
        for dtype in dtypes:
            for setting in SETTINGS:
                yield from _against_walk(name, options, title, dtype, setting)
            if not options and issubclass(CELLS[name].layer, PositiveScanLayer):
                for row in _against_walk(name, options, title, dtype, LOG_SPACE):
                    yield as_log_space(row, TIME)
    if name in TORCH:
        yield _against_torch(name)


def as_log_space(row: Row, steps: int) -> Row:
    """The row of the scan over logarithms: shown beside what its roundings may come to, and no part of the verdict."""
    allowed = row.allowed + LOG_SPACE_PER_STEP * torch.finfo(DTYPES[row.dtype]).eps * steps
    return row._replace(backend="log_space", allowed=allowed, informative=True)


def _against_walk(name: str, options: dict[str, Any], title: str, dtype: str, setting: Setting) -> Iterator[Row]:
    """Floor (ii): outputs, last states and all gradients of every way in one setting."""
    rows = _on_draw(name, options, title, dtype, setting, 0)
    for draw in range(1, DRAWS if dtype == "bfloat16" else 1):
        if all(row.holds for row in rows):
            break
        rows = _on_draw(name, options, title, dtype, setting, draw)
    yield from rows


def _on_draw(name: str, options: dict[str, Any], title: str, dtype: str, setting: Setting, draw: int) -> list[Row]:
    layer = _layer(name, options, DTYPES[dtype], draw, **setting.arguments)
    sequences = _sequences(layer, setting, draw)
    grads = _upstream(layer, sequences)
    expected = _results(deepcopy(layer).double(), walk, _double(sequences), grads, setting.hx)
    rows = []
    for backend in ("auto",) if setting is LOG_SPACE else layer.backends:
        layer.backend = backend
        for way_name, way in setting.ways.items():
            found = _results(layer, way, sequences, grads, setting.hx)
            table = ROUNDED if dtype == "bfloat16" else DTYPES[dtype]
            rows.append(_worst(title, dtype, backend, way_name, found, expected, table))
    return rows


def _against_oracle(name: str, options: dict[str, Any], title: str) -> Iterator[Row]:
    """Floor (i): outputs and last states as numpy gives them; gradients along random directions by differences."""
    for arguments in ({}, {"proj_size": 2, "bias": False}):
        layer = _layer(name, options, torch.float64, **arguments)
        sequences = _sequences(layer, SETTINGS[0])
        grads = _upstream(layer, sequences)
        parameters = {k.removesuffix("_l0"): p.detach().numpy() for k, p in layer.named_parameters()}
        inputs = {"x": sequences.x.numpy()} | {f"hx{i}": s[0].numpy() for i, s in enumerate(sequences.hx)}

        def forward(arrays: dict[str, Any], names: tuple[str, ...] = tuple(parameters)) -> tuple[Any, Any]:
            state = tuple(v for k, v in arrays.items() if k.startswith("hx"))
            weights = {k: arrays[k] for k in names}
            return oracle.ORACLES[name](arrays["x"], weights, state, **options)

        output, state = forward(parameters | inputs)
        expected = {"output": torch.as_tensor(output)}
        expected |= {f"state {i}": torch.as_tensor(s)[None] for i, s in enumerate(state)}
        what = "numpy oracle" if not arguments else "numpy oracle, projected"
        for backend in layer.backends:
            layer.backend = backend
            found = _results(layer, whole, sequences, grads, with_hx=True)
            only = {k: v for k, v in found.items() if k in expected}
            yield _worst(title, "float64", backend, what, only, expected, torch.float64)
            slopes = {k: v for k, v in found.items() if k not in expected}
            yield _slope(title, backend, what, slopes, parameters | inputs, forward, grads, layer.cell)


def _slope(
    title: str, backend: str, what: str, slopes: dict[str, Tensor], arrays: dict[str, Any],
    forward: Callable[[dict[str, Any]], tuple[Any, Any]], grads: tuple[Tensor, States], cell: Equations,
) -> Row:  # fmt: skip
    """The loss's slope along a random direction through all inputs at once: by gradients, and by two oracle runs.

    What goes through a straight-through estimator has no such slope, and is left where it is.
    """
    random = np.random.default_rng(0)
    direction = {k: random.standard_normal(v.shape) for k, v in arrays.items()}
    if cell.straight_through:
        direction["x"] = np.zeros_like(direction["x"])
        for k in {"weight_ih", "bias_ih"} & direction.keys():
            gates = np.split(direction[k], len(cell.projections))  # views, not copies
            for gate, rows in zip(cell.projections, gates, strict=True):
                rows *= gate not in cell.straight_through
    step = 1e-6

    def loss(sign: float) -> float:
        output, state = forward({k: v + sign * step * direction[k] for k, v in arrays.items()})
        total = (output * grads[0].numpy()).sum()
        return float(total + sum((s * g[0].numpy()).sum() for s, g in zip(state, grads[1], strict=True)))

    expected = (loss(1) - loss(-1)) / (2 * step)
    by_name = {k.removeprefix("gradient of ").removesuffix("_l0"): v for k, v in slopes.items()}
    by_name["x"] = by_name.pop("input")
    found = sum(float((by_name[k].reshape(v.shape) * torch.as_tensor(v)).sum()) for k, v in direction.items())
    size = max(1.0, abs(expected))
    return Row(title, "float64", backend, f"{what}, by differences", "slope", abs(found - expected), DIFFERENCES * size)


def _against_torch(name: str) -> Row:
    """The check that the project began with: the weights of torch's own layer give its numbers."""
    theirs = TORCH[name](3, 4, batch_first=True)
    ours = CELLS[name].layer(3, 4, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x, outputs = torch.randn(2, 5, 3, generator=_generator()), []
    state: Any = None
    with torch.no_grad():
        for t in range(5):
            output, state = ours.step(x[:, t], state)
            outputs.append(output)
        expected, last = theirs(x)
    pairs = [(torch.stack(outputs, dim=1), expected), *zip(as_tuple(state), as_tuple(last), strict=True)]
    error = max(largest_error(a, b) for a, b in pairs)
    return Row(name, "float32", "loop", f"step by step, torch.nn.{TORCH[name].__name__}", "all", error, EQUAL_TO_TORCH)


def _layer(name: str, options: dict[str, Any], dtype: torch.dtype, draw: int = 0, **arguments: Any) -> RecurrentLayer:
    """A small layer with weights large enough for every gate to leave its linear range.

    In bfloat16 they are half as large: a cell that is not contracting makes more of every rounding, step by step.
    """
    layer_class = CELLS[name].layer
    if not layer_class.takes_proj_size:
        arguments = {k: v for k, v in arguments.items() if k != "proj_size"}
    block = layer_class.cell_class(**options).block_size
    layer = layer_class(FEATURES, HIDDEN + -HIDDEN % block, batch_first=True, dtype=dtype, **arguments, **options)
    generator = _generator(draw)
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * (0.35 if dtype == torch.bfloat16 else 0.5))
    return layer


def _sequences(layer: RecurrentLayer, setting: Setting, draw: int = 0) -> Sequences:
    """Random inputs in the layer's dtype, with the setting's lengths, holes and resets."""
    generator = _generator(draw)
    dtype = layer.weight_ih_l0.dtype
    x = torch.randn(BATCH, TIME, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    sizes = [(layer.num_layers * (1 + layer.bidirectional), BATCH, size) for size in layer.state_sizes()]
    hx = tuple(torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes)
    mask = torch.ones(BATCH, TIME, dtype=torch.bool)
    if setting.lengths is not None:
        mask = torch.arange(TIME) < torch.tensor(setting.lengths)[:, None]
    if setting.left:
        mask = mask.flip(1)
    if setting.holes:
        mask &= torch.rand(BATCH, TIME, generator=generator) < 0.7
        mask[0, -1] = mask[-1] = False
    resets = torch.zeros(BATCH, TIME, dtype=torch.bool)
    if setting.resets:
        resets = torch.rand(BATCH, TIME, generator=generator) < 0.4
        resets[0, 0] = resets[0, -1] = True
        resets[-1] &= not setting.holes  # a row without a real step and without a reset hands back what it was given
    if setting.positive_hx:
        hx = tuple(s.abs() for s in hx)
    noise = None
    if setting.noise:
        for regulariser in setting.noise:
            if regulariser != "weight_dropout" or layer.cell.reads_state:
                setattr(layer, regulariser, 0.3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            noise = layer.draw_noise(BATCH, TIME)
    return Sequences(x, hx, mask, resets, noise)


def _upstream(layer: RecurrentLayer, sequences: Sequences) -> tuple[Tensor, States]:
    """Random gradients for the output and every last state, in float64."""
    generator = _generator()
    shape = (*sequences.x.shape[:2], layer.output_size)
    output = torch.randn(shape, generator=generator, dtype=torch.float64)
    return output, tuple(torch.randn(s.shape, generator=generator, dtype=torch.float64) for s in sequences.hx)


def _results(
    layer: RecurrentLayer, way: Way, sequences: Sequences, grads: tuple[Tensor, States], with_hx: bool
) -> dict[str, Tensor]:
    """Output, last states, and the gradients of everything that they depend on, by name."""
    x = sequences.x.detach().requires_grad_()
    hx = tuple(s.detach().requires_grad_() for s in sequences.hx) if with_hx else beginning(layer, len(x))
    output, state = way(layer, sequences._replace(x=x, hx=hx))
    found = {"output": output} | {f"state {i}": s for i, s in enumerate(state)}
    wanted = {"input": x} | dict(layer.named_parameters())
    if with_hx:
        wanted |= {f"hx{i}": s for i, s in enumerate(hx)}
    loss = sum((a.double() * g).sum() for a, g in zip((output, *state), (grads[0], *grads[1]), strict=True))
    # An initial state that nothing began with has none.
    gradients = torch.autograd.grad(torch.as_tensor(loss), list(wanted.values()), materialize_grads=True)
    return found | {f"gradient of {k}": g for k, g in zip(wanted, gradients, strict=True)}


def _worst(
    title: str, dtype: str, backend: str, way: str, found: dict[str, Tensor], expected: dict[str, Tensor],
    table: torch.dtype | str,
) -> Row:  # fmt: skip
    """The number that comes nearest to what is allowed for it, or goes furthest beyond."""
    rows = []
    for what, want in expected.items():
        gradient = what.startswith("gradient")
        allowed = allowed_error(want, table, gradient=gradient)
        rows.append(Row(title, dtype, backend, way, what, largest_error(found[what], want), allowed))
    return max(rows, key=lambda row: row.error / row.allowed)


def _double(s: Sequences) -> Sequences:
    """The same numbers in float64, and the noise with them."""
    noise = s.noise
    if noise is not None:
        noise = noise._replace(directions=tuple(
            part._replace(**{
                k: None if getattr(part, k) is None else getattr(part, k).double() for k in ("input", "state", "weight")
            })
            for part in noise.directions
        ))  # fmt: skip
    return s._replace(x=s.x.double(), hx=tuple(h.double() for h in s.hx), noise=noise)


def _generator(draw: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(draw)
