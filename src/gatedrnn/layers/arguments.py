"""What a layer is called with, checked where `torch.nn` checks it and with its classes of error."""

import difflib
import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from inspect import signature
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor

from gatedrnn.equations import Equations, GappedEquations, TorchKernel, options_of
from gatedrnn.ops.backends import observed
from gatedrnn.shapes import Flags


def check_size(name: str, value: object, least: int = 1) -> None:
    """A whole number, of a layer above zero."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be greater than zero" if least else f"{name} must be at least 0, got {value}")


def check_flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def check_projection(proj_size: object, hidden_size: int, torch_kernel: TorchKernel | None) -> None:
    """A size, or 0 for no projection; what torch refuses for its LSTM and GRU is refused with its words."""
    if isinstance(proj_size, bool) or not isinstance(proj_size, int):
        raise TypeError(f"proj_size should be of type int, got: {type(proj_size).__name__}")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if torch_kernel is None:
        return
    if proj_size and not torch_kernel.projects:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def check_options(layer: type, given: Iterable[str], cell_class: type[Equations]) -> None:
    """Keyword arguments that the cell's constructor knows.

    Raises:
        TypeError: another is given; the message names the nearest that exists.
    """
    own = options_of(cell_class).keys()
    for name in given:
        if name not in own:
            known = {parameter for base in layer.__mro__ for parameter in _keywords(base)} | own
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{layer.__name__} got an unexpected keyword argument {name!r}{hint}")


def _keywords(base: type) -> set[str]:
    made = vars(base).get("__init__")
    return set() if made is None or base.__module__.startswith("torch.") else set(signature(made).parameters)


def check_real(title: str, dtype: torch.dtype | None) -> None:
    """A dtype of real floating-point numbers, or None."""
    if dtype is not None and not dtype.is_floating_point:
        raise TypeError(
            f"{title} computes with real numbers, got dtype={dtype}; take a float dtype"
            + (", real and imaginary parts side by side as features" if dtype.is_complex else "")
        )


def check_dropout(value: object, num_layers: int) -> None:
    """A probability; torch warns where it has no layer to stand between, and so do we."""
    if not _is_number(value) or not 0 <= float(value) <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if float(value) > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={value} and num_layers={num_layers}; input_dropout, zoneout and "
            "state_dropout act within one layer",
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


def check_blocks(cell: Equations, hidden_size: int) -> None:
    """The state is made of whole blocks."""
    if hidden_size % cell.block_size:
        raise ValueError(f"hidden_size of {cell.word} must be a multiple of {cell.block_size}, got {hidden_size}")


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What autocast computes in on this device; None where it is off, or unknown."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.get_autocast_dtype(device.type) if known and torch.is_autocast_enabled(device.type) else None


def check_features(x: Tensor, weight: Tensor, expected: int) -> None:
    """The input of a layer has its dtype (unless autocast sees to it) and number of features."""
    check_dtype("RNN", x, weight, ValueError)
    if x.shape[-1] != expected:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {expected}, got {x.shape[-1]}")


def check_dtype(title: str, x: Tensor, weight: Tensor, error: type[Exception] = RuntimeError) -> None:
    """The input has the weights' dtype, real, unless autocast converts it."""
    if x.dtype != weight.dtype and (autocast_dtype(x.device) is None or not x.dtype.is_floating_point):
        start = "RNN input" if title == "RNN" else f"{title}: input"
        raise error(
            f"{start} dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). {_advice(x.dtype, weight.dtype)}"
        )
    if weight.dtype.is_complex:
        raise TypeError(f"{title}: layers compute with real numbers, got {weight.dtype}; {COMPLEX}")


COMPLEX = "pass real and imaginary parts as features side by side, torch.view_as_real(x).flatten(-2)"


def _advice(given: torch.dtype, wanted: torch.dtype) -> str:
    if given.is_complex:
        return f"Layers compute with real numbers: {COMPLEX}"
    if not given.is_floating_point:
        return f"Ids need an embedding before the layer: nn.Embedding(...)(ids); counts and flags: input.to({wanted})"
    return f"Convert input: input.to({wanted}), or convert model: model.to({given})"


def check_input_axes(title: str, x: Tensor, batched: int) -> None:
    """As many axes as a batch of inputs has, or one less."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{title}: input must be a tensor, got {type(x).__name__}")
    if x.dim() not in (batched - 1, batched):
        raise ValueError(f"{title}: Expected input to be {batched - 1}D or {batched}D, got {x.dim()}D instead")


def check_flags(name: str, flags: Flags, expected: tuple[int, ...]) -> None:
    """Flags are a tensor of bool and have the input's leading axes."""
    if not isinstance(flags, Tensor):
        raise TypeError(f"{name} must be a tensor of bool, got {type(flags).__name__}; take torch.as_tensor(...)")
    if flags.dtype != torch.bool:
        raise ValueError(f"{name} must be a tensor of bool, got {flags.dtype}; take {name}.bool()")
    if tuple(flags.shape) != expected:
        raise ValueError(f"{name} must have the input's first axes {expected}, got shape {tuple(flags.shape)}")


def check_gaps(cell: Equations, gaps: Tensor, expected: tuple[int, ...], bidirectional: bool = False) -> None:
    """Gaps are times, 0 or more, with the input's leading axes, and the cell takes them; one with `gap_features` takes
    an axis of them too, for each direction."""
    if not isinstance(cell, GappedEquations):
        raise ValueError(f"{cell.name} takes no gaps: it has no decay between 0 and 1 that could be raised to them")
    if cell.options.get("log_space"):
        raise ValueError("log_space takes no gaps; use log_space=False")
    if not isinstance(gaps, Tensor):
        raise TypeError(f"gaps must be a tensor of times, got {type(gaps).__name__}; take torch.as_tensor(...)")
    if not gaps.is_floating_point():
        raise ValueError(f"gaps must be a tensor of floating point, got {gaps.dtype}; take gaps.float()")
    by_feature = (*expected, cell.gap_features * (1 + bidirectional))
    if tuple(gaps.shape) != expected and not (cell.gap_features and tuple(gaps.shape) == by_feature):
        also = f", or {by_feature} with a time for each feature" if cell.gap_features else ""
        raise ValueError(f"gaps must have the input's first axes {expected}{also}, got shape {tuple(gaps.shape)}")
    if not observed(gaps) and not bool(((gaps >= 0) & gaps.isfinite()).all()):
        raise ValueError("gaps must be finite and 0 or more: the time from the step before to each step")


def as_states(title: str, hx: object, count: int) -> tuple[Tensor, ...]:
    """hx, one tensor or several, as a tuple of `count` tensors."""
    states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
    for state in states:
        if not isinstance(state, Tensor):
            raise TypeError(f"{title}: hx must be a tensor or a tuple of tensors, got {type(state).__name__} in it")
    if len(states) != count:
        raise TypeError(f"{title}: hx must hold {count} tensor{'s' if count > 1 else ''}, got {len(states)}")
    return states


def check_state_axes(states: tuple[Tensor, ...], batched: bool) -> None:
    """As many axes as the input has."""
    axes = 3 if batched else 2
    if all(state.dim() == axes for state in states):
        return
    given = [f"{state.dim()}-D" for state in states]
    form = "batched 3-D" if batched else "unbatched 2-D"
    if len(states) == 1:
        raise RuntimeError(f"For {form} input, hx should also be {axes}-D but got {given[0]} tensor")
    names = "hx and cx" if len(states) == 2 else "the tensors of hx"
    raise RuntimeError(f"For {form} input, {names} should also be {axes}-D but got ({', '.join(given)}) tensors")


def check_hidden_sizes(states: Sequence[Tensor], expected: Sequence[tuple[int, ...]]) -> None:
    """A state's tensors have the layer's sizes."""
    for number, (state, sizes) in enumerate(zip(states, expected, strict=True)):
        if tuple(state.shape) != sizes:
            which = f"[{number}]" if len(expected) > 1 else ""
            raise RuntimeError(f"Expected hidden{which} size {sizes}, got {list(state.shape)}")


def check_state_dtypes(title: str, states: tuple[Tensor, ...], dtypes: set[torch.dtype]) -> None:
    """A state's dtype loses nothing of it."""
    for state in states:
        if state.dtype not in dtypes:
            wanted = " or ".join(sorted(str(dtype) for dtype in dtypes))
            raise RuntimeError(f"{title}: hx must be {wanted} for this input, got {state.dtype}")
