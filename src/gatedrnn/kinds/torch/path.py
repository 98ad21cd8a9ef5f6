"""Cells that torch has a fused kernel for (oneDNN on a CPU, cuDNN on a GPU): its LSTM and GRU.

Without mask and resets the whole stack is one call of it.

With a mask each layer and direction is one call over the padded batch, real steps first. The output at the last real
step is the final h. A state that is not the output (an LSTM's c) is held over the padding by one more input feature, 1
at masked steps, whose weights close the gates there: it stays exactly as it was. Packing, as torch does it, would leave
the fused kernel of a CPU for a loop of small calls.

With resets each layer and direction is one packed call: every segment between two resets is a row of it. A
`PackedSequence` is torch's own packed call. All that torch's kernel cannot do, or our kernel does faster, runs as in a
loop cell, and `runs_on` says so.

Our kernel of a GRU is the faster one where a sequence is long: a call of it costs more than a call of torch's, whatever
the rows and the width, and a step of it less.
"""

import platform
from typing import Any

import torch
from torch import _VF, Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import Equations, LoopEquations, TorchKernel
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import (
    DTYPES,
    accumulation_dtype,
    autocast_dtype,
    exporting_to_onnx,
    forward_mode,
    observed,
    plain_torch_only,
    transforming,
    under_dispatch_mode,
    values_unknown,
)
from gatedrnn.kinds.definition import zero_masked_steps
from gatedrnn.kinds.kind import (
    CellFacts,
    Direction,
    LayerView,
    PackedResult,
    Pass,
    Path,
    SeriesResult,
    TorchLayers,
    Weights,
    is_of,
)
from gatedrnn.kinds.loop.path import LOOP, LoopBase
from gatedrnn.kinds.stream import PLAIN
from gatedrnn.kinds.torch.op import call_kernel, torch_rnn
from gatedrnn.kinds.torch.segments import Segments, left_aligned, reorder
from gatedrnn.names import REGULARISERS
from gatedrnn.shapes import Flags, Hidden, Series, State, StateTuple

MAX_STEPS_WITH_GRADIENTS, MAX_STEPS_WITHOUT = 8, 16
"""Steps up to which torch's GRU is faster than ours, which is the faster one over long sequences: without mask and
resets, on one thread, with 1 to 256 rows; by the section few-steps of `python -m benchmarks`."""
# There torch's own LSTM ends with "could not create a primitive descriptor".
_LACKS_BFLOAT16 = platform.machine() == "x86_64" and torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
"""Whether oneDNN has no LSTM in bfloat16 here: on an x86 processor it needs AVX-512."""
_NO_PROJECTION = "argument is only supported for LSTM, not RNN or GRU"
"""torch's words for a proj_size that it refuses."""
# Finite, for at real steps it is multiplied by a feature of 0; float16 ends at 65,504.
CLOSED, CLOSED_IN_FLOAT16 = 1e30, 3e4
"""A pre-activation at which a sigmoid is exactly 0 or 1, and its gradient exactly 0, whatever is added to it."""


def _kernel(layer: LayerView) -> TorchKernel:
    assert layer.cell.torch_kernel is not None
    return layer.cell.torch_kernel


def _use_torch(layer: LayerView, query: Pass, refusal: str | None) -> bool:
    """Whether torch's kernel runs this pass; `refusal` says why it cannot run this layer."""
    if layer.configuration.backend != "auto":
        return layer.configuration.backend == "torch"
    # oneDNN's LSTM has no forward-mode derivative.
    if refusal or forward_mode():
        return False
    if not _kernel(layer).slower_than_native or _is_short(query):
        return True
    return layer.kernel().missing is not None or plain_torch_only() or _is_expanded(layer)


def _is_short(query: Pass) -> bool:
    """Whether a sequence is too short for our kernel to be worth its call. A traced graph serves all lengths."""
    steps, direction = query.steps, query.direction
    if direction is not None and direction.mask is None and direction.resets is None:
        steps = direction.x.shape[1]
    if steps is None or values_unknown() or torch.is_autocast_enabled("cpu"):
        return False
    return steps <= _max_steps()


def _max_steps() -> int:
    return MAX_STEPS_WITH_GRADIENTS if torch.is_grad_enabled() else MAX_STEPS_WITHOUT


def _is_expanded(layer: LayerView) -> bool:
    """Whether the weights come from `call_for_per_sample_grads`, which knows torch's calls alone."""
    # By its name: the class is private to torch.
    return type(layer.read_weight("weight_ih_l0")).__name__ == "ExpandedWeight"


def _unsupported(layer: LayerView, query: Pass) -> str | None:
    """Return why torch's kernel cannot run this layer; None if it can."""
    if not layer.cell.recurrent_bias:
        return "torch's GRU applies the reset gate after the product"
    if layer.configuration.proj_size and exporting_to_onnx():
        return "ONNX knows no LSTM with a projection"
    if layer.configuration.layer_norm:
        return "layer_norm acts inside torch's kernel, between product and gates"
    if query.zones_out:
        return "zoneout changes the state at every step, inside torch's kernel"
    if query.drops_state:
        return "state_dropout acts inside torch's kernel, before the recurrent product"
    if _LACKS_BFLOAT16 and len(layer.cell.states) == 2 and _is_bfloat16(layer):
        return "oneDNN has no LSTM in bfloat16 on this processor"
    return None


def _is_bfloat16(layer: LayerView) -> bool:
    """Whether a CPU computes the layer in bfloat16."""
    weight = layer.read_weight("weight_ih_l0")
    return weight.is_cpu and torch.bfloat16 in (weight.dtype, autocast_dtype(weight.device))


def _blocked(direction: Direction | None) -> bool:
    """Whether torch's kernel cannot run a pass: segments depend on the values of flags, and an export to ONNX cannot
    sort rows by their lengths."""
    if direction is None:
        return False
    unknown = direction.resets is not None and values_unknown()
    return unknown or (direction.mask is not None and exporting_to_onnx())


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    x, state, mask = direction.x, _in_dtype_of(direction.x, direction.state), direction.mask
    if direction.resets is not None:
        segments = Segments.between(
            torch.ones_like(direction.resets) if mask is None else mask, direction.resets, direction.reverse
        )
        if not len(segments.steps):  # nothing to run
            return LOOP.path(layer, Pass(direction=direction)).run(layer, direction)
        return _run_segments(layer, x, state, direction.weights, segments)
    if direction.reverse:
        flipped = None if mask is None else mask.flip(1)
        output, last = _run_padded(layer, x.flip(1), state, direction.weights, flipped)
        return output.flip(1), last
    return _run_padded(layer, x, state, direction.weights, mask)


def _in_dtype_of(x: Tensor, state: StateTuple) -> StateTuple:
    """Convert a state to the dtype that torch's kernel carries."""
    return state if state[0].dtype == x.dtype else tuple(s.to(x.dtype) for s in state)


def _run_padded(layer: LayerView, x: Series, state: StateTuple, weights: Weights, mask: Flags | None) -> SeriesResult:
    """Run one call over the padded batch, forwards."""
    if mask is None:
        return _run_kernel(layer, x, state, weights)
    # Where values are unknown, sorting is right for any mask.
    ragged_left = values_unknown() or bool((mask[:, 1:] & ~mask[:, :-1]).any())
    if not ragged_left:
        return _run_left_aligned(layer, x, state, weights, mask)
    # Over padding before the first real step h would change: o * tanh(c) is not the h it came from.
    order = left_aligned(mask)
    output, last = _run_left_aligned(layer, reorder(x, order), state, weights, mask.gather(1, order))
    return reorder(output, torch.argsort(order, dim=1)), last


def _run_left_aligned(layer: LayerView, x: Series, state: StateTuple, weights: Weights, mask: Flags) -> SeriesResult:
    """Run one call over rows whose real steps come first."""
    x, padding_gates = zero_masked_steps(x, mask), _kernel(layer).padding_gates
    if padding_gates:
        x = torch.cat([x, (~mask).unsqueeze(2).to(x.dtype)], dim=2)
        closed = CLOSED_IN_FLOAT16 if x.dtype == torch.float16 else CLOSED
        gates = [closed * padding_gates.get(gate, 0.0) for gate in layer.cell.projections]
        column = x.new_tensor(gates).repeat_interleave(layer.configuration.hidden_size).unsqueeze(1)
        weights = weights | {"weight_ih": torch.cat([weights["weight_ih"], column], dim=1)}
    output, last = _run_kernel(layer, x, state, weights)
    return zero_masked_steps(output, mask), (_last_valid(output, state[0], mask), *last[1:])


def _run_segments(layer: LayerView, x: Series, state: StateTuple, weights: Weights, segments: Segments) -> SeriesResult:
    """Run one packed call whose rows are the segments between resets."""
    batch, time = x.shape[:2]
    packed = x.flatten(0, 1)[segments.steps]
    start = tuple(segments.start(s).unsqueeze(0) for s in state)
    matrices = list(weights.values())
    output, *last = _packed_call(
        packed, segments.batch_sizes, start, matrices, layer.configuration.bias, training=layer.training
    )
    ends = tuple(segments.end(s.squeeze(0), hx) for s, hx in zip(last, state, strict=True))
    return segments.spread(output, batch, time), ends


def _run_kernel(layer: LayerView, x: Series, state: StateTuple, weights: Weights) -> SeriesResult:
    """Run torch's kernel for one layer, forwards."""
    stacked = tuple(s.unsqueeze(0) for s in state)
    if _as_registered_op():
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        h, c = stacked[0], stacked[1] if len(stacked) == 2 else None
        output, *last = torch_rnn(x, h, c, *(weights.get(name) for name in names))
    else:
        output, *last = call_kernel(
            x, stacked, list(weights.values()), layer.configuration.bias, training=layer.training
        )
    return output, tuple(s.squeeze(0) for s in last[: len(state)])


def _as_registered_op() -> bool:
    """Whether torch's kernel is called as a registered operation: in a compiled graph, and under a dispatch mode, which
    could not count what the kernel does."""
    # ONNX has operators for torch's LSTM and GRU, and none for an operation of ours.
    if exporting_to_onnx():
        return False
    return torch.compiler.is_compiling() or (under_dispatch_mode() and not transforming())


def _has_free_length(x: Series) -> bool:
    """Whether an export to ONNX leaves the length open: torch's exporter writes the example's behind its LSTM
    and GRU operators, so steps are one Scan there."""
    return exporting_to_onnx() and isinstance(x.shape[1], torch.SymInt)


def _packed_call(
    data: Tensor, batch_sizes: Tensor, states: StateTuple, weights: list[Tensor], biases: bool, layers: int = 1,
    dropout: float = 0.0, training: bool = False, bidirectional: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run torch's kernel over packed data, (steps in all, features)."""
    if len(states) == 2:
        return _VF.lstm(data, batch_sizes, states, weights, biases, layers, dropout, training, bidirectional)
    return _VF.gru(data, batch_sizes, states[0], weights, biases, layers, dropout, training, bidirectional)


def _last_valid(output: Series, h0: State, mask: Flags) -> State:
    """The output at each left-aligned row's last real step; h0 where a row has none."""
    lengths = mask.sum(1)
    rows = torch.arange(output.shape[0], device=output.device)
    # The clamp only makes the index of an empty row valid.
    return torch.where((lengths > 0).unsqueeze(1), output[rows, (lengths - 1).clamp(min=0)], h0)


_TORCH_STEPS: dict[str, Any] = {"LSTM": _VF.lstm_cell, "GRU": _VF.gru_cell}
"""torch's single steps: two products of its library, as fast as memory delivers the weights."""


def _fits_cell(x: Any, hx: Any, states: int) -> bool:
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
    return bool(h.dim() == 2 and c.dim() == 2 and h.dtype == x.dtype and c.dtype == x.dtype)


class _FusedLayers(TorchLayers):
    """torch's LSTM and GRU, by their own kernels wherever these are the faster ones."""

    def name(self, cell: Any) -> str:
        return str(cell.torch_kernel.mode)

    def module(self, layer: LayerView, single: bool) -> tuple[nn.Module | None, str]:
        cell, of, name = layer.cell, layer.configuration, layer.cell.torch_kernel.mode
        if not cell.recurrent_bias:
            if single:
                return None, "torch.nn has no cell of its kind"
            return None, "torch's GRU applies the reset gate after the product"
        if single:
            make: Any = getattr(nn, f"{name}Cell")
            # On "meta" it takes no memory: the layer's own parameters replace its.
            return make(of.input_size, of.hidden_size, of.bias, device="meta"), ""
        for setting in (*REGULARISERS, "layer_norm"):
            if getattr(of, setting):
                return None, f"torch.nn has no {setting}"
        names = ("num_layers", "bias", "batch_first", "dropout", "bidirectional")
        arguments = {each: getattr(of, each) for each in (*names, *(("proj_size",) if of.proj_size else ()))}
        make = getattr(nn, name)
        return make(of.input_size, of.hidden_size, **arguments, device="meta"), ""

    def check_sizes(self, cell: Any, hidden_size: int, proj_size: int) -> None:
        if proj_size and not cell.torch_kernel.projects:
            raise ValueError(f"proj_size {_NO_PROJECTION}")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def state_dtype(self, cell: Any, dtype: torch.dtype) -> torch.dtype:
        return dtype if cell.recurrent_bias else accumulation_dtype(dtype)

    def laid_out(self, output: Series) -> Series:
        # torch's own kernels write step after step, whatever the order of axes.
        return output.transpose(0, 1).contiguous().transpose(0, 1)

    def call(self, layer: LayerView, x: Any, hx: Any) -> tuple[Tensor, Hidden] | None:
        # With as few checks before torch's kernel as can be: a step of few rows takes no longer than those of the
        # general path.
        if type(x) is not Tensor or x.dim() != 3 or x.dtype not in DTYPES or not x.is_cpu or observed(x):
            return None
        cell, of, training = layer.cell, layer.configuration, layer.training
        if of.backend not in ("auto", "torch") or torch.is_autocast_enabled("cpu") or (training and of.regularised):
            return None
        if not cell.recurrent_bias or of.layer_norm or of.zoneout:
            return None
        batch, steps, features = x.shape
        if not of.batch_first:
            batch, steps = steps, batch
        if not batch or not steps:
            return None
        use_native = of.backend == "auto" and cell.torch_kernel.slower_than_native and layer.kernel().missing is None
        if use_native and steps > _max_steps():
            return None
        weights: list[Any] = layer.flat_weights()
        dtype = x.dtype
        for weight in weights:
            if type(weight) not in PLAIN or weight.dtype != dtype:
                return None
        size, leading = of.hidden_size, of.num_layers * (2 if of.bidirectional else 1)
        shapes = ((leading, batch, of.proj_size or size), (leading, batch, size))[: len(cell.states)]
        if weights[0].shape[1] != features:
            return None
        if hx is None:
            states = tuple([x.new_zeros(shape) for shape in shapes])
        else:
            states = hx if type(hx) is tuple and len(hx) == 2 else (hx,)
            if len(states) != len(shapes):
                return None
            for state, shape in zip(states, shapes, strict=True):
                if type(state) is not Tensor or state.shape != shape or state.dtype != dtype or not state.is_cpu:
                    return None
        output, *last = call_kernel(
            x, states, weights, of.bias, of.num_layers, of.dropout, training, of.bidirectional, of.batch_first
        )
        return output, tuple(last) if len(last) > 1 else last[0]

    def stack(self, layer: LayerView, x: Series, state: StateTuple) -> SeriesResult | None:
        query = Pass.configured(layer, layer.training, x.shape[1])
        if not _use_torch(layer, query, _unsupported(layer, query)) or _as_registered_op() or _has_free_length(x):
            return None
        weights: list[Any] = layer.flat_weights()
        output, *last = call_kernel(x, _in_dtype_of(x, state), weights, *_options(layer))
        return output, tuple(last)

    def packed(self, layer: LayerView, packed: PackedSequence, state: StateTuple) -> PackedResult | None:
        query, of = Pass.configured(layer, layer.training, len(packed.batch_sizes)), layer.configuration
        # torch draws dropout of packed data in that very order.
        refusal = _unsupported(layer, query)
        drops = of.backend == "auto" and layer.training and of.drops_between and not refusal
        if not (drops or _use_torch(layer, query, refusal)):
            return None
        states = _in_dtype_of(packed.data, state)
        weights: list[Any] = layer.flat_weights()
        output, *last = _packed_call(packed.data, packed.batch_sizes, states, weights, *_options(layer))
        return packed._replace(data=output), tuple(last)

    def step(self, module: Any, x: Any, hx: Any) -> Hidden | None:
        cell = module.cell
        if not cell.recurrent_bias or not _fits_cell(x, hx, len(cell.states)) or module.weight_ih.dtype != x.dtype:
            return None
        if hx is None:
            # From the shape: `len` is a number that a traced graph would keep.
            hx = x.new_zeros(x.shape[0], module.hidden_size)
            hx = hx if len(cell.states) == 1 else (hx, hx)
        step = _TORCH_STEPS[cell.torch_kernel.mode]
        return step(x, hx, module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)


def _options(layer: LayerView) -> tuple[bool, int, float, bool, bool]:
    """Return the arguments of torch's kernel after the tensors."""
    of = layer.configuration
    return of.bias, of.num_layers, of.dropout, layer.training, of.bidirectional


class TorchKind(LoopBase):
    """Cells whose equations torch's own kernels compute."""

    torch_layers = _FusedLayers()

    def claims(self, cell: Equations | type[Equations]) -> bool:
        return is_of(cell, LoopEquations) and getattr(cell, "torch_kernel", None) is not None

    def facts(self, cell: LoopEquations | type[LoopEquations]) -> CellFacts:
        assert cell.torch_kernel is not None
        facts = LOOP.facts(cell)
        refused = {} if cell.torch_kernel.projects else {"proj_size": _NO_PROJECTION}
        return facts._replace(refused={**facts.refused, **refused}, weight_init="torch")

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        refusal = _unsupported(layer, Pass.configured(layer, training=False))
        return LOOP.backends(layer) if refusal else (*LOOP.backends(layer), "torch")

    def path(self, layer: LayerView, query: Pass) -> Path:
        refusal, blocked, backend = _unsupported(layer, query), _blocked(query.direction), layer.configuration.backend
        if backend == "torch" and query.direction is not None and (refusal or blocked):
            raise BackendUnavailable("backend 'torch' cannot do this, nor be traced through mask or resets; use 'auto'")
        use_native = blocked or not _use_torch(layer, query, refusal)
        if use_native or (query.direction is not None and _has_free_length(query.direction.x)):
            path = LOOP.path(layer, query)
            return path._replace(reason=f"{refusal}; {path.reason}") if refusal and backend == "auto" else path
        library = {"cpu": "oneDNN where it can, else ATen", "cuda": "cuDNN"}.get(layer.kernel().device.type, "ATen")
        reason = f"torch has one for {layer.cell.name}"
        if backend == "auto" and _kernel(layer).slower_than_native and _is_short(query):
            reason += f", the faster one up to {MAX_STEPS_WITH_GRADIENTS} steps, without gradients {MAX_STEPS_WITHOUT}"
        return Path(f"torch's fused kernel ({library})", reason, _run)


TORCH = TorchKind()
