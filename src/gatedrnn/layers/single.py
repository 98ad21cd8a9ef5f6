"""One step of one cell as a module, shaped like `torch.nn.LSTMCell`."""

from inspect import Signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import torch
from torch import Tensor, nn

from gatedrnn.equations import Option, Recurrent, output_of, split_gates
from gatedrnn.kernels.backends import accumulation_dtype, is_proxy, streams
from gatedrnn.kinds.definition import one_step
from gatedrnn.layers.arguments import (
    as_states,
    check_dtype,
    check_input_axes,
    check_options,
    check_real,
    check_size,
    check_state_dtypes,
)
from gatedrnn.layers.graphs import for_script, record_as_node
from gatedrnn.layers.layer import HiddenT, RecurrentLayer
from gatedrnn.layers.module import shown_options, signature_with_options
from gatedrnn.shapes import Hidden, InputStep, StateTuple, Step


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

    __signature__: ClassVar[Signature | None]
    layer_class: ClassVar[type[RecurrentLayer[Any]]]
    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__signature__ = None  # that of its own constructor
        elif "layer_class" in vars(cls):
            cls.__signature__ = signature_with_options(SingleStep, cls.layer_class.cell_class)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **options: Option,
    ) -> None:  # fmt: skip
        # Not the constructor of RNNCellBase, which makes torch's own parameters.
        nn.Module.__init__(self)
        # torch's cells accept sizes of 0, which its layers refuse.
        check_size("input_size", input_size, least=0)
        check_size("hidden_size", hidden_size, least=0)
        check_options(type(self), options, self.layer_class.cell_class)
        check_real(type(self).__name__, dtype)
        layer_size = hidden_size or self.layer_class.cell_class(**options).block_size  # a layer has a channel at least
        layer_class: Any = self.layer_class  # options are keyword arguments beside those of every layer
        # On "meta" it takes no memory: it reads this module's parameters, and runs the step.
        layer: RecurrentLayer[Any] = layer_class(
            max(input_size, 1), layer_size, bias=bool(bias), device="meta", weight_init=weight_init,
            bias_init=bias_init, longest_time_scale=longest_time_scale, **options,
        )  # fmt: skip
        layer.input_size, layer.hidden_size = input_size, hidden_size
        layer.eval()._run_step_of(self._read_own_weight)  # it has no dropout, whatever the mode of this module
        # In a tuple, which hides it from `nn.Module`: `modules()` and `repr` would list a child.
        self._layers = (layer,)
        self.cell, self.input_size, self.hidden_size, self.bias = layer.cell, input_size, hidden_size, bias
        self.weight_init, self.bias_init = layer.weight_init, layer.bias_init
        self.longest_time_scale = longest_time_scale
        for name, shape in layer._shapes(0).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        # As torch's cells: a missing bias is an attribute that is None.
        for name in ("bias_ih", "bias_hh"):
            if name not in self._parameters:
                self.register_parameter(name, None)
        self.reset_parameters()

    @property
    def _layer(self) -> RecurrentLayer[Any]:
        """A layer that reads these weights and runs the step."""
        return self._layers[0]

    def _read_own_weight(self, name: str) -> Tensor:
        """Return a weight: a shared or parametrised one is an attribute, and no parameter of its name."""
        name = name.removesuffix("_l0")
        weight: Tensor | None = self._parameters.get(name)
        return getattr(self, name) if weight is None else weight

    def reset_parameters(self) -> None:
        """Initialise the parameters again by the cell's schemes."""
        self._layer.reset_parameters()

    def forward(self, input: Step, hx: Hidden | None = None, *, wide_state: bool = False) -> Hidden:
        """Return the state after one step, in the input's dtype.

        Args:
            input: (batch, input_size) or (input_size,).
            hx: the state before, in the input's dtype or in float32 at least; the initial state if None.
            wide_state: return the state in float32 at least, as it is computed.
        """
        if is_proxy(input):
            return record_as_node(self, (input, hx), {"wide_state": None if wide_state is False else True})  # type: ignore[return-value]
        layer = self._layer
        torch_layers = layer._kind.torch_layers
        after = None if torch_layers is None else torch_layers.step(self, input, hx)
        if after is not None:
            return after
        if streams(input) and input.dim() == 2:
            result = layer._step_fused(input, hx)
            if result is not None:
                return result[1] if len(result[1]) > 1 else result[1][0]
        title = type(self).__name__
        check_input_axes(title, input, batched=2)
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        states = None if hx is None else self._check_states(hx, x, batched)
        # After all sizes: where both are wrong, torch names the size.
        check_dtype(title, input, layer.read_weight("weight_ih_l0"))
        weights, before = layer.read_weights(0, ""), self._cast_or_init(states, x, wide_state)
        series, before, last_input = layer._wrapper.concat_previous_input(x.unsqueeze(1), before)
        projected = layer.project(series.squeeze(1), weights)
        after = one_step(self.cell, projected, before, Recurrent(self.cell.projections, weights))
        dtype = accumulation_dtype(x.dtype) if wide_state else x.dtype
        after = tuple((s if batched else s[0]).to(dtype) for s in (*after, *last_input))
        return after if len(after) > 1 else after[0]

    def __prepare_scriptable__(self) -> nn.Module:
        # torch's module would not run a subclass's own `forward`.
        if type(self).forward is not SingleStep.forward:
            return for_script(self, None, "torch.nn has no cell of its kind")
        return for_script(self, *self._layer._module_of_torch(single=True))

    def output(self, hx: Hidden, input: Step | None = None, before: Hidden | None = None) -> Step:
        """Return the layer's output from a state: h.

        Args:
            hx: the state after a step.
            input: the input of that step; needed by a cell whose output reads its projections.
            before: the state before that step, for a cell whose projections read the input of the step before; None:
                the initial state.
        """
        state, layer = hx if isinstance(hx, (tuple, list)) else (hx,), self._layer
        gates: tuple[Step, ...] = ()
        if input is not None:
            batched = input.dim() == 2
            x = input if batched else input.unsqueeze(0)
            states = self._cast_or_init(None if before is None else self._check_states(before, x, batched), x, True)
            series, _, _ = layer._wrapper.concat_previous_input(x.unsqueeze(1), states)
            projected = layer.project(series.squeeze(1) if batched else series[0, 0], layer.read_weights(0, ""))
            gates = split_gates(len(self.cell.projections), projected)
        return output_of(self.cell, tuple(state)[: len(self.cell.states)], gates)

    def _check_states(self, hx: Hidden, x: InputStep, batched: bool) -> StateTuple:
        """Check the shapes of `hx`, and return it as a tuple."""
        title = type(self).__name__
        states = as_states(title, hx, len(self._layer.state_names))
        for number, state in enumerate(states):
            if state.dim() not in (1, 2):
                which = f"hx[{number}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{title}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        states = states if batched else tuple(s.unsqueeze(0) for s in states)
        for number, (state, size) in enumerate(zip(states, self._layer.state_sizes(), strict=True)):
            if len(state) != len(x):
                raise RuntimeError(f"Input batch size {len(x)} doesn't match hidden{number} batch size {len(state)}")
            if tuple(state.shape[1:]) != (size,):
                channels = state.shape[1] if state.dim() > 1 else "one axis alone"
                raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {channels}, expected {size}")
        return states

    def _cast_or_init(self, states: StateTuple | None, x: InputStep, wide_state: bool) -> StateTuple:
        wide = accumulation_dtype(x.dtype)
        dtype = wide if wide_state else self._layer._state_dtype(x)
        if states is None:
            return tuple(s[0].to(dtype) for s in self._layer.start_state(x))
        check_state_dtypes(type(self).__name__, states, {wide, x.dtype})
        return tuple(s.to(dtype) for s in states)

    def extra_repr(self) -> str:
        shown = [] if self.bias else ["bias=False"]
        shown += shown_options(self.cell)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])
