"""Any loop cell as a layer, walked step by step."""

from typing import ClassVar

import torch

from gatedrnn.cells import LoopCell
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import reversed_resets
from gatedrnn.layers.regularise import DirectionNoise
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.shapes import Flags, Series


class LoopLayer(RecurrentLayer):
    """Any loop cell as a layer: one matrix product projects the whole sequence, then its steps are walked in torch.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`.
    """

    cell_class: ClassVar[type[LoopCell]]
    cell: LoopCell

    @property
    def backends(self) -> tuple[str, ...]:
        return ("loop",)

    def runs_on(self) -> Path:
        return Path("the step loop", f"torch has no kernel for {self.cell.name}, whose gates read the state")

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        projected = self._project(x, weights)
        if resets is not None and reverse:
            resets = reversed_resets(resets)
        # unbind, not indexing: the gradient of an index is a whole series of zeros for each step.
        steps = projected.unbind(1)
        outputs = []
        for t in reversed(range(len(steps))) if reverse else range(len(steps)):
            if resets is not None:
                state = tuple(torch.where(resets[:, t, None], 0, s) for s in state)
            after = self._cell_step(steps[t], state, weights, noise.at(t))
            if mask is not None:
                after = tuple(torch.where(mask[:, t, None], a, s) for a, s in zip(after, state, strict=True))
            state = after
            outputs.append(self.cell.output(*state))
        output = torch.stack(outputs[::-1] if reverse else outputs, dim=1)
        return self._hand_on(output, projected, weights), state
