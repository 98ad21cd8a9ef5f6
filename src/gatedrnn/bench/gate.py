"""The gate: what gives other numbers than its formula in float64 is not timed."""

from typing import NamedTuple

from torch import Tensor

from gatedrnn.bench.contenders import Contender
from gatedrnn.verify.tolerances import allowed_error, largest_error


class Wrong(NamedTuple):
    """What disagreed, and by how much; no numbers where there was none to compare."""

    what: str
    error: float | None = None
    allowed: float | None = None


def disagreement(contender: Contender, backward: bool = True, forward: bool = True) -> Wrong | None:
    """The first output or gradient that is further off than the table of tolerances allows; None if all agree.

    Args:
        backward: run it with gradients and compare those too.
        forward: run it without a graph, which may take another way through the code.
    """
    if contender.in_float64 is not None:
        wrong = disagreement(contender.in_float64, backward, forward)
        if wrong is not None:
            return wrong._replace(what=f"in float64, {wrong.what}")
    try:
        if backward and (wrong := _compared(contender, *contender.forward_backward())):
            return wrong
        return _compared(contender, contender.forward()) if forward else None
    except Exception as error:  # whatever it is: the others are still measured, and the exit code says so
        return Wrong(f"raised {type(error).__name__}: {' '.join(str(error).split())}")


def _compared(contender: Contender, outputs: tuple[Tensor, ...], grads: tuple[Tensor, ...] = ()) -> Wrong | None:
    expected, expected_grads = contender.expected.values
    for number, (actual, wanted) in enumerate(zip(outputs, expected, strict=False)):
        if wrong := _off(contender, f"output {number}", actual, wanted, gradient=False):
            return wrong
    for name, actual in zip(contender.leaves, grads, strict=False):
        if wrong := _off(contender, f"gradient of {name}", actual, expected_grads[name], gradient=True):
            return wrong
    return None


def _off(contender: Contender, what: str, actual: Tensor, wanted: Tensor, *, gradient: bool) -> Wrong | None:
    if actual.shape != wanted.shape:
        return Wrong(f"{what} has shape {tuple(actual.shape)}, expected {tuple(wanted.shape)}")
    error, allowed = largest_error(actual, wanted), allowed_error(wanted, contender.precision, gradient=gradient)
    slack = contender.slack.gradient if gradient else contender.slack.output
    allowed = max(allowed, slack * max(1.0, float(wanted.abs().max())))
    return None if error <= allowed else Wrong(what, error, allowed)
