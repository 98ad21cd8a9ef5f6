"""The tolerances of a layer of which nothing is known but its dtype; they are never loosened."""

from typing import NamedTuple

import torch


class Tolerance(NamedTuple):
    """Largest absolute error, as a fraction of the largest expected value."""

    output: float
    gradient: float


# Two orders of a layer's operations differ by rounding alone, whatever the operations are.
TOLERANCES = {
    torch.float64: Tolerance(output=1e-9, gradient=1e-8),
    torch.float32: Tolerance(output=1e-4, gradient=1e-3),
}
