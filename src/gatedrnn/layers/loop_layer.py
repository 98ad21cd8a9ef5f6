"""Any loop cell as a layer, walked step by step."""

from typing import ClassVar

import torch

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.kernel_records import LOOP
from gatedrnn.layers.loop_cells import has_kernel, walk_in_kernel, walk_in_torch
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import reversed_resets
from gatedrnn.layers.regularise import DirectionNoise
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.layers.streaming import layer_suffixes, loop_weights, plain_states, plain_weights
from gatedrnn.ops import implementation, torch_alone
from gatedrnn.shapes import Flags, Series, States, Step


class LoopLayer(RecurrentLayer):
    """Any loop cell as a layer: one matrix product projects the whole sequence, then its steps are walked.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`.
    """

    cell_class: ClassVar[type[LoopEquations]]
    cell: LoopEquations

    @property
    def backends(self) -> tuple[str, ...]:
        return ("loop",) if self._between_steps() else ("loop", "fused")

    def runs_on(self) -> Path:
        if self.backend == "loop":
            return Path("the step loop in torch", "backend='loop' asks for it")
        between = self._between_steps()
        if between is not None:
            return Path("the step loop in torch", between)
        return Path(
            "one kernel for all steps, backend cpu", "compiled loops, sequences shared out over threads (numba)"
        )

    def _between_steps(self) -> str | None:
        """Why no kernel walks all steps; None if one does."""
        if not has_kernel(self.cell, self.weight_ih_l0.device):
            return f"no kernel walks {self.cell.name} here"
        if self.zoneout:
            return "zoneout changes the state between steps"
        if self.weight_ih_l0.dtype not in (torch.float32, torch.float64):
            return "narrow weights are multiplied as they are, which torch does"
        return None

    def _stream(self, x: Step, hx: States | StateTuple | None) -> tuple[Step, StateTuple] | None:
        shapes = self._stream_shapes(x)
        if shapes is None or not has_kernel(self.cell, x.device):
            return None
        names = loop_weights(self.cell, self.bias, self.input_size, self.hidden_size, layer_suffixes(self.num_layers))
        state, weights = plain_states(hx, shapes, x), plain_weights(self, names, x.dtype)
        if state is None or weights is None:
            return None
        assert self.cell.kernel is not None
        return implementation("cpu", x.device).loop_step(LOOP[self.cell.kernel], x.contiguous(), weights, state)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        projected = self._project(x, weights)
        if resets is not None and reverse:
            resets = reversed_resets(resets)
        recurrent, keep = Recurrent(self.cell.projections, weights, noise.state), self._keep(noise)
        as_it_is = keep is None and self._between_steps() is None
        if self.backend == "fused" and (torch_alone() or not as_it_is):
            raise BackendUnavailable(
                "backend 'fused': something stands between the steps, or transforms them; use 'auto'"
            )
        if as_it_is and self.backend != "loop" and not torch_alone():
            output, last = walk_in_kernel(self.cell, projected, state, recurrent, mask, resets, reverse)
        else:
            output, last = walk_in_torch(self.cell, projected, state, recurrent, mask, resets, reverse, keep)
        return self._hand_on(output.to(projected.dtype), weights), last
