"""Products of a few rows with a matrix, of which a step of a loop cell is made; a library's call would cost more."""

from typing import Any

import numba

from gatedrnn.kernels.cpu.numbers import FAST

COLUMNS = 512  # of the matrix at a time: four of its rows and two of the result stay in the first-level cache


@numba.njit(**FAST)
def add_product(
    rows: int, inner: int, a: Any, a_width: int, matrix: Any, width: int, low: int, high: int, out: Any, out_width: int
) -> None:
    """out[:, low:high] += a @ matrix[:, low:high] for `rows` rows; a (rows, inner), all row by row in flat arrays.

    `matrix` has `width` columns; rows of `a` and of `out` lie `a_width` and `out_width` apart.
    """
    for start in range(low, high, COLUMNS):
        end = min(start + COLUMNS, high)
        whole = inner - inner % 4
        for k in range(0, whole, 4):
            first, second = (
                matrix[k * width + start : k * width + end],
                matrix[(k + 1) * width + start : (k + 1) * width + end],
            )
            third = matrix[(k + 2) * width + start : (k + 2) * width + end]
            fourth = matrix[(k + 3) * width + start : (k + 3) * width + end]
            for r in range(0, rows - 1, 2):
                p, q = r * a_width + k, (r + 1) * a_width + k
                _four_to_two(
                    out[r * out_width + start : r * out_width + end],
                    out[(r + 1) * out_width + start : (r + 1) * out_width + end],
                    first, second, third, fourth,
                    a[p], a[p + 1], a[p + 2], a[p + 3], a[q], a[q + 1], a[q + 2], a[q + 3],
                )  # fmt: skip
            if rows % 2:
                p, o = (rows - 1) * a_width + k, (rows - 1) * out_width
                _four_to_one(out[o + start : o + end], first, second, third, fourth, a[p], a[p + 1], a[p + 2], a[p + 3])
        for k in range(whole, inner):
            row = matrix[k * width + start : k * width + end]
            for r in range(rows):
                _one_to_one(out[r * out_width + start : r * out_width + end], row, a[r * a_width + k])


@numba.njit(**FAST)
def _four_to_two(
    out: Any, other: Any, first: Any, second: Any, third: Any, fourth: Any,
    a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any,
) -> None:  # fmt: skip
    """Two rows of the result at once: what is read of the matrix serves both."""
    for j in range(out.size):
        w, x, y, z = first[j], second[j], third[j], fourth[j]
        out[j] += a * w + b * x + c * y + d * z
        other[j] += e * w + f * x + g * y + h * z


@numba.njit(**FAST)
def _four_to_one(out: Any, first: Any, second: Any, third: Any, fourth: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    for j in range(out.size):
        out[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]


@numba.njit(**FAST)
def _one_to_one(out: Any, row: Any, a: Any) -> None:
    for j in range(out.size):
        out[j] += a * row[j]
