"""The equations of one unit, without parameters: what a cell must give. A layer adds the weights and runs over time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache, cached_property
from inspect import signature
from typing import ClassVar, Literal, NamedTuple, TypeAlias, final

import torch
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from gatedrnn.shapes import Channels, Series, State, StateTuple, Step

Option: TypeAlias = bool | int | float | str
"""The value of a cell's option, which the command line can write."""


class Recurrent:
    """The recurrent parameters of one layer and direction, as an equation reads them.

    Args:
        gates: the cell's blocks of rows in `weight_hh`, in order.
        weights: parameters by torch's names, without layer and direction; a scan cell's hold no `weight_hh`.
        dropped: (batch, size), the dropout mask of h_(t-1) wherever a gate reads it; in a scan cell that of the drive.
            None for no dropout.
        products: filled with U h + b by gate, for whoever inspects a step.
    """

    def __init__(
        self, gates: tuple[str, ...], weights: Mapping[str, Tensor], dropped: Tensor | None = None,
        products: dict[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.gates, self.weights, self.dropped, self.products = gates, weights, dropped, products

    def __call__(self, h: Step, *gates: str) -> tuple[Step, ...]:
        """U h + b for the named gates, which must be neighbours; for all if none is named."""
        weight, bias = self.weights["weight_hh"], self.weights.get("bias_hh")
        count = len(gates) or len(self.gates)
        if gates:
            size = weight.shape[0] // len(self.gates)
            first = self.gates.index(gates[0])
            assert self.gates[first : first + count] == gates, f"{gates} are no neighbours in {self.gates}"
            rows = slice(first * size, (first + count) * size)
            weight, bias = weight[rows], None if bias is None else bias[rows]
        found = _multiplied(self.drop(h).to(weight.dtype), weight, bias, count).to(h.dtype).chunk(count, dim=-1)
        if self.products is not None:
            self.products.update(zip(gates or self.gates, found, strict=True))
        return found

    def over(self, gaps: Step) -> Step:
        """W_gap gaps + b_gap, where the cell has `gap_features`; a gap for each of them, or one for all."""
        weight, bias = self.weights["weight_gap"], self.weights.get("bias_gap")
        gaps = gaps.expand(*gaps.shape[:-1], weight.shape[1])
        return linear(gaps.to(weight.dtype), weight, bias).to(gaps.dtype)

    def drop(self, x: Step) -> Step:
        """x times the dropout mask."""
        return x if self.dropped is None else x * self.dropped

    def diagonal(self, name: str) -> Channels:
        """The diagonal weight of that name, without `weight_` in front."""
        return self.weights[f"weight_{name}"]

    def project(self, h: Step) -> Step:
        """W_hr h where the projection belongs to the state (LSTMP); h itself where there is none."""
        weight = self.weights.get("weight_hr")
        return h if weight is None else linear(h.to(weight.dtype), weight).to(h.dtype)


class BlockKernel(NamedTuple):
    """Which kernel runs a single step of a cell of small blocks."""

    form: Literal["orthogonal", "turn"]
    """How the block matrix is built: from the projections a rotation with a mirror (blocks of 2) or one reflection for
    each of the block's channels (larger ones); or from the diagonal weights a decay and an angle (blocks of 2)."""


class TorchKernel(NamedTuple):
    """torch's own kernel of these equations."""

    mode: Literal["LSTM", "GRU"]
    """The layer's name in `torch.nn`."""
    padding_gates: Mapping[str, float] = {}
    """Gates that padding must open (1) or close (-1) to keep a state that is not the output; empty where h is all."""
    projects: bool = False
    """Whether it knows `proj_size`."""
    slower_than_native: bool = False
    """Whether our kernel for a CPU is faster."""


class Diagonal(NamedTuple):
    """What a diagonal weight multiplies, and the gate whose sum that enters."""

    gate: str
    """Its projection."""
    state: int = 0
    """Which of the state's tensors."""
    after: bool = False
    """The state after the step instead of the one before it."""


class Equations(ABC):
    """The equations of one gated unit: `step`, from state to state.

    A cell whose output is not its state (h of (h, c)) has a method `output(state, projected)` too, elementwise in the
    tuples of states and of input projections, of one step or of a whole series. One whose diagonal weights are
    not initialised uniform within 0.1 has a method `fill_diagonals(weights)`, which fills them in place, by name. One
    whose authors' code initialises otherwise than any scheme of ours has a method `fill_as_authors(weights)`, which
    fills parameters in place, by their full names, those that it is given and may be fewer; its docstring says how.

    Options of a cell are keyword arguments of its constructor, each with a default of type bool, int, float or str, and
    kept as an attribute of the same name.
    """

    name: ClassVar[str]
    """As on the command line."""
    projections: tuple[str, ...]
    """The blocks of rows of `weight_ih` (and of `weight_hh`), in order; each has hidden_size rows."""
    decay_gates: Mapping[str, int] = {}
    """Projections whose bias sets the decay: +1 where a larger bias keeps more of the state, -1 where it keeps less."""
    exponential: ClassVar[tuple[str, ...]] = ()
    """Projections that act by their exponential, which has no upper end."""
    clamped_decay: ClassVar[bool] = False
    """Whether a decay gate is the decay itself, clamped, instead of squashed by a sigmoid."""
    begins_keeping: ClassVar[float] = 0.0
    """The share of the blocks whose decay is initialised to 1, whatever the input (clamped decays only)."""
    states: ClassVar[tuple[str, ...]] = ("h",)
    """Names of the tensors that go from one step to the next, in the order of `hx`, each of hidden_size. The first is
    what the output follows from; it alone is projected where a projection belongs to the state."""
    joint_states: ClassVar[bool] = False
    """Whether the states mean something together alone: zoneout, which mixes each by itself, is then refused."""
    window: int = 1
    """Inputs that a projection reads: 1, or 2 for that of the real step before too, whose weights are the second half
    of `weight_ih`. It is then a state as well, the last of `hx`: 0 at the beginning and after a reset."""
    reads_state: ClassVar[bool]
    """Whether a gate reads the state before: then time is a loop."""
    multiplies_state: ClassVar[bool] = False
    """Whether the gates that read the state do so through a matrix, `weight_hh`."""
    heads: int = 1
    """Blocks on the diagonal of each gate's recurrent matrix, all else of which is 0 and not stored: `weight_hh` has
    hidden_size / heads columns, and hidden_size must be a multiple."""
    diagonals: ClassVar[Mapping[str, Diagonal | None]] = {}
    """Names of diagonal weights, each of hidden_size (a scan in blocks: one a block), and what they read; None for a
    parameter of a scan cell's coefficients."""
    gap_features: int = 0
    """Times that `weight_gap` reads at each step (`GappedLoopEquations`)."""
    learns_initial_state: ClassVar[bool] = False
    """Whether the initial state is a parameter instead of zeros; for cells whose gates read no state."""
    block_size: int = 1
    """hidden_size must be a multiple of it."""
    straight_through: tuple[str, ...] = ()
    """Projections that act by their sign, with the gradient of a smooth function in its place."""
    projects_state: ClassVar[bool] = False
    """Whether an output projection belongs to the state, read by the gates of the next step (LSTMP)."""
    recurrent_bias: bool = False
    """Whether the recurrent product has a bias of its own, as in torch's LSTM and GRU."""
    weight_init: ClassVar[str] = "fan-in"
    """Initialisation of the weights by default; see `gatedrnn.layers.parameters.initialise`."""
    bias_init: ClassVar[str] = "zeros"
    """The same of the biases."""
    kernel: ClassVar[BlockKernel | None] = None
    """The record of our kernel for a cell of small blocks; those of other cells come from the equations themselves."""
    torch_kernel: ClassVar[TorchKernel | None] = None
    """The record of torch's kernel; None where there is none."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if vars(cls).keys() & {"step", "coefficients", "output"}:  # a kernel of other equations is none of these
            cls.kernel, cls.torch_kernel = vars(cls).get("kernel"), vars(cls).get("torch_kernel")

    @abstractmethod
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        """The next state from one step's input projections (W x + b, in the order of `projections`) and the state."""

    @property
    def carried(self) -> int:
        """Tensors of `hx`: the states, and the input of the step before where a projection reads it."""
        return len(self.states) + (self.window > 1)

    @property
    def memory(self) -> int:
        """Which of the states keeps what was read: the one after h, or h itself where it is alone."""
        return min(1, len(self.states) - 1)

    @cached_property
    def options(self) -> dict[str, Option]:
        """The constructor's keyword arguments with the values that this cell has."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    @cached_property
    def chosen_options(self) -> dict[str, Option]:
        """Those of the options that are not the default."""
        defaults = options_of(type(self))
        return {name: value for name, value in self.options.items() if value != defaults[name]}

    @cached_property
    def word(self) -> str:
        """Name and chosen options in one word: "gru", "gru:reset_after=false"."""
        chosen = (f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.chosen_options.items())
        return ":".join([self.name, *chosen])


@cache  # Python looks through all modules for the signature of a class without a constructor
def options_of(equations: type[Equations]) -> Mapping[str, Option]:
    """Keyword arguments of a cell's constructor, with their defaults."""
    return {name: parameter.default for name, parameter in signature(equations).parameters.items()}


class GappedEquations(Equations):
    """A cell whose steps may be unequally far apart: `gaps` change how much of the state a step keeps."""

    @abstractmethod
    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        """`step` after that time, 0 or more: (batch, 1), or of a cell with `gap_features` (batch, gap_features)."""


class LoopEquations(Equations):
    """A cell whose gates read h_(t-1): its steps run one after another."""

    reads_state = True
    multiplies_state = True


class ElementwiseLoopEquations(Equations):
    """A cell whose gates read the state through diagonal weights alone: its steps run one after another.

    Each channel runs by itself; `step` uses `recurrent.diagonal(name)` of the names in `diagonals`, never a product.
    """

    reads_state = True


class GappedLoopEquations(LoopEquations, GappedEquations):
    """A loop cell that learns what a gap does to its state, by `weight_gap` (hidden_size, gap_features) and a bias.

    It sets `gap_features`, 1 or more, and reads `recurrent.over(gaps)`.
    """

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        return self.step_over(torch.ones_like(state[0][..., :1]), projected, state, recurrent)


class ScanEquations(Equations):
    """A cell whose gates read x_t only: h_t = a_t * h_(t-1) + b_t, and all t can be computed at once.

    A cell gives `coefficients`, which a single step and the parallel scan both read.
    """

    reads_state = False
    bias_init = "time-scales"

    @abstractmethod
    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        """(a_t, b_t) from the input projections, in the order of `projections`, and the diagonal weights, in that of
        `diagonals`; elementwise, any leading axes."""

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        decay, drive = self.coefficients(*projected, *_own(self, recurrent, projected[0]))
        return (decay * state[0] + recurrent.drop(drive),)


class GappedScanEquations(ScanEquations, GappedEquations):
    """A scan cell whose decay can be raised to the time between two steps."""

    @abstractmethod
    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        """(a_t, b_t) where step t comes `gaps` after the one before it; with gaps of 1, `coefficients`, whose arguments
        follow.

        Args:
            gaps: times, 0 or more; they broadcast with the projections.
        """

    @final
    def step_over(
        self, gaps: Step, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[State, ...]:
        decay, drive = self.coefficients_over(gaps, *projected, *_own(self, recurrent, projected[0]))
        return (decay * state[0] + recurrent.drop(drive),)


class ConvexScanEquations(GappedScanEquations):
    """A scan cell that mixes its state with a value: h_t = a_t * h_(t-1) + (1 - a_t) * v_t, a_t = sigmoid(s_t).

    Over a gap the decay is raised to it, a_t ** gap, and the drive is taken from the raised decay: as if the same input
    had come all the time.
    """

    @abstractmethod
    def logit(self, *projected: Series) -> Series:
        """s_t: of the decay, a_t = sigmoid(s_t)."""

    @abstractmethod
    def value(self, *projected: Series) -> Series:
        """v_t: what the state is mixed with."""

    @final
    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        logit = self.logit(*projected)
        return torch.sigmoid(logit), torch.sigmoid(-logit) * self.value(*projected)

    @final
    def coefficients_over(self, gaps: Series, *projected: Series) -> tuple[Series, Series]:
        log_decay = gaps * logsigmoid(self.logit(*projected))
        return torch.exp(log_decay), -torch.expm1(log_decay) * self.value(*projected)


class BlockScanEquations(Equations):
    """A cell whose gates read x_t only and that mixes its channels in blocks: h_t = A_t h_(t-1) + b_t.

    Channel i · (hidden_size / block_size) + n is component i of block n.
    """

    reads_state = False
    bias_init = "time-scales"

    @abstractmethod
    def coefficients(self, *projected: Series) -> tuple[Tensor, Series]:
        """(A_t, b_t) from the input projections and the diagonal weights, one a block: (..., block_size, block_size,
        blocks) and (..., channels)."""

    @final
    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        transition, drive = self.coefficients(*projected, *_own(self, recurrent, projected[0]))
        h = state[0].unflatten(-1, (self.block_size, -1))
        return (applied(transition, h).flatten(-2) + recurrent.drop(drive),)


class PositiveScanEquations(ConvexScanEquations):
    """A convex scan cell whose values are positive, so that the paper's scan over logarithms can run it too."""

    activation: str
    """Of the candidate; "g" is the one that keeps values positive."""
    log_space: bool
    """Run whole sequences by `gatedrnn.ops.log_space_scan`, for fidelity to the paper: slower, and its error grows with
    the length. Needs the activation g; no resets, no gaps, no zoneout, no state_dropout."""

    @abstractmethod
    def log_value(self, *projected: Series) -> Series:
        """log v_t, computed without underflow."""

    @final
    def log_coefficients(self, *projected: Series) -> tuple[Series, Series]:
        """(log a_t, log b_t): `coefficients` in logarithms."""
        logit = self.logit(*projected)
        return logsigmoid(logit), logsigmoid(-logit) + self.log_value(*projected)


def _own(cell: Equations, recurrent: Recurrent, like: Step) -> tuple[Channels, ...]:
    """The diagonal weights, in the dtype in which coefficients are computed: a function of them is not rounded."""
    return tuple(recurrent.diagonal(name).to(like.dtype) for name in cell.diagonals)


def _multiplied(h: Step, weight: Tensor, bias: Tensor | None, gates: int) -> Step:
    """The product of h with the weight of so many gates, each of whose matrices has as many blocks on its diagonal as
    the weight is narrower than h."""
    size = weight.shape[1]
    if size == h.shape[-1]:
        return linear(h, weight, bias)
    blocks = weight.view(gates, -1, size, size)
    found = torch.einsum("...kj,gkij->...gki", h.unflatten(-1, (-1, size)), blocks).flatten(-3)
    return found if bias is None else found + bias


def output_of(cell: Equations, state: StateTuple, projected: tuple[Tensor, ...]) -> Tensor:
    """The layer's output, of one step or all: `cell.output`, or the state (h of (h, c)) where it has no such method."""
    output = getattr(cell, "output", None)
    found: Tensor = state[0] if output is None else output(state, projected)
    return found


def applied(matrix: Tensor, state: Tensor) -> Tensor:
    """Blocks (..., k, k, blocks) times vectors (..., k, blocks)."""
    return (matrix * state.unsqueeze(-3)).sum(-2)


def split_gates(gates: int, projected: Tensor) -> tuple[Tensor, ...]:
    """The blocks of a projection, one a gate, along the last axis."""
    return torch.chunk(projected, gates, dim=-1)
