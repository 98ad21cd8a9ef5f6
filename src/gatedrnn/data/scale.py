"""Mean and deviation of values as they were read, in float64: before anything is rounded to float32."""

from collections.abc import Sequence

import numpy as np

ROUNDING = 1e-14
"""Values that differ by no more, in units of the largest, are equal but for rounding."""
FLOAT32 = float(np.finfo(np.float32).max)
NEVER_VARIES = 1e300
"""The deviation of a channel of equal values: whatever it holds later is read as 0, in any unit."""


def scale_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column of values (rows, columns); NaN is left out.

    The mean of a column without any is NaN. The deviation is `NEVER_VARIES` where all are equal.
    """
    seen = ~np.isnan(values)
    count = np.where(seen.any(0), seen.sum(0), np.nan)
    largest = np.where(seen.any(0), np.where(seen, values, -np.inf).max(0, initial=-np.inf), 0.0)
    # Sums of what is left after one of the values is subtracted lose no digits to a large mean.
    off = np.where(seen, values - largest, 0.0)
    rest = off.sum(0) / count
    unit = _power(np.where(seen, off - rest, 0.0))
    spread = unit * np.sqrt(np.where(seen, np.square((off - rest) / unit), 0.0).sum(0) / count)
    return largest + rest, np.where(varies(values) & (spread > 0), spread, NEVER_VARIES)


def first_beyond(values: np.ndarray, means: Sequence[float], deviations: Sequence[float]) -> tuple[int, int] | None:
    """Row and column of the first of some values (rows, columns) that float32 cannot hold in units of its column's
    deviation; None if there is none."""
    beyond = np.abs(values / deviations - np.divide(means, deviations)) > FLOAT32
    return tuple(map(int, np.argwhere(beyond)[0])) if beyond.any() else None  # type: ignore[return-value]


def deviation_of(values: np.ndarray) -> float:
    """The standard deviation of values (count,), NaN left out; 0 where all are equal, or none is there."""
    unit = _power(np.nan_to_num(values))
    return float(np.nanstd(values / unit) * unit) if varies(values) else 0.0


def _power(values: np.ndarray) -> np.ndarray:
    """The power of 2 for each column in units of which the largest is about 1, so that no square is too small or large
    for 64 bits, and no digit changes.
    """
    exponent = np.frexp(np.abs(values).max(0, initial=0.0))[1]
    power: np.ndarray = np.ldexp(1.0, np.clip(exponent, -1021, 1021))
    return power


def varies(values: np.ndarray) -> np.ndarray:
    """Whether the values of each column (rows, …) differ by more than rounding; NaN is left out."""
    seen = ~np.isnan(values)
    high, low = (
        np.where(seen, values, -np.inf).max(0, initial=-np.inf),
        np.where(seen, values, np.inf).min(0, initial=np.inf),
    )
    varied: np.ndarray = high - low > ROUNDING * np.maximum(np.abs(high), np.abs(low))
    return varied
