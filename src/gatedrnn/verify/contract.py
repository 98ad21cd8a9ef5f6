"""The equivalence law, checked: every execution mode of a cell against its step loop, and that against the papers."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn.equations import Equations, GappedScanEquations, PositiveScanEquations
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.taken import takes
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.verify import oracle
from gatedrnn.verify.decay import wrong_change
from gatedrnn.verify.definition import Sequences, States, initial_states, run_by_definition
from gatedrnn.verify.modes import LOG_SPACE, SETTINGS, Mode, Setting, as_tuple, settings_for, whole
from gatedrnn.verify.tolerances import (
    DIFFERENCES,
    EQUAL_TO_TORCH,
    LOG_SPACE_PER_STEP,
    NARROW_STATE,
    ROUNDED,
    TOLERANCES,
    allowed_error,
    largest_error,
)

BATCH, TIME, FEATURES, HIDDEN = 3, 9, 3, 5
DRAWS = 3
"""Draws on which a mode may pass in bfloat16: where a rounding decides on which side of a kink (of g, of a clamp) a
value lies, the gradients are not those of float64, and other values are drawn. An error in the code fails on all."""
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


class Row(NamedTuple):
    """One line of the table: the largest error of one execution mode of one cell."""

    cell: str
    dtype: str
    backend: str
    mode: str
    worst: str
    """What differs most, in units of what is allowed."""
    error: float
    allowed: float
    rule: str = ""
    """The broken rule as a sentence, where the error alone does not name it."""
    informative: bool = False
    """Shown, and not part of the verdict."""

    @property
    def holds(self) -> bool:
        return self.informative or self.error <= self.allowed


def check_cell(cell: str, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Iterator[Row]:
    """All checks of one cell: by its name alone with each of its options, or with the options that are given.

    Args:
        cell: a name or, with options, a word as `CellChoice.parse` reads it: `gru:reset_after=false`.

    Raises:
        ValueError: there is no cell, option or dtype of that name.
    """
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    for choice in choices_of(cell):
        yield from check_choice(choice, dtypes)


def choices_of(cell: str) -> list[CellChoice]:
    """What `check_cell` checks for a name or a word: the cell alone and each of its variants, or the given options."""
    given = CellChoice.parse(cell)
    variants = () if given.options else CELLS[given.name].variants
    return [given, *(CellChoice(given.name, options) for options in variants)]


def check_choice(choice: CellChoice, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Iterator[Row]:
    """All checks of one cell with these options alone."""
    name, options, title = choice.name, dict(choice.options), str(choice)
    if "float64" in dtypes:
        yield from _of_decay_gates(name, options, title)
        if name in oracle.ORACLES:  # numpy's own
            yield from _against_oracle(name, options, title)
        if issubclass(CELLS[name].equations, GappedScanEquations):
            yield _of_gaps(name, options, title)
    for dtype in dtypes:
        for setting in settings_for(CELLS[name].equations, dtype):
            yield from _against_definition(name, options, title, dtype, setting)
        if not options and issubclass(CELLS[name].equations, PositiveScanEquations):
            for row in _against_definition(name, options, title, dtype, LOG_SPACE):
                yield as_log_space(row, TIME)
    if name in TORCH and not options:
        yield _against_torch(name)


def as_log_space(row: Row, steps: int) -> Row:
    """The row of the scan over logarithms: shown beside what its roundings may come to, and no part of the verdict."""
    allowed = row.allowed + LOG_SPACE_PER_STEP * torch.finfo(DTYPES[row.dtype]).eps * steps
    return row._replace(backend="log_space", allowed=allowed, informative=True)


def _against_definition(name: str, options: dict[str, Any], title: str, dtype: str, setting: Setting) -> Iterator[Row]:
    """Floor (ii): outputs, last states and all gradients of every mode in one setting."""
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
    expected = _results(deepcopy(layer).double(), run_by_definition, _double(sequences), grads, setting.hx)
    rounded = NARROW_STATE if setting.narrow else ROUNDED
    allowed, rows = _allowed(expected, rounded if dtype == "bfloat16" else DTYPES[dtype]), []
    for backend in ("auto",) if setting is LOG_SPACE else layer.backends:
        layer.backend = backend
        for title_of_mode, mode in setting.modes.items():
            found = _results(layer, mode, sequences, grads, setting.hx)
            rows.append(_worst(title, dtype, backend, title_of_mode, found, expected, allowed))
    return rows


def _of_decay_gates(name: str, options: dict[str, Any], title: str) -> Iterator[Row]:
    """A larger bias of a decay gate keeps more of the state, or less, as the cell declares."""
    layer = _layer(name, options, torch.float64)
    for gate, sign in layer.cell.decay_gates.items():
        error, allowed = wrong_change(layer, gate, sign), TOLERANCES[torch.float64].gradient
        declared = (
            f"{title} declares decay_gates[{gate!r}] = {sign:+d}, so a larger bias of that gate must keep "
            f"{'more' if sign > 0 else 'less'} of the state, and it does not; give it the other sign"
        )
        yield Row(
            title,
            "float64",
            "definition",
            f"larger bias of {gate}",
            "share kept",
            error,
            allowed,
            "" if error <= allowed else declared,
        )


def _of_gaps(name: str, options: dict[str, Any], title: str) -> Row:
    """The decay over a gap is the decay of one step, raised to it."""
    layer, generator = _layer(name, options, torch.float64), _generator()
    cell = layer.cell
    assert isinstance(cell, GappedScanEquations)
    count = len(cell.projections) + len(cell.diagonals)
    projected = torch.randn(count, 100, generator=generator, dtype=torch.float64).unbind()
    gaps = 4 * torch.rand(100, generator=generator, dtype=torch.float64)
    expected, (found, _) = cell.coefficients(*projected)[0] ** gaps, cell.coefficients_over(gaps, *projected)
    allowed = allowed_error(expected, torch.float64)
    return Row(title, "float64", "definition", "decay raised to gaps", "decay", largest_error(found, expected), allowed)


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
        allowed, what = _allowed(expected, torch.float64), "numpy oracle, projected" if arguments else "numpy oracle"
        direction = _direction(parameters | inputs, layer.cell)
        slope = _slope(parameters | inputs, direction, forward, grads)
        for backend in layer.backends:
            layer.backend = backend
            found = _results(layer, whole, sequences, grads, with_hx=True)
            only = {k: v for k, v in found.items() if k in expected}
            yield _worst(title, "float64", backend, what, only, expected, allowed)
            by_name = {k.removeprefix("gradient of ").removesuffix("_l0"): v for k, v in found.items()}
            by_name["x"] = by_name.pop("input")
            along = sum(float((by_name[k].reshape(v.shape) * torch.as_tensor(v)).sum()) for k, v in direction.items())
            error, most = abs(along - slope), DIFFERENCES * max(1.0, abs(slope))
            yield Row(title, "float64", backend, f"{what}, by differences", "slope", error, most)


def _direction(arrays: dict[str, Any], cell: Equations) -> dict[str, Any]:
    """A random direction through all inputs at once.

    What goes through a straight-through estimator has no slope, and is left where it is.
    """
    random = np.random.default_rng(0)
    direction = {k: random.standard_normal(v.shape) for k, v in arrays.items()}
    if cell.straight_through:
        direction["x"] = np.zeros_like(direction["x"])
        for k in {"weight_ih", "bias_ih"} & direction.keys():
            gates = np.split(direction[k], len(cell.projections))  # views, not copies
            for gate, rows in zip(cell.projections, gates, strict=True):
                rows *= gate not in cell.straight_through
    return direction


def _slope(
    arrays: dict[str, Any], direction: dict[str, Any], forward: Callable[[dict[str, Any]], tuple[Any, Any]],
    grads: tuple[Tensor, States],
) -> float:  # fmt: skip
    """The loss's slope along a direction, by two oracle runs."""
    step = 1e-6

    def loss(sign: float) -> float:
        output, state = forward({k: v + sign * step * direction[k] for k, v in arrays.items()})
        total = (output * grads[0].numpy()).sum()
        return float(total + sum((s * g[0].numpy()).sum() for s, g in zip(state, grads[1], strict=True)))

    return (loss(1) - loss(-1)) / (2 * step)


def _against_torch(name: str) -> Row:
    """With the weights of torch's own layer ours gives the same values, step by step."""
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
    torch_kernel = layer_class.cell_class(**options).torch_kernel
    if torch_kernel is not None and not torch_kernel.projects:
        arguments = {k: v for k, v in arguments.items() if k != "proj_size"}
    block = layer_class.cell_class(**options).block_size
    layer = layer_class(FEATURES, HIDDEN + -HIDDEN % block, batch_first=True, dtype=dtype, **{**options, **arguments})
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
        x[~mask] = torch.nan  # what stands at a masked step reaches nothing
    resets = torch.zeros(BATCH, TIME, dtype=torch.bool)
    if setting.resets:
        resets = torch.rand(BATCH, TIME, generator=generator) < 0.4
        resets[0, 0] = resets[0, -1] = True
        resets[-1] &= not setting.holes  # a row without a real step and without a reset returns the state it was given
    if setting.positive_hx:
        hx = tuple(s.abs() for s in hx)
    masks = None
    if setting.regularisers:
        for regulariser in setting.regularisers:
            if takes(layer.cell, regulariser):
                setattr(layer, regulariser, 0.3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            masks = layer.draw_dropout_masks(BATCH, TIME)
    gaps = None
    if setting.gaps or setting.gap_features:  # of 0 too, and so large that nothing of the state is left
        last = (layer.cell.gap_features * (1 + layer.bidirectional),) if setting.gap_features else ()
        gaps = torch.rand(BATCH, TIME, *last, generator=generator, dtype=torch.float64) ** 2 * 4
        gaps[0, 1], gaps[0, 3] = 0, 100
        gaps = gaps.to(torch.promote_types(dtype, torch.float32))
    return Sequences(x, hx, mask, resets, masks, gaps)


def _upstream(layer: RecurrentLayer, sequences: Sequences) -> tuple[Tensor, States]:
    """Random gradients for the output and every last state, in float64."""
    generator = _generator()
    shape = (*sequences.x.shape[:2], layer.output_size)
    output = torch.randn(shape, generator=generator, dtype=torch.float64)
    return output, tuple(torch.randn(s.shape, generator=generator, dtype=torch.float64) for s in sequences.hx)


def _results(
    layer: RecurrentLayer, mode: Mode, sequences: Sequences, grads: tuple[Tensor, States], with_hx: bool
) -> dict[str, Tensor]:
    """Output, last states, and the gradients of everything that they depend on, by name."""
    x = sequences.x.detach().requires_grad_()
    hx = tuple(s.detach().requires_grad_() for s in sequences.hx) if with_hx else initial_states(layer, len(x))
    gaps = None if sequences.gaps is None else sequences.gaps.detach().requires_grad_()
    output, state = mode(layer, sequences._replace(x=x, hx=hx, gaps=gaps))
    found = {"output": output} | {f"state {i}": s for i, s in enumerate(state)}
    wanted = {"input": x} | dict(layer.named_parameters())
    if gaps is not None:
        wanted["gaps"] = gaps
    if with_hx:
        wanted |= {f"hx{i}": s for i, s in enumerate(hx)}
    loss = sum((a.double() * g).sum() for a, g in zip((output, *state), (grads[0], *grads[1]), strict=True))
    # An initial state that nothing began with has none.
    gradients = torch.autograd.grad(torch.as_tensor(loss), list(wanted.values()), materialize_grads=True)
    return found | {f"gradient of {k}": g for k, g in zip(wanted, gradients, strict=True)}


def _allowed(expected: dict[str, Tensor], table: torch.dtype | str) -> dict[str, float]:
    """What the table allows for each of the results, by name."""
    return {k: allowed_error(want, table, gradient=k.startswith("gradient")) for k, want in expected.items()}


def _worst(
    title: str, dtype: str, backend: str, mode: str, found: dict[str, Tensor], expected: dict[str, Tensor],
    allowed: dict[str, float],
) -> Row:  # fmt: skip
    """The tensor whose error is the largest fraction of what is allowed for it."""
    errors = {what: largest_error(found[what], want) for what, want in expected.items()}
    worst = max(errors, key=lambda what: errors[what] / allowed[what])
    return Row(title, dtype, backend, mode, worst, errors[worst], allowed[worst])


def _double(s: Sequences) -> Sequences:
    """The same values in float64, dropout masks included."""
    masks = s.masks
    if masks is not None:
        masks = masks._replace(directions=tuple(
            part._replace(**{
                k: None if getattr(part, k) is None else getattr(part, k).double() for k in ("input", "state", "weight")
            })
            for part in masks.directions
        ))  # fmt: skip
    gaps = None if s.gaps is None else s.gaps.double()
    return s._replace(x=s.x.double(), hx=tuple(h.double() for h in s.hx), masks=masks, gaps=gaps)


def _generator(draw: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(draw)
