"""Checks of a layer's arguments, made where `torch.nn` makes them and with its classes of error."""

import math
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor

from gatedrnn.equations import Equations, options_of
from gatedrnn.errors import nearest
from gatedrnn.kernels.backends import autocast_dtype, observed
from gatedrnn.kinds import kind_of
from gatedrnn.shapes import Flags


def check_size(name: str, value: object, least: int = 1) -> None:
    """Accept a whole number of `least` or more."""
    # True is an int to Python: without this, hidden_size=True would make a layer of one channel.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value < least:
        # The first message is torch's.
        raise ValueError(f"{name} must be greater than zero" if least else f"{name} must be at least 0, got {value}")


def check_flag(name: str, value: object) -> None:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def check_projection(proj_size: object) -> None:
    """Accept a size, or 0 for no projection."""
    if isinstance(proj_size, bool) or not isinstance(proj_size, int):
        raise TypeError(f"proj_size should be of type int, got: {type(proj_size).__name__}")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")


def check_options(layer: type, names: Iterable[str], cell_class: type[Equations]) -> None:
    """Accept keyword arguments of the cell's constructor.

    Raises:
        TypeError: for another; the message names the nearest that exists.
    """
    options = options_of(cell_class).keys()
    for name in names:
        if name not in options:
            hint = nearest(name, {parameter for base in layer.__mro__ for parameter in _keywords(base)} | options)
            raise TypeError(
                f"{layer.__name__} got an unexpected keyword argument {name!r}" + (f"; {hint}" if hint else "")
            )


def _keywords(base: type) -> set[str]:
    init = vars(base).get("__init__")
    # Not those of torch's bases, such as `mode`: a hint must name what a layer takes.
    return set() if init is None or base.__module__.startswith("torch.") else set(signature(init).parameters)


def check_real(title: str, dtype: torch.dtype | None) -> None:
    """Accept a dtype of real floating-point numbers, or None."""
    if dtype is not None and not dtype.is_floating_point:
        raise TypeError(
            f"{title} computes with real numbers, got dtype={dtype}; take a float dtype"
            + (", real and imaginary parts side by side as features" if dtype.is_complex else "")
        )


def check_dropout(value: object, num_layers: int) -> None:
    """Accept a probability; warn, as torch does, where there is only one layer."""
    if not _is_number(value) or not 0 <= float(value) <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if float(value) > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={value} and num_layers={num_layers}; input_dropout, zoneout and "
            "state_dropout act within one layer",
            stacklevel=_constructor_level(),
        )


def _is_number(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _constructor_level() -> int:
    """Return the stack level of the line that makes a layer: a class may have a constructor of its own, or none."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in ("check_dropout", "__init__"):
        level, frame = level + 1, frame.f_back
    return level


def check_rate(name: str, value: object) -> None:
    """Accept a probability below 1: remaining elements are scaled by 1/(1-p)."""
    if not _is_number(value) or not 0 <= float(value) < 1:
        raise ValueError(f"{name} should be a number in range [0, 1), a probability; got {value!r}")


def check_name(name: str, value: str, names: Sequence[str]) -> None:
    """Accept one of `names`."""
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")


def check_time_scale(name: str, value: object) -> None:
    """Accept a number of steps of 2 or more: a decay of 1/2 at least."""
    if not _is_number(value) or not 2 <= float(value) < math.inf:
        raise ValueError(f"{name} should be a number of steps, 2 at least; got {value!r}")


def check_blocks(cell: Equations, hidden_size: int, blocks: int) -> None:
    """Accept a size that makes whole blocks, of the cell and of as many in each recurrent matrix."""
    divisor = math.lcm(cell.block_size, blocks)
    if hidden_size % divisor:
        raise ValueError(f"hidden_size of {cell.word} must be a multiple of {divisor}, got {hidden_size}")


def check_features(x: Tensor, weight: Tensor, expected: int) -> None:
    """Accept an input with the layer's dtype (unless autocast converts it) and number of features."""
    check_dtype("RNN", x, weight, ValueError)
    if x.shape[-1] != expected:
        # torch's class and words: code that catches them works with these layers too.
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {expected}, got {x.shape[-1]}")


def check_dtype(title: str, x: Tensor, weight: Tensor, error: type[Exception] = RuntimeError) -> None:
    """Accept an input with the weights' dtype, which must be real, unless autocast converts it."""
    if x.dtype != weight.dtype and (autocast_dtype(x.device) is None or not x.dtype.is_floating_point):
        start = "RNN input" if title == "RNN" else f"{title}: input"
        raise error(
            f"{start} dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). {_remedy(x.dtype, weight.dtype)}"
        )
    if weight.dtype.is_complex:
        raise TypeError(f"{title}: layers compute with real numbers, got {weight.dtype}; {_COMPLEX}")


_COMPLEX = "pass real and imaginary parts as features side by side, torch.view_as_real(x).flatten(-2)"


def _remedy(dtype: torch.dtype, wanted: torch.dtype) -> str:
    if dtype.is_complex:
        return f"Layers compute with real numbers: {_COMPLEX}"
    if not dtype.is_floating_point:
        return f"Ids need an embedding before the layer: nn.Embedding(...)(ids); counts and flags: input.to({wanted})"
    return f"Convert input: input.to({wanted}), or convert model: model.to({dtype})"


def check_input_axes(title: str, x: Tensor, batched: int) -> None:
    """Accept an input with `batched` axes, or one fewer."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{title}: input must be a tensor, got {type(x).__name__}")
    if x.dim() not in (batched - 1, batched):
        raise ValueError(f"{title}: Expected input to be {batched - 1}D or {batched}D, got {x.dim()}D instead")


def check_flags(name: str, flags: Flags, expected: tuple[int, ...]) -> None:
    """Accept a tensor of bool with the input's leading axes."""
    if not isinstance(flags, Tensor):
        raise TypeError(f"{name} must be a tensor of bool, got {type(flags).__name__}; take torch.as_tensor(...)")
    if flags.dtype != torch.bool:
        raise ValueError(f"{name} must be a tensor of bool, got {flags.dtype}; take {name}.bool()")
    if tuple(flags.shape) != expected:
        raise ValueError(f"{name} must have the input's first axes {expected}, got shape {tuple(flags.shape)}")


def check_gaps(cell: Equations, gaps: Tensor, expected: tuple[int, ...], bidirectional: bool = False) -> None:
    """Accept times of 0 or more with the input's leading axes, if the cell reads gaps; a cell that learns their effect
    accepts an axis of features too, for each direction."""
    reads = kind_of(cell).facts(cell).gaps
    if reads is None:
        raise ValueError(f"{cell.name} takes no gaps: it has no decay between 0 and 1 that could be raised to them")
    if not isinstance(gaps, Tensor):
        raise TypeError(f"gaps must be a tensor of times, got {type(gaps).__name__}; take torch.as_tensor(...)")
    if not gaps.is_floating_point():
        raise ValueError(f"gaps must be a tensor of floating point, got {gaps.dtype}; take gaps.float()")
    by_feature = (*expected, reads.features * (1 + bidirectional))
    if tuple(gaps.shape) != expected and not (reads.features and tuple(gaps.shape) == by_feature):
        also = f", or {by_feature} with a time for each feature" if reads.features else ""
        raise ValueError(f"gaps must have the input's first axes {expected}{also}, got shape {tuple(gaps.shape)}")
    # A tracer has no values to look at.
    if not observed(gaps) and not bool(((gaps >= 0) & gaps.isfinite()).all()):
        raise ValueError("gaps must be finite and 0 or more: the time from the step before to each step")


def as_states(title: str, hx: object, count: int) -> tuple[Tensor, ...]:
    """Return hx, one tensor or several, as a tuple of `count` tensors."""
    states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
    for state in states:
        if not isinstance(state, Tensor):
            raise TypeError(f"{title}: hx must be a tensor or a tuple of tensors, got {type(state).__name__} in it")
    if len(states) != count:
        raise TypeError(f"{title}: hx must hold {count} tensor{'s' if count > 1 else ''}, got {len(states)}")
    return states


def check_state_axes(states: tuple[Tensor, ...], batched: bool) -> None:
    """Accept states with as many axes as the input."""
    axes = 3 if batched else 2
    if all(state.dim() == axes for state in states):
        return
    axes_of_states = [f"{state.dim()}-D" for state in states]
    form = "batched 3-D" if batched else "unbatched 2-D"
    if len(states) == 1:
        raise RuntimeError(f"For {form} input, hx should also be {axes}-D but got {axes_of_states[0]} tensor")
    names = "hx and cx" if len(states) == 2 else "the tensors of hx"
    raise RuntimeError(
        f"For {form} input, {names} should also be {axes}-D but got ({', '.join(axes_of_states)}) tensors"
    )


def check_hidden_sizes(states: Sequence[Tensor], expected: Sequence[tuple[int, ...]]) -> None:
    """Accept tensors with the layer's sizes."""
    for number, (state, sizes) in enumerate(zip(states, expected, strict=True)):
        if tuple(state.shape) != sizes:
            which = f"[{number}]" if len(expected) > 1 else ""
            raise RuntimeError(f"Expected hidden{which} size {sizes}, got {list(state.shape)}")


def check_state_dtypes(title: str, states: tuple[Tensor, ...], dtypes: set[torch.dtype]) -> None:
    """Accept states in one of `dtypes`."""
    for state in states:
        if state.dtype not in dtypes:
            wanted = " or ".join(sorted(str(dtype) for dtype in dtypes))
            raise RuntimeError(f"{title}: hx must be {wanted} for this input, got {state.dtype}")


def takes(cell: Equations | type[Equations], name: str, bias_init: str | None = None) -> bool:
    """Whether a setting has an effect in layers of a cell; `bias_init` is the cell's own if None."""
    if name == "longest_time_scale":
        return bool(cell.decay_gates) and (bias_init or cell.bias_init) == "time-scales"
    return name not in kind_of(cell).facts(cell).refused


def why_refused(
    settings: Mapping[str, object], cells: Mapping[str, Equations | type[Equations]], backbone: str | None = None
) -> str | None:
    """Return why one of these settings has no effect in any of the cells, or in a backbone; None if each has, or is not
    set."""
    bias_init = settings.get("bias_init")
    scheme = bias_init if isinstance(bias_init, str) else None
    for name, value in settings.items():
        # Refused only where it has an effect in none: a study compares cells of which some take it.
        if not value or any(takes(cell, name, scheme) for cell in cells.values()):
            continue
        if backbone is not None:
            return f"{name} is of recurrent layers, and {backbone} has none; leave it out"
        return f"{name} {_refusal(name, cells, scheme)}"
    return None


def _refusal(name: str, cells: Mapping[str, Equations | type[Equations]], bias_init: str | None) -> str:
    names, first = ", ".join(cells), next(iter(cells.values()))
    refused = kind_of(first).facts(first).refused
    if name in refused:
        return refused[name].format(names=names)
    if not any(cell.decay_gates for cell in cells.values()):
        return f"spreads the biases of a gate that decays, and {names} has none; leave it out"
    schemes = ", ".join(dict.fromkeys(bias_init or cell.bias_init for cell in cells.values()))
    return f"goes with bias_init 'time-scales', and that of {names} is {schemes}; leave it out"
