"""The axis legend and one alias per kind of tensor.

    B  batch: sequences side by side
    T  time: steps of a sequence; always axis 1 inside the library
    D  features of the input
    H  channels of the state (hidden_size)
    L  layers times directions

The aliases are documentation that a type checker reads as `Tensor`; values are checked where they are used.
"""

from typing import TypeAlias

from torch import Tensor

Series: TypeAlias = Tensor  # (B, T, D) or (B, T, H), floating
Step: TypeAlias = Tensor  # (B, D) or (B, H), one step of a series
State: TypeAlias = Tensor  # (B, H), what goes from one step to the next; at least float32
States: TypeAlias = Tensor  # (L, B, H), the states of all layers, as `torch.nn` stacks them
Channels: TypeAlias = Tensor  # (H,), one number per channel
Flags: TypeAlias = Tensor  # (B, T), bool
StateTuple: TypeAlias = tuple[Tensor, ...]  # the tensors of a state, each a `State` or `States`
Hidden: TypeAlias = Tensor | StateTuple  # `hx` and `h_n`: one tensor, or a tuple where the cell has several


def time_first(x: Series) -> bool:
    """Whether a series lies in memory step after step, and not sequence by sequence."""
    return not x.is_contiguous() and x.transpose(0, 1).is_contiguous()


def empty_series(like: Series, channels: int) -> Series:
    """An empty series with the steps of another, in the same order in memory."""
    batch, steps, _ = like.shape
    if time_first(like):
        return like.new_empty(steps, batch, channels).transpose(0, 1)
    return like.new_empty(batch, steps, channels)
