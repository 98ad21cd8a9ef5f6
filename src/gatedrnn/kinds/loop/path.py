"""Loop cells: one matrix product projects the whole sequence, then its steps run one after another."""

import inspect
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from gatedrnn.codegen.source import numba_source
from gatedrnn.equations import Equations, GappedEquations, GappedLoopEquations, LoopEquations, Recurrent
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import has_cpu_kernels, plain_torch_only
from gatedrnn.kinds import programs
from gatedrnn.kinds.definition import gaps_between_real_steps, iterate, reversed_resets
from gatedrnn.kinds.kind import (
    Direction,
    GapsTaken,
    Insides,
    Kind,
    LayerView,
    MethodCall,
    Pass,
    Path,
    SampleInputs,
    SeriesResult,
    StepResult,
    Tracking,
    is_of,
)
from gatedrnn.kinds.loop.op import loop_in_kernel
from gatedrnn.kinds.loop.rows import LoopProgram, trace_loop
from gatedrnn.kinds.stream import WeightSize, plain_states, plain_weights, state_shapes
from gatedrnn.shapes import Hidden, Series, Step

STATE_DEPENDENT = Tracking(
    "state-dependent",
    "a non-linear function of the input and of the previous state",
    "any finite automaton, once training finds it; the steps must run one after another",
    "unbounded counts beyond the precision of its state",
    "Merrill et al. 2024, arXiv:2404.08819",
)


def loop_program(cell: Equations) -> LoopProgram | None:
    """Return the program that kernels run for a loop cell; None if there is none."""
    return programs.program_for(cell, trace_loop)


def loop_backends(layer: LayerView) -> tuple[str, ...]:
    """Return the backends that can run the layer as configured."""
    return ("reference",) if without_kernel(layer, bool(layer.zoneout)) else ("reference", "native")


def without_kernel(layer: LayerView, zones_out: bool) -> str | None:
    """Return why no kernel runs all steps; None if one does."""
    cell, weight = layer.cell, layer._weight("weight_ih_l0")
    if loop_program(cell) is None or not has_cpu_kernels(weight.device):
        return programs.why_no_program(cell, trace_loop) or f"no kernel runs {cell.name} here"
    if weight.dtype not in (torch.float32, torch.float64):
        return "narrow weights are multiplied as they are, which torch does"
    return "zoneout changes the state between steps" if zones_out else None


def loop_path(layer: LayerView, asked: Pass) -> Path:
    """Return the execution path of a pass."""
    return stepping_path(layer, asked, without_kernel(layer, asked.zones_out), _in_kernel)


def stepping_path(layer: LayerView, asked: Pass, without: str | None, in_kernel: object) -> Path:
    """Choose between a kernel for all steps and the step loop in torch; `without` says why there is no kernel."""
    in_torch = "the step loop in torch"
    if layer._backend == "reference":
        return Path(in_torch, "backend='reference' asks for it", in_torch_steps)
    if asked.has_gaps:
        without = without or "gaps change the state between steps"
    if layer._backend == "native" and asked.direction is not None and (without or plain_torch_only()):
        raise BackendUnavailable("backend 'native': zoneout or a transform needs the step loop in torch; use 'auto'")
    if without is None and asked.direction is not None and plain_torch_only():
        without = "a transform of torch.func or an export to ONNX takes torch's own operations alone"
    if without is not None:
        return Path(in_torch, without, in_torch_steps)
    reason = "compiled loops, sequences shared by threads (numba)"
    return Path("one kernel for all steps, backend native", reason, in_kernel)  # type: ignore[arg-type]


def in_torch_steps(layer: LayerView, direction: Direction) -> SeriesResult:
    """Run one layer in one direction by its definition."""
    cell, gaps, projected = layer.cell, direction.gaps, layer._project(direction.x, direction.weights)
    recurrent = Recurrent(cell.projections, direction.weights, direction.dropped)
    if gaps is not None and gaps.dim() == 2:
        gaps = gaps_between_real_steps(gaps, direction.mask, direction.resets, direction.reverse)
    output, last = iterate(
        cell, projected, direction.state, recurrent, direction.mask, cuts_of(direction), direction.reverse,
        direction.zoneout, gaps,
    )  # fmt: skip
    return layer._project_output(output.to(projected.dtype), direction.weights), last


def cuts_of(direction: Direction) -> Tensor | None:
    """Return the resets in the order of the run."""
    return reversed_resets(direction.resets) if direction.resets is not None and direction.reverse else direction.resets


def _in_kernel(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, projected = layer.cell, layer._project(direction.x, direction.weights)
    recurrent = Recurrent(cell.projections, direction.weights, direction.dropped)
    output, last = loop_in_kernel(
        cell, projected, direction.state, recurrent, direction.mask, cuts_of(direction), direction.reverse
    )
    return layer._project_output(output.to(projected.dtype), direction.weights), last


def loop_stream(layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
    """Run a step of few rows in one call; None if no kernel can run it."""
    shapes = state_shapes(layer, x)
    if shapes is None or not has_cpu_kernels(x.device) or (program := loop_program(layer.cell)) is None:
        return None
    recurrent_bias = layer.bias and layer.cell.recurrent_bias
    sizes = _sizes(
        program.gates, program.diagonals, layer.hidden_size, x.shape[1], layer.num_layers, layer.bias, recurrent_bias
    )
    state, weights = plain_states(hx, shapes, x), plain_weights(layer, sizes, x.dtype)
    if state is None or weights is None:
        return None
    from gatedrnn.kinds.loop.step import loop_step  # which needs Numba

    return loop_step(program, x.contiguous(), weights, state)


@cache
def _sizes(
    gates: int, diagonals: tuple[str, ...], size: int, inputs: int, layers: int, bias: bool, recurrent_bias: bool
) -> list[WeightSize | None]:  # fmt: skip
    """Return the weights of each layer in the order of `step.WEIGHTS`, None for a missing one, then its diagonals."""
    sizes: list[WeightSize | None] = []
    for n in range(layers):
        biases = ("bias_ih", bias), ("bias_hh", recurrent_bias)
        sizes += [
            WeightSize(f"weight_ih_l{n}", gates * size * (size if n else inputs)),
            WeightSize(f"weight_hh_l{n}", gates * size * size),
            *(WeightSize(f"{name}_l{n}", gates * size) if is_present else None for name, is_present in biases),
            *(WeightSize(f"weight_{name}_l{n}", size) for name in diagonals),
        ]
    return sizes


def loop_shapes(cell: LoopEquations, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters beside those of the input."""
    rows = len(cell.projections) * hidden_size
    shapes: dict[str, tuple[int, ...]] = {"weight_hh": (rows, width)}
    if bias and cell.recurrent_bias:
        shapes["bias_hh"] = (rows,)
    shapes |= {f"weight_{name}": (hidden_size,) for name in cell.diagonals}
    if isinstance(cell, GappedLoopEquations):
        shapes["weight_gap"] = (hidden_size, cell.gap_features)
        if bias:
            shapes["bias_gap"] = (hidden_size,)
    return shapes


def loop_calls(cell: Equations, inputs: SampleInputs) -> list[MethodCall]:
    """Return the call of one step, which may read gaps."""
    now, before = tuple(x[:, 0] for x in inputs.projected), tuple(s[:, 0] for s in inputs.state)
    arguments = now, before, Recurrent(cell.projections, inputs.weights)
    shapes = [tuple(s.shape) for s in before]
    if isinstance(cell, GappedEquations):
        gaps = torch.ones(len(now[0]), cell.gap_features if isinstance(cell, GappedLoopEquations) else 1)
        return [MethodCall("step_over", (gaps, *arguments), "a tuple of the states", shapes)]
    return [MethodCall("step", arguments, "a tuple of the states", shapes)]


def loop_insides(cell: Equations, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
    """Return the gates, which are sigmoids; the first that sets a decay is the decay."""
    signed = [torch.sigmoid(sign * sums[name]) for name, sign in cell.decay_gates.items()]
    gates = {name: torch.sigmoid(total) for name, total in sums.items() if name not in cell.candidates}
    return Insides(gates, signed[0] if signed else None)


def _sources(cell: Equations) -> list[str]:
    program = loop_program(cell)
    if program is None:
        return []
    equations, rows = inspect.cleandoc(type(cell).__doc__ or ""), [*program.forward, *reversed(program.backward)]
    return [numba_source(cell.word, row, dict.fromkeys(row.rows, "float32"), equations).text for row in rows]


def loop_gaps(cell: Equations | type[Equations]) -> GapsTaken | None:
    """Return how a loop cell reads gaps; None if it reads none."""
    return GapsTaken(features=cell.gap_features) if is_of(cell, GappedLoopEquations) else None  # type: ignore[union-attr]


def loop_refuses(cell: LoopEquations | type[LoopEquations]) -> frozenset[str]:
    """Return the settings that a loop cell refuses."""
    return frozenset({"zoneout"} if cell.joint_states else ())


LOOP = Kind(
    equations=lambda cell: is_of(cell, LoopEquations),
    backends=loop_backends, path=loop_path, stream=loop_stream, shapes=loop_shapes, calls=loop_calls,
    insides=loop_insides, tracking=lambda cell: STATE_DEPENDENT, sources=_sources,
    why_no_program=lambda cell: programs.why_no_program(cell, trace_loop), gaps=loop_gaps, without=loop_refuses,
    iterates=True,
)  # fmt: skip
