"""A layer's constructor, parameters and attributes, as `torch.nn.LSTM` has them, and its products with weights."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm as normalize

from gatedrnn.equations import Equations, Option
from gatedrnn.kernels.backends import accumulation_dtype
from gatedrnn.kernels.matmul import linear
from gatedrnn.kernels.op import register_flop_formulas
from gatedrnn.kinds import kernel_of, kind_of, programs
from gatedrnn.kinds.definition import ZoneoutMask
from gatedrnn.kinds.kind import Kernel, LayerConfiguration, Weights
from gatedrnn.layers.arguments import (
    check_blocks,
    check_dropout,
    check_flag,
    check_hidden_sizes,
    check_options,
    check_projection,
    check_rate,
    check_real,
    check_size,
    why_refused,
)
from gatedrnn.layers.check_cell import check_cell
from gatedrnn.layers.dropout import DirectionMasks, DropoutMasks, draw_dropout_mask, draw_zoneout_mask
from gatedrnn.layers.parameters import check_initialisation, initialise, shapes
from gatedrnn.layers.wrappers import PLAIN, Wrapper
from gatedrnn.names import REGULARISERS
from gatedrnn.shapes import Hidden, StateTuple, time_first

_TORCH_ARGUMENTS = {
    "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
}  # fmt: skip
"""Arguments of torch's layers with their defaults, in the order in which torch prints them."""


def _caller_level() -> int:
    """Return the stack level of the line that called torch."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("torch."):
        level, frame = level + 1, frame.f_back
    return level


def shown_options(cell: Equations) -> list[str]:
    """Return a cell's chosen options, as they are printed."""
    return [f"{name}={value!r}" for name, value in cell.chosen_options.items()]


def signature_with_options(base: type[nn.Module], equations: type[Equations]) -> Signature:
    """Return the signature of the base's constructor with the cell's options, which `help` and editors show."""
    inherited = signature(base.__init__)
    options = (each.replace(kind=Parameter.KEYWORD_ONLY) for each in signature(equations).parameters.values())
    fixed = [parameter for parameter in inherited.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    return inherited.replace(parameters=[*fixed[1:], *options])


class RecurrentModule(nn.RNNBase):
    """A cell over time with the signature, attributes and parameter names of `torch.nn.LSTM`.

    An `nn.RNNBase`, because initialisers, weight decay groups and dropout handling ask for one. It shares that class's
    attributes and methods, not its constructor, which knows torch's cells alone, nor its cache of weights: parameters
    are read where they are used, so that whatever replaces one (a parametrisation, `functional_call`) is seen.

    A subclass names its equations: `cell_class = MyEquations`.
    """

    __signature__: ClassVar[Signature | None]
    cell_class: ClassVar[type[Equations]]
    """The equations; keyword arguments of theirs are keyword arguments of the layer."""
    wrapper: "ClassVar[staticmethod[[Any], Wrapper]]" = staticmethod(lambda cell: PLAIN)
    """The wrapper around the equations, from these: inputs and weights that the layer reads or stores differently."""
    configuration: LayerConfiguration
    """The layer's arguments as they are now; setting an attribute of such a name changes it too."""
    _has_replaced: bool = False
    """Whether a tensor is read instead of a parameter, see `_flat_weights`."""
    _kernel: Kernel | None = None
    """The kernel that was found for the parameters as they were; see `kernel`."""
    weight_ih_l0: nn.Parameter  # for type checkers; all are registered in a loop
    weight_hr_l0: nn.Parameter
    __constants__ = ["input_size", "hidden_size", *_TORCH_ARGUMENTS]

    # RNNBase keeps a list of the weights and repairs it wherever one may have been replaced; nothing is kept here.
    _apply = nn.Module._apply
    _replicate_for_data_parallel = nn.Module._replicate_for_data_parallel

    def __setattr__(self, name: str, value: Any) -> None:
        nn.Module.__setattr__(self, name, value)
        # Attributes may be set after the constructor, as in torch; kinds read the record alone.
        if name in LayerConfiguration._fields and "configuration" in vars(self):
            self.configuration = self.configuration._replace(**{name: value})

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **options: Option,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        register_flop_formulas()
        check_flag("bias", bias)
        check_flag("batch_first", batch_first)
        for name, size in {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}.items():
            check_size(name, size)
        check_dropout(dropout, num_layers)
        rates = dict(zip(REGULARISERS, (zoneout, input_dropout, state_dropout, weight_dropout), strict=True))
        for name, rate in rates.items():
            check_rate(name, rate)
        check_options(type(self), options, self.cell_class)
        check_real(type(self).__name__, dtype)
        self._set_cell(self.cell_class(**options))
        check_projection(proj_size)
        if self._kind.torch_layers is not None:
            self._kind.torch_layers.check_sizes(self.cell, hidden_size, proj_size)
        check_blocks(self.cell, hidden_size, self._wrapper.blocks)
        refused = why_refused(rates, {self.cell.name: self.cell})
        if refused is not None:
            raise ValueError(refused)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size, self.layer_norm = bidirectional, proj_size, layer_norm
        self.zoneout, self.input_dropout = float(zoneout), float(input_dropout)
        self.state_dropout, self.weight_dropout = float(state_dropout), float(weight_dropout)
        self.configuration = LayerConfiguration(
            input_size, hidden_size, num_layers, bias, batch_first, self.dropout, bidirectional, proj_size,
            self.zoneout, self.input_dropout, self.state_dropout, self.weight_dropout, layer_norm,
        )  # fmt: skip
        self.weight_init = weight_init or self._kind.facts(self.cell).weight_init
        self.bias_init = bias_init or self.cell.bias_init
        check_initialisation(self.cell, self.weight_init, self.bias_init, longest_time_scale)
        self.longest_time_scale = longest_time_scale
        self._name_weights()
        for layer in range(num_layers):
            shapes_of_layer = self._shapes(layer)
            for suffix in self._directions:
                for name, shape in shapes_of_layer.items():
                    weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{suffix}", weight)
        self.reset_parameters()

    def _set_cell(self, cell: Equations) -> None:
        self.cell, self._kind, self._wrapper = cell, kind_of(cell), type(self).wrapper(cell)
        # Before anything is traced: these errors name the method and the shapes.
        check_cell(cell)
        programs.register(cell)
        kernel_of(cell)  # traced here, for `torch.compile` cannot look into it

    def __getstate__(self) -> dict[str, Any]:
        # Caches find programs by identity: a copied one would be compiled again, so that a copy finds its own.
        return vars(self) | {"_kernel": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)
        # Unpickling runs no constructor.
        register_flop_formulas()

    def reset_parameters(self) -> None:
        """Initialise the parameters again by the layer's schemes."""
        schemes = self.weight_init, self.bias_init, self.longest_time_scale
        for weights in self._iter_weights():
            initialise(self.cell, weights, self.hidden_size, *schemes, self._wrapper.blocks)

    @property
    def mode(self) -> str:  # type: ignore[override]
        """The name of such a layer in `torch.nn`, "LSTM" or "GRU"; the cell's name for all others."""
        torch_layers = self._kind.torch_layers
        return self.cell.name if torch_layers is None else torch_layers.name(self.cell)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the tensors of `hx`, in order."""
        return (*self.cell.states, *self._wrapper.states)

    def flat_weights(self) -> list[Tensor | None]:
        """Return all weights in torch's order.

        One that was deleted, as `weight_norm` does before it sets another, is None.
        """
        names, parameters = self._flat_weights_names, {} if self._has_replaced else self._parameters
        # A dictionary is faster than torch's `__getattr__`.
        return [getattr(self, name, None) if (p := parameters.get(name)) is None else p for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return self.flat_weights()

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
                self._has_replaced = True

    @property
    def output_size(self) -> int:
        """Features of the output: both directions joined."""
        return (self.proj_size or self.hidden_size) * len(self._directions)

    @property
    def qconfig(self) -> object:
        """The configuration that torch's quantisation sets on every module of a model; setting it warns."""
        return self.__dict__.get("qconfig")

    @qconfig.setter
    def qconfig(self, value: object) -> None:
        self.__dict__["qconfig"] = value
        has_torchs = self._module_of_torch(single=True)[0] is not None
        warnings.warn(
            f"{type(self).__name__} stays in floating point: torch's quantisation knows its own classes alone"
            + (f"; load this state dict into nn.{self.mode} and quantise that" if has_torchs else ""),
            stacklevel=_caller_level(),
        )

    @qconfig.deleter
    def qconfig(self) -> None:
        del self.__dict__["qconfig"]

    def flatten_parameters(self) -> None:
        """Do nothing; code written for `torch.nn` calls it."""

    _init_flat_weights = _update_flat_weights = flatten_parameters

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the state, of its first tensor if it has several: (L, batch, channels).

        Args:
            input: a batch of sequences, or the data of a `PackedSequence`.
            batch_sizes: those of the `PackedSequence`; None for a tensor.
        """
        return self._expected_sizes(input, batch_sizes)[0]

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the state's last tensor: c of an LSTM, which is not projected."""
        return self._expected_sizes(input, batch_sizes)[-1]

    def check_forward_args(self, input: Tensor, hidden: Hidden, batch_sizes: Tensor | None) -> None:
        """Raise the errors of `forward` for a batch and a state that do not fit; arguments as in torch."""
        self.check_input(input, batch_sizes)
        states = hidden if isinstance(hidden, (tuple, list)) else (hidden,)
        check_hidden_sizes(states, self._expected_sizes(input, batch_sizes))

    def permute_hidden(self, hx: Hidden, permutation: Tensor | None) -> Hidden:
        """Permute the rows (second axis) of a state; None leaves it unchanged."""
        if permutation is None:
            return hx
        if isinstance(hx, (tuple, list)):
            return tuple(state.index_select(1, permutation) for state in hx)
        return hx.index_select(1, permutation)

    def state_sizes(self) -> tuple[int, ...]:
        """Return the channels of each tensor of `hx`, for one layer and direction."""
        widest = max(self.input_size, self.output_size if self.num_layers > 1 else 0)
        first = self.proj_size if self.proj_size and self.cell.projects_state else self.hidden_size
        others = len(self.cell.states) - 1
        return (first, *(self.hidden_size,) * others, *(widest,) * (self._wrapper.inputs - 1))

    def draw_dropout_masks(self, batch: int, steps: int) -> DropoutMasks:
        """Draw the masks of training for `batch` sequences of `steps` steps: for `forward`, or `.at(t)` for `step`."""
        directions = []
        for number, weights in enumerate(self._iter_weights()):
            like, recurrent = weights["weight_ih"], weights.get("weight_hh")
            features = self._features(number // len(self._directions))
            drawn = DirectionMasks(
                input=draw_dropout_mask(self.input_dropout, batch, features, like=like),
                state=draw_dropout_mask(self.state_dropout, batch, self.state_sizes()[0], like=like),
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

    def _module_of_torch(self, single: bool) -> tuple[nn.Module | None, str]:
        """Return torch's layer, or single step, of the same shapes on no device; or None, and why none computes the
        same."""
        torch_layers = self._kind.torch_layers
        if torch_layers is None:
            return None, f"torch.nn has no {'cell' if single else 'layer'} of its kind"
        return torch_layers.module(self, single)

    def _draws_masks(self) -> bool:
        """Whether masks are drawn for whole sequences now."""
        return self.training and self.configuration.regularised

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _features(self, layer: int) -> int:
        """Return the input features of a layer of the stack."""
        return self.input_size if layer == 0 else self.output_size

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        sizes = self._features(layer), self.hidden_size, self.bias, self.proj_size
        return shapes(self.cell, *sizes, self.layer_norm, self._wrapper)

    def _name_weights(self) -> None:
        """Make torch's two lists: the parameters' names by layer and direction, and flat."""
        self._all_weights = [
            [f"{name}_l{layer}{suffix}" for name in self._shapes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._directions
        ]
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    def _expected_sizes(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, int, int]]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.shape[0 if self.batch_first else 1]
        return [(self.num_layers * len(self._directions), batch, size) for size in self.state_sizes()]

    def _weight(self, name: str) -> Tensor:
        """Return a parameter, or its replacement, by its full name."""
        weight: Tensor = getattr(self, name)
        return weight

    def _run_step_of(self, read: Callable[[str], Tensor]) -> None:
        """Run the single steps of another module: delete the parameters, and read its own."""
        self._parameters.clear()
        self._weight = read  # type: ignore[method-assign, assignment]
        self.configuration = self.configuration._replace(stacks_states=False)

    def kernel(self) -> Kernel:  # no property: of an attribute that it misses, torch would name the property
        """Return the kernel for the dtype and the device of the parameters, found once."""
        weight, found = self.read_weight("weight_ih_l0"), self._kernel
        # Operations find equations by their name: once a class is defined again, the first has no kernel.
        replaced = found and found.program and programs.CLASSES.get(self.cell.name) is not type(self.cell)
        if found is None or found.dtype != weight.dtype or found.device != weight.device or replaced:
            found = self._kind.kernel(self.cell, weight.device, weight.dtype)
            # While a graph is made, an attribute that is set becomes a side effect of the graph.
            if not torch.compiler.is_compiling():
                self._kernel = found
        return found

    def read_weight(self, name: str) -> Tensor:
        """Return a parameter as the equations read it, without the cost of `getattr` unless it is replaced."""
        weight: Tensor | None = None if self._has_replaced else self._parameters.get(name)
        weight = self._weight(name) if weight is None else weight  # a parametrisation, a pruning, a plain tensor
        if self._wrapper.blocks > 1 and name.startswith("weight_hh"):
            return self._wrapper.whole(weight, len(self.cell.projections))
        return weight

    def read_weights(self, layer: int, suffix: str, dropped: Tensor | None = None) -> Weights:
        """Return the parameters of one layer and direction for the equations; `dropped` multiplies `weight_hh`."""
        weights = self._layer_weights(layer, suffix)
        if dropped is not None:
            weights["weight_hh"] = weights["weight_hh"] * dropped
        return weights if self._wrapper.blocks == 1 else self._wrapper.read(weights, len(self.cell.projections))

    def _iter_weights(self) -> Iterator[Weights]:
        """Yield the parameters of every layer and direction, in the order of stacked states."""
        for layer in range(self.num_layers):
            for suffix in self._directions:
                yield self._layer_weights(layer, suffix)

    def _layer_weights(self, layer: int, suffix: str) -> Weights:
        """Return the parameters of one layer and direction."""
        weights, number = {}, layer * (1 + self.bidirectional) + (suffix != "")
        # A dictionary is faster than torch's `__getattr__`, which also finds what stands in a parameter's place.
        parameters = {} if self._has_replaced else self._parameters
        for name in self._all_weights[number]:
            weight = parameters.get(name)
            weights[name.removesuffix(f"_l{layer}{suffix}")] = self._weight(name) if weight is None else weight
        return weights

    def start_state(self, x: Tensor) -> StateTuple:
        """Return the state before the first step of these rows."""
        leading, dtype = (self.num_layers * len(self._directions), x.shape[0]), self._state_dtype(x)
        if "initial_state_l0" in self._all_weights[0]:
            learned = torch.stack([weights["initial_state"] for weights in self._iter_weights()])
            return (learned.to(dtype).unsqueeze(1).expand(*leading, -1),)
        return tuple([x.new_zeros(*leading, size, dtype=dtype) for size in self.state_sizes()])

    def _state_dtype(self, x: Tensor) -> torch.dtype:
        """Return the dtype of a state: torch's in its LSTM and GRU, elsewhere that of accumulation."""
        torch_layers = self._kind.torch_layers
        return accumulation_dtype(x.dtype) if torch_layers is None else torch_layers.state_dtype(self.cell, x.dtype)

    def _zoneout(self, masks: DirectionMasks) -> ZoneoutMask | None:
        """Return the zoneout mask, or its expectation if none was drawn; None without zoneout."""
        if masks.zoneout is not None or not self.zoneout:
            return masks.zoneout
        return (self.zoneout,) * len(self.cell.states)

    def project(self, x: Tensor, weights: Weights, add_bias: bool = True) -> Tensor:
        """Compute W_ih x + b of all gates, each gate normalised with `layer_norm`."""
        if x.dim() == 3 and time_first(x):
            return self.project(x.transpose(0, 1), weights, add_bias).transpose(0, 1)  # without a copy of x
        bias = weights.get("bias_ih") if add_bias else None
        if not self.layer_norm:
            return linear(x, weights["weight_ih"], bias)
        gates = linear(x, weights["weight_ih"]).unflatten(-1, (len(self.cell.projections), self.hidden_size))
        # The bias is added after the norm, which would take a common shift out again.
        projected = normalize(gates, (self.hidden_size,)).flatten(-2) * weights["weight_norm"]
        return projected if bias is None else projected + bias

    def project_output(self, output: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """Project the output, unless the projection is part of the state."""
        if self.proj_size and not self.cell.projects_state:
            return linear(output, weights["weight_hr"])
        return output

    def extra_repr(self) -> str:
        defaults = _TORCH_ARGUMENTS | dict.fromkeys(REGULARISERS, 0.0) | {"layer_norm": False}
        shown = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        shown += shown_options(self.cell)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])
