"""The comparison that reads the one table of tolerances."""

import torch

from gatedrnn.verify.tolerances import allowed_error, largest_error


def assert_equal_within(
    actual: object, expected: object, dtype: torch.dtype | str, what: str, *, gradient: bool = False
) -> None:  # fmt: skip
    """Fail if `actual` differs from `expected` in shape, or in any number by more than the table allows for `dtype`.

    `what` names the thing in the message. Infinities must stand in the same places; a NaN equals nothing.
    """
    got, want = (torch.as_tensor(x).detach().to(torch.float64) for x in (actual, expected))
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    error, allowed = largest_error(got, want), allowed_error(want, dtype, gradient=gradient)
    assert error <= allowed, f"{what}: largest error {error:.3g}, allowed {allowed:.3g} in {dtype}"
