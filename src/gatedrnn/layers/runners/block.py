"""Cells of small blocks: one matrix product projects the whole sequence, one block scan runs it."""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import BlockScanEquations, output_of, split_gates
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.runners.record import Direction, Path, Runner, SeriesResult, StepResult
from gatedrnn.layers.step_inputs import layer_suffixes, plain_states, plain_weights, scan_weights, state_shapes
from gatedrnn.ops.backends import accumulation_dtype
from gatedrnn.ops.block_scan import block_scan, block_step, choose_block_backend, has_block_step
from gatedrnn.ops.masking import reversed_resets, zero_masked_steps
from gatedrnn.ops.step import ZoneoutMask
from gatedrnn.shapes import Series, Step


def _cell(layer: RecurrentModule) -> BlockScanEquations:
    assert isinstance(layer.cell, BlockScanEquations)
    return layer.cell


def _backends(layer: RecurrentModule) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("reference", "torch", choose_block_backend(layer.weight_ih_l0.device).backend)))


def _path(layer: RecurrentModule, training: bool) -> Path:
    backend, reason = choose_block_backend(layer.weight_ih_l0.device)
    if layer._backend != "auto":
        backend, reason = layer._backend, f"backend={layer._backend!r} asks for it"
    return Path(f"one block_scan, backend {backend}", reason)


def _direction(layer: RecurrentModule, given: Direction) -> SeriesResult:
    cell, weights, mask, resets = _cell(layer), given.weights, given.mask, given.resets
    if given.reverse and resets is not None:
        resets = reversed_resets(resets, None if layer._ranks is None else layer._ranks.cut_after(resets))
    projected = layer._project(given.x, weights)
    wide = accumulation_dtype(projected.dtype)
    gates = split_gates(len(cell.projections), projected.to(wide))
    own = (weights[f"weight_{name}"].to(wide) for name in cell.diagonals)
    transition, drive = cell.coefficients(*gates, *own)
    if given.masks.state is not None:
        drive = drive * given.masks.state.unsqueeze(1)
    transition, drive = _zoned(layer._zoneout(given.masks), cell.block_size, transition, drive)
    if mask is not None:
        real = mask.unsqueeze(2)
        transition = torch.where(real[..., None, None], transition, _identity_like(transition))
        drive = torch.where(real, drive, 0)
    reset_state = None if resets is None or "initial_state" not in weights else weights["initial_state"].to(wide)
    scan = block_scan if layer._ranks is None else layer._ranks.block_scan
    h, last = scan(
        transition, drive, given.state[0].to(wide), resets=resets, reset_state=reset_state, reverse=given.reverse,
        backend=layer._backend,
    )  # fmt: skip
    output = output_of(cell, (h,), gates).to(projected.dtype)
    return layer._project_output(output if mask is None else zero_masked_steps(output, mask), weights), (last,)


def _zoned(zoneout: ZoneoutMask | None, block_size: int, transition: Tensor, drive: Series) -> tuple[Tensor, Series]:
    """Zoneout: h = k h + (1 - k)(A h + b) is such a scan again, row by row of each block."""
    if zoneout is None:
        return transition, drive
    k = torch.as_tensor(zoneout[0], dtype=drive.dtype, device=drive.device).expand(drive.shape)
    rows = k.unflatten(2, (block_size, 1, -1))
    return rows * _identity_like(transition) + (1 - rows) * transition, (1 - k) * drive


def _identity_like(transition: Tensor) -> Tensor:
    size = transition.shape[-2]
    return torch.eye(size, dtype=transition.dtype, device=transition.device).unsqueeze(-1)


def _stream(layer: RecurrentModule, x: Step, hx: Any) -> StepResult | None:
    shapes, cell = state_shapes(layer, x), _cell(layer)
    if shapes is None or not has_block_step(cell, x.device):
        return None
    names = scan_weights(cell, layer.bias, x.shape[1], layer.hidden_size, layer_suffixes(layer.num_layers))
    state = layer._initial_state(x) if hx is None else plain_states(hx, shapes, x)
    weights = plain_weights(layer, names, x.dtype)
    if state is None or weights is None:
        return None
    before = state[0].contiguous()
    after = torch.empty_like(before)
    layers, own = layer.num_layers, len(cell.diagonals)
    shared = len(weights) - own * layers
    for number in range(layers):
        read = [*weights[number:shared:layers], *weights[shared + number * own : shared + (number + 1) * own]]
        x = block_step(cell, x, read, before[number], after[number])
    return x, (after,)


BLOCK = Runner(_backends, _path, _direction, _stream)
