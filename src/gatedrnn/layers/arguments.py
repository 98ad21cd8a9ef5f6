"""What a layer is called with, checked where `torch.nn` checks it and with its classes of error."""

import math
import sys
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gatedrnn.cells import Cell
from gatedrnn.scan import transforming
from gatedrnn.shapes import Flags


def check_size(name: str, value: object, least: int) -> None:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_dropout(value: object, num_layers: int) -> None:
    """A probability; torch warns where it has no layer to stand between, and so do we."""
    if not _is_number(value) or not 0 <= float(value) <= 1:
        raise ValueError(f"dropout should be a number in range [0, 1], the probability of a zero; got {value!r}")
    if float(value) > 0 and num_layers == 1:
        warnings.warn(
            f"dropout stands between layers, so dropout={value} does nothing with num_layers=1; "
            "input_dropout, zoneout and state_dropout do",
            stacklevel=_outside_of_constructors(),
        )


def _is_number(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _outside_of_constructors() -> int:
    """How far up the line is that asked for a layer: a class may have a constructor of its own, or none."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in ("check_dropout", "__init__"):
        level, frame = level + 1, frame.f_back
    return level


def check_rate(name: str, value: object) -> None:
    """A probability below 1: what is kept is scaled by 1/(1-p)."""
    if not _is_number(value) or not 0 <= float(value) < 1:
        raise ValueError(f"{name} should be a number in range [0, 1), a probability; got {value!r}")


def check_name(name: str, value: str, known: Sequence[str]) -> None:
    """One of the known names."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def check_time_scale(name: str, value: object) -> None:
    """A number of steps, so that something is kept: 1 - 1/2 at least."""
    if not _is_number(value) or not 2 <= float(value) < math.inf:
        raise ValueError(f"{name} should be a number of steps, 2 at least; got {value!r}")


def check_cell(cell: Cell) -> None:
    """A cell of one's own says what it is called and what its gates are."""
    for name in ("name", "projections"):
        if not getattr(cell, name, None):
            raise TypeError(f"{type(cell).__name__} must say its {name}, see gatedrnn.cells.base.Cell")
    if cell.learns_initial_state and (cell.reads_state or cell.states > 1):
        raise ValueError(f"{type(cell).__name__}: only a scan cell can learn its initial state")
    unknown = sorted(set(cell.decay_gates) - set(cell.projections))
    if unknown:
        raise ValueError(f"{type(cell).__name__}: decay_gates names {unknown[0]!r}, which is none of its projections")


def check_blocks(cell: Cell, hidden_size: int) -> None:
    """The state is made of whole blocks."""
    if hidden_size % cell.block_size:
        raise ValueError(
            f"hidden_size of {cell.name} must be a multiple of its block_size {cell.block_size}, got {hidden_size}"
        )


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What autocast computes in on this device; None where it is off, or unknown."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.get_autocast_dtype(device.type) if known and torch.is_autocast_enabled(device.type) else None


def observed(x: Tensor) -> bool:
    """Whether something follows what is done to x, and would lose sight of it in compiled code that is no op: a
    tracer, a transform, a mode, a tensor of another kind, forward differentiation."""
    if torch.compiler.is_compiling() or transforming() or type(x) is not Tensor:
        return True
    # torch has no public words for these.
    modes, traced = torch._C._len_torch_dispatch_stack() > 0, torch._C._get_tracing_state() is not None
    return modes or traced or forward_ad._current_level >= 0


def check_features(x: Tensor, weight: Tensor, expected: int) -> None:
    """The input has the layer's dtype (unless autocast sees to it) and number of features."""
    if x.dtype != weight.dtype and autocast_dtype(x.device) is None:
        raise ValueError(f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype})")
    if x.shape[-1] != expected:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {expected}, got {x.shape[-1]}")


def check_flags(name: str, flags: Flags, expected: tuple[int, ...]) -> None:
    """Flags are a tensor of bool and have the input's leading axes."""
    if not isinstance(flags, Tensor):
        raise TypeError(f"{name} must be a tensor of bool, got {type(flags).__name__}; take torch.as_tensor(...)")
    if flags.dtype != torch.bool or tuple(flags.shape) != expected:
        raise ValueError(
            f"{name} must be bool with the input's first axes {expected}, "
            f"got {flags.dtype} of shape {tuple(flags.shape)}"
        )


def as_states(title: str, hx: object, axes: int) -> tuple[Tensor, ...]:
    """hx, one tensor or several, as a tuple of tensors with that many axes."""
    states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
    for state in states:
        if not isinstance(state, Tensor):
            raise TypeError(f"{title}: hx must be a tensor or a tuple of tensors, got {type(state).__name__} in it")
        if state.dim() != axes:
            raise RuntimeError(f"{title}: hx should be {axes}-D for this input, got a {state.dim()}-D tensor")
    return states


def check_states(
    title: str, states: tuple[Tensor, ...], leading: tuple[int, ...], sizes: tuple[int, ...], dtypes: set[torch.dtype]
) -> None:
    """A state has the cell's number of tensors, each of its size and in a dtype that loses nothing of it."""
    if len(states) != len(sizes):
        raise TypeError(f"{title}: hx must hold {len(sizes)} tensor(s), got {len(states)}")
    for state, size in zip(states, sizes, strict=True):
        if tuple(state.shape) != (*leading, size):
            raise RuntimeError(f"Expected hidden size {(*leading, size)}, got {list(state.shape)}")
        if state.dtype not in dtypes:
            wanted = " or ".join(sorted(str(dtype) for dtype in dtypes))
            raise RuntimeError(f"{title}: hx must be {wanted} for this input, got {state.dtype}")
