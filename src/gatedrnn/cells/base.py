"""What a cell is: the equations of one unit, without parameters. A layer brings the weights and walks time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias, final

from torch import Tensor

from gatedrnn.scan import accumulation_dtype
from gatedrnn.shapes import Series, State, Step

Recurrent: TypeAlias = Callable[[Step], tuple[Tensor, ...]]
"""From h_(t-1) to the recurrent half of every gate's pre-activation, W_hh h + b_hh, in the order of `projections`."""


class Cell(ABC):
    """The equations of one gated unit.

    `projections` names the blocks of rows of `weight_ih`, in order; each has hidden_size rows.
    """

    name: ClassVar[str]
    """As on the command line."""
    projections: ClassVar[tuple[str, ...]]
    states: ClassVar[int] = 1
    """Tensors that go from one step to the next: 1, or 2 for (h, c)."""


class LoopCell(Cell):
    """A cell whose gates read h_(t-1): time must be walked."""

    @abstractmethod
    def step(
        self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[Step, tuple[State, ...]]:
        """Output and next state from one step's input projections, the previous state and the recurrent product."""


class ScanCell(Cell):
    """A cell whose gates read x_t only: h_t = a_t * h_(t-1) + b_t, and all t can be computed at once.

    A subclass gives `coefficients` (and `output`, where the output is not the state itself); running step by step and
    running in parallel both read them, so the two cannot disagree.
    """

    decay_gates: ClassVar[Mapping[str, int]]
    """Projections whose bias sets the decay: +1 where a larger bias keeps more, -1 where it keeps less."""

    @abstractmethod
    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        """(a_t, b_t) from the input projections, in the order of `projections`; elementwise, any leading axes."""

    def output(self, state: Series) -> Series:
        """What the layer hands on; the state itself unless a cell says otherwise."""
        return state

    @final
    def step(self, projected: tuple[Step, ...], state: State) -> tuple[Step, State]:
        """Output and next state of one step. The state stays in the dtype of accumulation."""
        decay, drive = self.coefficients(*(p.to(accumulation_dtype(p.dtype)) for p in projected))
        state = decay * state + drive
        return self.output(state), state
