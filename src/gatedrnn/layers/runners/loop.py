"""Loop cells: one matrix product projects the whole sequence, then its steps run one after another."""

import torch

from gatedrnn.equations import ElementwiseLoopEquations, LoopEquations, Recurrent
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.runners.record import Direction, Path, Runner, SeriesResult, StepResult
from gatedrnn.layers.step_inputs import (
    layer_suffixes,
    loop_weights,
    plain_states,
    plain_weights,
    scan_weights,
    state_shapes,
    takes_products,
)
from gatedrnn.ops.backends import native_kernels, plain_torch_only
from gatedrnn.ops.cells import cell_program, loop_program, why_no_program
from gatedrnn.ops.elementwise_loop import elementwise_loop_in_kernel, has_elementwise_loop
from gatedrnn.ops.loop import has_loop_kernel, loop_in_kernel, loop_in_torch
from gatedrnn.ops.masking import gaps_between_real_steps, reversed_resets
from gatedrnn.shapes import Hidden, Step


def _cell(layer: RecurrentModule) -> LoopEquations | ElementwiseLoopEquations:
    assert isinstance(layer.cell, (LoopEquations, ElementwiseLoopEquations))
    return layer.cell


def loop_backends(layer: RecurrentModule) -> tuple[str, ...]:
    """As in `Runner`."""
    return ("reference",) if without_kernel(layer) else ("reference", "native")


def loop_path(layer: RecurrentModule, training: bool) -> Path:
    """As in `Runner`."""
    if layer._backend == "reference":
        return Path("the step loop in torch", "backend='reference' asks for it")
    reason = without_kernel(layer)
    if reason is not None:
        return Path("the step loop in torch", reason)
    return Path("one kernel for all steps, backend native", "compiled loops, sequences shared by threads (numba)")


def without_kernel(layer: RecurrentModule) -> str | None:
    """Why no kernel runs all steps; None if one does."""
    cell, device = _cell(layer), layer.weight_ih_l0.device
    if isinstance(cell, ElementwiseLoopEquations):
        if not has_elementwise_loop(cell, device):
            return why_no_program(cell) or f"no kernel runs {cell.name} here"
    elif not has_loop_kernel(cell, device):
        return why_no_program(cell) or f"no kernel runs {cell.name} here"
    elif layer.weight_ih_l0.dtype not in (torch.float32, torch.float64):
        return "narrow weights are multiplied as they are, which torch does"
    return "zoneout changes the state between steps" if layer.zoneout else None


def loop_direction(layer: RecurrentModule, given: Direction) -> SeriesResult:
    """As in `Runner`."""
    cell, mask, resets, gaps = _cell(layer), given.mask, given.resets, given.gaps
    if gaps is not None and gaps.dim() == 2:
        gaps = gaps_between_real_steps(gaps, mask, resets, given.reverse)
    if resets is not None and given.reverse:
        resets = reversed_resets(resets)
    recurrent, zoneout = Recurrent(cell.projections, given.weights, given.masks.state), layer._zoneout(given.masks)
    as_it_is = zoneout is None and gaps is None and without_kernel(layer) is None
    if layer._backend == "native" and (plain_torch_only() or not as_it_is):
        raise BackendUnavailable("backend 'native': zoneout or a transform needs the step loop in torch; use 'auto'")
    by_kernel = as_it_is and layer._backend != "reference" and not plain_torch_only()
    if by_kernel and isinstance(cell, ElementwiseLoopEquations) and recurrent.dropped is None:
        projected, bias = layer._project(given.x, given.weights, add_bias=False), given.weights.get("bias_ih")
        output, last = elementwise_loop_in_kernel(
            cell, projected, bias, given.state, recurrent, mask, resets, given.reverse
        )
    elif by_kernel and isinstance(cell, LoopEquations):
        projected = layer._project(given.x, given.weights)
        output, last = loop_in_kernel(cell, projected, given.state, recurrent, mask, resets, given.reverse)
    else:
        projected = layer._project(given.x, given.weights)
        output, last = loop_in_torch(
            cell, projected, given.state, recurrent, mask, resets, given.reverse, zoneout, gaps
        )
    return layer._project_output(output.to(projected.dtype), given.weights), last


def loop_stream(layer: RecurrentModule, x: Step, hx: Hidden | None) -> StepResult | None:
    """As in `Runner`."""
    shapes, cell = state_shapes(layer, x), _cell(layer)
    if shapes is None:
        return None
    if isinstance(cell, ElementwiseLoopEquations):
        return _elementwise_stream(layer, cell, x, hx, shapes)
    if not has_loop_kernel(cell, x.device):
        return None
    names = loop_weights(cell, layer.bias, x.shape[1], layer.hidden_size, layer_suffixes(layer.num_layers))
    state, weights = plain_states(hx, shapes, x), plain_weights(layer, names, x.dtype)
    if state is None or weights is None:
        return None
    found: StepResult = native_kernels(x.device).loop_step(loop_program(cell), x.contiguous(), weights, state)
    return found


def _elementwise_stream(
    layer: RecurrentModule, cell: ElementwiseLoopEquations, x: Step, hx: Hidden | None, shapes: list[tuple[int, ...]]
) -> StepResult | None:
    suffixes = layer_suffixes(layer.num_layers)
    names = scan_weights(cell, layer.bias, x.shape[1], layer.hidden_size, suffixes)
    before, weights = plain_states(hx, shapes, x), plain_weights(layer, names, x.dtype)
    if before is None or weights is None or not has_elementwise_loop(cell, x.device):
        return None
    if not takes_products(layer, x, before[0]):
        return None
    layers, after = len(suffixes), tuple(torch.empty_like(state) for state in before)
    matrices, others = weights[:layers], weights[layers:]
    biases, diagonals = (others[:layers], others[layers:]) if layer.bias else ([], others)
    kernels = native_kernels(x.device)
    return kernels.stack_step(cell_program(cell), x.contiguous(), matrices, biases, diagonals, before, after), after


LOOP = Runner(loop_backends, loop_path, loop_direction, loop_stream)
