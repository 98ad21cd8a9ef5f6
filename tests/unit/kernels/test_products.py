"""Products with a packed matrix are those of torch, and a row of them does not depend on the rows beside it."""

from itertools import product

import pytest
import torch
from tolerances import assert_equal_within

from gatedrnn.kernels.cpu._products import add_product, packed, padded
from gatedrnn.kernels.cpu._views import flat

SIZES = [(1, 1), (5, 3), (37, 64), (256, 33), (300, 70), (513, 257)]
"""(inner, columns): within one block of the inner axis and beyond it, whole panels and parts of one."""


def added(rows, inner, columns, dtype, transposed=False):
    """What `add_product` makes of a result that is already there, and what it should be in float64."""
    torch.manual_seed(rows)
    matrix, a = torch.randn(inner, columns, dtype=dtype), torch.randn(rows, inner + 2, dtype=dtype)
    wide = padded(columns, matrix.element_size())
    out = torch.randn(rows, wide, dtype=dtype)
    expected = out[:, :columns].double() + a[:, :inner].double() @ matrix.double()
    panels = packed(matrix.t().contiguous() if transposed else matrix, transposed)
    add_product(rows, inner, flat(a), inner + 2, panels, wide, flat(out))
    return out[:, :columns], expected


@pytest.mark.parametrize("inner, columns", SIZES)
def test_a_product_with_a_packed_matrix_is_the_product(inner, columns):
    for rows, dtype, transposed in product((*range(1, 10), 23), (torch.float32, torch.float64), (False, True)):
        got, want = added(rows, inner, columns, dtype, transposed)
        assert_equal_within(got, want.to(dtype), dtype, f"product of {rows} rows, transposed {transposed}")


@pytest.mark.parametrize("inner, columns", SIZES)
def test_a_row_of_the_product_does_not_depend_on_its_neighbours(inner, columns):
    torch.manual_seed(0)
    matrix, a = torch.randn(inner, columns), torch.randn(23, inner)
    wide, panels = padded(columns, 4), packed(matrix)
    whole = torch.zeros(23, wide)
    add_product(23, inner, flat(a), inner, panels, wide, flat(whole))
    for low, rows in product((0, 5, 14), (1, 2, 3, 7, 9)):
        some = torch.zeros(rows, wide)
        add_product(rows, inner, flat(a[low : low + rows]), inner, panels, wide, flat(some))
        assert torch.equal(some, whole[low : low + rows])
