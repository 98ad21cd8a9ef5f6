"""The axis legend and one alias per kind of tensor.

    batch     sequences in parallel
    time      steps of a sequence; always axis 1 inside the library
    channels  elements of the state (hidden_size)
    features  elements of the input
    layers    layers times directions

A type checker reads the aliases as `Tensor`. In `ops` tests check them, by jaxtyping's class of that name for these
axes: names of axes agree within a call. Layers are not checked: they take sequences without a batch, and time first,
too.
"""

from typing import Annotated, TypeAlias

from torch import Tensor

Series: TypeAlias = Annotated[Tensor, "Float", "batch time channels"]
Inputs: TypeAlias = Annotated[Tensor, "Float", "batch time features"]
Projections: TypeAlias = Annotated[Tensor, "Float", "batch time projections"]
"""W x + b of all gates, gates times channels of them."""
Step: TypeAlias = Annotated[Tensor, "Float", "batch channels"]
"""One step of a series."""
InputStep: TypeAlias = Annotated[Tensor, "Float", "batch features"]
"""One step of the input."""
State: TypeAlias = Annotated[Tensor, "Float", "batch channels"]
"""The tensor that goes from one step to the next; at least float32."""
States: TypeAlias = Annotated[Tensor, "Float", "layers batch channels"]
"""The states of all layers, as `torch.nn` stacks them."""
Channels: TypeAlias = Annotated[Tensor, "Float", "channels"]
Features: TypeAlias = Annotated[Tensor, "Float", "*axes features"]
"""The features of a batch, of one sequence, or of tokens in any arrangement."""
Tokens: TypeAlias = Annotated[Tensor, "Int", "*axes"]
Table: TypeAlias = Annotated[Tensor, "Float", "vocabulary features"]
"""A row for each token."""
Flags: TypeAlias = Annotated[Tensor, "Bool", "batch time"]
Gaps: TypeAlias = Annotated[Tensor, "Float", "batch time *features"]
"""Times between steps, 0 or more."""
StateTuple: TypeAlias = tuple[Tensor, ...]
"""The tensors of a state, each a `State` or `States`."""
Hidden: TypeAlias = Tensor | StateTuple
"""`hx` and `h_n`: one tensor, or a tuple where the cell has several."""


def time_first(x: Series) -> bool:
    """Whether a series lies in memory step after step, and not sequence by sequence."""
    return not x.is_contiguous() and x.transpose(0, 1).is_contiguous()


def empty_series(like: Inputs, channels: int) -> Series:
    """An empty series with the steps of another, in the same order in memory."""
    batch, steps, _ = like.shape
    if time_first(like):
        return like.new_empty(steps, batch, channels).transpose(0, 1)
    return like.new_empty(batch, steps, channels)
