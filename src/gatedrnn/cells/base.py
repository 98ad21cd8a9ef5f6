"""The base classes of layers and single steps in cells' files, and the registration of cells.

At run time a layer's constructor is that of `RecurrentLayer`; its signature in `help` and completion has the options of
its cell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Unpack

import torch

from gatedrnn.cells.functions import Activation
from gatedrnn.equations import Equations, Option, options_of
from gatedrnn.kinds import programs
from gatedrnn.layers import RecurrentLayer, SingleStep
from gatedrnn.layers.layer import HiddenT


class CellOptions(TypedDict, total=False):
    """Options of the cells; a cell refuses those of another one."""

    activation: Activation | Literal["relu", "tanh"]
    beta: float
    block_size: int
    gap_features: int
    heads: int
    keep: bool
    log_space: bool
    reset_after: bool
    window: int


class Layer(RecurrentLayer[HiddenT]):
    """The layer of one of our cells."""

    if TYPE_CHECKING:

        def __init__(
            self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
            batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
            device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
            zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0,
            weight_dropout: float = 0.0, layer_norm: bool = False, weight_init: str | None = None,
            bias_init: str | None = None, longest_time_scale: float | None = None, **options: Unpack[CellOptions],
        ) -> None: ...  # fmt: skip


class Cell(SingleStep[HiddenT]):
    """The single step of one of our cells."""

    if TYPE_CHECKING:

        def __init__(
            self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
            dtype: torch.dtype | None = None, *, weight_init: str | None = None, bias_init: str | None = None,
            longest_time_scale: float | None = None, **options: Unpack[CellOptions],
        ) -> None: ...  # fmt: skip


LayerT = TypeVar("LayerT", bound=type[RecurrentLayer])


@dataclass(frozen=True)
class CellRecord:
    """The classes of one cell, and the variants to verify."""

    layer: type[RecurrentLayer]
    """The cell over time."""
    single_step: type[SingleStep] | None = None
    """The single-step module; None if it has none."""
    variants: tuple[Mapping[str, Option], ...] = ()
    """Options that make it another cell, each verified separately."""

    @property
    def equations(self) -> type[Equations]:
        """The class of the equations; its arguments are the options."""
        return self.layer.cell_class

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.equations.name

    @property
    def options(self) -> Mapping[str, Option]:
        """Keyword arguments of the equations, with their defaults."""
        return options_of(self.equations)


CELLS: dict[str, CellRecord] = {}
"""Every registered cell by its name, in the order in which they were registered."""


def register(
    layer: LayerT, *, single_step: type[SingleStep] | None = None, variants: Iterable[Mapping[str, Option]] = ()
) -> LayerT:
    """Register a layer under its cell's name with models and commands, and its kernel with operations; a decorator.

    Args:
        single_step: the cell's single-step module, if it has one.
        variants: options that make it another cell, each verified separately.

    Raises:
        ValueError: another layer has that name.
        TypeError: it names no equations, or these have no name.

    Example:
        >>> from gatedrnn import MinGRU
        >>> from gatedrnn.registry import CELLS
        >>> CELLS["mingru"].layer is MinGRU
        True
    """
    name = getattr(getattr(layer, "cell_class", None), "name", None)
    if not name:
        raise TypeError(
            f"{layer.__name__} must name its equations, cell_class, and these their name, see "
            "gatedrnn.equations.Equations"
        )
    owner = CELLS[name].layer if name in CELLS else layer
    # A class that is defined again, for example in a notebook cell that runs again, replaces itself.
    if (owner.__module__, owner.__qualname__) != (layer.__module__, layer.__qualname__):
        raise ValueError(f"the name {name!r} is taken by {owner.__module__}.{owner.__qualname__}; choose another")
    record = CellRecord(layer, single_step, tuple(variants))
    # An exported graph names equations by their word, so those of every variant must be found. All are made before
    # anything is registered: a variant that its cell refuses leaves the registry as it was.
    cells = [record.equations(**options) for options in ({}, *record.variants)]
    CELLS[name] = record
    programs.CLASSES[name] = record.equations  # `programs.register` files a cell only if its class is this one
    for cell in cells:
        programs.register(cell, anew=True)
    return layer
