"""Any cell of small blocks as a layer."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from gatedrnn.cells import BlockOrthogonalEquations
from gatedrnn.equations import BlockScanEquations, split_gates
from gatedrnn.layers.kernel_records import BLOCK
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import reversed_resets, zero_masked_steps
from gatedrnn.layers.regularise import DirectionNoise, Keep
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.layers.streaming import layer_suffixes, plain_states, plain_weights, scan_weights
from gatedrnn.ops import accumulation_dtype, block_scan, choose_backend, choose_block_backend, implementation
from gatedrnn.shapes import Flags, Series, State, States, Step


class BlockScanLayer(RecurrentLayer):
    """Any cell of small blocks as a layer: one matrix product projects the whole sequence, one `block_scan` runs it.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`; hidden_size is a multiple of
    the cell's block_size.
    """

    cell_class: ClassVar[type[BlockScanEquations]]
    cell: BlockScanEquations
    bias_init = "time-scales"

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("reference", "tree", choose_block_backend(self.weight_ih_l0.device).backend)))

    def runs_on(self) -> Path:
        backend, reason = choose_block_backend(self.weight_ih_l0.device)
        if self.backend != "auto":
            backend, reason = self.backend, f"backend={self.backend!r} asks for it"
        return Path(f"one block_scan, backend {backend}", reason)

    def _stream(self, x: Step, hx: States | StateTuple | None) -> tuple[Step, StateTuple] | None:
        shapes = self._stream_shapes(x)
        if shapes is None or not has_step(self.cell, x.device):
            return None
        suffixes = layer_suffixes(self.num_layers)
        names = scan_weights(self.cell, self.bias, self.input_size, self.hidden_size, suffixes)
        state = self._initial_state(x) if hx is None else plain_states(hx, shapes, x)
        weights = plain_weights(self, names, x.dtype)
        if state is None or weights is None:
            return None
        before = state[0].contiguous()
        after = torch.empty_like(before)
        for layer in range(self.num_layers):
            x = step_in_kernel(self.cell, x, weights[layer :: self.num_layers], before[layer], after[layer])
        return x, (after,)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        if reverse and resets is not None:
            resets = reversed_resets(resets)
        projected = self._project(x, weights)
        wide = accumulation_dtype(projected.dtype)
        transition, drive = self.cell.coefficients(*split_gates(len(self.cell.projections), projected.to(wide)))
        if noise.state is not None:
            drive = drive * noise.state.unsqueeze(1)
        transition, drive = self._zoned(self._keep(noise), transition, drive)
        if mask is not None:
            real = mask.unsqueeze(2)
            transition = torch.where(real[..., None, None], transition, _identity_like(transition))
            drive = torch.where(real, drive, 0)
        onset = None if resets is None or "initial_state" not in weights else weights["initial_state"].to(wide)
        h, last = block_scan(
            transition, drive, state[0].to(wide), resets=resets, reset_state=onset, reverse=reverse,
            backend=self.backend,
        )  # fmt: skip
        output = self.cell.output(h).to(projected.dtype)
        return self._hand_on(output if mask is None else zero_masked_steps(output, mask), weights), (last,)

    def _zoned(self, keep: Keep | None, transition: Tensor, drive: Series) -> tuple[Tensor, Series]:
        """Zoneout: h = k h + (1 - k)(A h + b) is such a scan again, row by row of each block."""
        if keep is None:
            return transition, drive
        k = torch.as_tensor(keep[0], dtype=drive.dtype, device=drive.device).expand(drive.shape)
        rows = k.unflatten(2, (self.cell.block_size, 1, -1))
        return rows * _identity_like(transition) + (1 - rows) * transition, (1 - k) * drive


def has_step(cell: BlockScanEquations, device: torch.device) -> bool:
    """Whether `step_in_kernel` can run the cell on this device."""
    # The very class: one derived from it may have other equations.
    return type(cell) is BlockOrthogonalEquations and choose_backend(device).backend == "cpu"


def step_in_kernel(
    cell: BlockScanEquations, x: Step, weights: Sequence[Tensor | None], before: State, after: State
) -> Step:  # fmt: skip
    """One step without gradients: the product, then gates and state as one kernel call.

    Args:
        weights: the matrix, and the bias if there is one.
        after: where the next state goes.
    """
    matrix, *bias = weights
    assert matrix is not None and cell.kernel is not None
    projected, output = linear(x, matrix, *bias), torch.empty_like(after)
    implementation("cpu", x.device).block_step(BLOCK[cell.kernel], cell.block_size, projected, before, after, output)
    return output


def _identity_like(transition: Tensor) -> Tensor:
    size = transition.shape[-2]
    return torch.eye(size, dtype=transition.dtype, device=transition.device).unsqueeze(-1)
