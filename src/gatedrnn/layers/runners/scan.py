"""Scan cells: one matrix product projects the whole sequence, one scan runs it."""

from typing import Any

import torch

from gatedrnn.equations import ScanEquations
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.arguments import autocast_dtype
from gatedrnn.layers.dropout import DropoutMasks
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.runners.record import Direction, Path, Runner, SeriesResult, StepResult
from gatedrnn.layers.step_inputs import (
    layer_suffixes,
    plain_states,
    plain_weights,
    scan_weights,
    state_shapes,
    takes_products,
)
from gatedrnn.ops.backends import accumulation_dtype, choose_backend, native_kernels, observed, plain_torch_only
from gatedrnn.ops.by_channel import by_channel
from gatedrnn.ops.cells import cell_program, why_no_program
from gatedrnn.ops.gated_scan import gated_scan, has_gated_scan, has_projected_scan, projected_scan, scan_in_torch
from gatedrnn.ops.masking import gaps_between_real_steps, reversed_resets
from gatedrnn.shapes import Channels, Flags, State, StateTuple, Step


def _cell(layer: RecurrentModule) -> ScanEquations:
    assert isinstance(layer.cell, ScanEquations)
    return layer.cell


def _backends(layer: RecurrentModule) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("reference", choose_backend(layer.weight_ih_l0.device).backend)))


def _path(layer: RecurrentModule, training: bool) -> Path:
    chosen, reason = choose_backend(layer.weight_ih_l0.device)
    if layer._backend == "reference":
        return Path("one linear_scan, backend reference", "backend='reference' asks for it")
    apart = _gates_apart(layer, training)
    if apart is None:
        return Path(f"one kernel for gates and scan, backend {chosen}", reason)
    return Path(f"one linear_scan, backend {chosen}", f"{apart}; {reason}")


def _gates_apart(layer: RecurrentModule, training: bool) -> str | None:
    """Why gates and scan are not one kernel; None if they are."""
    if layer._ranks is not None:
        return f"the sequence is cut over {layer._ranks.size} processes"
    if not has_gated_scan(_cell(layer), layer.weight_ih_l0.device):
        return why_no_program(_cell(layer)) or f"no kernel computes the gates of {layer.cell.name} here"
    if layer.zoneout:
        return "zoneout acts between gates and scan"
    if layer.state_dropout and training:
        return "state_dropout acts between gates and scan"
    return None


def _direction(layer: RecurrentModule, given: Direction) -> SeriesResult:
    cell, x, weights, resets, gaps = _cell(layer), given.x, given.weights, given.resets, given.gaps
    if gaps is not None:
        gaps = gaps_between_real_steps(gaps, given.mask, resets, given.reverse)
    if given.reverse and resets is not None:
        resets = reversed_resets(resets, None if layer._ranks is None else layer._ranks.cut_after(resets))
    if layer._backend == "native" and plain_torch_only():
        raise BackendUnavailable(
            "backend 'native' cannot run in a transform of torch.func or an export to ONNX; use 'auto' or 'reference'"
        )
    zoneout, dropout_mask = layer._zoneout(given.masks), given.masks.state
    one_kernel = (
        layer._ranks is None
        and gaps is None
        and zoneout is None
        and dropout_mask is None
        and has_gated_scan(cell, x.device)
    )
    if one_kernel and layer._backend != "reference" and not plain_torch_only():
        output, last = _in_one_kernel(layer, given._replace(resets=resets))
    else:
        projected = layer._project(x, weights)
        h0 = given.state[0].to(accumulation_dtype(projected.dtype))
        output, last = scan_in_torch(
            cell, projected, h0, given.mask, resets, _reset_state(weights, resets), given.reverse,
            diagonals=_diagonals(cell, weights), gaps=gaps,
            dropout_mask=dropout_mask, zoneout=zoneout, backend=layer._backend, ranks=layer._ranks,
        )  # fmt: skip
    return layer._project_output(output, weights), (last,)


def _in_one_kernel(layer: RecurrentModule, given: Direction) -> tuple[torch.Tensor, State]:
    cell, x, weights = _cell(layer), given.x, given.weights
    bias = by_channel(cell, weights.get("bias_ih"), _diagonals(cell, weights))
    reset_state = _reset_state(weights, given.resets)
    if layer.layer_norm or not has_projected_scan(cell, x.device):
        projected = layer._project(x, weights, add_bias=False)
        h0 = given.state[0].to(accumulation_dtype(projected.dtype))
        return gated_scan(projected, bias, h0, given.mask, given.resets, reset_state, cell.word, given.reverse)
    # Autocast does not cast the inputs of an operation, as it would those of the product in it.
    narrow, weight = autocast_dtype(x.device), weights["weight_ih"]
    if narrow is not None and x.dtype != torch.float64:
        x, weight = x.to(narrow), weight.to(narrow)
    h0 = given.state[0].to(accumulation_dtype(x.dtype))
    if not x.transpose(0, 1).is_contiguous():
        x = x.contiguous()
    output, last, _ = projected_scan(
        x, weight, bias, h0, given.mask, given.resets, reset_state, cell.word, given.reverse
    )
    return output, last


def _diagonals(cell: ScanEquations, weights: Weights) -> list[Channels]:
    return [weights[f"weight_{name}"] for name in cell.diagonals]


def _reset_state(weights: Weights, resets: Flags | None) -> Channels | None:
    """The state after a reset, where there are any; None for zeros."""
    return None if resets is None else weights.get("initial_state")


def _stream(layer: RecurrentModule, x: Step, hx: Any) -> StepResult | None:
    shapes, cell = state_shapes(layer, x), _cell(layer)
    if shapes is None or not has_projected_scan(cell, x.device):
        return None
    names = scan_weights(cell, layer.bias, x.shape[1], layer.hidden_size, layer_suffixes(layer.num_layers))
    state = layer._initial_state(x) if hx is None else plain_states(hx, shapes, x)
    weights = plain_weights(layer, names, x.dtype)
    if state is None or weights is None:
        return None
    before = state[0].contiguous()
    if not takes_products(layer, x, before):
        return _step(layer, x, (before,), None)
    layers = layer.num_layers
    matrices, others = weights[:layers], weights[layers:]
    biases, diagonals = (others[:layers], others[layers:]) if layer.bias else ([], others)
    after = torch.empty_like(before)
    kernels = native_kernels(x.device)
    program = cell_program(cell)
    return kernels.stack_step(program, x.contiguous(), matrices, biases, diagonals, (before,), (after,)), (after,)


def _step(layer: RecurrentModule, x: Step, state: StateTuple, masks: DropoutMasks | None) -> StepResult | None:
    if not _streams(layer, x, masks):
        return None
    # Where nothing is to be differentiated, gates and state are one call: the latency of a step is what counts.
    cell, kernels, before = _cell(layer), native_kernels(x.device), state[0].contiguous()
    after, weights = torch.empty_like(before), [layer._weights(number, "") for number in range(layer.num_layers)]
    if takes_products(layer, x, before):
        matrices = [each["weight_ih"].contiguous() for each in weights]
        biases = [each["bias_ih"] for each in weights] if layer.bias else []
        own = [weight.contiguous() for each in weights for weight in _diagonals(cell, each)]
        program = cell_program(cell)
        return kernels.stack_step(program, x.contiguous(), matrices, biases, own, (before,), (after,)), (after,)
    for number, each in enumerate(weights):
        projected = layer._project(x, each, add_bias=False)
        bias = each["bias_ih"].to(after.dtype) if layer.bias else None
        own = [weight.to(after.dtype) for weight in _diagonals(cell, each)]
        output = kernels.gated_step(cell_program(cell), projected, bias, own, before, after, number)
        x = layer._project_output(output, each)
    return x, (after,)


def _streams(layer: RecurrentModule, x: Step, masks: DropoutMasks | None) -> bool:
    """Whether kernels run a step: on a CPU, without gradients, and without zoneout or dropout in it."""
    plain = masks is None and not layer.zoneout and not (layer.training and layer.dropout)
    half = torch.float16 in (x.dtype, autocast_dtype(x.device))
    if not plain or half or layer._backend == "reference" or not has_projected_scan(_cell(layer), x.device):
        return False
    return not torch.is_grad_enabled() and not observed(x)


SCAN = Runner(_backends, _path, _direction, _stream, step=_step)
