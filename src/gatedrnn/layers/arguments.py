"""What a layer is called with, checked where `torch.nn` checks it and with its classes of error."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from gatedrnn.shapes import Flags


def check_size(name: str, value: object, least: int) -> None:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_dropout(value: object, num_layers: int) -> None:
    """A probability; torch warns where it has no layer to stand between, and so do we."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"dropout should be a number in range [0, 1], the probability of a zero; got {value!r}")
    if value > 0 and num_layers == 1:
        warnings.warn(
            f"dropout stands between layers, so dropout={value} does nothing with num_layers=1; "
            "input_dropout, zoneout and state_dropout do",
            stacklevel=4,
        )


def check_rate(name: str, value: object) -> None:
    """A probability below 1: what is kept is scaled by 1/(1-p)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"{name} should be a number in range [0, 1), a probability; got {value!r}")


def check_name(name: str, value: str, known: Sequence[str]) -> None:
    """One of the known names."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def check_features(x: Tensor, weight: Tensor, expected: int) -> None:
    """The input has the layer's dtype (unless autocast sees to it) and number of features."""
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype})")
    if x.shape[-1] != expected:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {expected}, got {x.shape[-1]}")


def check_flags(name: str, flags: Flags, expected: tuple[int, ...]) -> None:
    """Flags are bool and have the input's leading axes."""
    if flags.dtype != torch.bool or tuple(flags.shape) != expected:
        raise ValueError(
            f"{name} must be bool with the input's first axes {expected}, "
            f"got {flags.dtype} of shape {tuple(flags.shape)}"
        )


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
