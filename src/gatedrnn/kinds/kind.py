"""The interface between layers and a kind of cell: how its cells run over time, and facts from their equations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import Equations, InputGatedEquations
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kinds.definition import ZoneoutMask
from gatedrnn.shapes import Flags, Gaps, Series, StateTuple, Step

StepResult: TypeAlias = tuple[Step, StateTuple]
SeriesResult: TypeAlias = tuple[Series, StateTuple]
PackedResult: TypeAlias = tuple[PackedSequence, StateTuple]
Weights: TypeAlias = dict[str, Tensor]
"""The parameters of one layer and direction, without `_l0` and `_reverse`, in torch's order."""


class LayerView(Protocol):
    """The attributes of a layer that kinds read."""

    cell: Any
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    bidirectional: bool
    proj_size: int
    dropout: float
    training: bool
    layer_norm: bool
    zoneout: float
    state_dropout: float
    _backend: str
    _stacks_states: bool
    batch_first: bool

    @property
    def _flat_weights(self) -> list[Any]: ...
    def _weight(self, name: str) -> Tensor: ...
    def _weights(self, layer: int, suffix: str) -> Weights: ...
    def _stored(self, name: str) -> Tensor: ...
    def _initial_state(self, x: Tensor) -> StateTuple: ...
    def _project(self, x: Tensor, weights: Weights, add_bias: bool = True) -> Tensor: ...
    def _project_output(self, output: Tensor, weights: Mapping[str, Tensor]) -> Tensor: ...
    def _drops(self, layer: int) -> bool: ...
    def _draws(self) -> bool: ...


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
        return cls(training and layer.state_dropout > 0, layer.zoneout > 0, steps=steps)


class Path(NamedTuple):
    """An execution path of a layer, and why it is taken."""

    name: str
    reason: str
    run: Callable[[Any, Direction], SeriesResult]
    """The function that runs one layer in one direction."""

    def __repr__(self) -> str:
        return f"Path(name={self.name!r}, reason={self.reason!r})"


class MethodCall(NamedTuple):
    """A call of a cell's method, and the shapes that it must return."""

    method: str
    arguments: tuple[Any, ...]
    returns: str
    """The results in words."""
    shapes: Sequence[tuple[int, ...]]


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


def _no_check(*_: Any) -> None:
    """Accept everything."""


def _nothing(*_: Any) -> None:
    """Leave the pass to the general path."""


def _accumulated(cell: Any, dtype: torch.dtype) -> torch.dtype:
    return accumulation_dtype(dtype)


def _no_module(layer: Any, single: bool) -> tuple[nn.Module | None, str]:
    return None, f"torch.nn has no {'cell' if single else 'layer'} of its kind"


@dataclass(frozen=True)
class Kind:
    """One kind of cell. Functions take the layer, or the equations, first."""

    equations: Callable[[Any], bool]
    """Whether a cell, an object or a class, is of this kind."""
    # Running
    backends: Callable[[LayerView], tuple[str, ...]]
    """The backends that can run the layer as configured, without "auto"."""
    path: Callable[[LayerView, Pass], Path]
    """The execution path of a pass. Where the mask is False the output is 0 and the state is held."""
    stream: Callable[[LayerView, Step, Any], StepResult | None]
    """A step of few rows without gradients, all layers in as few calls as possible; None if no kernel can run it or
    shapes or dtypes do not fit. States have an axis of layers only if the layer `_stacks_states`."""
    # Facts about a cell
    shapes: Callable[[Any, int, int, bool], dict[str, tuple[int, ...]]]
    """Shapes of parameters beside those of the input, from cell, hidden_size, the width that gates read, and bias."""
    calls: Callable[[Any, SampleInputs], list[MethodCall]]
    """Calls of the cell's methods, which its first layer makes and checks."""
    insides: Callable[[Any, dict[str, Series], Sequence[Tensor]], Insides]
    """The values of gates, from their pre-activations and the diagonal weights."""
    tracking: Callable[[Any], Tracking]
    """The class of the cell in tracking a state."""
    sources: Callable[[Any], list[str]]
    """The source of its generated functions, without comments: for a CPU, and for some cells for a GPU."""
    why_no_program: Callable[[Any], str | None]
    """Why no kernel was generated for a registered cell; None if one was."""
    gaps: Callable[[Any], GapsTaken | None] = _nothing
    """How the cell reads gaps; None if it reads none."""
    without: Callable[[Any], frozenset[str]] = lambda cell: frozenset({"weight_dropout"})
    """Settings of layers that have no effect on a cell, or that it refuses."""
    fill_bias: Callable[[Any, Tensor], None] = _no_check
    """Convert the block of a decay gate's bias from logits to the form that the cell reads."""
    iterates: bool = False
    """Whether steps run one after another."""
    straight_through: Callable[[Any], tuple[str, ...]] = lambda cell: ()
    """Projections that act by their sign, with the gradient of a smooth function."""
    weight_init: str = "fan-in"
    """The default initialisation of weights."""
    # A layer's other passes
    call: Callable[[LayerView, Any, Any], tuple[Tensor, Any] | None] = _nothing
    """The layer on an input and an `hx` as they were passed, without other arguments, as `torch.nn` runs it; None where
    the general path must run or refuse it."""
    step: Callable[[LayerView, Step, StateTuple], StepResult | None] = _nothing
    """A step without gradients and masks of any number of rows by kernels; None if the equations run it."""
    stack: Callable[[LayerView, Series, StateTuple], SeriesResult | None] = _nothing
    """The whole stack in one call, without mask, resets and dropout masks."""
    packed: Callable[[LayerView, PackedSequence, StateTuple], PackedResult | None] = _nothing
    """A packed sequence without resets and dropout masks; states come in the order of its rows."""
    step_of_torch: Callable[[Any, Step, Any], Any] = _nothing
    """torch's own single step of a cell's module; None if ours runs."""
    check_layer: Callable[[LayerView], None] = _no_check
    """Raise for a configuration that the kind cannot run."""
    check_sizes: Callable[[Any, int, int], None] = _no_check
    """Raise for a hidden_size and proj_size that the cell refuses."""
    check_input: Callable[[LayerView, Any, Any, Tensor | None], None] = _no_check
    """Raise for an input, hx and resets that the kind cannot take."""
    # Where torch's own layers are followed to the letter
    state_dtype: Callable[[Any, torch.dtype], torch.dtype] = _accumulated
    """The dtype of a state, from that of the input."""
    as_torch: Callable[[Series], Series | None] = _nothing
    """The output, (batch, time, features), as torch's layer lays it out in memory; None if torch has none."""
    mode: Callable[[Any], str] = lambda cell: str(cell.name)
    """The name that `torch.nn` has for the layer; the cell's name for all others."""
    torch_module: Callable[[Any, bool], tuple[nn.Module | None, str]] = _no_module
    """torch's layer, or single step, of the same shapes on no device; or None, and why none computes the same."""


def is_of(cell: Equations | type[Equations], *families: type) -> bool:
    """Whether a cell, an object or a class, is of one of these families."""
    return issubclass(cell if isinstance(cell, type) else type(cell), families)


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
