"""Scan cells: one matrix product projects the whole sequence, one scan runs it.

Cells that read their states through diagonal weights run all their steps in one call of the same operation.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import (
    ConvexScanEquations,
    ElementwiseLoopEquations,
    Equations,
    GappedScanEquations,
    ScanEquations,
)
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import (
    DTYPES,
    accumulation_dtype,
    autocast_dtype,
    choose_backend,
    observed,
    plain_torch_only,
)
from gatedrnn.kinds import programs
from gatedrnn.kinds.definition import gaps_between_real_steps
from gatedrnn.kinds.kind import (
    CellFacts,
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
    Weights,
    diagonal_shapes,
    input_gated_shapes,
    is_of,
)
from gatedrnn.kinds.loop.path import SteppingKind, cuts_of, in_torch_steps, stepping_path, why_no_kernel
from gatedrnn.kinds.scan.definition import coefficients_of, gates_of, shown
from gatedrnn.kinds.scan.op import concat_by_channel, linear_scan, scan
from gatedrnn.kinds.scan.rows import CellProgram, trace_cell, trace_tiles
from gatedrnn.kinds.stream import multiplies_in_kernel, step_tensors
from gatedrnn.shapes import Channels, Hidden, Series, StateTuple, Step

POSITIVE = Tracking(
    "positive",
    "each channel is multiplied by a value between 0 and 1 that depends on the input alone",
    "what is set, kept, decayed or overwritten: a switch, the last of several symbols, a running mean",
    "anything periodic, however deep: parity, counting modulo n, products in a group",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
SIGNED = Tracking(
    "signed",
    "each channel is multiplied by a value from -1 to 1 that depends on the input alone",
    "parity and whatever is made of sign changes",
    "groups where order matters and longer cycles; counting modulo three, however deep",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
_CHANNELWISE = Tracking(
    "channelwise",
    "a non-linear function of the input and of the channel's own previous state",
    "parity and what else one channel can tell from itself",
    "in no run here found: products in a group where order matters, such as S3",
    "measured, docs/expressivity.md",
)
# Wide draws, at which gates saturate: a decay may fall below 0 only there.
DRAWS, SPREAD = 1000, 4.0
NO_RECURRENT_WEIGHTS = {"weight_dropout": "drops recurrent weights, and {names} has none; leave it at 0"}


def _gates_in_torch(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, mask, gaps = layer.cell, direction.mask, direction.gaps
    if gaps is not None:
        gaps = gaps_between_real_steps(gaps, mask, direction.resets, direction.reverse)
    projected = layer.project(direction.x, direction.weights)
    gates, resets = gates_of(cell, projected), cuts_of(direction)
    decay, drive = coefficients_of(
        cell, gates, _diagonals(cell, direction.weights), mask, gaps, direction.dropped, direction.zoneout
    )
    reset_state = None if resets is None else direction.weights.get("initial_state")
    h, last = linear_scan(
        decay, drive, direction.state[0].to(drive.dtype), resets=resets,
        reset_state=None if reset_state is None else reset_state.to(drive.dtype), reverse=direction.reverse,
        backend=layer.configuration.backend,
    )  # fmt: skip
    return layer.project_output(shown(cell, h, gates, mask, projected.dtype), direction.weights), (last,)


def _in_one_kernel(layer: LayerView, direction: Direction) -> SeriesResult:
    output, last = in_kernel(layer, direction, direction.state[0])
    return layer.project_output(output, direction.weights), (last,)


def in_kernel(layer: LayerView, direction: Direction, starts: Tensor) -> tuple[Series, Tensor]:
    """Run gates and scan in one pass, with the input projection on a CPU; states side by side."""
    cell, x, weights = layer.cell, direction.x, direction.weights
    by_channel, resets, reset_state = weights.get("bias_ih"), direction.resets, None
    if cell.diagonals or (by_channel is not None and by_channel.dtype not in DTYPES):
        by_channel = concat_by_channel(by_channel, _diagonals(cell, weights))
    if resets is not None:
        resets, reset_state = cuts_of(direction), _reset_state(weights)
    others = direction.mask, resets, reset_state, cell.word, direction.reverse, True
    # On a GPU a bias in the product costs nothing, so that the product stays torch's.
    if layer.configuration.layer_norm or not isinstance(cell, ScanEquations) or x.device.type != "cpu":
        projected = layer.project(x, weights, add_bias=False)
        wide = starts.to(accumulation_dtype(projected.dtype))
        return scan(projected, None, None, by_channel, wide, *others)[:2]
    # Autocast does not cast the inputs of an operation, as it would those of the product in it.
    narrow, weight = autocast_dtype(x.device), weights["weight_ih"]
    if narrow is not None and x.dtype != torch.float64:
        x, weight = x.to(narrow), weight.to(narrow)
    # Read as it lies, sequence after sequence or step after step.
    if not x.transpose(0, 1).is_contiguous():
        x = x.contiguous()
    return scan(x, None, weight, by_channel, starts.to(accumulation_dtype(x.dtype)), *others)[:2]


def _diagonals(cell: Equations, weights: Weights) -> list[Channels]:
    return [weights[f"weight_{name}"] for name in cell.diagonals]


def _reset_state(weights: Weights) -> Channels | None:
    """Return the state after a reset in the dtype of accumulation; None for zeros."""
    learned = weights.get("initial_state")
    return None if learned is None else learned.to(accumulation_dtype(learned.dtype))


def _run_stack(
    layer: LayerView, program: CellProgram, x: Step, weights: list[Tensor | None], before: StateTuple
) -> StepResult:
    from gatedrnn.kinds.scan.step import stack_step  # which needs Numba

    configuration = layer.configuration
    return stack_step(program, x.contiguous(), configuration.num_layers, weights, configuration.bias, before)


def _stream(layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
    """Run a step of few rows: products, gates and states of all layers in one call, or the products by a library."""
    kernel = layer.kernel()
    found = step_tensors(layer, x, hx) if kernel.program is not None and kernel.device.type == "cpu" else None
    if found is None:
        return None
    before, weights = found
    if not multiplies_in_kernel(layer, x, before[0]):
        return _step(layer, x, before)
    return _run_stack(layer, kernel.program, x, weights, before)


def _step(layer: LayerView, x: Step, state: StateTuple) -> StepResult | None:
    """Run a step of any number of rows with one call for gates and state of each layer, for low latency."""
    cell, before, configuration = layer.cell, state[0].contiguous(), layer.configuration
    plain = not configuration.zoneout and not (layer.training and configuration.dropout)
    # Kernels of steps read no float16.
    is_half, program = torch.float16 in (x.dtype, autocast_dtype(x.device)), layer.kernel().program
    if not plain or is_half or configuration.backend == "reference" or program is None or not x.is_cpu:
        return None
    # The kernel of a step is no operation: autograd, modes and tracers would not see it.
    if torch.is_grad_enabled() or observed(x) or not isinstance(cell, ScanEquations):
        return None
    weights = [layer.read_weights(number, "") for number in range(configuration.num_layers)]
    if multiplies_in_kernel(layer, x, before):
        names = ["weight_ih", *(["bias_ih"] if configuration.bias else []), *diagonal_shapes(cell, 0)]
        return _run_stack(layer, program, x, [each[name].contiguous() for each in weights for name in names], (before,))
    from gatedrnn.kinds.scan.step import gated_step  # which needs Numba

    after = torch.empty_like(before)
    for number, each in enumerate(weights):
        projected = layer.project(x, each, add_bias=False)
        bias = each["bias_ih"].to(after.dtype) if configuration.bias else None
        diagonals = [weight.to(after.dtype) for weight in _diagonals(cell, each)]
        output = gated_step(program, projected, bias, diagonals, before, after, number)
        x = layer.project_output(output, each)
    return x, (after,)


class ScanBase(Kind[ScanEquations]):
    """The base of the kinds of cells whose gates read the input alone, channel by channel."""

    def shapes(self, cell: ScanEquations, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
        return input_gated_shapes(cell, hidden_size)

    def method_calls(self, cell: ScanEquations, inputs: SampleInputs) -> list[MethodCall]:
        arguments = *inputs.projected, *(inputs.weights[f"weight_{name}"] for name in cell.diagonals)
        shapes = [tuple(inputs.projected[0].shape)] * 2
        calls = [MethodCall("coefficients", arguments, "(decay, drive)", shapes)]
        if isinstance(cell, GappedScanEquations):
            gaps = torch.ones_like(inputs.projected[0][..., :1])
            calls.append(MethodCall("coefficients_over", (gaps, *arguments), "(decay, drive)", shapes))
        return calls

    def insides(self, cell: ScanEquations, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
        decay, _ = cell.coefficients(*sums.values(), *diagonals)
        if cell.clamped_decay or len(cell.decay_gates) == 2:  # as they act: within bounds, or as shares of one whole
            return Insides({name: decay if sign > 0 else 1 - decay for name, sign in cell.decay_gates.items()}, decay)
        return Insides({name: torch.sigmoid(x) for name, x in sums.items() if name not in cell.candidates}, decay)

    def tracking(self, cell: ScanEquations) -> Tracking:
        # Evaluating the equations finds a negative decay in a user's own cell too.
        rows, generator = len(cell.projections) + len(cell.diagonals), torch.Generator().manual_seed(0)
        decay, _ = cell.coefficients(*(SPREAD * torch.randn(rows, DRAWS, generator=generator)))
        return SIGNED if bool((decay < 0).any()) else POSITIVE

    def kernel(self, cell: ScanEquations, device: torch.device, dtype: torch.dtype) -> Kernel:
        if device.type != "cuda":
            return programs.cpu_kernel(cell, trace_cell, device, dtype)
        found: Any = programs.program_for(cell, trace_cell)
        if not isinstance(found, str):  # tiles of a GPU have no diagonal weights
            no_kernel = f"no kernel runs {cell.name} here"
            found = no_kernel if cell.diagonals else programs.program_for(cell, trace_tiles)
        return programs.kernel_with(found, device, dtype)


class ScanKind(ScanBase):
    """Cells that run by one scan."""

    def claims(self, cell: Equations | type[Equations]) -> bool:
        return is_of(cell, ScanEquations)

    def facts(self, cell: ScanEquations | type[ScanEquations]) -> CellFacts:
        gaps = GapsTaken(mixes=is_of(cell, ConvexScanEquations)) if is_of(cell, GappedScanEquations) else None
        return CellFacts(NO_RECURRENT_WEIGHTS, gaps, bias_is_decay=cell.clamped_decay)

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        # Without a kernel the choice is "reference", which is listed already.
        return tuple(dict.fromkeys(("reference", choose_backend(layer.kernel().device).backend)))

    def path(self, layer: LayerView, query: Pass) -> Path:
        kernel, backend = layer.kernel(), layer.configuration.backend
        chosen, reason = choose_backend(kernel.device)
        if backend == "reference":
            return Path("one linear_scan, backend reference", "backend='reference' asks for it", _gates_in_torch)
        if query.direction is not None and plain_torch_only():
            if backend == "native":
                raise BackendUnavailable(
                    "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto' or "
                    "'reference'"
                )
            return Path("one linear_scan, backend reference", "no kernel takes part in a transform", _gates_in_torch)
        blocker = None
        if kernel.program is None or chosen != "native":
            blocker = kernel.missing or f"no kernel runs {layer.cell.name} here"
        elif query.zones_out:
            blocker = "zoneout acts between gates and scan"
        elif query.drops_state:
            blocker = "state_dropout acts between gates and scan"
        elif query.has_gaps:
            blocker = "gaps raise the decay between gates and scan"
        if blocker is not None:
            return Path(f"one linear_scan, backend {chosen}", f"{blocker}; {reason}", _gates_in_torch)
        return Path(f"one kernel for gates and scan, backend {chosen}", reason, _in_one_kernel)

    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        return _stream(layer, x, hx)

    def step(self, layer: LayerView, x: Step, state: StateTuple) -> StepResult | None:
        return _step(layer, x, state)


def _all_steps(layer: LayerView, direction: Direction) -> SeriesResult:
    wide, state = accumulation_dtype(direction.x.dtype), direction.state
    starts = torch.cat([s.to(wide) for s in state], dim=1)
    output, last = in_kernel(layer, direction, starts)
    states = (s.to(before.dtype) for s, before in zip(last.chunk(len(state), dim=1), state, strict=True))
    return layer.project_output(output, direction.weights), tuple(states)


class ElementwiseKind(SteppingKind[ElementwiseLoopEquations]):
    """Cells whose gates read the state through diagonal weights alone."""

    def claims(self, cell: Equations | type[Equations]) -> bool:
        return is_of(cell, ElementwiseLoopEquations)

    def facts(self, cell: ElementwiseLoopEquations | type[ElementwiseLoopEquations]) -> CellFacts:
        return CellFacts(NO_RECURRENT_WEIGHTS, iterates=True)

    def shapes(
        self, cell: ElementwiseLoopEquations, hidden_size: int, width: int, bias: bool
    ) -> dict[str, tuple[int, ...]]:
        return diagonal_shapes(cell, hidden_size)

    def tracking(self, cell: ElementwiseLoopEquations) -> Tracking:
        return _CHANNELWISE

    def kernel(self, cell: ElementwiseLoopEquations, device: torch.device, dtype: torch.dtype) -> Kernel:
        return programs.cpu_kernel(cell, trace_cell, device, dtype)

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        return ("reference",) if why_no_kernel(layer, layer.configuration.zoneout > 0) else ("reference", "native")

    def path(self, layer: LayerView, query: Pass) -> Path:
        no_kernel = why_no_kernel(layer, query.zones_out)
        if no_kernel is None and query.drops_state:
            return Path("the step loop in torch", "state_dropout acts where gates read the state", in_torch_steps)
        return stepping_path(layer, query, no_kernel, _all_steps)

    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        return _stream(layer, x, hx)


SCAN, ELEMENTWISE = ScanKind(), ElementwiseKind()
