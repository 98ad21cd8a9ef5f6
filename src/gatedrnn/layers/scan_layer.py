"""Any scan cell as a layer."""

from typing import Any, ClassVar

import torch
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.cells import PositiveScanCell, ScanCell, split_gates
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import hold_masked_steps, reversed_resets
from gatedrnn.layers.regularise import DirectionNoise, Noise, zoned_coefficients
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.scan import LOG_ZERO, choose_backend, linear_scan, log_space_scan
from gatedrnn.shapes import Flags, Series, States


class ScanLayer(RecurrentLayer):
    """Any scan cell as a layer: one matrix product projects the whole sequence, one scan runs it.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`.
    """

    cell_class: ClassVar[type[ScanCell]]
    cell: ScanCell
    bias_init = "time-scales"

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("reference", choose_backend(self.weight_ih_l0.device).backend)))

    def runs_on(self) -> Path:
        backend, reason = choose_backend(self.weight_ih_l0.device)
        if self.backend != "auto":
            backend, reason = self.backend, f"backend={self.backend!r} asks for it"
        return Path(f"one linear_scan, backend {backend}", reason)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        projected = self._project(x, weights)
        gates = split_gates(len(self.cell.projections), projected.to(self._state_dtype(projected)))
        decay, drive = self.cell.coefficients(*gates)
        if noise.state is not None:
            drive = drive * noise.state.unsqueeze(1)
        decay, drive = zoned_coefficients(self._keep(noise), decay, drive)
        if mask is not None:
            decay, drive = hold_masked_steps(decay, drive, mask)
        if reverse and resets is not None:
            resets = reversed_resets(resets)
        h, last = linear_scan(
            decay, drive, state[0].to(decay.dtype), resets=resets, reverse=reverse, backend=self.backend
        )
        return self._hand_on(self.cell.output(h), projected, weights), (last,)


class PositiveScanLayer(ScanLayer):
    """A scan layer whose states are positive, so that the scan over logarithms of its paper can run it as well.

    Args, beside those of `RecurrentModule`:
        log_space: run whole sequences by `gatedrnn.scan.log_space`: slower, and its error grows with the length. For
            fidelity to the paper; needs the activation g, and knows neither resets nor zoneout nor state_dropout.
    """

    cell: PositiveScanCell

    def __init__(self, *args: Any, log_space: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_space = log_space
        if log_space and self.cell.activation != "g":
            raise ValueError(f"log_space needs a positive state: activation 'g', got {self.cell.activation!r}")
        for name in ("zoneout", "state_dropout"):
            if log_space and getattr(self, name):
                raise ValueError(f"{name} makes steps without a logarithm, so log_space cannot run it; leave one out")

    def forward(
        self, input: Series | PackedSequence, hx: States | StateTuple | None = None, *,
        mask: Flags | None = None, resets: Flags | None = None, noise: Noise | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        if self.log_space:
            if resets is not None:
                raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
            if hx is not None and not torch.compiler.is_compiling() and not all(bool((h > 0).all()) for h in hx):
                raise ValueError("log_space needs hx None or positive in every number: it takes its logarithm")
        return super().forward(input, hx, mask=mask, resets=resets, noise=noise)

    forward.__doc__ = RecurrentLayer.forward.__doc__

    def runs_on(self) -> Path:
        if self.log_space:
            return Path("the scan over logarithms", "log_space=True asks for the paper's own")
        return super().runs_on()

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        if not self.log_space:
            return super()._direction(x, state, weights, noise, mask, resets, reverse)
        projected = self._project(x, weights)
        gates = split_gates(len(self.cell.projections), projected.to(self._state_dtype(projected)))
        log_decay, log_drive = self.cell.log_coefficients(*gates)
        if mask is not None:
            real = mask.unsqueeze(2)
            log_decay, log_drive = torch.where(real, log_decay, 0), torch.where(real, log_drive, LOG_ZERO)
        h, last = log_space_scan(log_decay, log_drive, state[0].to(log_decay.dtype), reverse)
        return self._hand_on(self.cell.output(h), projected, weights), (last,)
