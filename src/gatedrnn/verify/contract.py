"""Checks of the equivalence law: every execution mode of a cell against its step loop, and that against the papers."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from gatedrnn.kinds import kind_of
from gatedrnn.laws.suite import check
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.arguments import takes
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.shapes import StateTuple
from gatedrnn.verify.decay import wrong_change
from gatedrnn.verify.definition import Sequences, initial_states, run_by_definition
from gatedrnn.verify.modes import CASES, LOG_SPACE, Case, ExecutionMode, as_tuple, cases_for, whole
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
"""The number of draws on which a mode may pass in bfloat16: where rounding moves a value across a kink (of g, of a
clamp), the gradients are not those of float64, and other values are drawn. An error in the code fails on all."""
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}


class Check(NamedTuple):
    """One line of the table: the largest error of one execution mode of one cell."""

    cell: str
    dtype: str
    backend: str
    mode: str
    worst: str
    """The tensor with the largest error, relative to the allowed one."""
    error: float
    allowed: float
    rule: str = ""
    """The broken rule as a sentence, where the error alone does not name it."""
    informative: bool = False
    """Whether it is shown only, without part in the verdict."""

    @property
    def holds(self) -> bool:
        return self.informative or self.error <= self.allowed


def check_cell(cell: str, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Iterator[Check]:
    """Run all checks of one cell: a name stands for all its variants, a word for the options in it.

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
    """Return the choices that `check_cell` checks: for a name the cell and its variants, for a word its options."""
    choice = CellChoice.parse(cell)
    variants = () if choice.options else CELLS[choice.name].variants
    return [choice, *(CellChoice(choice.name, options) for options in variants)]


def check_choice(choice: CellChoice, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Iterator[Check]:
    """Run all checks of one cell with these options alone."""
    name, options, title = choice.name, dict(choice.options), str(choice)
    record, cell = CELLS[name], choice.equations()
    if "float64" in dtypes:
        yield from _check_decay_gates(name, options, title)
        if cell.numpy is not None:
            yield from _against_oracle(name, options, title)
        gaps = kind_of(cell).facts(cell).gaps
        if gaps is not None and not gaps.features:
            yield _check_gap_decay(cell, title)
    for dtype in dtypes:
        for case in cases_for(cell, record.layer.wrapper(cell), dtype):
            yield from _against_definition(name, options, title, dtype, case)
        if not options and "log_space" in record.options:
            for row in _against_definition(name, options, title, dtype, LOG_SPACE):
                yield as_log_space(row, TIME)
    if name in TORCH and not options:
        yield _against_torch(name)
    if "float64" in dtypes:
        yield from _check_laws(name, options, title)


def as_log_space(row: Check, steps: int) -> Check:
    """Turn a row into one of the scan over logarithms: informative, with its rounding errors allowed."""
    allowed = row.allowed + LOG_SPACE_PER_STEP * torch.finfo(DTYPES[row.dtype]).eps * steps
    return row._replace(backend="log_space", allowed=allowed, informative=True)


def _against_definition(name: str, options: dict[str, Any], title: str, dtype: str, case: Case) -> Iterator[Check]:
    """Compare outputs, last states and all gradients of every mode in one case with the definition."""
    rows = _compare_on_draw(name, options, title, dtype, case, 0)
    for draw in range(1, DRAWS if dtype == "bfloat16" else 1):
        if all(row.holds for row in rows):
            break
        rows = _compare_on_draw(name, options, title, dtype, case, draw)
    yield from rows


def _compare_on_draw(name: str, options: dict[str, Any], title: str, dtype: str, case: Case, draw: int) -> list[Check]:
    layer = _layer(name, options, DTYPES[dtype], draw, **case.arguments)
    sequences = _draw_sequences(layer, case, draw)
    grads = _draw_upstream(layer, sequences)
    expected = _outputs_and_grads(deepcopy(layer).double(), run_by_definition, _double(sequences), grads, case.hx)
    rounded = NARROW_STATE if case.narrow else ROUNDED
    allowed, rows = _tolerances(expected, rounded if dtype == "bfloat16" else DTYPES[dtype]), []
    for backend in ("auto",) if case is LOG_SPACE else layer.backends:
        layer.backend = backend
        for title_of_mode, mode in case.modes.items():
            results = _outputs_and_grads(layer, mode, sequences, grads, case.hx)
            rows.append(_worst_row(title, dtype, backend, title_of_mode, results, expected, allowed))
    return rows


def _check_laws(name: str, options: dict[str, Any], title: str) -> Iterator[Check]:
    """Ask the laws of every recurrent module."""
    report = check(_layer(name, options, torch.float64, num_layers=2), draws=1)  # the modes draw others
    for outcome in report.outcomes:
        if outcome.verdict == "not applicable":
            continue
        rule = f"{outcome.says} {outcome.reason} ({outcome.case})" if outcome.broken else ""
        error = torch.inf if outcome.verdict == "stopped" else outcome.error
        yield Check(title, "float64", "auto", outcome.law, "all", error, outcome.allowed, rule)


def _check_decay_gates(name: str, options: dict[str, Any], title: str) -> Iterator[Check]:
    """Check that a larger bias of a decay gate keeps more of the state, or less, as the cell declares."""
    layer = _layer(name, options, torch.float64)
    for gate, sign in layer.cell.decay_gates.items():
        error, allowed = wrong_change(layer, gate, sign), TOLERANCES[torch.float64].gradient
        declared = (
            f"{title} declares decay_gates[{gate!r}] = {sign:+d}, so a larger bias of that gate must keep "
            f"{'more' if sign > 0 else 'less'} of the state {layer.cell.states[layer.cell.memory]}, and it does not; "
            "give it the other sign, or leave it out if it is a gate of another state"
        )
        yield Check(
            title,
            "float64",
            "definition",
            f"larger bias of {gate}",
            "share kept",
            error,
            allowed,
            "" if error <= allowed else declared,
        )


def _check_gap_decay(cell: Any, title: str) -> Check:
    """Check that the decay over a gap is the decay of one step, raised to the gap."""
    generator = _generator()
    count = len(cell.projections) + len(cell.diagonals)
    projected = torch.randn(count, 100, generator=generator, dtype=torch.float64).unbind()
    gaps = 4 * torch.rand(100, generator=generator, dtype=torch.float64)
    expected, (decay, _) = cell.coefficients(*projected)[0] ** gaps, cell.coefficients_over(gaps, *projected)
    error, allowed = largest_error(decay, expected), allowed_error(expected, torch.float64)
    return Check(title, "float64", "definition", "decay raised to gaps", "decay", error, allowed)


def _against_oracle(name: str, options: dict[str, Any], title: str) -> Iterator[Check]:
    """Compare outputs and last states with numpy, and gradients with differences along a random direction."""
    for arguments in ({}, {"proj_size": 2, "bias": False}):
        layer = _layer(name, options, torch.float64, **arguments)
        sequences = _draw_sequences(layer, CASES[0])
        grads = _draw_upstream(layer, sequences)
        output, state = run_by_definition(layer, sequences, in_numpy=True)
        expected = {"output": output} | {f"state {i}": s for i, s in enumerate(state)}
        allowed, mode = _tolerances(expected, torch.float64), "numpy oracle, projected" if arguments else "numpy oracle"
        direction = _direction(layer, sequences)
        slope = _slope(layer, sequences, direction, grads)
        for backend in layer.backends:
            layer.backend = backend
            results = _outputs_and_grads(layer, whole, sequences, grads, with_hx=True)
            outputs = {k: v for k, v in results.items() if k in expected}
            yield _worst_row(title, "float64", backend, mode, outputs, expected, allowed)
            along = sum(float((results[f"gradient of {k}"] * v).sum()) for k, v in direction.items())
            error, allowed_slope = abs(along - slope), DIFFERENCES * max(1.0, abs(slope))
            yield Check(title, "float64", backend, f"{mode}, by differences", "slope", error, allowed_slope)


def _direction(layer: RecurrentLayer, sequences: Sequences) -> dict[str, Tensor]:
    """Draw a random direction in all inputs and parameters at once.

    Inputs of a straight-through estimator are not moved: it has no slope.
    """
    generator, cell = _generator(), layer.cell
    inputs = {"input": sequences.x} | {f"hx{i}": s for i, s in enumerate(sequences.hx)} | dict(layer.named_parameters())
    direction = {k: torch.randn(v.shape, generator=generator, dtype=torch.float64) for k, v in inputs.items()}
    straight_through = kind_of(cell).facts(cell).signs
    if straight_through:
        direction["input"].zero_()
        for k in {"weight_ih_l0", "bias_ih_l0"} & direction.keys():
            for gate, rows in zip(cell.projections, direction[k].chunk(len(cell.projections)), strict=True):
                rows *= gate not in straight_through
    return direction


def _slope(
    layer: RecurrentLayer, sequences: Sequences, direction: dict[str, Tensor], grads: tuple[Tensor, StateTuple]
) -> float:
    """Compute the loss's slope along a direction by two runs in numpy."""
    # Near the cube root of float64's epsilon, where a central difference errs least: truncation meets rounding.
    step = 1e-6

    @torch.no_grad()
    def loss(sign: float) -> float:
        perturbed = deepcopy(layer)
        for name, parameter in perturbed.named_parameters():
            parameter.add_(sign * step * direction[name])
        x = sequences.x + sign * step * direction["input"]
        hx = tuple(s + sign * step * direction[f"hx{i}"] for i, s in enumerate(sequences.hx))
        output, state = run_by_definition(perturbed, sequences._replace(x=x, hx=hx), in_numpy=True)
        return float(sum((a * g).sum() for a, g in zip((output, *state), (grads[0], *grads[1]), strict=True)))

    return (loss(1) - loss(-1)) / (2 * step)


def _against_torch(name: str) -> Check:
    """Compare our layer, step by step, with torch's own layer of the same weights."""
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
    mode = f"step by step, torch.nn.{TORCH[name].__name__}"
    return Check(name, "float32", "loop", mode, "all", error, EQUAL_TO_TORCH)


def _layer(name: str, options: dict[str, Any], dtype: torch.dtype, draw: int = 0, **arguments: Any) -> RecurrentLayer:
    """Make a small layer with weights large enough for every gate to leave its linear range.

    In bfloat16 they are smaller: a cell that is not contracting amplifies every rounding, step by step.
    """
    cell = CellChoice(name, options).equations()
    if not takes(cell, "proj_size"):
        arguments.pop("proj_size", None)
    # A cell with channels in blocks takes whole blocks alone.
    hidden = HIDDEN + -HIDDEN % cell.block_size
    layer = CELLS[name].layer(FEATURES, hidden, batch_first=True, dtype=dtype, **{**options, **arguments})
    generator = _generator(draw)
    with torch.no_grad():
        for parameter in layer.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(values * (0.35 if dtype == torch.bfloat16 else 0.5))
    return layer


def _draw_sequences(layer: RecurrentLayer, case: Case, draw: int = 0) -> Sequences:
    """Draw inputs in the layer's dtype, with the case's lengths, holes and resets."""
    generator = _generator(draw)
    dtype = layer.weight_ih_l0.dtype
    # Drawn in float64 and rounded: the reference, in float64, gets the very numbers of the layer.
    x = torch.randn(BATCH, TIME, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    sizes = [(layer.num_layers * (1 + layer.bidirectional), BATCH, size) for size in layer.state_sizes()]
    hx = tuple(torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes)
    mask = torch.ones(BATCH, TIME, dtype=torch.bool)
    if case.lengths is not None:
        mask = torch.arange(TIME) < torch.tensor(case.lengths)[:, None]
    if case.left:
        mask = mask.flip(1)
    if case.holes:
        mask &= torch.rand(BATCH, TIME, generator=generator) < 0.7
        # A row that ends with a masked step, and one without any real step.
        mask[0, -1] = mask[-1] = False
        x[~mask] = torch.nan  # the input of a masked step must have no effect
    resets = torch.zeros(BATCH, TIME, dtype=torch.bool)
    if case.resets:
        resets = torch.rand(BATCH, TIME, generator=generator) < 0.4
        # At the edges: before the first step, and before the last.
        resets[0, 0] = resets[0, -1] = True
        resets[-1] &= not case.holes  # a row without a real step and without a reset returns the state that it gets
    if case.positive_hx:
        hx = tuple(s.abs() for s in hx)
    masks = None
    if case.regularisers:
        for regulariser in case.regularisers:
            if takes(layer.cell, regulariser):
                setattr(layer, regulariser, 0.3)
        # One seed in every mode, so that all draw the same masks.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            masks = layer.draw_dropout_masks(BATCH, TIME)
    gaps = None
    if case.gaps or case.gap_features:  # of 0 too, and so large that nothing of the state is left
        cell_gaps = kind_of(layer.cell).facts(layer.cell).gaps
        feature_axis = (cell_gaps.features * (1 + layer.bidirectional),) if cell_gaps and case.gap_features else ()
        gaps = torch.rand(BATCH, TIME, *feature_axis, generator=generator, dtype=torch.float64) ** 2 * 4
        gaps[0, 1], gaps[0, 3] = 0, 100
        gaps = gaps.to(torch.promote_types(dtype, torch.float32))
    return Sequences(x, hx, mask, resets, masks, gaps)


def _draw_upstream(layer: RecurrentLayer, sequences: Sequences) -> tuple[Tensor, StateTuple]:
    """Draw gradients for the output and every last state, in float64."""
    generator = _generator()
    shape = (*sequences.x.shape[:2], layer.output_size)
    output = torch.randn(shape, generator=generator, dtype=torch.float64)
    return output, tuple(torch.randn(s.shape, generator=generator, dtype=torch.float64) for s in sequences.hx)


def _outputs_and_grads(
    layer: RecurrentLayer, mode: ExecutionMode, sequences: Sequences, grads: tuple[Tensor, StateTuple], with_hx: bool
) -> dict[str, Tensor]:
    """Return output, last states, and the gradients of everything that they depend on, by name."""
    x = sequences.x.detach().requires_grad_()
    hx = tuple(s.detach().requires_grad_() for s in sequences.hx) if with_hx else initial_states(layer, len(x))
    gaps = None if sequences.gaps is None else sequences.gaps.detach().requires_grad_()
    output, state = mode(layer, sequences._replace(x=x, hx=hx, gaps=gaps))
    results = {"output": output} | {f"state {i}": s for i, s in enumerate(state)}
    inputs = {"input": x} | dict(layer.named_parameters())
    if gaps is not None:
        inputs["gaps"] = gaps
    if with_hx:
        inputs |= {f"hx{i}": s for i, s in enumerate(hx)}
    loss = sum((a.double() * g).sum() for a, g in zip((output, *state), (grads[0], *grads[1]), strict=True))
    # An initial state that no sequence uses has no gradient: materialised as zeros.
    gradients = torch.autograd.grad(torch.as_tensor(loss), list(inputs.values()), materialize_grads=True)
    return results | {f"gradient of {k}": g for k, g in zip(inputs, gradients, strict=True)}


def _tolerances(expected: dict[str, Tensor], table: torch.dtype | str) -> dict[str, float]:
    """Return the error that the table allows for each result, by name."""
    return {k: allowed_error(want, table, gradient=k.startswith("gradient")) for k, want in expected.items()}


def _worst_row(
    title: str, dtype: str, backend: str, mode: str, results: dict[str, Tensor], expected: dict[str, Tensor],
    allowed: dict[str, float],
) -> Check:  # fmt: skip
    """Return the row of the tensor whose error is the largest fraction of its allowed error."""
    errors = {what: largest_error(results[what], want) for what, want in expected.items()}
    worst = max(errors, key=lambda what: errors[what] / allowed[what])
    return Check(title, dtype, backend, mode, worst, errors[worst], allowed[worst])


def _double(s: Sequences) -> Sequences:
    """Convert sequences to float64, dropout masks included."""
    return tree_map(lambda x: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x, s)


def _generator(draw: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(draw)
