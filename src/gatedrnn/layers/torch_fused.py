"""LSTM and GRU run by torch's own fused kernels (oneDNN on a CPU, cuDNN on a GPU)."""

from typing import Any, ClassVar

import torch
from torch import _VF, Tensor
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.arguments import check_features
from gatedrnn.layers.fused_op import call_kernel, torch_rnn
from gatedrnn.layers.loop_layer import LoopLayer
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import Segments, left_aligned, reorder, zero_masked_steps
from gatedrnn.layers.regularise import DirectionNoise, Noise
from gatedrnn.layers.stack import Path, StateTuple
from gatedrnn.ops import exporting_to_onnx, forward_mode, torch_alone, transforming
from gatedrnn.shapes import Flags, Series, State, States

SHUT, SHUT_IN_FLOAT16 = 1e30, 3e4
"""A pre-activation at which a sigmoid is exactly 0 or 1, and its gradient exactly 0, whatever is added to it."""


class FusedLayer(LoopLayer):
    """A loop cell for which torch has a kernel. Without mask and resets the whole stack is one call of it.

    With a mask each layer and direction is one call over the padded rectangle, real steps first. The output at the
    last real step is the final h. A state that is no output (an LSTM's c) is held over the padding by one more input
    feature, 1 where a step is not real, whose weights shut the gates there: it stays exactly as it was. torch's own
    way, packing, takes a CPU out of the fused kernel and walks time step by step.

    With resets each layer and direction is one packed call: every stretch between two resets is a row of it. A
    `PackedSequence` is torch's own packed call. What torch's kernel cannot do, and on a CPU what it does slowly, runs
    as in any `LoopLayer`, and `runs_on` says so.
    """

    faster_than_torch: ClassVar[bool] = False
    """Whether our own kernel, where there is one, beats torch's."""
    hold: ClassVar[dict[str, float]] = {}
    """1 for each gate that padding must open, -1 for each that it must shut; empty where h is the whole state."""
    weight_init = "torch"
    bias_init = "torch"

    @property
    def backends(self) -> tuple[str, ...]:
        return super().backends if self._beyond_torch(training=False) else (*super().backends, "torch")

    def runs_on(self) -> Path:
        if not self._is_torchs(self.training):
            found = super().runs_on()
            beyond = self._beyond_torch(self.training)
            return found._replace(reason=f"{beyond}; {found.reason}") if beyond and self.backend == "auto" else found
        device = self.weight_ih_l0.device.type
        library = {"cpu": "oneDNN where it can, else ATen", "cuda": "cuDNN"}.get(device, "ATen")
        return Path(f"torch's fused kernel ({library})", f"torch has one for {self.cell.name}")

    def _is_torchs(self, training: bool) -> bool:
        """Whether torch's kernel runs this layer."""
        if self.backend != "auto":
            return self.backend == "torch"
        if forward_mode():  # which oneDNN's LSTM does not know
            return False
        own_is_faster = self.faster_than_torch and self._between_steps() is None and not torch_alone()
        return not self._beyond_torch(training) and not own_is_faster

    def _beyond_torch(self, training: bool) -> str | None:
        """What torch's kernel cannot do and this layer does; None if there is nothing."""
        if not self.cell.recurrent_bias:
            return "torch's GRU applies the reset gate after the product"
        if self.proj_size and exporting_to_onnx():
            return "ONNX knows no LSTM with a projection"
        if self.layer_norm:
            return "layer_norm stands inside torch's kernel, between product and gates"
        if self.zoneout:
            return "zoneout changes the state at every step, inside torch's kernel"
        if self.state_dropout and training:
            return "state_dropout stands inside torch's kernel, before the recurrent product"
        return None

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        return x.dtype if self.cell.recurrent_bias else super()._state_dtype(x)

    def _run(
        self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None, noise: Noise | None
    ) -> tuple[Series, StateTuple]:
        by_layer = mask is not None or resets is not None or noise is not None or _by_op()
        if by_layer or _of_free_length(x) or not self._is_torchs(self.training):
            return super()._run(x, state, mask, resets, noise)
        output, *last = call_kernel(
            x, state, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        )
        return output, tuple(last)

    def _forward_packed(
        self, packed: PackedSequence, hx: States | StateTuple | None, mask: Flags | None, resets: Flags | None,
        noise: Noise | None,
    ) -> tuple[PackedSequence, Any]:  # fmt: skip
        padded = mask is not None or resets is not None or noise is not None or self._draws
        # torch draws what it drops of packed data in that very order.
        drops = self.backend == "auto" and self._drops(0) and not self._beyond_torch(self.training)
        if padded or not (drops or self._is_torchs(self.training)) or packed.data.dim() != 2:
            return super()._forward_packed(packed, hx, mask, resets, noise)
        check_features(packed.data, self.weight_ih_l0, self.input_size)
        state = self._take_state(hx, packed.data.new_empty(int(packed.batch_sizes[0]), 0), batched=True)
        if packed.sorted_indices is not None:
            state = tuple(s.index_select(1, packed.sorted_indices) for s in state)
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        output, *last = _packed_call(packed.data, packed.batch_sizes, state, self._flat_weights, *options)
        if packed.unsorted_indices is not None:
            last = [s.index_select(1, packed.unsorted_indices) for s in last]
        return packed._replace(data=output), self._give_state(tuple(last), batched=True)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        # Segments are found from the values of the flags, which a compiled graph or a transform does not know.
        walked = resets is not None and (torch.compiler.is_compiling() or torch_alone())
        inside = noise.state is not None or noise.keep is not None
        if self.backend == "torch" and (walked or inside):
            raise BackendUnavailable("backend 'torch' cannot do this, nor be traced through resets; use 'auto'")
        if walked or inside or _of_free_length(x) or not self._is_torchs(training=False):
            return super()._direction(x, state, weights, noise, mask, resets, reverse)
        if resets is not None:
            segments = Segments.of(torch.ones_like(resets) if mask is None else mask, resets, reverse)
            if not len(segments.steps):
                return super()._direction(x, state, weights, noise, mask, resets, reverse)
            return self._segments(x, state, weights, segments)
        if reverse:
            flipped = None if mask is None else mask.flip(1)
            output, last = self._rectangle(x.flip(1), state, weights, flipped)
            return output.flip(1), last
        return self._rectangle(x, state, weights, mask)

    def _rectangle(
        self, x: Series, state: StateTuple, weights: Weights, mask: Flags | None
    ) -> tuple[Series, StateTuple]:
        """One call over the padded rectangle, forwards."""
        if mask is None:
            return self._call(x, state, weights)
        ragged_left = torch.compiler.is_compiling() or torch_alone() or bool((mask[:, 1:] & ~mask[:, :-1]).any())
        if not ragged_left:
            return self._aligned(x, state, weights, mask)
        # Over padding before the first real step h would move: o * tanh(c) is not the h it came from.
        order = left_aligned(mask)
        output, last = self._aligned(reorder(x, order), state, weights, torch.take_along_dim(mask, order, dim=1))
        return reorder(output, torch.argsort(order, dim=1)), last

    def _aligned(self, x: Series, state: StateTuple, weights: Weights, mask: Flags) -> tuple[Series, StateTuple]:
        """One call over rows whose real steps come first."""
        x = zero_masked_steps(x, mask)
        if self.hold:
            x = torch.cat([x, (~mask).unsqueeze(2).to(x.dtype)], dim=2)
            shut = SHUT_IN_FLOAT16 if x.dtype == torch.float16 else SHUT
            gates = [shut * self.hold.get(gate, 0.0) for gate in self.cell.projections]
            column = x.new_tensor(gates).repeat_interleave(self.hidden_size).unsqueeze(1)
            weights = weights | {"weight_ih": torch.cat([weights["weight_ih"], column], dim=1)}
        output, last = self._call(x, state, weights)
        return zero_masked_steps(output, mask), (_last_valid(output, state[0], mask), *last[1:])

    def _segments(
        self, x: Series, state: StateTuple, weights: Weights, segments: Segments
    ) -> tuple[Series, StateTuple]:
        """One packed call, every stretch between resets a row of it."""
        batch, time = x.shape[:2]
        packed = x.flatten(0, 1)[segments.steps]
        start = tuple(segments.start(s).unsqueeze(0) for s in state)
        matrices = list(weights.values())
        output, *last = _packed_call(packed, segments.batch_sizes, start, matrices, self.bias, training=self.training)
        ends = tuple(segments.end(s.squeeze(0), hx) for s, hx in zip(last, state, strict=True))
        return segments.spread(output, batch, time), ends

    def _call(self, x: Series, state: StateTuple, weights: Weights) -> tuple[Series, StateTuple]:
        """torch's kernel for one layer, forwards."""
        stacked = tuple(s.unsqueeze(0) for s in state)
        if _by_op():
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
            h, c = stacked[0], stacked[1] if len(stacked) == 2 else None
            output, *last = torch_rnn(x, h, c, *(weights.get(name) for name in names))
        else:
            output, *last = call_kernel(x, stacked, list(weights.values()), self.bias, training=self.training)
        return output, tuple(s.squeeze(0) for s in last[: len(state)])

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        # With time first, as torch draws it: the same seed then drops the same numbers.
        return super()._dropped(x.transpose(0, 1).contiguous(), layer).transpose(0, 1) if self._drops(layer) else x


def _by_op() -> bool:
    """Whether torch's kernel is called as a registered op: in a compiled graph, and where a dispatch mode looks on,
    which could not count what the kernel does."""
    if exporting_to_onnx():  # which knows torch's kernel and no op of ours
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
    rows = torch.arange(len(lengths), device=output.device)
    return torch.where((lengths > 0).unsqueeze(1), output[rows, (lengths - 1).clamp(min=0)], h0)
