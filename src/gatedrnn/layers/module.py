"""The constructor, parameters and attributes of a layer, as `torch.nn.LSTM` has them, and its products with weights."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from gatedrnn.equations import Equations
from gatedrnn.layers.arguments import (
    check_hidden_sizes,
)
from gatedrnn.layers.dropout import (
    REGULARISERS,
    DirectionMasks,
    DropoutMasks,
    draw_dropout_mask,
    draw_zoneout_mask,
)
from gatedrnn.layers.parameters import Weights, initialise, shapes, state_sizes
from gatedrnn.ops.backends import accumulation_dtype
from gatedrnn.ops.flops import register_flop_formulas
from gatedrnn.ops.over_ranks import TimeRanks
from gatedrnn.ops.step import ZoneoutMask
from gatedrnn.shapes import Hidden, StateTuple, time_first

TORCH_ARGUMENTS = {
    "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
}  # fmt: skip
"""With their defaults, in the order in which torch prints them."""


def _outside_of_torch() -> int:
    """How far up the line is that called torch."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("torch."):
        level, frame = level + 1, frame.f_back
    return level


def shown_options(cell: Equations) -> list[str]:
    """A cell's chosen options, as they are printed."""
    return [f"{name}={value!r}" for name, value in cell.chosen_options.items()]


class RecurrentModule(nn.RNNBase):
    """A cell over time with the signature, attributes and parameter names of `torch.nn.LSTM`.

    An `nn.RNNBase`, because initialisers, weight decay groups and dropout handling ask for one. It shares that class's
    attributes and methods, not its constructor, which knows torch's cells alone, nor its cache of weights: parameters
    are read where they are used, so that whatever replaces one (a parametrisation, `functional_call`) is seen.

    A subclass names its equations: `cell_class = MyEquations`; it may add a constructor with their options by name.
    """

    cell_class: ClassVar[type[Equations]]
    """The equations; keyword arguments of theirs are keyword arguments of the layer."""
    _backend: str = "auto"
    _reads_others: bool = False
    """Whether a tensor is read instead of a parameter, see `_flat_weights`."""
    _ranks: TimeRanks | None = None
    """Processes that sequences are cut over; see `gatedrnn.layers.context_parallel`."""
    cell: Equations
    layer_norm: bool
    zoneout: float
    input_dropout: float
    state_dropout: float
    weight_dropout: float
    weight_init: str
    bias_init: str
    longest_time_scale: float | None
    weight_ih_l0: nn.Parameter  # for type checkers; all are registered in a loop
    weight_hr_l0: nn.Parameter
    __constants__ = ["input_size", "hidden_size", *TORCH_ARGUMENTS]

    # RNNBase keeps a list of the weights and repairs it wherever one may have been replaced; nothing is kept here.
    __setattr__ = nn.Module.__setattr__  # type: ignore[assignment]
    __getstate__ = object.__getstate__
    _apply = nn.Module._apply
    _replicate_for_data_parallel = nn.Module._replicate_for_data_parallel

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)
        register_flop_formulas()
        if "_all_weights" not in state:  # pickled before layers were an RNNBase
            self._name_weights()

    def reset_parameters(self) -> None:
        """Initialise the parameters anew, by the layer's schemes."""
        for weights in self._each_weights():
            initialise(self.cell, weights, self.hidden_size, self.weight_init, self.bias_init, self.longest_time_scale)

    @property
    def mode(self) -> str:  # type: ignore[override]
        """What `torch.nn` calls this kind of layer, "LSTM" or "GRU"; the cell's name for all others."""
        return self.cell.torch_kernel.mode if self.cell.torch_kernel else self.cell.name

    @property
    def _flat_weights(self) -> list[Any]:
        """All weights in torch's order; None for one that was deleted, as `weight_norm` does before it sets another."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        # Code written for torch assigns the list after it has replaced an attribute; or other tensors in their place,
        # which are read from then on, while the parameters stay registered.
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if weight is None or getattr(self, name, None) is weight:
                continue
            if isinstance(weight, nn.Parameter) or name not in self._parameters:
                setattr(self, name, weight)
            else:
                self.__dict__[name] = weight
                self._reads_others = True

    @property
    def output_size(self) -> int:
        """Features of the output: both directions joined."""
        return (self.proj_size or self.hidden_size) * len(self._directions)

    @property
    def qconfig(self) -> object:
        """What torch's quantisation sets on every module of a model; here with a warning."""
        return self.__dict__.get("qconfig")

    @qconfig.setter
    def qconfig(self, value: object) -> None:
        self.__dict__["qconfig"] = value
        kind = f"nn.{self.mode}" if self.cell.torch_kernel is not None and self.cell.recurrent_bias else None
        warnings.warn(
            f"{type(self).__name__} stays in floating point: torch's quantisation knows its own classes alone"
            + (f"; load this state dict into {kind} and quantise that" if kind else ""),
            stacklevel=_outside_of_torch(),
        )

    @qconfig.deleter
    def qconfig(self) -> None:
        del self.__dict__["qconfig"]

    def flatten_parameters(self) -> None:
        """For code written for `torch.nn`: there is nothing to flatten."""

    _init_flat_weights = _update_flat_weights = flatten_parameters

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Shape of the state, of its first tensor where it has several: (L, batch, channels).

        Args:
            input: a batch of sequences, or the data of a `PackedSequence`.
            batch_sizes: of the `PackedSequence`; None for a tensor.
        """
        return self._expected_sizes(input, batch_sizes)[0]

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The same of the state's last tensor: c of an LSTM, which is not projected."""
        return self._expected_sizes(input, batch_sizes)[-1]

    def check_forward_args(self, input: Tensor, hidden: Hidden, batch_sizes: Tensor | None) -> None:
        """Raise what `forward` raises for a batch and a state that do not fit; arguments as in torch."""
        self.check_input(input, batch_sizes)
        states = hidden if isinstance(hidden, (tuple, list)) else (hidden,)
        check_hidden_sizes(states, self._expected_sizes(input, batch_sizes))

    def permute_hidden(self, hx: Hidden, permutation: Tensor | None) -> Hidden:
        """The state with its rows (second axis) in another order; as it is if `permutation` is None."""
        if permutation is None:
            return hx
        if isinstance(hx, (tuple, list)):
            return tuple(state.index_select(1, permutation) for state in hx)
        return hx.index_select(1, permutation)

    def state_sizes(self) -> tuple[int, ...]:
        """Channels of each tensor of `hx`, of one layer and direction."""
        widest = max(self.input_size, self.output_size if self.num_layers > 1 else 0)
        return state_sizes(self.cell, widest, self.hidden_size, self.proj_size)

    def draw_dropout_masks(self, batch: int, steps: int) -> DropoutMasks:
        """Draw the masks of training for `batch` sequences of `steps` steps: for `forward`, or `.at(t)` for `step`."""
        directions = []
        for weights in self._each_weights():
            like, recurrent = weights["weight_ih"], weights.get("weight_hh")
            read = self.hidden_size if recurrent is None else recurrent.shape[1] * self.cell.heads
            drawn = DirectionMasks(
                input=draw_dropout_mask(self.input_dropout, batch, like.shape[1] // self.cell.window, like=like),
                state=draw_dropout_mask(self.state_dropout, batch, read, like=like),
            )
            if recurrent is not None:
                weight = draw_dropout_mask(self.weight_dropout, *recurrent.shape, like=recurrent)
                drawn = drawn._replace(weight=weight)
            if self.zoneout:
                sizes = self.state_sizes()[: len(self.cell.states)]
                zoneout = tuple(draw_zoneout_mask(self.zoneout, batch, steps, size, like=like) for size in sizes)
                drawn = drawn._replace(zoneout=zoneout)
            directions.append(drawn)
        return DropoutMasks(tuple(directions))

    def _draws(self) -> bool:  # no property: of an attribute that it misses, torch would name the property
        """Whether masks are drawn for whole sequences now."""
        return self.training and any(getattr(self, name) for name in REGULARISERS)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        features = self.input_size if layer == 0 else self.output_size
        return shapes(self.cell, features, self.hidden_size, self.bias, self.proj_size, self.layer_norm)

    def _name_weights(self) -> None:
        """torch's two lists: the parameters' names by layer and direction, and all in a row."""
        self._all_weights = [
            [f"{kind}_l{layer}{suffix}" for kind in self._shapes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._directions
        ]
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    def _expected_sizes(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, int, int]]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return [(self.num_layers * len(self._directions), batch, size) for size in self.state_sizes()]

    def _weights(self, layer: int, suffix: str, dropped: Tensor | None = None) -> Weights:
        """The parameters of one layer and direction; `dropped` multiplies the recurrent weight."""
        weights = {name: getattr(self, f"{name}_l{layer}{suffix}") for name in self._shapes(layer)}
        return weights if dropped is None else weights | {"weight_hh": weights["weight_hh"] * dropped}

    def _each_weights(self) -> Iterator[Weights]:
        """`_weights` of every layer and direction, in the order in which states are stacked."""
        for layer in range(self.num_layers):
            for suffix in self._directions:
                yield self._weights(layer, suffix)

    def _initial_state(self, x: Tensor) -> StateTuple:
        """The state before the first step of these rows."""
        leading, dtype = (self.num_layers * len(self._directions), x.shape[0]), self._state_dtype(x)
        if self.cell.learns_initial_state:
            learned = torch.stack([weights["initial_state"] for weights in self._each_weights()])
            return (learned.to(dtype).unsqueeze(1).expand(*leading, -1),)
        return tuple(x.new_zeros(*leading, size, dtype=dtype) for size in self.state_sizes())

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        """torch's own in its LSTM and GRU; the dtype of accumulation elsewhere."""
        return x.dtype if self.cell.recurrent_bias else accumulation_dtype(x.dtype)

    def _zoneout(self, masks: DirectionMasks) -> ZoneoutMask | None:
        """The zoneout mask, or its expectation where none was drawn; None without zoneout."""
        if masks.zoneout is not None or not self.zoneout:
            return masks.zoneout
        return (self.zoneout,) * len(self.cell.states)

    def _drops(self, layer: int) -> bool:
        """Whether dropout acts on that layer's output."""
        return self.training and self.dropout > 0 and layer < self.num_layers - 1

    def _project(self, x: Tensor, weights: Weights, add_bias: bool = True) -> Tensor:
        """W_ih x + b of all gates, each gate normalised with `layer_norm`."""
        if x.dim() == 3 and time_first(x):
            return self._project(x.transpose(0, 1), weights, add_bias).transpose(0, 1)  # without a copy of x
        bias = weights.get("bias_ih") if add_bias else None
        if not self.layer_norm:
            return linear(x, weights["weight_ih"], bias)
        gates = linear(x, weights["weight_ih"]).unflatten(-1, (len(self.cell.projections), self.hidden_size))
        projected = layer_norm(gates, (self.hidden_size,)).flatten(-2) * weights["weight_norm"]
        return projected if bias is None else projected + bias

    def _project_output(self, output: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """The output, projected where the projection is no part of the state."""
        if self.proj_size and not self.cell.projects_state:
            return linear(output, weights["weight_hr"])
        return output

    def extra_repr(self) -> str:
        defaults = TORCH_ARGUMENTS | dict.fromkeys(REGULARISERS, 0.0) | {"layer_norm": False}
        shown = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        shown += shown_options(self.cell)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])
