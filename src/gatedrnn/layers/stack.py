"""Cells over time, stacked: whole sequences, packed ones, single steps, layer by layer and direction by direction."""

from abc import abstractmethod
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import Recurrent
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.arguments import (
    as_states,
    autocast_dtype,
    check_features,
    check_flags,
    check_hidden_sizes,
    check_input_axes,
    check_state_axes,
    check_state_dtypes,
)
from gatedrnn.layers.graphs import for_script, is_proxy, whole_as_node
from gatedrnn.layers.module import TORCH_ARGUMENTS, RecurrentModule
from gatedrnn.layers.one_step import one_step
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.ragged import repacked, unpacked, zero_masked_steps
from gatedrnn.layers.regularise import NOTHING, REGULARISERS, DirectionNoise, Keep, Noise
from gatedrnn.layers.streaming import ROWS, streams
from gatedrnn.ops import accumulation_dtype
from gatedrnn.shapes import Flags, Series, States, Step, time_first

StateTuple: TypeAlias = tuple[Tensor, ...]


class Path(NamedTuple):
    """What runs a layer, and why."""

    name: str
    reason: str


class RecurrentLayer(RecurrentModule):
    """A cell over time with the signature of `torch.nn.LSTM`; arguments and shapes as in `RecurrentModule`."""

    _backend: str = "auto"

    @property
    def backend(self) -> str:
        """What runs it: "auto", or one of `backends`; may be set. `runs_on` says what "auto" takes, and why.

        Raises:
            BackendUnavailable: what is named cannot run this layer, as it stands and where its parameters are.
        """
        return self._backend

    @backend.setter
    def backend(self, name: str) -> None:
        if name not in ("auto", *self.backends):
            known = ", ".join(("auto", *self.backends))
            raise BackendUnavailable(f"backend {name!r} cannot run this {self._title}; choose one of {known}")
        self._backend = name

    @property
    @abstractmethod
    def backends(self) -> tuple[str, ...]:
        """What can run this layer, as it stands and where its parameters are."""

    @abstractmethod
    def runs_on(self) -> Path:
        """What runs this layer, as it stands and where its parameters are, and why."""

    def forward(
        self, input: Series | PackedSequence, hx: States | StateTuple | None = None, *,
        mask: Flags | None = None, resets: Flags | None = None, noise: Noise | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The whole sequence at once.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size),
                or a `PackedSequence`, which comes back as one.
            hx: the state before the first step; the layer's initial state if None: zeros, unless the cell learns one.
            mask: bool, the input's first axes; True = real step. A masked step leaves the state as it was, outputs 0.
            resets: bool, the input's first axes (of a packed sequence: of the same padded). A reset at t cuts between
                t-1 and t, in both directions: the state returns to the layer's initial state; at t = 0 it discards
                `hx`.
            noise: what to drop, from `draw_noise`, instead of drawing it anew.

        Returns:
            The output (under autocast in its dtype), and the state after the last real step, to carry on with: at least
            float32 (torch's own dtype in `LSTM` and `GRU`).

        Raises:
            RuntimeError, ValueError, TypeError: where `torch.nn.LSTM` raises them; ValueError for flags of another
            shape or dtype.
        """
        if is_proxy(input):
            return whole_as_node(self, (input, hx), {"mask": mask, "resets": resets, "noise": noise})
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, mask, resets, noise)
        if mask is None and resets is None and noise is None and streams(input) and input.dim() == 3:
            by_step = input.transpose(0, 1) if self.batch_first else input
            found = self._stream(by_step[0], hx) if len(by_step) == 1 else None
            if found is not None:
                output, state = found[0].unsqueeze(0), found[1]
                return output.transpose(0, 1) if self.batch_first else output, state if len(state) > 1 else state[0]
        check_input_axes(self._title, input, batched=3)
        batched = input.dim() == 3
        x = (input if self.batch_first else input.transpose(0, 1)) if batched else input.unsqueeze(0)
        check_features(x, self.weight_ih_l0, self.input_size)
        if x.shape[1] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        leading = tuple(input.shape[:-1])
        mask, resets = self._take_flags("mask", mask, leading), self._take_flags("resets", resets, leading)
        state = self._take_state(hx, x, batched)
        output, state = self._run(x, state, mask, resets, self._noise(noise, *x.shape[:2]))
        narrow = autocast_dtype(x.device)
        if narrow is not None and output.dtype == torch.float32:
            output = output.to(narrow)  # however it was run, as nn.LSTM gives it
        return self._laid_out(output, batched), self._give_state(state, batched)

    def step(
        self, x: Step, hx: States | StateTuple | None = None, *,
        resets: Flags | None = None, noise: Noise | None = None,
    ) -> tuple[Step, Any]:  # fmt: skip
        """One step of a stream: the same numbers as the whole sequence at once.

        Args:
            x: (batch, input_size), or (input_size,) without a batch.
            hx: the state that the last call handed back; None for the layer's initial state.
            resets: bool, (batch,), or () without a batch: rows whose state returns to its initial value first.
            noise: what to drop at this step, `draw_noise(batch, steps).at(t)`; needed in training if the layer drops
                anything for a whole sequence.

        Returns:
            The output (batch, P), and the state to hand to the next call.
        """
        if resets is None and noise is None and streams(x) and x.dim() == 2:
            found = self._stream(x, hx)
            if found is not None:
                output, state = found
                return output, state if len(state) > 1 else state[0]
        if self.bidirectional:
            raise ValueError("step needs one direction: a bidirectional layer must see the end before it can begin")
        check_input_axes(f"{self._title}.step", x, batched=2)
        if noise is None and self._draws:
            raise ValueError(
                "step cannot draw what a whole sequence drops; pass noise=layer.draw_noise(batch, steps).at(t), "
                "or call eval() first"
            )
        batched = x.dim() == 2
        rows = x if batched else x.unsqueeze(0)
        if noise is not None:
            self._check_noise(noise, f"draw_noise({len(rows)}, steps).at(t)", len(rows))
        check_features(rows, self.weight_ih_l0, self.input_size)
        state = self._take_state(hx, rows, batched)
        if resets is not None:
            check_flags("resets", resets, tuple(x.shape[:-1]))
            anew = self._initial_state(rows)
            state = tuple(torch.where(resets.view(-1, 1), a, s) for a, s in zip(anew, state, strict=True))
        output, state = self._step(rows, state, noise)
        return (output if batched else output.squeeze(0)), self._give_state(state, batched)

    def initial_state(self, batch: int) -> Any:
        """What `hx=None` stands for, in the form of `hx`: zeros, or what the cell has learned."""
        return self._give_state(self._initial_state(self.weight_ih_l0.new_empty(batch, 0)), batched=True)

    def __prepare_scriptable__(self) -> nn.Module:
        return for_script(self, *self._torchs_own())

    def _torchs_own(self) -> tuple[nn.Module | None, str]:
        """torch's layer of the same shapes on no device, or None and why there is none that computes the same."""
        if self.torch_mode is None or type(self).forward is not RecurrentLayer.forward:
            return None, "torch.nn has no layer of its kind"
        if not self.cell.recurrent_bias:
            return None, "torch's GRU applies the reset gate after the product"
        for name in (*REGULARISERS, "layer_norm"):
            if getattr(self, name):
                return None, f"torch.nn has no {name}"
        arguments = {name: getattr(self, name) for name in TORCH_ARGUMENTS if name != "proj_size" or self.proj_size}
        kind: Any = getattr(nn, self.torch_mode)
        return kind(self.input_size, self.hidden_size, **arguments, device="meta"), ""

    def _forward_packed(
        self, packed: PackedSequence, hx: States | StateTuple | None, mask: Flags | None, resets: Flags | None,
        noise: Noise | None,
    ) -> tuple[PackedSequence, Any]:  # fmt: skip
        if mask is not None:
            raise ValueError("a PackedSequence says itself which steps are real; leave mask out")
        if packed.data.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {packed.data.dim()}")
        check_features(packed.data, self.weight_ih_l0, self.input_size)
        x, mask = unpacked(packed)
        state = self._take_state(hx, x, batched=True)
        time_first = (x.shape[1], x.shape[0])
        resets = self._take_flags("resets", resets, tuple(x.shape[:2]) if self.batch_first else time_first)
        output, state = self._run(x, state, mask, resets, self._noise(noise, *x.shape[:2]))
        return repacked(output, packed), self._give_state(state, batched=True)

    def _run(
        self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None, noise: Noise | None
    ) -> tuple[Series, StateTuple]:
        """The whole stack over (batch, time, features), layer by layer; states are stacked over all of them."""
        if mask is not None:
            x = zero_masked_steps(x, mask)  # a NaN there would reach the weights' gradients as 0 * NaN
        finals: list[StateTuple] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(self._directions):
                index = layer * len(self._directions) + direction
                part = NOTHING if noise is None else noise.directions[index]
                read = x if part.input is None else x * part.input.unsqueeze(1)
                start, weights = tuple(s[index] for s in state), self._weights(layer, suffix, part.weight)
                output, last = self._direction(read, start, weights, part, mask, resets, reverse=direction == 1)
                outputs.append(output)
                finals.append(last)
            x = self._dropped(_joined(outputs), layer)
        return x, tuple(torch.stack(kind) for kind in zip(*finals, strict=True))

    @abstractmethod
    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        """One layer in one direction over (batch, time, features); states are (batch, size).

        Where `mask` is False x is 0, the output is 0 and the state stays as it was.
        """

    def _step(self, x: Step, state: StateTuple, noise: Noise | None) -> tuple[Step, StateTuple]:
        finals: list[StateTuple] = []
        for layer in range(self.num_layers):
            part = NOTHING if noise is None else noise.directions[layer]
            read = x if part.input is None else x * part.input
            weights, before = self._weights(layer, "", part.weight), tuple(s[layer] for s in state)
            projected = self._project(read, weights)
            recurrent = Recurrent(self.cell.projections, weights, part.state)
            after = one_step(self.cell, projected, before, recurrent, self._keep(part))
            x = self._dropped(self._hand_on(self.cell.output(*after).to(projected.dtype), weights), layer)
            finals.append(after)
        return x, tuple(torch.stack(kind) for kind in zip(*finals, strict=True))

    def _stream(self, x: Step, hx: States | StateTuple | None) -> tuple[Step, StateTuple] | None:
        """A step of rows that `streams` approves of, all layers in one kernel call; None where none runs it as it is,
        and where shapes or dtypes do not fit."""
        return None

    def _stream_shapes(self, x: Step) -> list[tuple[int, ...]] | None:
        """The state's shapes for a step of few rows; None where something stands between the parts of a step."""
        between = self.zoneout or self.layer_norm or self.proj_size or self.bidirectional
        if between or self._backend not in ("auto", "fused") or not 0 < len(x) <= ROWS or x.shape[1] != self.input_size:
            return None
        if self.training and (self._draws or self._drops(0)):
            return None
        return [(self.num_layers, len(x), self.hidden_size)] * self.cell.states

    def _keep(self, noise: DirectionNoise) -> Keep | None:
        """What zoneout keeps: as drawn, or, where nothing was drawn, its expectation."""
        if noise.keep is not None or not self.zoneout:
            return noise.keep
        return (self.zoneout,) * self.cell.states

    def _project(self, x: Tensor, weights: Weights, add_bias: bool = True) -> Tensor:
        """W_ih x + b of all gates, normalised a gate at a time where asked; without b for whoever adds it later."""
        if x.dim() == 3 and time_first(x):
            return self._project(x.transpose(0, 1), weights, add_bias).transpose(0, 1)  # without a copy of x
        bias = weights.get("bias_ih") if add_bias else None
        if not self.layer_norm:
            return linear(x, weights["weight_ih"], bias)
        gates = linear(x, weights["weight_ih"]).unflatten(-1, (len(self.cell.projections), self.hidden_size))
        projected = layer_norm(gates, (self.hidden_size,)).flatten(-2) * weights["weight_norm"]
        return projected if bias is None else projected + bias

    def _hand_on(self, output: Tensor, weights: Weights) -> Tensor:
        """The output, projected where the projection is no part of the state."""
        if self.proj_size and not self.cell.projects_state:
            return linear(output, weights["weight_hr"])
        return output

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        return nn.functional.dropout(x, self.dropout) if self._drops(layer) else x

    def _drops(self, layer: int) -> bool:
        return self.training and self.dropout > 0 and layer < self.num_layers - 1

    def _noise(self, given: Noise | None, batch: int, steps: int) -> Noise | None:
        if given is None:
            return self.draw_noise(batch, steps) if self._draws else None
        self._check_noise(given, f"draw_noise({batch}, {steps})", batch, steps)
        return given

    def _check_noise(self, given: Noise, origin: str, *leading: int) -> None:
        """Every part that is there has this layer's shapes."""
        for part, weights in zip_longest(given.directions, self._each_weights()):
            recurrent = None if weights is None else weights.get("weight_hh")
            if part is None or weights is None or not (
                _shape(part.input) in (None, (leading[0], weights["weight_ih"].shape[1]))
                and _shape(part.state)
                in (None, (leading[0], self.hidden_size if recurrent is None else recurrent.shape[1]))
                and _shape(part.weight) in (None, _shape(recurrent))
                and (part.keep is None or [_shape(k) for k in part.keep] == [(*leading, n) for n in self.state_sizes()])
            ):  # fmt: skip
                raise ValueError(f"noise must come from {origin} of a layer of this shape")

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        return accumulation_dtype(x.dtype)

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _take_flags(self, name: str, flags: Flags | None, expected: tuple[int, ...]) -> Flags | None:
        """`flags` as (batch, time)."""
        if flags is None:
            return None
        check_flags(name, flags, expected)
        if flags.dim() == 1:
            return flags.unsqueeze(0)
        return flags if self.batch_first else flags.transpose(0, 1)

    def _take_state(self, hx: States | StateTuple | None, x: Tensor, batched: bool) -> StateTuple:
        """`hx` as a tuple of (L, batch, size), the initial state where it is None."""
        leading, dtype = (self.num_layers * len(self._directions), x.shape[0]), self._state_dtype(x)
        if hx is None:
            return self._initial_state(x)
        states = as_states(self._title, hx, self.cell.states)
        check_state_axes(states, batched)
        states = states if batched else tuple(s.unsqueeze(1) for s in states)
        check_hidden_sizes(states, [(*leading, size) for size in self.state_sizes()])
        accepted, narrow = {dtype, x.dtype}, autocast_dtype(x.device)
        if narrow is not None:
            accepted |= {torch.float32, narrow}
        check_state_dtypes(self._title, states, accepted)
        return tuple(s.to(dtype) for s in states)

    def _laid_out(self, output: Series, batched: bool) -> Series:
        """In the caller's order of axes and in torch's layout: code after the layer calls `view`, and a dropout mask is
        drawn in the order of memory."""
        if not batched:
            return output.squeeze(0).contiguous()
        if self.batch_first and self.torch_mode is None:
            return output.contiguous()
        # torch's own kernels write step after step, whatever the order of axes.
        by_step = output.transpose(0, 1).contiguous()
        return by_step.transpose(0, 1) if self.batch_first else by_step

    def _initial_state(self, x: Tensor) -> StateTuple:
        """What stands before the first of these rows."""
        leading, dtype = (self.num_layers * len(self._directions), x.shape[0]), self._state_dtype(x)
        if self.cell.learns_initial_state:
            learned = torch.stack([weights["initial_state"] for weights in self._each_weights()])
            return (learned.to(dtype).unsqueeze(1).expand(*leading, -1),)
        return tuple(x.new_zeros(*leading, size, dtype=dtype) for size in self.state_sizes())

    def _give_state(self, state: StateTuple, batched: bool) -> Any:
        states = state if batched else tuple(s.squeeze(1) for s in state)
        return states if len(states) > 1 else states[0]


def _joined(outputs: list[Series]) -> Series:
    """Both directions' outputs side by side, in memory as they are."""
    if len(outputs) == 1:
        return outputs[0]
    if all(time_first(output) for output in outputs):
        return torch.cat([output.transpose(0, 1) for output in outputs], dim=2).transpose(0, 1)
    return torch.cat(outputs, dim=2)


def _shape(x: Tensor | None) -> tuple[int, ...] | None:
    return None if x is None else tuple(x.shape)
