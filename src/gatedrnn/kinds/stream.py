"""Checks of the states and weights that a kernel of single steps reads by address, `step.py` of a kind.

A step of a small layer takes less time than the calls around it, so everything is checked once, and cheaply. A failed
check is no error: the general execution mode then runs the step, or raises.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gatedrnn.kernels.backends import autocast_dtype
from gatedrnn.kinds.kind import LayerView
from gatedrnn.shapes import Hidden, InputStep, State, StateTuple, Step

ROWS = 8
"""Rows of a step up to which a kernel's own products are faster than a library's."""
FEW_ROWS, SMALL_PRODUCT = 4, 1 << 19
"""Rows of a step, and multiply-adds of a layer, up to which a kernel's own products are faster than a library's."""
# Subclasses of Tensor (DTensor, fake tensors) may hold no numbers at `data_ptr`.
PLAIN = (Tensor, nn.Parameter)


class WeightSize(NamedTuple):
    """A parameter by its name, and its number of elements."""

    name: str
    elements: int


def state_shapes(layer: LayerView, x: Step) -> list[tuple[int, ...]] | None:
    """Return the state's shapes for a step of few rows; None if something acts between the operations of a step.

    Args:
        x: all that the projections of the first layer read.
    """
    of = layer.configuration
    # Each of these needs an operation that the kernel of a step lacks, or a second direction.
    has_other_operations = of.zoneout or of.layer_norm or of.proj_size or of.bidirectional
    if has_other_operations or of.backend not in ("auto", "native") or not 0 < len(x) <= ROWS or not of.hidden_size:
        return None
    if layer.training and (of.regularised or of.drops_between):
        return None
    shape = (len(x), of.hidden_size)
    return [(of.num_layers, *shape) if of.stacks_states else shape] * len(layer.cell.states)


def multiplies_in_kernel(layer: LayerView, x: InputStep, state: State) -> bool:
    """Whether a kernel's own products are faster than a library's: few rows, and small matrices or one thread."""
    of = layer.configuration
    # A kernel multiplies in the dtype of the state; under autocast the product is in a narrower one.
    if of.layer_norm or of.proj_size or x.dtype != state.dtype or autocast_dtype(x.device) is not None:
        return False
    rows = len(layer.cell.projections) * of.hidden_size
    is_small = len(x) * rows * max(of.input_size, of.hidden_size) <= SMALL_PRODUCT
    return len(x) <= FEW_ROWS and (is_small or torch.get_num_threads() == 1)


def kernel_states(hx: Hidden | None, shapes: Sequence[tuple[int, ...]], x: Tensor) -> tuple[Tensor, ...] | None:
    """Return a state as a kernel reads it, zeros for None; None if it is not of these shapes and the dtype of x."""
    if hx is None:
        return tuple(x.new_zeros(shape) for shape in shapes)
    states = hx if isinstance(hx, tuple) else (hx,)
    if len(states) != len(shapes):
        return None
    for state, shape in zip(states, shapes, strict=True):
        if type(state) not in PLAIN or state.shape != shape or not _is_readable(state, x.dtype):
            return None
    return tuple(state if state.is_contiguous() else state.contiguous() for state in states)


def kernel_weights(
    layer: LayerView, sizes: Iterable[WeightSize | None], dtype: torch.dtype
) -> list[Tensor | None] | None:
    """Return the weights as they are now, contiguous, None for one that the cell does not have; None if a kernel cannot
    read one of them."""
    weights: list[Tensor | None] = []
    for wanted in sizes:
        if wanted is None:
            weights.append(None)
            continue
        weight = layer.read_weight(wanted.name)
        if type(weight) not in PLAIN or weight.numel() != wanted.elements or not _is_readable(weight, dtype):
            return None
        weights.append(weight if weight.is_contiguous() else weight.contiguous())
    return weights


# Names and sizes are made once for each shape: a step of a stream takes a few microseconds.
@cache
def weight_sizes(
    gates: int, diagonals: tuple[str, ...], block_size: int, size: int, inputs: int, layers: int, bias: bool,
    recurrent_bias: bool | None,
) -> list[WeightSize | None]:  # fmt: skip
    """Return the weights of each layer in the order in which kernels of steps take them: its matrix, its bias if there
    is one, its diagonals.

    Args:
        recurrent_bias: None for a cell without a recurrent matrix, which otherwise comes second, and both biases after
            it, None for a missing one.
    """
    rows, sizes = gates * size, list[WeightSize | None]()
    for n in range(layers):
        sizes.append(WeightSize(f"weight_ih_l{n}", rows * (size if n else inputs)))
        bias_ih, bias_hh = (WeightSize(f"{name}_l{n}", rows) for name in ("bias_ih", "bias_hh"))
        if recurrent_bias is not None:
            sizes.append(WeightSize(f"weight_hh_l{n}", rows * size))
            sizes += [bias_ih if bias else None, bias_hh if recurrent_bias else None]
        elif bias:
            sizes.append(bias_ih)
        sizes += [WeightSize(f"weight_{name}_l{n}", size // block_size) for name in diagonals]
    return sizes


def step_tensors(
    layer: LayerView, x: Step, hx: Hidden | None, recurrent_bias: bool | None = None
) -> tuple[StateTuple, list[Tensor | None]] | None:  # fmt: skip
    """Return the states of a step of few rows, and the weights as `weight_sizes` orders them; None if no kernel can run
    it.

    Args:
        recurrent_bias: as in `weight_sizes`.
    """
    shapes, cell, of = state_shapes(layer, x), layer.cell, layer.configuration
    if shapes is None:
        return None
    if hx is None and getattr(cell, "learns_initial_state", False):
        # The learned state is expanded over the batch with a stride of 0, and kernels read it by its address.
        hx = layer.start_state(x)[0].reshape(shapes[0]).contiguous()
    sizes = weight_sizes(
        len(cell.projections), tuple(cell.diagonals), cell.block_size, of.hidden_size, x.shape[1], of.num_layers,
        of.bias, recurrent_bias,
    )  # fmt: skip
    states, weights = kernel_states(hx, shapes, x), kernel_weights(layer, sizes, x.dtype)
    return None if states is None or weights is None else (states, weights)


def _is_readable(tensor: Tensor, dtype: torch.dtype) -> bool:
    # A lazy negation (`torch.Tensor.is_neg`) is not in memory: a kernel would read the other sign.
    return tensor.dtype == dtype and tensor.is_cpu and not tensor.is_neg()
