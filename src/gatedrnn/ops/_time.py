"""One step after another: a loop in Python or, in a model that becomes ONNX, one operator for any length."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gatedrnn.ops.backends import exporting_to_onnx


def over_time(
    step: Callable[..., tuple[Tensor, tuple[Tensor, ...]]], state: tuple[Tensor, ...],
    series: Sequence[Tensor | None], reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """All outputs of a step, (batch, time, …), and the last state. One step at least.

    In an export to ONNX with `dynamo=True` the loop is one operator, Scan, and the length is free; with `dynamo=False`
    it is unrolled for the length of the example.

    Args:
        step: `step(state, *series_t)` gives the output and the next state, in the shapes and dtypes of the one before.
        series: what a step reads, each (batch, time, …); None is passed on as None.
        reverse: from the last step to the first.
    """
    if torch.compiler.is_exporting() and exporting_to_onnx():
        return _as_one_operator(step, state, series, reverse)
    # unbind, not indexing: the gradient of an index is a whole series of zeros for each step.
    present = [x is not None for x in series]
    steps = list(zip(*(x.unbind(1) for x in series if x is not None), strict=True))
    outputs = []
    for read in reversed(steps) if reverse else steps:
        output, state = step(state, *_with_gaps(present, read))
        outputs.append(output)
    return torch.stack(outputs[::-1] if reverse else outputs, dim=1), state


def _as_one_operator(
    step: Callable[..., tuple[Tensor, tuple[Tensor, ...]]], state: tuple[Tensor, ...],
    series: Sequence[Tensor | None], reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    from torch._higher_order_ops.scan import scan  # torch has no public name for it

    present = [x is not None for x in series]  # `one` must not close over the series themselves: see below

    def one(state: tuple[Tensor, ...], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        output, after = step(state, *_with_gaps(present, read))
        return after, output.clone()  # an output must be no view of a state

    if not torch.compiler.is_dynamo_compiling():  # `scan` compiles: what it keeps has the sizes of an earlier export
        torch.compiler.reset()
    # Detached: a graph of ONNX has no gradients, and torch's rule for those of `scan` fails where the batch is free.
    # Laid out anew: of a view that is one batch or one step long, the strides would fix that size.
    begin = tuple(s.detach().clone(memory_format=torch.contiguous_format) for s in state)
    by_step = (x.detach().transpose(0, 1) for x in series if x is not None)
    read = tuple(x.clone(memory_format=torch.contiguous_format) for x in by_step)
    last, outputs = scan(one, begin, read, reverse=reverse)
    return outputs.transpose(0, 1).clone(memory_format=torch.contiguous_format), last


def _with_gaps(present: Sequence[bool], read: Sequence[Tensor]) -> list[Tensor | None]:
    """What is read of a step in the places of its series, None where there is none."""
    given = iter(read)
    return [next(given) if there else None for there in present]
