"""What a runner is: the functions that run a kind of cell over time for a layer."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.layers.dropout import DirectionMasks, DropoutMasks
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.parameters import Weights
from gatedrnn.shapes import Flags, Gaps, Series, StateTuple, Step

StepResult: TypeAlias = tuple[Step, StateTuple]
SeriesResult: TypeAlias = tuple[Series, StateTuple]
PackedResult: TypeAlias = tuple[PackedSequence, StateTuple]


class Path(NamedTuple):
    """What runs a layer, and why."""

    name: str
    reason: str


class Direction(NamedTuple):
    """One layer in one direction over a batch of sequences."""

    x: Series
    """(batch, time, features); 0 where `mask` is False."""
    state: StateTuple
    """Each (batch, size)."""
    weights: Weights
    masks: DirectionMasks
    mask: Flags | None
    resets: Flags | None
    reverse: bool
    gaps: Gaps | None = None
    """As they are passed in."""


class Runner(NamedTuple):
    """How one kind of cell runs. A layer calls these functions with itself as the first argument."""

    backends: Callable[[RecurrentModule], tuple[str, ...]]
    """What can run the layer as it is configured, beside "auto"."""
    path: Callable[[RecurrentModule, bool], Path]
    """What runs the layer, in training or not."""
    direction: Callable[[RecurrentModule, Direction], SeriesResult]
    """One layer in one direction. The output is 0 and the state is held where the mask is False."""
    stream: Callable[[RecurrentModule, Step, Any], StepResult | None]
    """A step of few rows without gradients, all layers in as few calls as can be; None where no kernel runs it as it
    is, and where shapes or dtypes do not fit."""
    step: Callable[[RecurrentModule, Step, StateTuple, DropoutMasks | None], StepResult | None] | None = None
    """A step without gradients of any number of rows by kernels; None where the equations run it."""
    stack: Callable[[RecurrentModule, Series, StateTuple], SeriesResult | None] | None = None
    """The whole stack in one call, without mask, resets and masks of dropout."""
    packed: Callable[[RecurrentModule, PackedSequence, StateTuple], PackedResult | None] | None = None
    """A packed sequence as it is, without resets and masks of dropout; states come in the order of its rows."""
    check_layer: Callable[[RecurrentModule], None] | None = None
    """Raise for a configuration that the runner cannot run."""
    check_input: Callable[[RecurrentModule, Series | PackedSequence, Any, Tensor | None], None] | None = None
    """Raise for an input, hx and resets that the runner cannot take."""
