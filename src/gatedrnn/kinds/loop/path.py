"""Loop cells: one matrix product projects the whole sequence, then its steps run one after another."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatedrnn.equations import Equations, GappedEquations, GappedLoopEquations, LoopEquations, Recurrent
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import DTYPES, plain_torch_only
from gatedrnn.kinds import programs
from gatedrnn.kinds.definition import gaps_between_real_steps, iterate, reversed_resets
from gatedrnn.kinds.kind import (
    CellFacts,
    CellT,
    Direction,
    GapsTaken,
    Insides,
    Kernel,
    Kind,
    LayerView,
    MethodCall,
    Pass,
    Path,
    SampleInputs,
    SeriesResult,
    StepResult,
    Tracking,
    diagonal_shapes,
    is_of,
)
from gatedrnn.kinds.loop.op import loop_in_kernel
from gatedrnn.kinds.loop.rows import trace_loop
from gatedrnn.kinds.stream import step_tensors
from gatedrnn.shapes import Hidden, Series, Step

_STATE_DEPENDENT = Tracking(
    "state-dependent",
    "a non-linear function of the input and of the previous state",
    "any finite automaton, once training finds it; the steps must run one after another",
    "unbounded counts beyond the precision of its state",
    "Merrill et al. 2024, arXiv:2404.08819",
)


def stepping_path(layer: LayerView, query: Pass, no_kernel: str | None, in_kernel: object) -> Path:
    """Choose between a kernel for all steps and the step loop in torch; `no_kernel` says why there is no kernel."""
    in_torch, backend = "the step loop in torch", layer.configuration.backend
    if backend == "reference":
        return Path(in_torch, "backend='reference' asks for it", in_torch_steps)
    if query.has_gaps:
        # The cell's own reason first: it holds without gaps too.
        no_kernel = no_kernel or "gaps change the state between steps"
    # A pass without tensors only asks what would run (`runs_on`): no transform can be active on it.
    if backend == "native" and query.direction is not None and (no_kernel or plain_torch_only()):
        raise BackendUnavailable("backend 'native': zoneout or a transform needs the step loop in torch; use 'auto'")
    if no_kernel is None and query.direction is not None and plain_torch_only():
        no_kernel = "a transform of torch.func or an export to ONNX takes torch's own operations alone"
    if no_kernel is not None:
        return Path(in_torch, no_kernel, in_torch_steps)
    reason = "compiled loops, sequences shared by threads (numba)"
    return Path("one kernel for all steps, backend native", reason, in_kernel)  # type: ignore[arg-type]


def why_no_kernel(layer: LayerView, zones_out: bool) -> str | None:
    """Return why no kernel runs all steps; None if one does."""
    return layer.kernel().missing or ("zoneout changes the state between steps" if zones_out else None)


def in_torch_steps(layer: LayerView, direction: Direction) -> SeriesResult:
    """Run one layer in one direction by its definition."""
    cell, gaps, projected = layer.cell, direction.gaps, layer.project(direction.x, direction.weights)
    recurrent = Recurrent(cell.projections, direction.weights, direction.dropped)
    # Times of features already count from when each was last seen, and are not summed.
    if gaps is not None and gaps.dim() == 2:
        gaps = gaps_between_real_steps(gaps, direction.mask, direction.resets, direction.reverse)
    output, last = iterate(
        cell, projected, direction.state, recurrent, direction.mask, cuts_of(direction), direction.reverse,
        direction.zoneout, gaps,
    )  # fmt: skip
    return layer.project_output(output.to(projected.dtype), direction.weights), last


def cuts_of(direction: Direction) -> Tensor | None:
    """Return the resets in the order of the run."""
    return reversed_resets(direction.resets) if direction.resets is not None and direction.reverse else direction.resets


def _in_kernel(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, projected = layer.cell, layer.project(direction.x, direction.weights)
    recurrent = Recurrent(cell.projections, direction.weights, direction.dropped)
    output, last = loop_in_kernel(
        cell, projected, direction.state, recurrent, direction.mask, cuts_of(direction), direction.reverse
    )
    return layer.project_output(output.to(projected.dtype), direction.weights), last


class SteppingKind(Kind[CellT]):
    """The base of the kinds of cells whose steps run one after another."""

    def method_calls(self, cell: CellT, inputs: SampleInputs) -> list[MethodCall]:
        now, before = tuple(x[:, 0] for x in inputs.projected), tuple(s[:, 0] for s in inputs.state)
        arguments = now, before, Recurrent(cell.projections, inputs.weights)
        shapes = [tuple(s.shape) for s in before]
        if isinstance(cell, GappedEquations):
            gaps = torch.ones(len(now[0]), cell.gap_features if isinstance(cell, GappedLoopEquations) else 1)
            return [MethodCall("step_over", (gaps, *arguments), "a tuple of the states", shapes)]
        return [MethodCall("step", arguments, "a tuple of the states", shapes)]

    def insides(self, cell: CellT, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
        # Gates are sigmoids; the first that sets a decay is the decay.
        signed = [torch.sigmoid(sign * sums[name]) for name, sign in cell.decay_gates.items()]
        gates = {name: torch.sigmoid(total) for name, total in sums.items() if name not in cell.candidates}
        return Insides(gates, signed[0] if signed else None)


class LoopBase(SteppingKind[LoopEquations]):
    """The base of the kinds of cells whose gates read the state through a matrix."""

    def shapes(self, cell: LoopEquations, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
        rows = len(cell.projections) * hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_hh": (rows, width)}
        if bias and cell.recurrent_bias:
            shapes["bias_hh"] = (rows,)
        shapes |= diagonal_shapes(cell, hidden_size)
        if isinstance(cell, GappedLoopEquations):
            shapes["weight_gap"] = (hidden_size, cell.gap_features)
            if bias:
                shapes["bias_gap"] = (hidden_size,)
        return shapes

    def tracking(self, cell: LoopEquations) -> Tracking:
        return _STATE_DEPENDENT

    def kernel(self, cell: LoopEquations, device: torch.device, dtype: torch.dtype) -> Kernel:
        found = programs.cpu_kernel(cell, trace_loop, device, dtype)
        if found.program is None or dtype in DTYPES:
            return found
        return found._replace(missing="narrow weights are multiplied as they are, which torch does")

    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        program, biased = layer.kernel().program, layer.configuration.bias and layer.cell.recurrent_bias
        found = None if program is None else step_tensors(layer, x, hx, biased)
        if found is None:
            return None
        from gatedrnn.kinds.loop.step import loop_step  # which needs Numba

        states, weights = found
        return loop_step(program, x.contiguous(), weights, states)


class LoopKind(LoopBase):
    """Cells that run by our kernel or step by step."""

    def claims(self, cell: Equations | type[Equations]) -> bool:
        return is_of(cell, LoopEquations)

    def facts(self, cell: LoopEquations | type[LoopEquations]) -> CellFacts:
        refused = {"zoneout": "mixes each state by itself, and those of {names} belong together; leave it at 0"}
        gaps = GapsTaken(features=cell.gap_features) if is_of(cell, GappedLoopEquations) else None  # type: ignore[union-attr]
        return CellFacts(refused if cell.joint_states else {}, gaps, iterates=True)

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        return ("reference",) if why_no_kernel(layer, layer.configuration.zoneout > 0) else ("reference", "native")

    def path(self, layer: LayerView, query: Pass) -> Path:
        return stepping_path(layer, query, why_no_kernel(layer, query.zones_out), _in_kernel)


LOOP = LoopKind()
