"""Any cell of small blocks as a layer."""

from typing import ClassVar

import torch
from torch import Tensor

from gatedrnn.cells import BlockScanCell, split_gates
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import reversed_resets, zero_masked_steps
from gatedrnn.layers.regularise import DirectionNoise, Keep
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.scan import accumulation_dtype, block_scan, choose_block_backend
from gatedrnn.shapes import Flags, Series


class BlockScanLayer(RecurrentLayer):
    """Any cell of small blocks as a layer: one matrix product projects the whole sequence, one `block_scan` runs it.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`; hidden_size is a multiple of
    the cell's block_size.
    """

    cell_class: ClassVar[type[BlockScanCell]]
    cell: BlockScanCell
    bias_init = "time-scales"

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("reference", "tree", choose_block_backend(self.weight_ih_l0.device).backend)))

    def runs_on(self) -> Path:
        backend, reason = choose_block_backend(self.weight_ih_l0.device)
        if self.backend != "auto":
            backend, reason = self.backend, f"backend={self.backend!r} asks for it"
        return Path(f"one block_scan, backend {backend}", reason)

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


def _identity_like(transition: Tensor) -> Tensor:
    size = transition.shape[-2]
    return torch.eye(size, dtype=transition.dtype, device=transition.device).unsqueeze(-1)
