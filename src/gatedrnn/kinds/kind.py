"""The interface between layers and a kind of cell: how its cells run over time, and facts from their equations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import Equations, InputGatedEquations
from gatedrnn.kinds.definition import ZoneoutMask
from gatedrnn.shapes import Flags, Gaps, Hidden, Series, StateTuple, Step

StepResult: TypeAlias = tuple[Step, StateTuple]
SeriesResult: TypeAlias = tuple[Series, StateTuple]
PackedResult: TypeAlias = tuple[PackedSequence, StateTuple]
Weights: TypeAlias = dict[str, Tensor]
"""The parameters of one layer and direction, without `_l0` and `_reverse`, in torch's order."""


class LayerConfiguration(NamedTuple):
    """The arguments that a layer was constructed with, and what was set since."""

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    zoneout: float
    input_dropout: float
    state_dropout: float
    weight_dropout: float
    layer_norm: bool
    backend: str = "auto"
    stacks_states: bool = True
    """Whether the states of a streamed step have an axis of layers; those of a single step's module have none."""

    @property
    def regularised(self) -> bool:
        """Whether masks are drawn for whole sequences in training."""
        return bool(self.zoneout or self.input_dropout or self.state_dropout or self.weight_dropout)

    @property
    def drops_between(self) -> bool:
        """Whether dropout acts between layers in training."""
        return self.dropout > 0 and self.num_layers > 1


class LayerView(Protocol):
    """The attributes of a layer that kinds read."""

    # Any: each kind reads its own class of equations, and a protocol's attribute cannot be narrowed.
    cell: Any
    training: bool
    configuration: LayerConfiguration

    def kernel(self) -> "Kernel": ...
    def read_weight(self, name: str) -> Tensor: ...
    def read_weights(self, layer: int, suffix: str) -> Weights: ...
    def flat_weights(self) -> list[Tensor | None]: ...
    def start_state(self, x: Tensor) -> StateTuple: ...
    def project(self, x: Tensor, weights: Weights, add_bias: bool = True) -> Tensor: ...
    def project_output(self, output: Tensor, weights: Mapping[str, Tensor]) -> Tensor: ...


class Kernel(NamedTuple):
    """The kernel of a cell for parameters of one dtype on one device; a layer finds it once and keeps it."""

    device: torch.device
    dtype: torch.dtype
    program: Any = None
    """The functions that its loops call, traced from the equations; None if no kernel runs the cell here."""
    missing: str | None = None
    """Why none does."""


class Direction(NamedTuple):
    """One layer in one direction over a batch of sequences."""

    x: Series
    """(batch, time, features); 0 where `mask` is False."""
    state: StateTuple
    """Each (batch, size)."""
    weights: Weights
    dropped: Tensor | None = None
    """The dropout mask of the state, (batch, size)."""
    zoneout: ZoneoutMask | None = None
    mask: Flags | None = None
    resets: Flags | None = None
    reverse: bool = False
    gaps: Gaps | None = None
    """The gaps as passed in."""


class Pass(NamedTuple):
    """The arguments of a pass that select its execution path, beside the layer's configuration."""

    drops_state: bool = False
    zones_out: bool = False
    has_gaps: bool = False
    direction: Direction | None = None
    """The tensors; None to ask only which path would run."""
    steps: int | None = None
    """The steps of a sequence without mask and resets; None for many."""

    @classmethod
    def configured(cls, layer: LayerView, training: bool, steps: int | None = None) -> "Pass":
        """Return a pass in training or evaluation, as the layer is configured."""
        configuration = layer.configuration
        # Zoneout acts in evaluation too, by its expectation; dropout does not.
        return cls(training and configuration.state_dropout > 0, configuration.zoneout > 0, steps=steps)


class Path(NamedTuple):
    """An execution path of a layer, and why it is taken."""

    name: str
    reason: str
    run: Callable[[Any, Direction], SeriesResult]
    """The function that runs one layer in one direction."""

    def __repr__(self) -> str:
        # Without `run`: the address of a function changes from process to process.
        return f"Path(name={self.name!r}, reason={self.reason!r})"


class MethodCall(NamedTuple):
    """A call of a cell's method, and the shapes that it must return."""

    method: str
    arguments: tuple[Any, ...]
    returns: str
    """The results in words."""
    shapes: Sequence[tuple[int, ...]]
    in_tuple: bool = True
    """Whether the results come in a tuple; one tensor by itself otherwise."""


class SampleInputs(NamedTuple):
    """Zeros in the shapes that the methods of a cell read: series (batch, time, channels)."""

    projected: tuple[Series, ...]
    state: StateTuple
    weights: Weights


class Insides(NamedTuple):
    """The values of a cell's gates at every step."""

    gates: dict[str, Series]
    """Values between 0 and 1, or -1 and 1 of a decay with a sign."""
    decay: Series | None
    """The factor of a channel's state; None for a cell that declares no decay gate."""
    adds: bool = True
    """Whether a step adds to the decayed state, channel by channel."""


@dataclass(frozen=True)
class Tracking:
    """A class of cells with the same type of state transition, and the tasks that it can and cannot track."""

    name: str
    transition: str
    follows: str
    """Tasks that one layer can track."""
    fails: str
    """Tasks that one layer cannot track at every length in finite precision; "however deep": nor can a stack."""
    source: str


class GapsTaken(NamedTuple):
    """How a cell reads the time between steps."""

    features: int = 0
    """Times for each step that the cell learns to weigh; 0 if its decay is raised to the gap."""
    mixes: bool = False
    """Whether a step over two gaps is the same as two steps with the same input."""


class CellFacts(NamedTuple):
    """Facts that follow from a cell's declarations, without its weights."""

    refused: Mapping[str, str] = {}
    """Settings of layers that have no effect on the cell, or that it refuses, and why; {names} are those of cells."""
    gaps: GapsTaken | None = None
    """How the cell reads gaps; None if it reads none."""
    weight_init: str = "fan-in"
    """The default initialisation of weights."""
    iterates: bool = False
    """Whether steps run one after another."""
    signs: tuple[str, ...] = ()
    """Projections that act by their sign, with the gradient of a smooth function."""
    bias_is_decay: bool = False
    """Whether the bias of a decay gate is the decay itself instead of its logit."""
    begins_with_kept: float = 0.0
    """The share of the blocks whose decay is initialised to 1, whatever the input."""


CellT = TypeVar("CellT", bound=Equations)


class Kind(ABC, Generic[CellT]):
    """One kind of cell. A subclass has no state: all methods take the equations, or the layer."""

    torch_layers: ClassVar["TorchLayers | None"] = None
    """The layers of `torch.nn` with the same equations; None if there are none."""

    @abstractmethod
    def claims(self, cell: Equations | type[Equations]) -> bool:
        """Whether a cell, an object or a class, is of this kind."""

    # Facts about a cell

    @abstractmethod
    def facts(self, cell: CellT | type[CellT]) -> CellFacts:
        """Return what follows from the declarations of a cell, an object or a class."""

    @abstractmethod
    def shapes(self, cell: CellT, hidden_size: int, width: int, bias: bool) -> dict[str, tuple[int, ...]]:
        """Return the shapes of parameters beside those of the input; `width` is that of the state that gates read."""

    @abstractmethod
    def method_calls(self, cell: CellT, inputs: SampleInputs) -> list[MethodCall]:
        """Return calls of the cell's methods, which its first layer makes and checks."""

    @abstractmethod
    def insides(self, cell: CellT, sums: dict[str, Series], diagonals: Sequence[Tensor]) -> Insides:
        """Return the values of gates, from their pre-activations and the diagonal weights."""

    @abstractmethod
    def tracking(self, cell: CellT) -> Tracking:
        """Return the class of the cell in tracking a state."""

    # Running

    @abstractmethod
    def kernel(self, cell: CellT, device: torch.device, dtype: torch.dtype) -> Kernel:
        """Find the kernel of a cell for parameters of this dtype on this device; the first call traces the cell."""

    @abstractmethod
    def backends(self, layer: LayerView) -> tuple[str, ...]:
        """Return the backends that can run the layer as configured, without "auto"."""

    @abstractmethod
    def path(self, layer: LayerView, query: Pass) -> Path:
        """Choose the execution path of a pass. Where the mask is False the output is 0 and the state is held.

        Raises:
            ValueError, BackendUnavailable: the pass has tensors that no path can take, or that the backend cannot.
        """

    @abstractmethod
    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        """Run a step of few rows without gradients, all layers in as few calls as possible; None if no kernel can run
        it or shapes or dtypes do not fit. States have an axis of layers if the configuration `stacks_states`."""

    # Not abstract: a kind without kernels for large batches leaves its steps to the equations.
    def step(self, layer: LayerView, x: Step, state: StateTuple) -> StepResult | None:
        """Run a step without gradients and masks of any number of rows by kernels; None if the equations run it."""
        return None


class TorchLayers(ABC):
    """Cells that `torch.nn` has layers and single steps of, followed to the letter."""

    @abstractmethod
    def name(self, cell: Equations) -> str:
        """Return the layer's name in `torch.nn`."""

    @abstractmethod
    def module(self, layer: LayerView, single: bool) -> tuple[nn.Module | None, str]:
        """Return torch's layer, or single step, of the same shapes on no device; or None, and why none computes the
        same."""

    @abstractmethod
    def check_sizes(self, cell: Equations, hidden_size: int, proj_size: int) -> None:
        """Raise torch's errors for sizes that torch refuses."""

    @abstractmethod
    def state_dtype(self, cell: Equations, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype of a state, from that of the input."""

    @abstractmethod
    def laid_out(self, output: Series) -> Series:
        """Return the output, (batch, time, features), as torch's layer lays it out in memory."""

    # Each of these returns None where the general path must run or refuse it.

    @abstractmethod
    def call(self, layer: LayerView, x: object, hx: object) -> tuple[Tensor, Hidden] | None:
        """Run the layer on an input and an `hx` as they were passed, without other arguments."""

    @abstractmethod
    def stack(self, layer: LayerView, x: Series, state: StateTuple) -> SeriesResult | None:
        """Run the whole stack in one call, without mask, resets and dropout masks."""

    @abstractmethod
    def packed(self, layer: LayerView, packed: PackedSequence, state: StateTuple) -> PackedResult | None:
        """Run a packed sequence without resets and dropout masks; states come in the order of its rows."""

    @abstractmethod
    def step(self, module: nn.Module, x: object, hx: object) -> Hidden | None:
        """Run torch's own single step of a cell's module."""


def is_of(cell: Equations | type[Equations], *families: type) -> bool:
    """Whether a cell, an object or a class, is of one of these families."""
    return issubclass(cell if isinstance(cell, type) else type(cell), families)


def diagonal_shapes(cell: Equations, size: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a cell's diagonal weights, each of this size."""
    return {f"weight_{name}": (size,) for name in cell.diagonals}


def input_gated_shapes(cell: InputGatedEquations, hidden_size: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the diagonal weights, one number a block of channels, and of a learned initial state."""
    learned = {"initial_state": (hidden_size,)} if cell.learns_initial_state else {}
    return diagonal_shapes(cell, hidden_size // cell.block_size) | learned


def check_initial_state(cell: Equations) -> None:
    """Refuse several states of a scan cell, and a learned initial state where resets could not restore it.

    Raises:
        ValueError: a scan cell has several states, or another cell learns its initial state.
    """
    if is_of(cell, InputGatedEquations) and len(cell.states) > 1:
        title = type(cell).__name__
        raise ValueError(
            f"{title}: a scan cell has one state, got {cell.states}; take ElementwiseLoopEquations for more"
        )
    learns = getattr(cell, "learns_initial_state", False)
    if learns and not (is_of(cell, InputGatedEquations) and len(cell.states) == 1):
        raise ValueError(f"{type(cell).__name__}: only a scan cell can learn its initial state")
