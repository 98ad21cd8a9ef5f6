"""Cells of small blocks: one matrix product projects the whole sequence, one block scan runs it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gatedrnn.equations import BlockScanEquations, Equations, split_gates
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds.block.op import block_scan, block_step, choose_block_backend, has_block_step
from gatedrnn.kinds.definition import ZoneoutMask
from gatedrnn.kinds.kind import (
    CellFacts,
    Direction,
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
    input_gated_shapes,
    is_of,
)
from gatedrnn.kinds.loop.path import cuts_of
from gatedrnn.kinds.scan.definition import shown
from gatedrnn.kinds.scan.path import NO_RECURRENT_WEIGHTS
from gatedrnn.kinds.stream import step_tensors
from gatedrnn.shapes import Hidden, Series, Step

_ROTATING = Tracking(
    "rotating",
    "blocks of channels are multiplied by an orthogonal matrix and by values between 0 and 1; both depend on the input "
    "alone",
    "cycles of any size and products in every group that has faithful orthogonal matrices as small as a block: S3 by "
    "2 x 2, S5 by 4 x 4",
    "groups that need larger blocks; unbounded counts",
    "Siems et al. 2025, arXiv:2502.10297",
)
_FIXED = Tracking(
    "fixed",
    "blocks of channels are turned and multiplied by a value between 0 and 1, the same at every step, whatever the "
    "input",
    "how long ago something came: delays, filters, positions modulo n",
    "whatever an input must change in the state beside adding to it, in one layer: a switch, parity, products in a "
    "group; S5 however deep",
    "Merrill et al. 2024, arXiv:2404.08819",
)
_OWN_KERNEL = "one kernel scans the blocks of every such cell, and reads their matrices"
"""Why no kernel is generated."""


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, weights, mask, resets = layer.cell, direction.weights, direction.mask, cuts_of(direction)
    projected = layer.project(direction.x, weights)
    # In float32 at least: the largest bfloat16 below 1 is 0.996, a memory of 256 steps.
    wide = accumulation_dtype(projected.dtype)
    gates = split_gates(len(cell.projections), projected.to(wide))
    transition, drive = cell.coefficients(*gates, *(weights[f"weight_{name}"].to(wide) for name in cell.diagonals))
    if direction.dropped is not None:
        drive = drive * direction.dropped.unsqueeze(1)
    # Before the mask: a masked step keeps the whole state, whatever zoneout draws.
    transition, drive = _zoneout(direction.zoneout, cell.block_size, transition, drive)
    if mask is not None:
        real = mask.unsqueeze(2)
        transition = torch.where(real[..., None, None], transition, _identity_like(transition))
        drive = torch.where(real, drive, 0)
    reset_state = None if resets is None or "initial_state" not in weights else weights["initial_state"].to(wide)
    h, last = block_scan(
        transition, drive, direction.state[0].to(wide), resets=resets, reset_state=reset_state,
        reverse=direction.reverse, backend=layer.configuration.backend,
    )  # fmt: skip
    return layer.project_output(shown(cell, h, gates, mask, projected.dtype), weights), (last,)


def _zoneout(zoneout: ZoneoutMask | None, block_size: int, transition: Tensor, drive: Series) -> tuple[Tensor, Series]:
    """Apply zoneout: h = k h + (1 - k)(A h + b) is a block scan again, row by row of each block."""
    if zoneout is None:
        return transition, drive
    k = torch.as_tensor(zoneout[0], dtype=drive.dtype, device=drive.device).expand(drive.shape)
    rows = k.unflatten(2, (block_size, 1, -1))
    return rows * _identity_like(transition) + (1 - rows) * transition, (1 - k) * drive


def _identity_like(transition: Tensor) -> Tensor:
    size = transition.shape[-2]
    return torch.eye(size, dtype=transition.dtype, device=transition.device).unsqueeze(-1)


class BlockKind(Kind[BlockScanEquations]):
    """Cells whose gates read the input alone and whose channels are mixed in small blocks."""

    def claims(self, cell: Equations | type[Equations]) -> bool:
        return is_of(cell, BlockScanEquations)

    def facts(self, cell: BlockScanEquations | type[BlockScanEquations]) -> CellFacts:
        return CellFacts(
            NO_RECURRENT_WEIGHTS, signs=cell.straight_through, bias_is_decay=cell.clamped_decay,
            begins_with_kept=cell.begins_keeping,
        )  # fmt: skip

    def shapes(self, cell: BlockScanEquations, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
        return input_gated_shapes(cell, hidden_size)

    def method_calls(self, cell: BlockScanEquations, inputs: SampleInputs) -> list[MethodCall]:
        batch, steps, channels = inputs.projected[0].shape
        first = batch, steps, cell.block_size, cell.block_size, channels // cell.block_size
        arguments = *inputs.projected, *(inputs.weights[f"weight_{name}"] for name in cell.diagonals)
        return [MethodCall("coefficients", arguments, "(transition, drive)", [first, (batch, steps, channels)])]

    def insides(self, cell: BlockScanEquations, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
        # Row i of a block is the i-th channel's decay times a row of length 1.
        decay = cell.coefficients(*sums.values(), *diagonals)[0].norm(dim=-2).flatten(-2)
        if cell.clamped_decay:
            gates = {name: decay if sign > 0 else 1 - decay for name, sign in cell.decay_gates.items()}
        else:
            gates = {name: torch.sigmoid(total) for name, total in sums.items() if name not in cell.candidates}
        return Insides(gates, decay, adds=False)

    def tracking(self, cell: BlockScanEquations) -> Tracking:
        diagonals = torch.zeros(len(cell.diagonals), 1)
        # Two inputs: where the transition is the same for both, no input changes it. A generator of its own leaves the
        # caller's random numbers as they are.
        drawn = torch.randn(len(cell.projections), 2, cell.block_size, generator=torch.Generator().manual_seed(0))
        transitions, _ = cell.coefficients(*drawn, *diagonals)
        return _FIXED if torch.equal(*transitions) else _ROTATING

    def kernel(self, cell: BlockScanEquations, device: torch.device, dtype: torch.dtype) -> Kernel:
        return Kernel(device, dtype, missing=_OWN_KERNEL)

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        # Without Numba the choice is "torch", which is listed already.
        return tuple(dict.fromkeys(("reference", "torch", choose_block_backend(layer.kernel().device).backend)))

    def path(self, layer: LayerView, query: Pass) -> Path:
        (chosen, reason), backend = choose_block_backend(layer.kernel().device), layer.configuration.backend
        if backend != "auto":
            chosen, reason = backend, f"backend={backend!r} asks for it"
        return Path(f"one block_scan, backend {chosen}", reason, _run)

    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        cell, configuration = layer.cell, layer.configuration
        found = step_tensors(layer, x, hx) if has_block_step(cell, x.device) else None
        if found is None:
            return None
        (state,), weights = found
        after, count = torch.empty_like(state), len(weights) // configuration.num_layers
        for number in range(configuration.num_layers):
            of_layer = (state[number], after[number]) if configuration.stacks_states else (state, after)
            x = block_step(cell, x, weights[number * count : (number + 1) * count], *of_layer)
        return x, (after,)


BLOCK = BlockKind()
