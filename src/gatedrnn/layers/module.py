"""What a layer is made of: the constructor, the parameters and the attributes of `torch.nn.LSTM`."""

from abc import ABC
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatedrnn.equations import Equations
from gatedrnn.layers.arguments import (
    check_blocks,
    check_cell,
    check_dropout,
    check_flag,
    check_hidden_sizes,
    check_options,
    check_projection,
    check_rate,
    check_real,
    check_size,
)
from gatedrnn.layers.flops import register_flop_formulas
from gatedrnn.layers.parameters import Weights, check_initial_values, initialise, shapes, state_sizes
from gatedrnn.layers.regularise import REGULARISERS, DirectionNoise, Noise, draw_keep, draw_locked

TORCH_ARGUMENTS = {
    "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
}  # fmt: skip
"""With their defaults, in the order in which torch prints them."""


def chosen_options(cell: Equations, names: Sequence[str]) -> list[str]:
    """A cell's keyword arguments that are not its defaults, as they are printed."""
    defaults = signature(type(cell)).parameters
    return [f"{k}={getattr(cell, k)!r}" for k in names if getattr(cell, k) != defaults[k].default]


class RecurrentModule(nn.RNNBase, ABC):
    """A cell over time with the signature, attributes and parameter names of `torch.nn.LSTM`.

    An `nn.RNNBase`, because initialisers, weight decay groups and dropout handling ask for one. It shares that class's
    attributes and methods, not its constructor, which knows torch's cells alone, nor its cache of weights: parameters
    are read where they are used, so that whatever replaces one (a parametrisation, `functional_call`) is seen.

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
        zoneout: probability with which a step leaves a number of the state as it was, in training; the expectation
            otherwise. Krueger et al. 2017 (arXiv:1606.01305).
        input_dropout: probability with which a feature of each layer's input is dropped for a whole sequence. Gal &
            Ghahramani 2016 (arXiv:1512.05287).
        state_dropout: the same for the channels of h_(t-1) as gates read them; in a scan cell, whose gates read none,
            for what enters the state, after Semeniuta et al. 2016 (arXiv:1603.05118).
        weight_dropout: probability with which a recurrent weight is dropped for a whole batch (DropConnect). Merity et
            al. 2018 (arXiv:1708.02182). Scan cells have no such weight.
        layer_norm: normalise the input projection, each gate by itself, with a gain (`weight_norm_l0`); never the
            state. After Ba et al. 2016 (arXiv:1607.06450).
        weight_init, bias_init: initial values by name, see `gatedrnn.layers.parameters.initialise`.
        longest_time_scale: of bias_init "time-scales", the default of scan cells: steps, 2 at least; 64 if None. About
            the length over which something must be kept from the start of training.

    Shapes, with `batch_first=True`, P = proj_size or hidden_size, and L = layers × directions:
        input (batch, time, input_size) or (time, input_size) or a `PackedSequence`; output (batch, time,
        directions · P); the state (`hx`, `h_n`) is one tensor (L, batch, hidden_size), or the pair (h, c) of them for
        `LSTM` and `PeepholeLSTM`, where h has P channels, as torch has it.

    Raises:
        TypeError, ValueError: where `torch.nn.LSTM` raises them, and for names and rates out of range.
    """

    cell_class: ClassVar[type[Equations]]
    """The equations."""
    options: ClassVar[tuple[str, ...]] = ()
    """Keyword arguments of the equations that this layer takes too."""
    takes_proj_size: ClassVar[bool] = True
    weight_ih_l0: nn.Parameter  # for type checkers; all are registered in a loop
    weight_hr_l0: nn.Parameter
    weight_init: str = "fan-in"
    bias_init: str = "zeros"
    torch_mode: ClassVar[str | None] = None
    """What `torch.nn` calls this layer's kind; None for kinds that it does not have."""
    __constants__ = ["input_size", "hidden_size", *TORCH_ARGUMENTS]

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        register_flop_formulas()
        check_flag("bias", bias)
        check_flag("batch_first", batch_first)
        for name, size in {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}.items():
            check_size(name, size)
        check_projection(proj_size, self.takes_proj_size)
        check_dropout(dropout, num_layers)
        rates = dict(zip(REGULARISERS, (zoneout, input_dropout, state_dropout, weight_dropout), strict=True))
        for name, rate in rates.items():
            check_rate(name, rate)
        check_options(type(self), options, self.options)
        check_real(type(self).__name__, dtype)
        self.cell = self.cell_class(**options)
        check_cell(self.cell)
        check_blocks(self.cell, hidden_size)
        if weight_dropout and not self.cell.reads_state:
            raise ValueError(f"weight_dropout drops recurrent weights, and {self.cell.name} has none; leave it at 0")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size, self.layer_norm = bidirectional, proj_size, layer_norm
        self.zoneout, self.input_dropout = float(zoneout), float(input_dropout)
        self.state_dropout, self.weight_dropout = float(state_dropout), float(weight_dropout)
        self.weight_init, self.bias_init = weight_init or self.weight_init, bias_init or self.bias_init
        check_initial_values(self.weight_init, self.bias_init, longest_time_scale)
        self.longest_time_scale = longest_time_scale
        self._name_weights()
        for layer in range(num_layers):
            shapes_of_layer = self._shapes(layer)
            for suffix in self._directions:
                for name, shape in shapes_of_layer.items():
                    weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{suffix}", weight)
        self.reset_parameters()

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
        """Draw new initial values, by the layer's schemes."""
        for weights in self._each_weights():
            initialise(self.cell, weights, self.hidden_size, self.weight_init, self.bias_init, self.longest_time_scale)

    @property
    def mode(self) -> str:  # type: ignore[override]
        """What `torch.nn` calls this kind of layer, "LSTM" or "GRU"; the cell's name for all others."""
        return self.torch_mode or self.cell.name

    @property
    def _flat_weights(self) -> list[Any]:
        """All weights in torch's order; None for one that was deleted, as `weight_norm` does before it sets another."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        # Code written for torch assigns the list after it has replaced an attribute.
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if weight is not None and getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    @property
    def output_size(self) -> int:
        """Features of the output: both directions joined."""
        return (self.proj_size or self.hidden_size) * len(self._directions)

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

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise what `forward` raises for a batch and a state that do not fit; arguments as in torch."""
        self.check_input(input, batch_sizes)
        states = hidden if isinstance(hidden, (tuple, list)) else (hidden,)
        check_hidden_sizes(states, self._expected_sizes(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its rows (second axis) in another order; as it is if `permutation` is None."""
        if permutation is None:
            return hx
        if isinstance(hx, (tuple, list)):
            return tuple(state.index_select(1, permutation) for state in hx)
        return hx.index_select(1, permutation)

    def state_sizes(self) -> tuple[int, ...]:
        """Channels of each tensor that one layer and direction hands from step to step."""
        return state_sizes(self.cell, self.hidden_size, self.proj_size)

    def draw_noise(self, batch: int, steps: int) -> Noise:
        """Draw what training drops for `batch` sequences of `steps` steps: for `forward`, or `.at(t)` for `step`."""
        parts = []
        for layer in range(self.num_layers):
            for suffix in self._directions:
                weights = self._weights(layer, suffix)
                like = weights["weight_ih"]
                recurrent = weights.get("weight_hh")
                read = self.hidden_size if recurrent is None else recurrent.shape[1]
                parts.append(
                    DirectionNoise(
                        input=draw_locked(self.input_dropout, batch, like.shape[1], like=like),
                        state=draw_locked(self.state_dropout, batch, read, like=like),
                        weight=None if recurrent is None else draw_locked(
                            self.weight_dropout, *recurrent.shape, like=recurrent
                        ),
                        keep=tuple(draw_keep(self.zoneout, batch, steps, n, like=like) for n in self.state_sizes())
                        if self.zoneout else None,
                    )
                )  # fmt: skip
        return Noise(tuple(parts))

    @property
    def _draws(self) -> bool:
        """Whether something is dropped for whole sequences now."""
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

    def extra_repr(self) -> str:
        defaults = TORCH_ARGUMENTS | dict.fromkeys(REGULARISERS, 0.0) | {"layer_norm": False}
        shown = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        shown += chosen_options(self.cell, self.options)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])
