"""Cells of small blocks: one matrix product projects the whole sequence, one block scan runs it."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from gatedrnn.equations import BlockScanEquations, Equations, split_gates
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds.block.op import block_scan, block_step, choose_block_backend, has_block_step
from gatedrnn.kinds.definition import ZoneoutMask, reversed_resets
from gatedrnn.kinds.kind import (
    Direction,
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
from gatedrnn.kinds.scan.definition import shown
from gatedrnn.kinds.stream import WeightSize, plain_states, plain_weights, state_shapes
from gatedrnn.shapes import Series, Step

ROTATING = Tracking(
    "rotating",
    "blocks of channels are multiplied by an orthogonal matrix and by values between 0 and 1; both depend on the input "
    "alone",
    "cycles of any size and products in every group that has faithful orthogonal matrices as small as a block: S3 by "
    "2 x 2, S5 by 4 x 4",
    "groups that need larger blocks; unbounded counts",
    "Siems et al. 2025, arXiv:2502.10297",
)
FIXED = Tracking(
    "fixed",
    "blocks of channels are turned and multiplied by a value between 0 and 1, the same at every step, whatever the "
    "input",
    "how long ago something came: delays, filters, positions modulo n",
    "whatever an input must change in the state beside adding to it, in one layer: a switch, parity, products in a "
    "group; S5 however deep",
    "Merrill et al. 2024, arXiv:2404.08819",
)
ALWAYS_KEPT = 2.0
"""The bias of a clamped decay that is to stay 1: so far beyond the bound that hardly any input brings it back."""


def _backends(layer: LayerView) -> tuple[str, ...]:
    chosen = choose_block_backend(layer._weight("weight_ih_l0").device).backend
    return tuple(dict.fromkeys(("reference", "torch", chosen)))


def _path(layer: LayerView, asked: Pass) -> Path:
    backend, reason = choose_block_backend(layer._weight("weight_ih_l0").device)
    if layer._backend != "auto":
        backend, reason = layer._backend, f"backend={layer._backend!r} asks for it"
    return Path(f"one block_scan, backend {backend}", reason, _run)


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, weights, mask, resets = layer.cell, direction.weights, direction.mask, direction.resets
    if direction.reverse and resets is not None:
        resets = reversed_resets(resets)
    projected = layer._project(direction.x, weights)
    wide = accumulation_dtype(projected.dtype)
    gates = split_gates(len(cell.projections), projected.to(wide))
    transition, drive = cell.coefficients(*gates, *(weights[f"weight_{name}"].to(wide) for name in cell.diagonals))
    if direction.dropped is not None:
        drive = drive * direction.dropped.unsqueeze(1)
    transition, drive = _zoned(direction.zoneout, cell.block_size, transition, drive)
    if mask is not None:
        real = mask.unsqueeze(2)
        transition = torch.where(real[..., None, None], transition, _identity_like(transition))
        drive = torch.where(real, drive, 0)
    reset_state = None if resets is None or "initial_state" not in weights else weights["initial_state"].to(wide)
    h, last = block_scan(
        transition, drive, direction.state[0].to(wide), resets=resets, reset_state=reset_state,
        reverse=direction.reverse, backend=layer._backend,
    )  # fmt: skip
    return layer._project_output(shown(cell, h, gates, mask, projected.dtype), weights), (last,)


def _zoned(zoneout: ZoneoutMask | None, block_size: int, transition: Tensor, drive: Series) -> tuple[Tensor, Series]:
    """Apply zoneout: h = k h + (1 - k)(A h + b) is a block scan again, row by row of each block."""
    if zoneout is None:
        return transition, drive
    k = torch.as_tensor(zoneout[0], dtype=drive.dtype, device=drive.device).expand(drive.shape)
    rows = k.unflatten(2, (block_size, 1, -1))
    return rows * _identity_like(transition) + (1 - rows) * transition, (1 - k) * drive


def _identity_like(transition: Tensor) -> Tensor:
    size = transition.shape[-2]
    return torch.eye(size, dtype=transition.dtype, device=transition.device).unsqueeze(-1)


def _stream(layer: LayerView, x: Step, hx: Any) -> StepResult | None:
    shapes, cell = state_shapes(layer, x), layer.cell
    if shapes is None or not has_block_step(cell, x.device):
        return None
    gates, diagonals = len(cell.projections), tuple(cell.diagonals)
    sizes = _sizes(gates, diagonals, cell.block_size, layer.hidden_size, x.shape[1], layer.num_layers, layer.bias)
    if hx is None:
        state = layer._initial_state(x)[0].reshape(shapes[0]).contiguous()
    else:
        states = plain_states(hx, shapes, x)
        if states is None:
            return None
        state = states[0]
    weights = plain_weights(layer, sizes, x.dtype)
    if weights is None:
        return None
    after, count = torch.empty_like(state), len(weights) // layer.num_layers
    for number in range(layer.num_layers):
        of_layer = (state[number], after[number]) if layer._stacks_states else (state, after)
        x = block_step(cell, x, weights[number * count : (number + 1) * count], *of_layer)
    return x, (after,)


@cache
def _sizes(
    gates: int, diagonals: tuple[str, ...], block_size: int, size: int, inputs: int, layers: int, bias: bool
) -> list[WeightSize]:  # fmt: skip
    """Return the weights of each layer: its matrix, its bias, its diagonals."""
    sizes = []
    for n in range(layers):
        sizes.append(WeightSize(f"weight_ih_l{n}", gates * size * (size if n else inputs)))
        if bias:
            sizes.append(WeightSize(f"bias_ih_l{n}", gates * size))
        sizes += [WeightSize(f"weight_{name}_l{n}", size // block_size) for name in diagonals]
    return sizes


def _shapes(cell: BlockScanEquations, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        f"weight_{name}": (hidden_size // cell.block_size,) for name in cell.diagonals
    }
    return shapes | ({"initial_state": (hidden_size,)} if cell.learns_initial_state else {})


def _calls(cell: BlockScanEquations, inputs: SampleInputs) -> list[MethodCall]:
    batch, steps, channels = inputs.projected[0].shape
    first = batch, steps, cell.block_size, cell.block_size, channels // cell.block_size
    arguments = *inputs.projected, *(inputs.weights[f"weight_{name}"] for name in cell.diagonals)
    return [MethodCall("coefficients", arguments, "(transition, drive)", [first, (batch, steps, channels)])]


def _insides(cell: BlockScanEquations, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
    # Row i of a block is the i-th channel's decay times a row of length 1.
    decay = cell.coefficients(*sums.values(), *diagonals)[0].norm(dim=-2).flatten(-2)
    if cell.clamped_decay:
        gates = {name: decay if sign > 0 else 1 - decay for name, sign in cell.decay_gates.items()}
    else:
        gates = {name: torch.sigmoid(total) for name, total in sums.items() if name not in cell.candidates}
    return Insides(gates, decay, adds=False)


def _tracking(cell: BlockScanEquations) -> Tracking:
    diagonals = torch.zeros(len(cell.diagonals), 1)
    drawn = torch.randn(len(cell.projections), 2, cell.block_size, generator=torch.Generator().manual_seed(0))
    transitions, _ = cell.coefficients(*drawn, *diagonals)
    return FIXED if torch.equal(*transitions) else ROTATING


def _fill_bias(cell: BlockScanEquations, bias: Tensor) -> None:
    if cell.clamped_decay:
        bias.sigmoid_()
    if cell.begins_keeping:
        blocks = bias.view(cell.block_size, -1)
        nn.init.constant_(blocks[:, : math.ceil(cell.begins_keeping * blocks.shape[1])], ALWAYS_KEPT)


def _no_sources(cell: Equations) -> list[str]:
    return []


BLOCK = Kind(
    equations=lambda cell: is_of(cell, BlockScanEquations),
    backends=_backends, path=_path, stream=_stream, shapes=_shapes, calls=_calls, insides=_insides,
    tracking=_tracking, sources=_no_sources, why_no_program=lambda cell: None, fill_bias=_fill_bias,
    straight_through=lambda cell: cell.straight_through,
)  # fmt: skip
