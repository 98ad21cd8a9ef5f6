"""A step without gradients as one kernel call: what a kernel may read by its address, and a module's weights by name.

A step of a small layer takes less time than the calls around it: everything here is checked once, and cheaply. Failing
a check is no error: the general execution mode then runs the step, and raises.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

import torch
from torch import Tensor, nn

from gatedrnn.equations import BlockScanEquations, ElementwiseLoopEquations, LoopEquations, ScanEquations
from gatedrnn.layers.arguments import autocast_dtype
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.parameters import diagonal_size
from gatedrnn.ops.backends import observed
from gatedrnn.shapes import Hidden, InputStep, State, Step

ROWS = 8
"""Rows of a step up to which a kernel's own products are faster than a library's."""
FEW_ROWS, SMALL_PRODUCT = 4, 1 << 19
"""Rows of a step, and multiply-adds of a layer, up to which a kernel's own products are faster than a library's."""
PLAIN = (Tensor, nn.Parameter)
DTYPES = (torch.float32, torch.float64)
LOOP_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""Of a layer, in the order in which `kernels.cpu.loop_step` takes them; its diagonal weights follow."""
Names = tuple[tuple[str, int] | None, ...]
"""Of weights and their numbers of elements; None for those that a cell does not have."""


def streams(x: Tensor) -> bool:
    """Whether x, of any shape, may be the input of a kernel that is no op: on a CPU, without gradients or autocast."""
    return (
        not torch.is_grad_enabled()
        and not observed(x)
        and x.is_cpu
        and x.dtype in DTYPES
        and not torch.is_autocast_enabled("cpu")
        and not x.is_neg()
    )


def state_shapes(layer: RecurrentModule, x: Step) -> list[tuple[int, ...]] | None:
    """The state's shapes for a step of few rows; None where something acts between the operations of a step.

    Args:
        x: all that the projections read, the input of the step before beside this one where the window is 2.
    """
    between = layer.zoneout or layer.layer_norm or layer.proj_size or layer.bidirectional
    between = between or (layer.cell.window > 1 and layer.num_layers > 1)
    features = layer.input_size * layer.cell.window
    if between or layer._backend not in ("auto", "native") or not 0 < len(x) <= ROWS or x.shape[1] != features:
        return None
    if layer.training and (layer._draws() or layer._drops(0)):
        return None
    return [(layer.num_layers, len(x), layer.hidden_size)] * len(layer.cell.states)


def takes_products(layer: RecurrentModule, x: InputStep, state: State) -> bool:
    """Whether a kernel's own products are faster than a library's: of few rows with small matrices, or where the
    library has one thread too."""
    if layer.layer_norm or layer.proj_size or x.dtype != state.dtype or autocast_dtype(x.device) is not None:
        return False
    small = len(x) * layer.weight_ih_l0.shape[0] * max(layer.input_size, layer.hidden_size) <= SMALL_PRODUCT
    return len(x) <= FEW_ROWS and (small or torch.get_num_threads() == 1)


def plain_states(hx: Hidden | None, shapes: Sequence[tuple[int, ...]], x: Tensor) -> tuple[Tensor, ...] | None:
    """A state as a kernel reads it, zeros for None; None where it is not of these shapes and the dtype of x."""
    if hx is None:
        return tuple(x.new_zeros(shape) for shape in shapes)
    states = hx if isinstance(hx, tuple) else (hx,)
    if len(states) != len(shapes):
        return None
    for state, shape in zip(states, shapes, strict=True):
        if type(state) not in PLAIN or state.shape != shape or not _is_readable(state, x.dtype):
            return None
    return tuple(state if state.is_contiguous() else state.contiguous() for state in states)


def plain_weights(module: nn.Module, names: Names, dtype: torch.dtype) -> list[Tensor | None] | None:
    """The weights as attributes have them now, contiguous; None where a kernel cannot read one of them."""
    found: list[Tensor | None] = []
    parameters = {} if getattr(module, "_reads_others", False) else module._parameters
    for wanted in names:
        weight: Tensor | None = None
        if wanted is not None:
            name, size = wanted
            weight = parameters.get(name)
            if weight is None:
                weight = getattr(module, name)  # replaced by a parametrisation, a pruning, a plain tensor
            if type(weight) not in PLAIN or weight.numel() != size or not _is_readable(weight, dtype):
                return None
            if not weight.is_contiguous():
                weight = weight.contiguous()
        found.append(weight)
    return found


def _is_readable(tensor: Tensor, dtype: torch.dtype) -> bool:
    return tensor.dtype == dtype and tensor.is_cpu and not tensor.is_neg()


@lru_cache(maxsize=256)
def loop_weights(cell: LoopEquations, bias: bool, inputs: int, size: int, suffixes: tuple[str, ...]) -> Names:
    """Of each layer (by its suffix) the weights that `kernels.cpu.loop_step` takes."""
    rows, found = len(cell.projections) * size, []
    for layer, suffix in enumerate(suffixes):
        sizes = {"weight_ih": rows * (size if layer else inputs), "weight_hh": rows * size // cell.heads}
        sizes |= {"bias_ih": rows} if bias else {}
        sizes |= {"bias_hh": rows} if bias and cell.recurrent_bias else {}
        found += [(kind + suffix, sizes[kind]) if kind in sizes else None for kind in LOOP_WEIGHTS]
        found += [(f"weight_{name}{suffix}", size) for name in cell.diagonals]
    return tuple(found)


@lru_cache(maxsize=256)
def scan_weights(
    cell: ScanEquations | BlockScanEquations | ElementwiseLoopEquations, bias: bool, inputs: int, size: int,
    suffixes: tuple[str, ...],
) -> Names:  # fmt: skip
    """The matrices of all layers (by their suffixes), their biases, then their diagonal weights: what a step without
    recurrent products reads."""
    rows = len(cell.projections) * size
    matrices = [(f"weight_ih{suffix}", rows * (size if layer else inputs)) for layer, suffix in enumerate(suffixes)]
    biases = [(f"bias_ih{suffix}", rows) for suffix in suffixes if bias]
    own = diagonal_size(cell, size)
    return (*matrices, *biases, *((f"weight_{name}{suffix}", own) for suffix in suffixes for name in cell.diagonals))


@cache
def layer_suffixes(layers: int) -> tuple[str, ...]:
    """Of the weights' names, in one direction."""
    return tuple(f"_l{layer}" for layer in range(layers))
