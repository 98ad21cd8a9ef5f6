"""The equations of one unit, without parameters: the base classes of cells. A layer adds weights and runs over time."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from inspect import Signature, signature
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from gatedrnn.shapes import Channels, Series, State, StateTuple, Step

Option: TypeAlias = bool | int | float | str
"""The value of a cell's option, which the command line can write."""
Arrays: TypeAlias = tuple[NDArray[np.float64], ...]
"""Gates or states of one step in numpy, each (batch, channels)."""
NumpyWeights: TypeAlias = Mapping[str, NDArray[np.float64]]
"""Parameters in numpy by torch's names, without layer and direction."""
NumpyStep: TypeAlias = tuple[NDArray[np.float64], Arrays]
"""Output and states of one step in numpy."""


class Recurrent:
    """The recurrent parameters of one layer and direction, as an equation reads them.

    Args:
        gates: the cell's blocks of rows in `weight_hh`, in order.
        weights: parameters by torch's names, without layer and direction; a scan cell's hold no `weight_hh`.
        dropped: (batch, size), the dropout mask of h_(t-1) wherever a gate reads it; in a scan cell that of the drive.
            None for no dropout.
        products: filled with U h + b by gate, to inspect a step.
    """

    def __init__(
        self, gates: tuple[str, ...], weights: Mapping[str, Tensor], dropped: Tensor | None = None,
        products: dict[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.gates, self.weights, self.dropped, self.products = gates, weights, dropped, products

    def __call__(self, h: Step, *gates: str) -> tuple[Step, ...]:
        """Return U h + b for the named gates, which must be neighbours, or for all."""
        weight, bias = self.weights["weight_hh"], self.weights.get("bias_hh")
        if gates:
            size = weight.shape[0] // len(self.gates)
            first = self.gates.index(gates[0])
            # Neighbouring gates are one slice of the matrix: a view, and one product.
            assert self.gates[first : first + len(gates)] == gates, f"{gates} are no neighbours in {self.gates}"
            rows = slice(first * size, (first + len(gates)) * size)
            weight, bias = weight[rows], None if bias is None else bias[rows]
        # `linear` refuses mixed dtypes: a float32 state is rounded to bfloat16 weights for the product alone.
        products = linear(self.drop(h).to(weight.dtype), weight, bias).to(h.dtype)
        by_gate = products.chunk(len(gates) or len(self.gates), dim=-1)
        if self.products is not None:
            self.products.update(zip(gates or self.gates, by_gate, strict=True))
        return by_gate

    def over(self, gaps: Step) -> Step:
        """Return W_gap gaps + b_gap of a cell with `gap_features`; a gap for each of them, or one for all."""
        weight, bias = self.weights["weight_gap"], self.weights.get("bias_gap")
        # `linear` needs as many columns as `weight_gap` has, where one gap may stand for all features.
        gaps = gaps.expand(*gaps.shape[:-1], weight.shape[1])
        return linear(gaps.to(weight.dtype), weight, bias).to(gaps.dtype)

    def drop(self, x: Step) -> Step:
        """Multiply x by the dropout mask."""
        return x if self.dropped is None else x * self.dropped

    def diagonal(self, name: str) -> Channels:
        """Return the diagonal weight of that name, without `weight_` in front."""
        return self.weights[f"weight_{name}"]

    def project(self, h: Step) -> Step:
        """Return W_hr h if the projection belongs to the state (LSTMP), else h."""
        weight = self.weights.get("weight_hr")
        return h if weight is None else linear(h.to(weight.dtype), weight).to(h.dtype)


class BlockKernel(NamedTuple):
    """The kernel that runs a single step of a cell of small blocks."""

    form: Literal["orthogonal", "turn"]
    """How the block matrix is built: from the projections a rotation with a mirror (blocks of 2) or one reflection for
    each of the block's channels (larger ones); or from the diagonal weights a decay and an angle (blocks of 2)."""


class TorchKernel(NamedTuple):
    """The kernel that torch has for these equations."""

    mode: Literal["LSTM", "GRU"]
    """The layer's name in `torch.nn`."""
    padding_gates: Mapping[str, float] = {}
    """Gates that padding must open (1) or close (-1) to keep a state that is not the output; empty if h is all."""
    projects: bool = False
    """Whether it knows `proj_size`."""
    slower_than_native: bool = False
    """Whether our kernel for a CPU is faster."""


class Diagonal(NamedTuple):
    """The state that a diagonal weight multiplies, and the gate whose sum the product enters."""

    gate: str
    """The gate's projection."""
    state: int = 0
    """The index of the state's tensor."""
    after: bool = False
    """Whether it multiplies the state after the step instead of the one before it."""


class _Immutable(ABCMeta):
    """The class of classes whose objects do not change once the outermost constructor has returned."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        # After the outermost constructor: one of a subclass sets attributes behind `super().__init__`.
        instance = super().__call__(*arguments, **options)
        vars(instance)["_is_frozen"] = True
        return instance

    @property
    def __signature__(cls) -> Signature:
        # `inspect` would show that of `__call__`.
        return signature(cls.__init__.__get__(cls))  # type: ignore[misc]


class Equations(metaclass=_Immutable):
    """The equations of one gated unit: `step`, from state to state.

    A cell may have these methods too; a missing one is None.

    - `output(state, projected)`: the layer's output where it is not the first state, elementwise in the tuples of
      states and of input projections, for one step or a whole series.
    - `fill_diagonals(weights)`: initialises the diagonal weights in place, by name; uniform within 0.1 without it.
    - `fill_as_authors(weights)`: initialises parameters, all or some, in place by their full names as the authors' code
      does; its docstring says how.
    - `numpy(gates, state, weights)`: a second definition of one step, in numpy from the paper; `gatedrnn.verify` reads
      it.

    Options of a cell are keyword arguments of its constructor, each with a default of type bool, int, float or str, and
    are attributes of the same name. No attribute can be set after the constructor: kernels and the shapes of weights
    are made from the equations once.
    """

    name: ClassVar[str]
    """The name on the command line."""
    projections: tuple[str, ...]
    """The blocks of rows of `weight_ih` (and of `weight_hh`), in order; each has hidden_size rows."""
    candidates: tuple[str, ...] = ("candidate",)
    """Projections that are no gate between 0 and 1: values, angles, exponents."""
    decay_gates: Mapping[str, int] = {}
    """Projections whose bias sets the decay of the state that `memory` counts (of several, the one after h): +1 if a
    larger bias keeps more of it, -1 if it keeps less. A gate of another state is left out."""
    states: ClassVar[tuple[str, ...]] = ("h",)
    """Names of the tensors that go from one step to the next, in the order of `hx`, each of hidden_size. The output
    follows from the first, which alone is projected if a projection belongs to the state."""
    diagonals: ClassVar[Mapping[str, Diagonal | None]] = {}
    """The diagonal weights by name, each of hidden_size (a scan in blocks: one a block), and what they read; None for a
    parameter of a scan cell's coefficients."""
    projects_state: ClassVar[bool] = False
    """Whether an output projection belongs to the state, read by the gates of the next step (LSTMP)."""
    block_size: int = 1
    """A divisor of hidden_size."""
    bias_init: ClassVar[str] = "zeros"
    """The default initialisation of the biases; see `gatedrnn.layers.parameters.initialise`."""
    output: ClassVar[Callable[..., Tensor] | None] = None
    fill_diagonals: ClassVar[Callable[..., None] | None] = None
    fill_as_authors: ClassVar[Callable[..., None] | None] = None
    numpy: ClassVar[Callable[..., "NumpyStep"] | None] = None

    def __init__(self) -> None:
        """A cell without options."""

    def __setattr__(self, name: str, value: object) -> None:
        # `cached_property` writes to `__dict__` directly, so that cached values still enter.
        if "_is_frozen" in vars(self):
            self._refuse_change(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> NoReturn:
        self._refuse_change(name)

    def _refuse_change(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be changed once the equations are made, for kernels are made of them "
            "as they are; make a new layer, with another value of the option"
        )

    @abstractmethod
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        """Return the next state from one step's input projections (W x + b, in the order of `projections`)."""

    @property
    def memory(self) -> int:
        """The index of the state that remembers the input: the one after h, or h itself if it is alone."""
        return min(1, len(self.states) - 1)

    @cached_property
    def options(self) -> dict[str, Option]:
        """The constructor's keyword arguments with the values that this cell has."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    @cached_property
    def chosen_options(self) -> dict[str, Option]:
        """The options that differ from their defaults."""
        defaults = options_of(type(self))
        return {name: value for name, value in self.options.items() if value != defaults[name]}

    @cached_property
    def word(self) -> str:
        """Name and chosen options in one word: "gru", "gru:reset_after=false"."""
        return ":".join([self.name, *(f"{name}={option_word(value)}" for name, value in self.chosen_options.items())])


def option_word(value: Option) -> str:
    """Return an option's value as the command line writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache  # Python looks through all modules for the signature of a class without a constructor
def options_of(equations: type[Equations]) -> Mapping[str, Option]:
    """Return the keyword arguments of a cell's constructor with their defaults."""
    return {name: parameter.default for name, parameter in signature(equations).parameters.items()}


class InputGatedEquations(Equations):
    """A cell whose gates read x_t only, so that all steps can be computed at once."""

    bias_init = "time-scales"
    clamped_decay: ClassVar[bool] = False
    """Whether a decay gate is the decay itself, clamped, instead of squashed by a sigmoid."""
    learns_initial_state: ClassVar[bool] = False
    """Whether the initial state is a parameter instead of zeros."""


class GappedEquations(Equations):
    """A cell whose steps may be unequally far apart: `gaps` change how much of the state a step keeps."""

    @abstractmethod
    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        """Return the state after `gaps`, each 0 or more: (batch, 1), or (batch, gap_features) if it learns these."""


class LoopEquations(Equations):
    """A cell whose gates read h_(t-1) through a matrix, `weight_hh`: its steps run one after another."""

    recurrent_bias: bool = False
    """Whether the recurrent product has a bias of its own, as in torch's LSTM and GRU."""
    joint_states: ClassVar[bool] = False
    """Whether the states are meaningful only together: zoneout, which mixes each by itself, is then refused."""
    torch_kernel: ClassVar[TorchKernel | None] = None
    """The record of torch's kernel; None if there is none."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # torch's kernel does not compute the equations of a subclass that redefines them.
        if vars(cls).keys() & {"step", "output"}:
            cls.torch_kernel = vars(cls).get("torch_kernel")


class ElementwiseLoopEquations(Equations):
    """A cell whose gates read the state through diagonal weights alone: its steps run one after another.

    Each channel runs by itself; `step` uses `recurrent.diagonal(name)` of the names in `diagonals`, never a product.
    """


class GappedLoopEquations(LoopEquations, GappedEquations):
    """A loop cell that learns the effect of a gap on its state, by `weight_gap` (hidden_size, gap_features) and a bias.

    It reads `recurrent.over(gaps)`.
    """

    gap_features: int = 1
    """The number of times that `weight_gap` reads at each step, 1 or more."""

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        return self.step_over(torch.ones_like(state[0][..., :1]), projected, state, recurrent)


class ScanEquations(InputGatedEquations):
    """A cell with h_t = a_t * h_(t-1) + b_t, channel by channel.

    A cell defines `coefficients`, which a single step and the parallel scan both read.
    """

    @abstractmethod
    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        """Return (a_t, b_t) from the input projections, in the order of `projections`, and the diagonal weights, in the
        order of `diagonals`; elementwise, any leading axes."""

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        decay, drive = self.coefficients(*projected, *_diagonals(self, recurrent, projected[0]))
        # No gate reads the state here: state_dropout drops what a step adds (Semeniuta et al. 2016, arXiv:1603.05118).
        return (decay * state[0] + recurrent.drop(drive),)


class GappedScanEquations(ScanEquations, GappedEquations):
    """A scan cell whose decay can be raised to the time between two steps."""

    @abstractmethod
    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        """Return (a_t, b_t) of a step t that comes `gaps` after the one before; gaps of 1 give `coefficients`, whose
        arguments follow.

        Args:
            gaps: times, 0 or more; they broadcast with the projections.
        """

    @final
    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        decay, drive = self.coefficients_over(gaps, *projected, *_diagonals(self, recurrent, projected[0]))
        return (decay * state[0] + recurrent.drop(drive),)


class ConvexScanEquations(GappedScanEquations):
    """A scan cell that mixes its state with a value: h_t = a_t * h_(t-1) + (1 - a_t) * v_t, a_t = sigmoid(s_t).

    Over a gap the decay is raised to it, a_t ** gap, and the drive is computed from the raised decay: as if the input
    were constant over the gap.
    """

    @abstractmethod
    def logit(self, *projected: Series) -> Series:
        """Return s_t, the logit of the decay: a_t = sigmoid(s_t)."""

    @abstractmethod
    def value(self, *projected: Series) -> Series:
        """Return v_t, which is mixed into the state."""

    @final
    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        logit = self.logit(*projected)
        # sigmoid(-s) is 1 - a without the cancellation where a is near 1.
        return torch.sigmoid(logit), torch.sigmoid(-logit) * self.value(*projected)

    @final
    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        # By the logarithm: where the sigmoid underflows to 0, a power of it has no finite gradient. expm1 gives 1 minus
        # the power without cancellation.
        log_decay = gaps * logsigmoid(self.logit(*projected))
        return torch.exp(log_decay), -torch.expm1(log_decay) * self.value(*projected)


class BlockScanEquations(InputGatedEquations):
    """A cell that mixes its channels in blocks: h_t = A_t h_(t-1) + b_t.

    Channel i · (hidden_size / block_size) + n is component i of block n.
    """

    begins_keeping: ClassVar[float] = 0.0
    """The share of the blocks whose clamped decay is initialised to 1, whatever the input."""
    straight_through: tuple[str, ...] = ()
    """Projections that act by their sign, with the gradient of a smooth function in its place."""
    kernel: ClassVar[BlockKernel | None] = None
    """The record of our kernel for a step; kernels of other cells are generated from their equations."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if vars(cls).keys() & {"coefficients", "output"}:  # a kernel of other equations is none of these
            cls.kernel = vars(cls).get("kernel")

    @abstractmethod
    def coefficients(self, *projected: Series) -> tuple[Tensor, Series]:
        """Return (A_t, b_t) from the input projections and the diagonal weights, one a block: (..., block_size,
        block_size, blocks) and (..., channels)."""

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        transition, drive = self.coefficients(*projected, *_diagonals(self, recurrent, projected[0]))
        h = state[0].unflatten(-1, (self.block_size, -1))
        return (applied(transition, h).flatten(-2) + recurrent.drop(drive),)


def _diagonals(cell: Equations, recurrent: Recurrent, like: Step) -> tuple[Channels, ...]:
    """Return the diagonal weights in the dtype of the coefficients: a function of them is not rounded."""
    return tuple(recurrent.diagonal(name).to(like.dtype) for name in cell.diagonals)


def output_of(cell: Equations, state: StateTuple, projected: tuple[Tensor, ...]) -> Tensor:
    """Return the layer's output, of one step or all: `cell.output`, or the first state (h of (h, c)) without one."""
    return state[0] if cell.output is None else cell.output(state, projected)


def applied(matrix: Tensor, state: Tensor) -> Tensor:
    """Multiply blocks (..., k, k, blocks) with vectors (..., k, blocks)."""
    # No matmul: it wants the axes of a matrix last, where blocks lie so that kernels read neighbours.
    return (matrix * state.unsqueeze(-3)).sum(-2)


def split_gates(gates: int, projected: Tensor) -> tuple[Tensor, ...]:
    """Split a projection into its blocks, one a gate, along the last axis."""
    return torch.chunk(projected, gates, dim=-1)
