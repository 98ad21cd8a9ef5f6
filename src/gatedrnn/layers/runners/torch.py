"""Cells that torch has a fused kernel for (oneDNN on a CPU, cuDNN on a GPU): its LSTM and GRU.

Without mask and resets the whole stack is one call of it.

With a mask each layer and direction is one call over the padded batch, real steps first. The output at the last real
step is the final h. A state that is not the output (an LSTM's c) is held over the padding by one more input feature, 1
at masked steps, whose weights close the gates there: it stays exactly as it was. torch's own way, packing, would leave
the fused kernel of a CPU for a loop of small calls.

With resets each layer and direction is one packed call: every segment between two resets is a row of it. A
`PackedSequence` is torch's own packed call. What torch's kernel cannot do, and what our kernel does faster, runs as any
loop cell does, and `runs_on` says so.
"""

import torch
from torch import _VF, Tensor
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import TorchKernel
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.packing import Segments, left_aligned, reorder
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.runners.loop import loop_backends, loop_direction, loop_path, loop_stream, without_kernel
from gatedrnn.layers.runners.record import Direction, Path, Runner, SeriesResult
from gatedrnn.ops.backends import exporting_to_onnx, forward_mode, plain_torch_only, transforming, values_unknown
from gatedrnn.ops.masking import zero_masked_steps
from gatedrnn.ops.torch_rnn import call_kernel, torch_rnn
from gatedrnn.shapes import Flags, Series, State, StateTuple

CLOSED, CLOSED_IN_FLOAT16 = 1e30, 3e4
"""A pre-activation at which a sigmoid is exactly 0 or 1, and its gradient exactly 0, whatever is added to it."""


def _kernel(layer: RecurrentModule) -> TorchKernel:
    assert layer.cell.torch_kernel is not None
    return layer.cell.torch_kernel


def _backends(layer: RecurrentModule) -> tuple[str, ...]:
    return loop_backends(layer) if _beyond_torch(layer, training=False) else (*loop_backends(layer), "torch")


def _path(layer: RecurrentModule, training: bool) -> Path:
    if not _is_torchs(layer, training):
        found, beyond = loop_path(layer, training), _beyond_torch(layer, training)
        return found._replace(reason=f"{beyond}; {found.reason}") if beyond and layer._backend == "auto" else found
    device = layer.weight_ih_l0.device.type
    library = {"cpu": "oneDNN where it can, else ATen", "cuda": "cuDNN"}.get(device, "ATen")
    return Path(f"torch's fused kernel ({library})", f"torch has one for {layer.cell.name}")


def _is_torchs(layer: RecurrentModule, training: bool) -> bool:
    """Whether torch's kernel runs this layer."""
    if layer._backend != "auto":
        return layer._backend == "torch"
    if forward_mode():  # which oneDNN's LSTM does not know
        return False
    faster = _kernel(layer).slower_than_native and without_kernel(layer) is None and not plain_torch_only()
    return not _beyond_torch(layer, training) and not (faster and not _is_expanded(layer))


def _is_expanded(layer: RecurrentModule) -> bool:
    """Whether weights are those of `call_for_per_sample_grads`, which knows torch's calls alone."""
    return type(layer._parameters.get("weight_ih_l0")).__name__ == "ExpandedWeight"


def _beyond_torch(layer: RecurrentModule, training: bool) -> str | None:
    """What torch's kernel cannot do and this layer does; None if there is nothing."""
    if not layer.cell.recurrent_bias:
        return "torch's GRU applies the reset gate after the product"
    if layer.proj_size and exporting_to_onnx():
        return "ONNX knows no LSTM with a projection"
    if layer.layer_norm:
        return "layer_norm acts inside torch's kernel, between product and gates"
    if layer.zoneout:
        return "zoneout changes the state at every step, inside torch's kernel"
    if layer.state_dropout and training:
        return "state_dropout acts inside torch's kernel, before the recurrent product"
    return None


def _stack(layer: RecurrentModule, x: Series, state: StateTuple) -> SeriesResult | None:
    if _by_op() or _of_free_length(x) or not _is_torchs(layer, layer.training):
        return None
    output, *last = call_kernel(
        x,
        _in_dtype_of(x, state),
        layer._flat_weights,
        layer.bias,
        layer.num_layers,
        layer.dropout,
        layer.training,
        layer.bidirectional,
    )
    return output, tuple(last)


def _packed(
    layer: RecurrentModule, packed: PackedSequence, state: StateTuple
) -> tuple[PackedSequence, StateTuple] | None:
    # torch draws dropout of packed data in that very order.
    drops = layer._backend == "auto" and layer._drops(0) and not _beyond_torch(layer, layer.training)
    if not (drops or _is_torchs(layer, layer.training)):
        return None
    options = (layer.bias, layer.num_layers, layer.dropout, layer.training, layer.bidirectional)
    states = _in_dtype_of(packed.data, state)
    output, *last = _packed_call(packed.data, packed.batch_sizes, states, layer._flat_weights, *options)
    return packed._replace(data=output), tuple(last)


def _direction(layer: RecurrentModule, given: Direction) -> SeriesResult:
    # Segments are found from the values of the flags.
    unknown = given.resets is not None and values_unknown()
    inside = given.masks.state is not None or given.masks.zoneout is not None
    beyond_onnx = given.mask is not None and exporting_to_onnx()  # which cannot sort rows by their lengths
    if layer._backend == "torch" and (unknown or inside or beyond_onnx):
        raise BackendUnavailable("backend 'torch' cannot do this, nor be traced through mask or resets; use 'auto'")
    if unknown or inside or beyond_onnx or _of_free_length(given.x) or not _is_torchs(layer, training=False):
        return loop_direction(layer, given)
    x, state, mask = given.x, _in_dtype_of(given.x, given.state), given.mask
    if given.resets is not None:
        segments = Segments.of(torch.ones_like(given.resets) if mask is None else mask, given.resets, given.reverse)
        if not len(segments.steps):
            return loop_direction(layer, given)
        return _segments(layer, x, state, given.weights, segments)
    if given.reverse:
        flipped = None if mask is None else mask.flip(1)
        output, last = _padded(layer, x.flip(1), state, given.weights, flipped)
        return output.flip(1), last
    return _padded(layer, x, state, given.weights, mask)


def _in_dtype_of(x: Tensor, state: StateTuple) -> StateTuple:
    """A wide state in the dtype that torch's kernel carries."""
    return state if state[0].dtype == x.dtype else tuple(s.to(x.dtype) for s in state)


def _padded(layer: RecurrentModule, x: Series, state: StateTuple, weights: Weights, mask: Flags | None) -> SeriesResult:
    """One call over the padded batch, forwards."""
    if mask is None:
        return _call(layer, x, state, weights)
    ragged_left = values_unknown() or bool((mask[:, 1:] & ~mask[:, :-1]).any())
    if not ragged_left:
        return _aligned(layer, x, state, weights, mask)
    # Over padding before the first real step h would change: o * tanh(c) is not the h it came from.
    order = left_aligned(mask)
    output, last = _aligned(layer, reorder(x, order), state, weights, mask.gather(1, order))
    return reorder(output, torch.argsort(order, dim=1)), last


def _aligned(layer: RecurrentModule, x: Series, state: StateTuple, weights: Weights, mask: Flags) -> SeriesResult:
    """One call over rows whose real steps come first."""
    x, padding_gates = zero_masked_steps(x, mask), _kernel(layer).padding_gates
    if padding_gates:
        x = torch.cat([x, (~mask).unsqueeze(2).to(x.dtype)], dim=2)
        closed = CLOSED_IN_FLOAT16 if x.dtype == torch.float16 else CLOSED
        gates = [closed * padding_gates.get(gate, 0.0) for gate in layer.cell.projections]
        column = x.new_tensor(gates).repeat_interleave(layer.hidden_size).unsqueeze(1)
        weights = weights | {"weight_ih": torch.cat([weights["weight_ih"], column], dim=1)}
    output, last = _call(layer, x, state, weights)
    return zero_masked_steps(output, mask), (_last_valid(output, state[0], mask), *last[1:])


def _segments(
    layer: RecurrentModule, x: Series, state: StateTuple, weights: Weights, segments: Segments
) -> SeriesResult:
    """One packed call, every segment between resets a row of it."""
    batch, time = x.shape[:2]
    packed = x.flatten(0, 1)[segments.steps]
    start = tuple(segments.start(s).unsqueeze(0) for s in state)
    matrices = list(weights.values())
    output, *last = _packed_call(packed, segments.batch_sizes, start, matrices, layer.bias, training=layer.training)
    ends = tuple(segments.end(s.squeeze(0), hx) for s, hx in zip(last, state, strict=True))
    return segments.spread(output, batch, time), ends


def _call(layer: RecurrentModule, x: Series, state: StateTuple, weights: Weights) -> SeriesResult:
    """torch's kernel for one layer, forwards."""
    stacked = tuple(s.unsqueeze(0) for s in state)
    if _by_op():
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        h, c = stacked[0], stacked[1] if len(stacked) == 2 else None
        output, *last = torch_rnn(x, h, c, *(weights.get(name) for name in names))
    else:
        output, *last = call_kernel(x, stacked, list(weights.values()), layer.bias, training=layer.training)
    return output, tuple(s.squeeze(0) for s in last[: len(state)])


def _by_op() -> bool:
    """Whether torch's kernel is called as a registered operation: in a compiled graph, and under a dispatch mode, which
    could not count what the kernel does."""
    if exporting_to_onnx():  # which knows torch's kernel and no operation of ours
        return False
    return torch.compiler.is_compiling() or (torch._C._len_torch_dispatch_stack() > 0 and not transforming())


def _of_free_length(x: Series) -> bool:
    """Whether an export to ONNX leaves the length open: torch's exporter writes the example's behind its LSTM
    and GRU operators, so steps are one Scan there."""
    return exporting_to_onnx() and isinstance(x.shape[1], torch.SymInt)


def _packed_call(
    data: Tensor, batch_sizes: Tensor, states: StateTuple, weights: list[Tensor], biases: bool, layers: int = 1,
    dropout: float = 0.0, training: bool = False, bidirectional: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """torch's kernel over packed data, (steps in all, features)."""
    if len(states) == 2:
        return _VF.lstm(data, batch_sizes, states, weights, biases, layers, dropout, training, bidirectional)
    return _VF.gru(data, batch_sizes, states[0], weights, biases, layers, dropout, training, bidirectional)


def _last_valid(output: Series, h0: State, mask: Flags) -> State:
    """The output at each left-aligned row's last real step; h0 where a row has none."""
    lengths = mask.sum(1)
    rows = torch.arange(output.shape[0], device=output.device)
    return torch.where((lengths > 0).unsqueeze(1), output[rows, (lengths - 1).clamp(min=0)], h0)


TORCH = Runner(_backends, _path, _direction, loop_stream, stack=_stack, packed=_packed)
