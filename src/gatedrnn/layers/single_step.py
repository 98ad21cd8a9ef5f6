"""One step of one cell as a module, shaped like `torch.nn.LSTMCell`."""

from typing import TYPE_CHECKING, Any, ClassVar, Generic

import torch
from torch import _VF, Tensor, nn
from torch.nn.functional import linear

from gatedrnn.equations import (
    BlockScanEquations,
    ElementwiseLoopEquations,
    Equations,
    LoopEquations,
    Option,
    Recurrent,
    ScanEquations,
    output_of,
    split_gates,
)
from gatedrnn.layers.arguments import (
    as_states,
    check_blocks,
    check_dtype,
    check_input_axes,
    check_options,
    check_real,
    check_size,
    check_state_dtypes,
)
from gatedrnn.layers.check_cell import check_cell
from gatedrnn.layers.graphs import for_script, is_proxy, whole_as_node
from gatedrnn.layers.layer import HiddenT, RecurrentLayer
from gatedrnn.layers.module import shown_options
from gatedrnn.layers.parameters import check_initialisation, initialise, shapes, state_sizes
from gatedrnn.layers.step_inputs import DTYPES, ROWS, loop_weights, plain_states, plain_weights, scan_weights, streams
from gatedrnn.layers.window import with_last_input
from gatedrnn.ops.backends import accumulation_dtype, exporting_to_onnx, native_kernels
from gatedrnn.ops.block_scan import block_step, has_block_step
from gatedrnn.ops.cells import cell_program, known, loop_program
from gatedrnn.ops.elementwise_loop import has_elementwise_loop
from gatedrnn.ops.gated_scan import has_projected_scan
from gatedrnn.ops.loop import has_loop_kernel
from gatedrnn.ops.step import one_step
from gatedrnn.shapes import Hidden, InputStep, State, Step

TORCH_STEPS: dict[str, Any] = {"LSTM": _VF.lstm_cell, "GRU": _VF.gru_cell}
"""torch's own step, where it has one: two products of its library, as fast as memory delivers the weights."""


class SingleStep(nn.RNNCellBase, Generic[HiddenT]):
    """One step of one layer: `hx = cell(x, hx)`, with the signature of `torch.nn.LSTMCell` or `GRUCell`.

    The parameters are the layer's without layer and direction: `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`.

    Args:
        input_size, hidden_size, bias, device, dtype: as in `torch.nn.LSTMCell`.
        weight_init, bias_init, longest_time_scale: initialisation, as in the layer; the cell's own if None.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, a tuple where it is several tensors; each (batch, hidden_size), or (hidden_size,) for an
            unbatched input. None: the initial state.

    Outputs: the state after, in the form of hx; `output(hx)` is the output of a layer.

    Raises:
        TypeError, ValueError, RuntimeError: where torch's cells raise them.
    """

    if TYPE_CHECKING:

        def __call__(self, input: Tensor, hx: HiddenT | None = None, *, wide_state: bool = False) -> HiddenT: ...

    layer_class: ClassVar[type[RecurrentLayer[Any]]]
    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **options: Option,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        check_size("input_size", input_size, least=0)  # as torch's cells, whose layers refuse it
        check_size("hidden_size", hidden_size, least=0)
        check_options(type(self), options, self.layer_class.cell_class)
        check_real(type(self).__name__, dtype)
        self.cell: Equations = self.layer_class.cell_class(**options)
        check_cell(self.cell)
        known(self.cell)
        check_blocks(self.cell, hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_init, self.bias_init = weight_init or self.cell.weight_init, bias_init or self.cell.bias_init
        check_initialisation(self.cell, self.weight_init, self.bias_init, longest_time_scale)
        self.longest_time_scale = longest_time_scale
        for name, shape in shapes(self.cell, input_size, hidden_size, bias).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            if name not in self._parameters:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters anew, by the cell's schemes."""
        initialise(
            self.cell, self._weights(), self.hidden_size, self.weight_init, self.bias_init, self.longest_time_scale
        )

    def forward(self, input: Step, hx: Hidden | None = None, *, wide_state: bool = False) -> Hidden:
        """The state after one step, in the input's dtype.

        Args:
            input: (batch, input_size) or (input_size,).
            hx: the state before, in the input's dtype or in float32 at least; the initial state if None.
            wide_state: return the state in float32 at least, as it is computed.
        """
        if is_proxy(input):
            return whole_as_node(self, (input, hx), {"wide_state": None if wide_state is False else True})  # type: ignore[return-value]
        torch_kernel = self.cell.torch_kernel
        if torch_kernel is not None and self.cell.recurrent_bias and _takes(input, hx, len(self.cell.states)):
            weight, torchs = self.weight_ih, TORCH_STEPS[torch_kernel.mode]
            if weight.dtype == input.dtype:
                if hx is None:
                    hx = input.new_zeros(input.shape[0], self.hidden_size)  # `len` would fix it in a traced graph
                    hx = hx if len(self.cell.states) == 1 else (hx, hx)
                return torchs(input, hx, weight, self.weight_hh, self.bias_ih, self.bias_hh)
        if streams(input) and input.dim() == 2:
            after = self._stream(input, hx)
            if after is not None:
                return after if len(after) > 1 else after[0]
        title, weights = type(self).__name__, self._weights()
        check_input_axes(title, input, batched=2)
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        states = None if hx is None else self._states_of(hx, x, batched)
        check_dtype(title, input, weights["weight_ih"])  # after all sizes, as in torch
        taken, wide = self._take_state(states, x, wide_state), accumulation_dtype(x.dtype)
        series, before, last_input = with_last_input(self.cell, x.unsqueeze(1), taken)
        projected = linear(series.squeeze(1), weights["weight_ih"], weights.get("bias_ih"))
        state = one_step(self.cell, projected, before, Recurrent(self.cell.projections, weights)) + last_input
        state = tuple((s if batched else s.squeeze(0)).to(wide if wide_state else x.dtype) for s in state)
        return state if len(state) > 1 else state[0]

    def __prepare_scriptable__(self) -> nn.Module:
        torch_kernel = self.cell.torch_kernel
        if torch_kernel is None or not self.cell.recurrent_bias or type(self).forward is not SingleStep.forward:
            return for_script(self, None, "torch.nn has no cell of its kind")
        kind: Any = getattr(nn, f"{torch_kernel.mode}Cell")
        return for_script(self, kind(self.input_size, self.hidden_size, self.bias, device="meta"), "")

    def output(self, hx: Hidden, input: Step | None = None, before: Hidden | None = None) -> Step:
        """The layer's output of a state: h.

        Args:
            hx: the state after a step.
            input: of that step; needed by a cell whose output reads its projections.
            before: the state before that step, for a cell whose projections read the input of the step before; None:
                the initial state.
        """
        state = hx if isinstance(hx, (tuple, list)) else (hx,)
        gates: tuple[Step, ...] = ()
        if input is not None:
            weights, batched = self._weights(), input.dim() == 2
            x = input if batched else input.unsqueeze(0)
            states = None if before is None else self._states_of(before, x, batched)
            series, _, _ = with_last_input(self.cell, x.unsqueeze(1), self._take_state(states, x, True))
            read = series.squeeze(1) if batched else series[0, 0]
            gates = split_gates(len(self.cell.projections), linear(read, weights["weight_ih"], weights.get("bias_ih")))
        return output_of(self.cell, tuple(state)[: len(self.cell.states)], gates)

    def _stream(self, x: InputStep, hx: State | tuple[State, ...] | None) -> tuple[State, ...] | None:
        """The step of rows that `streams` approves of in one call; None where none runs it, and where shapes or dtypes
        do not fit."""
        cell, sizes = self.cell, (self.input_size, self.hidden_size)
        if not 0 < len(x) <= ROWS or x.shape[1] != self.input_size or cell.window > 1 or not all(sizes):
            return None
        loops = isinstance(cell, LoopEquations) and has_loop_kernel(cell, x.device)
        in_blocks = isinstance(cell, BlockScanEquations) and has_block_step(cell, x.device)
        scans = isinstance(cell, ScanEquations) and has_projected_scan(cell, x.device)
        elementwise = isinstance(cell, ElementwiseLoopEquations) and has_elementwise_loop(cell, x.device)
        if not (loops or in_blocks or scans or elementwise):
            return None
        names = (loop_weights if loops else scan_weights)(cell, self.bias, *sizes, ("",))
        weights = plain_weights(self, names, x.dtype)
        learned = hx is None and cell.learns_initial_state
        shapes_of_state = [(len(x), self.hidden_size)] * len(cell.states)
        state = self._take_state(None, x, False) if learned else plain_states(hx, shapes_of_state, x)
        if weights is None or state is None:
            return None
        kernels = native_kernels(x.device)
        if loops:
            return tuple(kernels.loop_step(loop_program(cell), x.contiguous(), weights, state)[1])
        before = tuple(s.contiguous() for s in state)
        after = tuple(torch.empty_like(s) for s in before)
        if isinstance(cell, BlockScanEquations):
            block_step(cell, x, weights, before[0], after[0])
            return after
        biases, diagonals = (weights[1:2], weights[2:]) if self.bias else ([], weights[1:])
        stacked = tuple(s[None] for s in before), tuple(s[None] for s in after)
        kernels.stack_step(cell_program(cell), x.contiguous(), weights[:1], biases, diagonals, *stacked)
        return after

    def _weights(self) -> dict[str, Tensor]:
        """By attribute: what is shared or replaced by a parametrisation has another name, or none, as a parameter."""
        return {name: getattr(self, name) for name in shapes(self.cell, self.input_size, self.hidden_size, self.bias)}

    def _states_of(self, hx: State | tuple[State, ...], x: InputStep, batched: bool) -> tuple[State, ...]:
        """`hx`, whose shapes are checked."""
        title, states = type(self).__name__, as_states(type(self).__name__, hx, self.cell.carried)
        for number, state in enumerate(states):
            if state.dim() not in (1, 2):
                which = f"hx[{number}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{title}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        states = states if batched else tuple(s.unsqueeze(0) for s in states)
        sizes = state_sizes(self.cell, self.input_size, self.hidden_size)
        for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
            if len(state) != len(x):
                raise RuntimeError(f"Input batch size {len(x)} doesn't match hidden{number} batch size {len(state)}")
            if tuple(state.shape[1:]) != (size,):
                channels = state.shape[1] if state.dim() > 1 else "one axis alone"
                raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {channels}, expected {size}")
        return states

    def _take_state(self, states: tuple[State, ...] | None, x: InputStep, wide_state: bool) -> tuple[State, ...]:
        wide = accumulation_dtype(x.dtype)
        dtype = wide if wide_state or not self.cell.recurrent_bias else x.dtype
        if states is not None:
            check_state_dtypes(type(self).__name__, states, {wide, x.dtype})
            return tuple(s.to(dtype) for s in states)
        if self.cell.learns_initial_state:
            return (self._weights()["initial_state"].to(dtype).expand(x.shape[0], -1),)
        sizes = state_sizes(self.cell, self.input_size, self.hidden_size)
        return tuple(x.new_zeros(x.shape[0], size, dtype=dtype) for size in sizes)

    def extra_repr(self) -> str:
        shown = [] if self.bias else ["bias=False"]
        shown += shown_options(self.cell)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


def _takes(x: InputStep, hx: State | tuple[State, ...] | None, states: int) -> bool:
    """Whether a step is torch's: of a batch, on a CPU, in one dtype throughout; in half precision sums are ours."""
    if type(x) is not Tensor or x.dim() != 2 or x.dtype not in DTYPES or not x.is_cpu:
        return False
    if torch.is_autocast_enabled("cpu") or exporting_to_onnx():
        return False
    if hx is None:
        return True
    if states == 1:
        return isinstance(hx, Tensor) and hx.dim() == 2 and hx.dtype == x.dtype
    if type(hx) is not tuple or len(hx) != 2:
        return False
    h, c = hx
    return h.dim() == 2 and c.dim() == 2 and h.dtype == x.dtype and c.dtype == x.dtype
