"""The tolerances of our cells, for the tests and for `gatedrnn verify` alike; they are never loosened.

A tolerance is a fraction of the largest expected value or of 1, whichever is more.
"""

import torch
from torch import Tensor

from gatedrnn.laws.case import Tolerance as Tolerance

ROUNDED = "bfloat16 against float64"
NARROW_STATE = "bfloat16 in chunks whose state is rounded between them, against float64"

TOLERANCES: dict[torch.dtype | str, Tolerance] = {
    torch.float64: Tolerance(output=1e-13, gradient=1e-12),
    torch.float32: Tolerance(output=2e-6, gradient=1e-5),
    torch.bfloat16: Tolerance(output=2**-8, gradient=2**-7),  # half a unit in the last place is 2**-9
    torch.float16: Tolerance(output=2**-11, gradient=2**-10),  # half a unit in the last place is 2**-12
    # A whole computation in bfloat16 against none: every product's result is rounded, and what reads it moves along.
    ROUNDED: Tolerance(output=2**-4, gradient=2**-4),
    # Three chunks of plain sequences; measured over all cells, away from kinks: 0.010 and 0.018.
    NARROW_STATE: Tolerance(output=2**-6, gradient=2**-5),
}
DIFFERENCES = 1e-7
"""The error of a slope by central differences in float64, relative to the slope or 1: half of the digits are left."""
LOG_SPACE_PER_STEP = 4.0
"""Allowed error of the scan over logarithms for each step, in units of epsilon: its sum grows with every step."""
EQUAL_TO_TORCH = 1e-6
"""The absolute error of a cell with the weights of torch's own layer, in float32."""


def largest_error(actual: Tensor, expected: Tensor) -> float:
    """Return the largest absolute difference; infinities must be in the same places, and a NaN is infinitely far."""
    got, want = actual.detach().to(torch.float64), expected.detach().to(torch.float64)
    if got.shape != want.shape:
        raise ValueError(f"shape {tuple(got.shape)}, expected {tuple(want.shape)}")
    difference = torch.where(got == want, 0.0, (got - want).abs())
    return float(difference.nan_to_num(nan=torch.inf, posinf=torch.inf).max()) if want.numel() else 0.0


def allowed_error(expected: Tensor, dtype: torch.dtype | str, *, gradient: bool = False) -> float:
    """Return the error that the table allows for values as large as the expected ones."""
    tolerance = TOLERANCES[dtype].gradient if gradient else TOLERANCES[dtype].output
    finite = expected.detach()[expected.isfinite()].abs()
    return tolerance * max(1.0, float(finite.max()) if finite.numel() else 0.0)
