"""Cells over time, stacked: the constructor, parameters, checks and shapes of `torch.nn.LSTM`, and the scan stack."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from gatedrnn.cells import Cell, ScanCell
from gatedrnn.layers.ragged import hold_masked_steps, reversed_resets, zero_masked_steps
from gatedrnn.scan import accumulation_dtype, linear_scan
from gatedrnn.shapes import Flags, Series, States, Step

StateTuple: TypeAlias = tuple[Tensor, ...]
Weights: TypeAlias = dict[str, Tensor]  # one layer and direction, without `_l0` and `_reverse`, in torch's order


class RecurrentLayer(nn.Module, ABC):
    """A cell over time with the signature, attributes and parameter names of `torch.nn.LSTM`.

    Args:
        input_size: features of the input.
        hidden_size: channels of the state.
        num_layers: layers; each reads the output of the one below.
        bias: False leaves the biases out.
        batch_first: True for (batch, time, features) in and out; False, torch's default, for (time, batch, features).
        dropout: probability with which outputs between layers are dropped, in training; not after the last layer.
        bidirectional: a second set of weights walks time backwards; outputs are joined, forward first.
        proj_size: if above 0, outputs are projected to this size (`weight_hr_l0`).
        device, dtype: of the parameters.

    Shapes, with `batch_first=True`, P = proj_size or hidden_size, and L = layers × directions:
        input (batch, time, input_size) or (time, input_size); output (batch, time, directions · P); the state (`hx`,
        `h_n`) is one tensor (L, batch, hidden_size), or for an LSTM the pair (h, c), as torch has it.
    """

    options: ClassVar[tuple[str, ...]] = ()
    """Keyword arguments that this cell's layer takes beyond torch's."""
    __constants__ = (
        "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size",
    )  # fmt: skip

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value, least in (
            ("input_size", input_size, 1), ("hidden_size", hidden_size, 1), ("num_layers", num_layers, 1),
            ("proj_size", proj_size, 0),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], the probability of a zero; got {dropout!r}")
        self.cell = cell
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        for layer in range(num_layers):
            for suffix in self._directions:
                for name, shape in self._shapes(input_size if layer == 0 else self.output_size).items():
                    weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{suffix}", weight)
        self.reset_parameters()

    @property
    def output_size(self) -> int:
        """Features of the output: both directions joined."""
        return (self.proj_size or self.hidden_size) * len(self._directions)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @abstractmethod
    def _shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        """Name (without layer and direction) and shape of each parameter of one direction, in torch's order."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw the initial values, through `torch.nn.init` alone: transformers guards those while it loads a file."""

    @abstractmethod
    def _run(self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None) -> tuple[Series, StateTuple]:
        """The whole stack over (batch, time, features); states are stacked over layers and directions."""

    @abstractmethod
    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, mask: Flags | None, resets: Flags | None, reverse: bool
    ) -> tuple[Series, StateTuple]:
        """One layer in one direction over (batch, time, features); states are (batch, size)."""

    @abstractmethod
    def _cell_step(self, x: Step, state: StateTuple, weights: Weights) -> tuple[Step, StateTuple]:
        """One layer for one step."""

    def _walk(
        self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None
    ) -> tuple[Series, StateTuple]:
        """`_run` layer by layer."""
        finals: list[StateTuple] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(self._directions):
                start = tuple(s[layer * len(self._directions) + direction] for s in state)
                weights = self._weights(layer, suffix)
                output, last = self._direction(x, start, weights, mask, resets, reverse=direction == 1)
                outputs.append(output)
                finals.append(last)
            x = self._dropped(torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0], layer)
        return x, tuple(torch.stack(kind) for kind in zip(*finals, strict=True))

    def _step(self, x: Step, state: StateTuple) -> tuple[Step, StateTuple]:
        finals: list[StateTuple] = []
        for layer in range(self.num_layers):
            x, last = self._cell_step(x, tuple(s[layer] for s in state), self._weights(layer, ""))
            finals.append(last)
            x = self._dropped(x, layer)
        return x, tuple(torch.stack(kind) for kind in zip(*finals, strict=True))

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        if self.dropout and layer < self.num_layers - 1:
            return nn.functional.dropout(x, self.dropout, self.training)
        return x

    def state_sizes(self) -> tuple[int, ...]:
        """Channels of each tensor that one layer and direction hands from step to step."""
        return (self.hidden_size,) * self.cell.states

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        return accumulation_dtype(x.dtype)

    def step(self, x: Step, hx: States | StateTuple | None = None) -> tuple[Step, Any]:
        """One step of a stream: the same numbers as the whole sequence at once.

        Args:
            x: (batch, input_size), or (input_size,) without a batch.
            hx: the state that the last call handed back; None for the initial state.

        Returns:
            The output (batch, P), and the state to hand to the next call.
        """
        if self.bidirectional:
            raise ValueError("step needs one direction: a bidirectional layer must see the end before it can begin")
        if x.dim() not in (1, 2):
            raise ValueError(f"{self._title}: step expects (batch, features) or (features,), got {x.dim()}D")
        batched = x.dim() == 2
        rows = x if batched else x.unsqueeze(0)
        self._check_features(rows)
        output, state = self._step(rows, self._take_state(hx, rows, batched))
        return (output if batched else output.squeeze(0)), self._give_state(state, batched)

    def _forward(
        self, x: Tensor, hx: States | StateTuple | None, mask: Flags | None, resets: Flags | None
    ) -> tuple[Tensor, Any]:
        if x.dim() not in (2, 3):
            raise ValueError(f"{self._title}: Expected input to be 2D or 3D, got {x.dim()}D instead")
        batched = x.dim() == 3
        series = (x if self.batch_first else x.transpose(0, 1)) if batched else x.unsqueeze(0)
        self._check_features(series)
        if series.shape[1] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        flags = [self._take_flags(name, f, x, batched) for name, f in (("mask", mask), ("resets", resets))]
        output, state = self._run(series, self._take_state(hx, series, batched), *flags)
        if not batched:
            output = output.squeeze(0)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        return output, self._give_state(state, batched)

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _check_features(self, x: Tensor) -> None:
        own = next(self.parameters()).dtype
        if x.dtype != own and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(f"RNN input dtype ({x.dtype}) does not match weight dtype ({own})")
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )

    def _take_flags(self, name: str, flags: Flags | None, x: Tensor, batched: bool) -> Flags | None:
        if flags is None:
            return None
        if flags.dtype != torch.bool or flags.shape != x.shape[:-1]:
            raise ValueError(
                f"{name} must be bool with the input's first axes {tuple(x.shape[:-1])}, "
                f"got {flags.dtype} of shape {tuple(flags.shape)}"
            )
        if not batched:
            return flags.unsqueeze(0)
        return flags if self.batch_first else flags.transpose(0, 1)

    def _take_state(self, hx: States | StateTuple | None, x: Tensor, batched: bool) -> StateTuple:
        """`hx` as a tuple of (L, batch, size), zeros where it is None."""
        leading = (self.num_layers * len(self._directions), x.shape[0])
        if hx is None:
            return tuple(x.new_zeros(*leading, size, dtype=self._state_dtype(x)) for size in self.state_sizes())
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if len(states) != self.cell.states:
            raise TypeError(f"{self._title}: hx must hold {self.cell.states} tensor(s), got {len(states)}")
        states = states if batched else tuple(s.unsqueeze(1) for s in states)
        for state, size in zip(states, self.state_sizes(), strict=True):
            if tuple(state.shape) != (*leading, size):
                raise RuntimeError(f"Expected hidden size {(*leading, size)}, got {list(state.shape)}")
        return states

    def _give_state(self, state: StateTuple, batched: bool) -> Any:
        states = state if batched else tuple(s.squeeze(1) for s in state)
        return states if len(states) > 1 else states[0]

    def _weights(self, layer: int, suffix: str) -> Weights:
        return {name: getattr(self, f"{name}_l{layer}{suffix}") for name in self._shapes(self.input_size)}

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False, "proj_size": 0,
        }  # fmt: skip
        return text + "".join(f", {k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v)


class ScanLayer(RecurrentLayer):
    """Any scan cell as a layer: one matrix product projects the whole sequence, one scan runs it."""

    cell: ScanCell

    def forward(
        self, input: Series, hx: States | None = None, *, mask: Flags | None = None, resets: Flags | None = None
    ) -> tuple[Series, States]:
        """The whole sequence at once.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size).
            hx: the state before the first step, (L, batch, hidden_size); zeros if None.
            mask: bool, the input's first axes; True = real step. A masked step leaves the state as it was, outputs 0.
            resets: bool, the input's first axes. A reset at t cuts between t-1 and t, in both directions: the state
                returns to its initial value; at t = 0 it discards `hx`.

        Returns:
            The output, and h_n: the state after the last valid step, at least float32.
        """
        return self._forward(input, hx, mask, resets)

    def _shapes(self, features: int) -> dict[str, tuple[int, ...]]:
        rows = len(self.cell.projections) * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features)}
        if self.bias:
            shapes["bias_ih"] = (rows,)
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Weights uniform within 1/sqrt(fan-in); biases zero, but for gates of decay: a spread of time scales."""
        for name, weight in self.named_parameters():
            if getattr(weight, "_is_hf_initialized", False):
                continue  # transformers has loaded it, and its guard does not see into the slices below
            if not name.startswith("bias"):
                bound = 1 / math.sqrt(weight.shape[1])
                nn.init.uniform_(weight, -bound, bound)
                continue
            nn.init.zeros_(weight)
            for gate, block in zip(
                self.cell.projections, weight.detach().chunk(len(self.cell.projections)), strict=True
            ):
                if gate in self.cell.decay_gates:
                    spread_time_scales(block, self.cell.decay_gates[gate])

    def _run(self, x: Series, state: StateTuple, mask: Flags | None, resets: Flags | None) -> tuple[Series, StateTuple]:
        return self._walk(x, state, mask, resets)

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, mask: Flags | None, resets: Flags | None, reverse: bool
    ) -> tuple[Series, StateTuple]:
        if mask is not None:
            x = zero_masked_steps(x, mask)  # a NaN there would reach the weights' gradients as 0 * NaN
        projected = self._project(x, weights)
        decay, drive = self.cell.coefficients(*self._gates(projected.to(accumulation_dtype(projected.dtype))))
        if mask is not None:
            decay, drive = hold_masked_steps(decay, drive, mask)
        if reverse and resets is not None:
            resets = reversed_resets(resets)
        h, last = linear_scan(decay, drive, state[0].to(decay.dtype), resets=resets, reverse=reverse)
        output = self._hand_on(self.cell.output(h), projected.dtype, weights)
        return (output if mask is None else zero_masked_steps(output, mask)), (last,)

    def _cell_step(self, x: Step, state: StateTuple, weights: Weights) -> tuple[Step, StateTuple]:
        projected = self._project(x, weights)
        output, last = self.cell.step(self._gates(projected), state[0])
        return self._hand_on(output, projected.dtype, weights), (last,)

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        return nn.functional.linear(x, weights["weight_ih"], weights.get("bias_ih"))

    def _gates(self, projected: Tensor) -> tuple[Tensor, ...]:
        return projected.chunk(len(self.cell.projections), dim=-1)

    def _hand_on(self, output: Tensor, dtype: torch.dtype, weights: Weights) -> Tensor:
        output = output.to(dtype)
        return nn.functional.linear(output, weights["weight_hr"]) if "weight_hr" in weights else output


LONGEST_TIME_SCALE = 64.0


def spread_time_scales(bias: Tensor, sign: int) -> None:
    """Fill a decay gate's bias so that sigmoid(sign · bias) = 1 - 1/tau, tau log-uniform from 2 to the longest.

    tau is the number of steps after which a state has decayed to 1/e. The idea, with another spread, is the chrono
    initialisation of Tallec & Ollivier 2018 (arXiv:1804.11188). `sign` as in `ScanCell.decay_gates`.
    """
    # tau - 1 log-uniform from 1: bias = sign · log(tau - 1) is then plainly uniform.
    edge = sign * math.log(LONGEST_TIME_SCALE - 1)
    nn.init.uniform_(bias, min(0.0, edge), max(0.0, edge))
