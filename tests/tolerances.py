"""The one table of tolerances, never looser in CI, and the comparison that reads it."""

from typing import Any, NamedTuple

import torch


class Tolerance(NamedTuple):
    """Largest absolute error, as a fraction of the largest expected number or of 1, whichever is more."""

    output: float
    gradient: float


TOLERANCES = {
    torch.float64: Tolerance(output=1e-13, gradient=1e-12),
    torch.float32: Tolerance(output=2e-6, gradient=1e-5),
    torch.bfloat16: Tolerance(output=2**-8, gradient=2**-7),  # half a unit in the last place is 2**-9
}


def assert_equal_within(actual: Any, expected: Any, dtype: torch.dtype, what: str, *, gradient: bool = False) -> None:
    """Fail if `actual` differs from `expected` in shape, or in any number by more than the table allows for `dtype`.

    `what` names the thing in the message. Infinities must stand in the same places; a NaN equals nothing.
    """
    got, want = (torch.as_tensor(x).detach().to(torch.float64) for x in (actual, expected))
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not want.numel():
        return
    tolerance = TOLERANCES[dtype].gradient if gradient else TOLERANCES[dtype].output
    allowed = tolerance * max(1.0, _largest(want))
    error = float(torch.where(got == want, 0.0, (got - want).abs()).max())
    assert error <= allowed, f"{what}: largest error {error:.3g}, allowed {allowed:.3g} in {dtype}"


def _largest(x: torch.Tensor) -> float:
    finite = x[x.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0
