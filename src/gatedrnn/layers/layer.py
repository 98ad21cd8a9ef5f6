"""A cell over time, whole or by `step`: directions, stacking, masks, resets, packing, streaming.

What differs between kinds of cells is the layer's `Kind`, see `gatedrnn.kinds`.
"""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence
from typing_extensions import TypeVar  # with a default; torch brings it

from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.backends import (
    DTYPES,
    accumulation_dtype,
    autocast_dtype,
    exporting_to_onnx,
    is_proxy,
    streams,
    traced,
)
from gatedrnn.kinds.definition import time_after_real_steps, zero_masked_steps
from gatedrnn.kinds.kind import Direction, Pass, Path
from gatedrnn.kinds.loop.path import in_torch_steps
from gatedrnn.kinds.stream import ROWS, kernel_states
from gatedrnn.layers.arguments import (
    as_states,
    check_features,
    check_flags,
    check_gaps,
    check_hidden_sizes,
    check_input_axes,
    check_state_axes,
    check_state_dtypes,
    takes,
)
from gatedrnn.layers.dropout import NO_MASKS, DropoutMasks
from gatedrnn.layers.graphs import for_script, record_as_node
from gatedrnn.layers.module import RecurrentModule, signature_with_options
from gatedrnn.shapes import Features, Flags, Gaps, Hidden, InputStep, Series, States, StateTuple, Step, time_first

HiddenT = TypeVar("HiddenT", bound=Hidden, default=Any)
"""The form of `hx` and `h_n`: a tensor, or for LSTMs the pair (h, c)."""


class _Call(NamedTuple):
    """The arguments of a call, checked, the batch first."""

    x: Series
    """(batch, time, features), rows in the caller's order."""
    hx: Any
    """The state as it was passed, without the time since the last real step."""
    mask: Flags | None
    resets: Flags | None
    gaps: Gaps | None
    batched: bool = True
    """Whether the caller's tensors have an axis of sequences."""
    packed: PackedSequence | None = None
    """The input, if it is one."""


class RecurrentLayer(RecurrentModule, Generic[HiddenT]):
    """A cell over time, stacked, with the signature of `torch.nn.LSTM`: the base of all layers.

    A subclass names its equations, as the example does; `register` makes it known to models and commands. Options of
    the equations are keyword arguments of the layer.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, 1 or more.
        num_layers: layers, 1 or more; each reads the output of the layer below.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out; False, torch's default, for (time, batch, features).
        dropout: probability with which an element of the output between layers is zeroed, in training; not after the
            last layer.
        bidirectional: adds a second set of weights that runs from the last step to the first; outputs are concatenated,
            forward first.
        proj_size: if above 0, outputs are projected to this size (`weight_hr_l0`). In an LSTM, whose gates read the
            projection, it must be below hidden_size.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: probability with which a step leaves an element of the state as it was, in training; in evaluation the
            expectation. Krueger et al. 2017 (arXiv:1606.01305).
        input_dropout: probability with which a feature of each layer's input is zeroed for a whole sequence. Gal &
            Ghahramani 2016 (arXiv:1512.05287).
        state_dropout: the same for the channels of h_(t-1) as gates read them; in a scan cell, whose gates read none,
            for the drive, after Semeniuta et al. 2016 (arXiv:1603.05118).
        weight_dropout: probability with which a recurrent weight is zeroed for a whole batch (DropConnect). Merity et
            al. 2018 (arXiv:1708.02182). Scan cells have no such weight.
        layer_norm: normalise the input projection, each gate by itself, with a gain (`weight_norm_l0`); never the
            state. After Ba et al. 2016 (arXiv:1607.06450).
        weight_init, bias_init: initialisation by name, see `gatedrnn.layers.parameters.initialise`; the cell's own if
            None.
        longest_time_scale: the longest time scale of bias_init "time-scales", the default of scan cells: steps, 2 at
            least; 64 if None. About the length over which the state must remember at the start of training.

    Weights:
        weight_ih_l0: (gates · hidden_size, input_size), a block of rows for each of the cell's `projections`, in order.
        weight_hh_l0: (gates · hidden_size, hidden_size), of cells whose gates read the state through a matrix; with
            proj_size columns if they read the projection.
        bias_ih_l0: (gates · hidden_size,), unless `bias` is False; `bias_hh_l0` alike, of cells with a second bias.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (gates · hidden_size,), with `layer_norm`; begins at 1.

        Further ones are the cell's own. Layer k has `_lk` in the place of `_l0`, and reads as many features as the
        layer below puts out; the reversed direction has `_reverse` behind that.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step, a tuple where it is several tensors; each (L, batch, hidden_size) with L =
            num_layers · directions, (L, hidden_size) for an unbatched input. If gates read the projection, the first
            has proj_size channels; the input of the step before, of cells that read it, is as wide as the widest
            input of a layer. None: the layer's initial state.
        mask, resets, gaps, dropout_masks, wide_state: keyword arguments, see `forward`.

    Outputs: output, h_n
        output: like input with directions · (proj_size or hidden_size) features; a `PackedSequence` for one.
        h_n: the state after the last step, like hx.

    Raises:
        TypeError, ValueError, RuntimeError: where `torch.nn.LSTM` raises them; for names and rates out of range; for
            equations that return something else than they must.

    Example:
        >>> class AverageEquations(gatedrnn.equations.ScanEquations):
        ...     name = "average"
        ...     projections = ("candidate",)
        ...
        ...     def coefficients(self, candidate):
        ...         return torch.full_like(candidate, 0.9), 0.1 * candidate
        >>> class Average(gatedrnn.RecurrentLayer):
        ...     cell_class = AverageEquations
        >>> output, h_n = Average(3, 8, batch_first=True)(torch.randn(2, 5, 3))
        >>> tuple(output.shape), tuple(h_n.shape)
        ((2, 5, 8), (1, 2, 8))
    """

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, input: Tensor, hx: HiddenT | None = None, *, mask: Tensor | None = None,
            resets: Tensor | None = None, gaps: Tensor | None = None, dropout_masks: DropoutMasks | None = None,
            wide_state: bool = False,
        ) -> tuple[Tensor, HiddenT]: ...  # fmt: skip
        @overload
        def __call__(
            self, input: PackedSequence, hx: HiddenT | None = None, *, mask: Tensor | None = None,
            resets: Tensor | None = None, gaps: Tensor | None = None, dropout_masks: DropoutMasks | None = None,
            wide_state: bool = False,
        ) -> tuple[PackedSequence, HiddenT]: ...  # fmt: skip
        def __call__(self, *args: object, **kwargs: object) -> object: ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__signature__ = None  # that of its own constructor, not the one of the class above it
        elif "cell_class" in vars(cls):
            cls.__signature__ = signature_with_options(RecurrentLayer, cls.cell_class)

    @property
    def backend(self) -> str:
        """The backend of the layer, "auto" or one of `backends`; may be set. `runs_on` says what "auto" takes, and why.

        Raises:
            BackendUnavailable: on setting a backend that cannot run this layer as it is configured, on its device.
        """
        return self.configuration.backend

    @backend.setter
    def backend(self, name: str) -> None:
        if name not in ("auto", *self.backends):
            names = ", ".join(("auto", *self.backends))
            missing = self.kernel().missing if name == "native" else None
            why = "" if missing is None else f" ({missing})"
            raise BackendUnavailable(
                f"backend {name!r} cannot run this {type(self).__name__}{why}; choose one of {names}"
            )
        self.configuration = self.configuration._replace(backend=name)

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that can run this layer as configured, on its device, among "reference", "native" and "torch"."""
        return self._kind.backends(self)

    def runs_on(self, training: bool | None = None, steps: int | None = None) -> Path:
        """Return the execution path of this layer as configured, on its device, and the reason.

        Args:
            training: whether in training; the layer's present mode if None.
            steps: the length of a sequence without mask and resets; None for a long one. A `GRU` runs short ones by
                torch's kernel, shorter ones where gradients are enabled.
        """
        return self._kind.path(self, Pass.configured(self, self.training if training is None else training, steps))

    def forward(
        self, input: Features | PackedSequence, hx: Hidden | None = None, *,
        mask: Flags | None = None, resets: Flags | None = None, gaps: Gaps | None = None,
        dropout_masks: DropoutMasks | None = None, wide_state: bool = False,
    ) -> tuple[Tensor | PackedSequence, Hidden]:  # fmt: skip
        """Run the whole sequence at once.

        Args:
            input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size),
                or a `PackedSequence`, for which one is returned.
            hx: the state before the first step; the layer's initial state if None: zeros, unless the cell learns one.
            mask: bool, the input's first axes; True = real step. A masked step leaves the state as it was, outputs 0.
            resets: bool, the input's first axes (of a packed sequence: of the same padded). A reset at t cuts between
                t-1 and t, in both directions: the state returns to the layer's initial state; at t = 0 it discards
                `hx`.
            gaps: floating point, the input's first axes (of a packed sequence: of the same padded): the time from step
                t-1 to t, 0 or more; at t = 0 since `hx`. The decay, which must lie between 0 and 1, is raised to it; 1
                everywhere changes nothing. A masked step adds its gap to that of the next real step, of the next call
                too: with `mask` and gaps, `h_n` ends with one more tensor, the time since the last real step, (L,
                batch, 1), and `hx` may too. In the reversed direction gaps shift by one: step t reads a state that is
                gaps[t+1] away, the last step one that is 1 away. A cell with `gap_features` learns the effect of a gap,
                and also accepts one more axis of that many times, each since its feature was last seen, which are not
                summed; with two directions those of the forward one come first.
            dropout_masks: from `draw_dropout_masks`, instead of new ones.
            wide_state: return the state in float32 at least, as it is carried inside, so that chunks of a sequence in
                half precision round no more than the whole; `hx` may be as wide in any case. torch's kernels of `LSTM`
                and `GRU` carry a narrow one.

        Returns:
            The output (under autocast in its dtype), and the state after the last real step, for the next chunk: in the
            dtype of `torch.nn`'s layers, that of the input, or wider with `wide_state`.

        Raises:
            RuntimeError, ValueError, TypeError: where `torch.nn.LSTM` raises them; ValueError for flags of another
                shape or dtype.
        """
        # A proxy of `torch.fx` has no shape that the checks below could read.
        if is_proxy(input):
            named: dict[str, object] = {"mask": mask, "resets": resets, "gaps": gaps, "dropout_masks": dropout_masks}
            named["wide_state"] = None if wide_state is False else True
            return record_as_node(self, (input, hx), named)  # type: ignore[return-value]
        result = None
        # Kernels that run the whole stack in one call take none of these.
        if mask is None and resets is None and gaps is None and dropout_masks is None:
            result = self._run_fused(input, hx, wide_state)
        if result is None:
            call = self._prepare(input, hx, mask, resets, gaps)
            state = self._check_state(call.hx, call.x, call.batched, wide_state)
            masks = self._get_masks(dropout_masks, *call.x.shape[:2])
            output, state = self._run_stack(call, state, masks)
            result = self._format_result(call, output, state, wide_state)
        return result

    def step(
        self, x: InputStep, hx: States | StateTuple | None = None, *,
        resets: Flags | None = None, gaps: Tensor | None = None, dropout_masks: DropoutMasks | None = None,
        wide_state: bool = False,
    ) -> tuple[Step, HiddenT]:  # fmt: skip
        """Run one step of a stream: the same values as the whole sequence at once.

        Args:
            x: (batch, input_size), or (input_size,) without a batch.
            hx: the state that the last call returned; None for the layer's initial state.
            resets: bool, (batch,), or () without a batch: rows whose state first returns to the initial state.
            gaps: the same axes: the time since the step before, 0 or more; or with an axis of `gap_features`.
            dropout_masks: those of this step, `draw_dropout_masks(batch, steps).at(t)`; needed in training if the layer
                has dropout or zoneout of whole sequences.
            wide_state: as in `forward`.

        Returns:
            The output (batch, P), and the state for the next call.
        """
        if resets is None and gaps is None and dropout_masks is None and streams(x) and x.dim() == 2:
            result = self._step_fused(x, hx)
            if result is not None:
                output, state = result
                return output, state if len(state) > 1 else state[0]  # type: ignore[return-value]
        if self.bidirectional:
            raise ValueError("step needs one direction: a bidirectional layer must see the end before it can begin")
        check_input_axes(f"{type(self).__name__}.step", x, batched=2)
        if dropout_masks is None and self._draws_masks():
            raise ValueError(
                "step cannot draw the masks of a whole sequence; pass "
                "dropout_masks=layer.draw_dropout_masks(batch, steps).at(t), or call eval() first"
            )
        batched = x.dim() == 2
        rows = x if batched else x.unsqueeze(0)
        if dropout_masks is not None:
            self._check_masks(dropout_masks, f"draw_dropout_masks({len(rows)}, steps).at(t)", len(rows))
        check_features(rows, self.read_weight("weight_ih_l0"), self.input_size)
        if resets is not None:
            check_flags("resets", resets, tuple(x.shape[:-1]))
        if gaps is not None:
            check_gaps(self.cell, gaps, tuple(x.shape[:-1]))
            gaps = gaps if batched else gaps.unsqueeze(0)
            if gaps.dim() == 1:
                hx, gaps = self._add_elapsed(hx, gaps.unsqueeze(1), resets, batched)
                gaps = gaps.squeeze(1)
        state = self._check_state(hx, rows, batched, wide_state)
        if resets is not None:
            start = self.start_state(rows)
            state = tuple(torch.where(resets.view(-1, 1), a.to(s.dtype), s) for a, s in zip(start, state, strict=True))
        result = None
        if gaps is None and dropout_masks is None and self._wrapper.inputs == 1:
            result = self._kind.step(self, rows, state)
        if result is None:
            series, times = rows.unsqueeze(1), None if gaps is None else gaps.unsqueeze(1)
            masks = None if dropout_masks is None else dropout_masks.over_time()
            call = _Call(series, None, None, None, times)
            series, state = self._run_stack(call, state, masks, _BY_EQUATIONS)
            result = series.squeeze(1), state
        output, state = result[0], self._cast_state(result[1], rows, wide_state)
        return (output if batched else output.squeeze(0)), self._as_hidden(state, batched)

    def initial_state(self, batch: int) -> HiddenT:
        """Return the state that `hx=None` means, in the form of `hx`: zeros, or the learned one."""
        like = self.read_weight("weight_ih_l0").new_empty(batch, 0)
        return self._as_hidden(self._cast_state(self.start_state(like), like, False), batched=True)

    def __prepare_scriptable__(self) -> nn.Module:
        # torch's module would not run a subclass's own `forward`.
        if type(self).forward is not RecurrentLayer.forward:
            return for_script(self, None, "torch.nn has no layer of its kind")
        return for_script(self, *self._module_of_torch(single=False))

    def _run_fused(self, input: Any, hx: Any, wide_state: bool) -> tuple[Any, Any] | None:
        """Run all layers in one call of a kernel, on tensors as they were passed; None where the general path must."""
        torch_layers = self._kind.torch_layers
        if isinstance(input, PackedSequence):
            return None if torch_layers is None or self._draws_masks() else self._run_packed(input, hx, wide_state)
        time = int(self.batch_first)
        # Comparing the size of a free axis would fix it in an exported graph; `streams` is false while one is traced.
        if isinstance(input, Tensor) and input.dim() == 3 and streams(input):
            streamed = None
            if input.shape[time] == 1 and input.shape[1 - time] <= ROWS:
                streamed = self._step_fused(input.select(time, 0), hx)
            if streamed is not None:
                output, state = streamed
                return output.unsqueeze(time), state if len(state) > 1 else state[0]
        return None if torch_layers is None or wide_state else torch_layers.call(self, input, hx)

    def _run_packed(self, packed: PackedSequence, hx: Any, wide_state: bool) -> tuple[Any, Any] | None:
        self._check_packed(packed)
        rows: Any = packed.batch_sizes[0]
        # `int` would fix the number of rows in a graph of `torch.jit.trace`.
        like = packed.data.new_empty(rows if traced() else int(rows), 0)
        state = self._check_state(hx, like, True, wide_state)
        if packed.sorted_indices is not None:
            # Packed rows are sorted by length, states come in the caller's order.
            state = tuple(s.index_select(1, packed.sorted_indices) for s in state)
        assert self._kind.torch_layers is not None
        result = self._kind.torch_layers.packed(self, packed, state)
        if result is None:
            return None
        output, last = result
        if packed.unsorted_indices is not None:
            last = tuple(s.index_select(1, packed.unsorted_indices) for s in last)
        return output, self._as_hidden(self._cast_state(last, like, wide_state), batched=True)

    def _check_packed(self, packed: PackedSequence) -> None:
        if packed.data.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {packed.data.dim()}")
        check_features(packed.data, self.read_weight("weight_ih_l0"), self.input_size)

    def _prepare(
        self, input: Features | PackedSequence, hx: Any, mask: Flags | None, resets: Flags | None, gaps: Gaps | None
    ) -> _Call:
        """Check the arguments of a call, and return them with the batch first."""
        packed: PackedSequence | None = None
        if isinstance(input, PackedSequence):
            if mask is not None:
                raise ValueError("a PackedSequence has its own lengths; leave mask out")
            self._check_packed(input)
            packed, batched, (x, mask) = input, True, pad_packed(input)
            # Other flags come padded, as `pad_packed_sequence` gives them.
            leading: tuple[int, ...] = tuple(x.shape[:2]) if self.batch_first else (x.shape[1], x.shape[0])
        else:
            check_input_axes(type(self).__name__, input, batched=3)
            batched = input.dim() == 3
            x = self._batch_first(input, batched)
            check_features(x, self.read_weight("weight_ih_l0"), self.input_size)
            if x.shape[1] == 0:
                # torch's words.
                raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
            leading = tuple(input.shape[:-1])
            if mask is not None:
                check_flags("mask", mask, leading)
                mask = self._batch_first(mask, batched)
        if resets is not None:
            check_flags("resets", resets, leading)
            resets = self._batch_first(resets, batched)
        if gaps is not None:
            check_gaps(self.cell, gaps, leading, self.bidirectional)
            hx, gaps = self._add_elapsed(hx, self._batch_first(gaps, batched), resets, batched)
        return _Call(x, hx, mask, resets, gaps, batched, packed)

    def _run_stack(
        self, call: _Call, state: StateTuple, masks: DropoutMasks | None, by: Path | None = None
    ) -> tuple[Series, StateTuple]:
        """Run the whole stack, layer by layer; states are stacked over layers.

        Args:
            by: the execution path, instead of the one that the cell's kind chooses.
        """
        x, _, mask, resets, gaps, *_ = call
        torch_layers, suffixes = self._kind.torch_layers, self._directions
        is_plain = mask is None and resets is None and gaps is None and masks is None and by is None
        if is_plain and torch_layers is not None:
            result = torch_layers.stack(self, x, state)
            if result is not None:
                return result
        if mask is not None:
            x = zero_masked_steps(x, mask)  # a NaN there would reach the weights' gradients as 0 * NaN
        finals: list[StateTuple] = []
        for layer in range(self.num_layers):
            outputs = []
            for number, suffix in enumerate(suffixes):
                index = layer * len(suffixes) + number
                drawn = NO_MASKS if masks is None else masks.directions[index]
                series = x if drawn.input is None else x * drawn.input.unsqueeze(1)
                weights, times = self.read_weights(layer, suffix, drawn.weight), gaps
                if gaps is not None and gaps.dim() == 3:  # which a cell that learns them may have for each direction
                    times = gaps.chunk(len(suffixes), dim=2)[number]
                start, zoneout = tuple([s[index] for s in state]), self._zoneout(drawn)
                last_input: StateTuple = ()
                if self._wrapper.inputs > 1:
                    series, start, last_input = self._wrapper.concat_previous_input(
                        series, start, mask, resets, number == 1
                    )
                direction = Direction(series, start, weights, drawn.state, zoneout, mask, resets, number == 1, times)
                path = by or self._kind.path(
                    self, Pass(drawn.state is not None, zoneout is not None, times is not None, direction)
                )
                output, last = path.run(self, direction)
                outputs.append(output)
                finals.append((*last, *last_input))
            x = outputs[0] if len(outputs) == 1 else _concat(outputs)
            if self.training and self.dropout > 0 and layer < self.num_layers - 1:
                # In torch's layout the same seed drops the same elements.
                x = dropout(x if torch_layers is None else torch_layers.laid_out(x), self.dropout)
        return x, tuple(map(torch.stack, zip(*finals, strict=True)))

    def _format_result(self, call: _Call, output: Series, state: StateTuple, wide_state: bool) -> tuple[Any, Any]:
        """Return the output and the state in the form of the caller's input."""
        # In float32 and float64 the state has the dtype of the input already.
        if wide_state or call.x.dtype not in DTYPES:
            state = self._cast_state(state, call.x, wide_state)
        if call.packed is not None:
            return repack(output, call.packed), self._as_hidden(state, batched=True)
        if call.mask is not None and call.gaps is not None and call.gaps.dim() == 2:
            elapsed = time_after_real_steps(call.gaps, call.mask, call.resets)
            state = (*state, elapsed.unsqueeze(1).expand(len(state[0]), -1, -1))
        narrow = autocast_dtype(call.x.device)
        if narrow is not None and output.dtype == torch.float32:
            output = output.to(narrow)  # as nn.LSTM returns it, whatever ran it
        return self._laid_out(output, call.batched), self._as_hidden(state, call.batched)

    def _step_fused(self, x: InputStep, hx: Any) -> tuple[Step, StateTuple] | None:
        """Run a step in as few calls as possible, of an input that `streams` accepts; None if no kernel can."""
        if x.shape[1] != self.input_size:
            return None
        if self._wrapper.inputs == 1:
            return self._kind.stream(self, x, hx)
        leading = (self.num_layers, len(x)) if self.configuration.stacks_states else (len(x),)
        states = kernel_states(hx, [(*leading, size) for size in self.state_sizes()], x)
        if states is None or self.num_layers > 1:
            return None
        *cell_states, last = states
        result = self._kind.stream(self, torch.cat([x, last.view(x.shape)], dim=1), tuple(cell_states))
        # A copy: the caller may write the next input into the same tensor.
        return None if result is None else (result[0], (*result[1], x.clone().view(last.shape)))

    def _get_masks(self, masks: DropoutMasks | None, batch: int, steps: int) -> DropoutMasks | None:
        if masks is None:
            return self.draw_dropout_masks(batch, steps) if self._draws_masks() else None
        self._check_masks(masks, f"draw_dropout_masks({batch}, {steps})", batch, steps)
        return masks

    def _check_masks(self, dropout_masks: DropoutMasks, origin: str, *leading: int) -> None:
        """Check that every mask has this layer's shapes."""
        sizes = self.state_sizes()[: len(self.cell.states)]
        # zip_longest: masks of another number of layers must not pass.
        for number, (masks, weights) in enumerate(zip_longest(dropout_masks.directions, self._iter_weights())):
            features = self._features(number // len(self._directions))
            if masks is None or weights is None or not (
                _shape(masks.input) in (None, (leading[0], features))
                and _shape(masks.state) in (None, (leading[0], sizes[0]))
                and _shape(masks.weight) in (None, _shape(weights.get("weight_hh")))
                and (
                    masks.zoneout is None
                    or (takes(self.cell, "zoneout")
                    and [_shape(z) for z in masks.zoneout] == [(*leading, n) for n in sizes])
                )
            ):  # fmt: skip
                raise ValueError(f"dropout_masks must come from {origin} of a layer of this shape")

    def _batch_first(self, values: Tensor, batched: bool) -> Tensor:
        """Return a series, or flags or gaps, with the batch first and time after it."""
        if not batched:
            return values.unsqueeze(0)
        return values if self.batch_first else values.transpose(0, 1)

    def _add_elapsed(
        self, hx: Any, gaps: Gaps, resets: Flags | None, batched: bool
    ) -> tuple[Any, Gaps]:  # fmt: skip
        """Return `hx` without the time since the last real step, if it has one, and gaps (batch, time) of which the
        first includes that time, unless a reset comes before it."""
        states = hx if isinstance(hx, (tuple, list)) else (hx,)
        # Times of features count from when each was last seen: nothing is added to them.
        if gaps.dim() == 3 or len(states) != len(self.state_names) + 1:
            return hx, gaps
        *states, elapsed = as_states(type(self).__name__, hx, len(self.state_names) + 1)
        elapsed = elapsed if batched else elapsed.unsqueeze(1)
        check_hidden_sizes([elapsed], [(self.num_layers * len(self._directions), gaps.shape[0], 1)])
        # All layers and directions saw the same steps: the first entry stands for all.
        first = gaps[:, :1] + elapsed[0].to(gaps.dtype)
        if resets is not None:
            first = torch.where(resets.reshape(gaps.shape[0], -1)[:, :1], gaps[:, :1], first)
        return tuple(states), torch.cat([first, gaps[:, 1:]], dim=1)

    def _check_state(self, hx: Any, x: Tensor, batched: bool, wide_state: bool) -> StateTuple:
        """Check `hx`, and return it as a tuple of (L, batch, size); the initial state if None."""
        if hx is None:
            initial = self.start_state(x)
            return self._cast_state(initial, x, wide_state) if wide_state else initial
        wide = accumulation_dtype(x.dtype)
        leading = self.num_layers * len(self._directions), x.shape[0]
        states = as_states(type(self).__name__, hx, len(self.state_names))
        check_state_axes(states, batched)
        states = states if batched else tuple(s.unsqueeze(1) for s in states)
        check_hidden_sizes(states, [(*leading, size) for size in self.state_sizes()])
        accepted, narrow = {wide, x.dtype}, autocast_dtype(x.device)
        if narrow is not None:
            # Under autocast a state is narrow, from the last call, or float32, made by the caller.
            accepted |= {torch.float32, narrow}
        check_state_dtypes(type(self).__name__, states, accepted)
        dtype = wide if wide_state else self._state_dtype(x)
        return tuple(s.to(dtype) for s in states)

    def _laid_out(self, output: Series, batched: bool) -> Series:
        """Return the output in the caller's order of axes and torch's layout: code after the layer calls `view`, and a
        dropout mask is drawn in the order of memory."""
        if exporting_to_onnx():  # which has no layout; to ask for that of one batch or one step would fix that size
            ordered = output if self.batch_first else output.transpose(0, 1)
            return (ordered if batched else output.squeeze(0)).clone(memory_format=torch.contiguous_format)
        if not batched:
            return output.squeeze(0).contiguous()
        if not self.batch_first:
            return output.transpose(0, 1).contiguous()
        torch_layers = self._kind.torch_layers
        return output.contiguous() if torch_layers is None else torch_layers.laid_out(output)

    def _cast_state(self, state: StateTuple, x: Tensor, wide_state: bool) -> StateTuple:
        """Convert a state to the dtype that torch's layer would return for x, or to that of accumulation."""
        if wide_state:
            return tuple(s.to(accumulation_dtype(x.dtype)) for s in state)
        return state if x.dtype in DTYPES else tuple(s.to(x.dtype) for s in state)

    def _as_hidden(self, state: StateTuple, batched: bool) -> Any:
        """Return states in the form of `hx`."""
        states = state if batched else tuple(s.squeeze(1) for s in state)
        return states if len(states) > 1 else states[0]


_BY_EQUATIONS = Path("the step loop in torch", "a single step", in_torch_steps)
"""The execution path of a step by the equations of any cell."""


def _concat(outputs: list[Series]) -> Series:
    """Join both directions' outputs, in their layout."""
    if len(outputs) == 1:
        return outputs[0]
    # `cat` of transposed series would write them sequence after sequence, and the next layer copy them.
    if all(time_first(output) for output in outputs):
        return torch.cat([output.transpose(0, 1) for output in outputs], dim=2).transpose(0, 1)
    return torch.cat(outputs, dim=2)


def _shape(x: Tensor | None) -> tuple[int, ...] | None:
    return None if x is None else tuple(x.shape)


def pad_packed(packed: PackedSequence) -> tuple[Series, Flags]:
    """Return (batch, time, features) and the mask of real steps, rows in the caller's order."""
    x, lengths = pad_packed_sequence(packed, batch_first=True)
    return x, torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)


def repack(output: Series, like: PackedSequence) -> PackedSequence:
    """Pack a padded batch in the caller's order of rows with the lengths of `like`."""
    rows = output if like.sorted_indices is None else output[like.sorted_indices]
    batch_sizes = like.batch_sizes.to(output.device).unsqueeze(1)
    real = torch.arange(rows.shape[0], device=output.device) < batch_sizes  # (time, batch), the order of packed data
    return like._replace(data=rows.transpose(0, 1)[real])
