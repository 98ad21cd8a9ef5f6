"""The suite's own parts: covering arrays miss no pair, and every path through the code has a cell that takes it."""

from itertools import product

import pytest
from covering import Axis, cases, covering, pairs
from layer_laws import EQUATIONS
from paths import representatives, signature

from gatedrnn.registry import CELLS

SIZES = [(2, 2, 2), (14, 2, 3, 2), (5, 4, 3, 2, 2), (1, 3, 1), (2,) * 8]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_pair_of_values_meets_in_far_fewer_rows_than_the_product(sizes):
    rows = list(product(*map(range, sizes)))
    found = covering(rows)
    assert {pair for row in found for pair in pairs(row)} == {pair for row in rows for pair in pairs(row)}
    first, second, *_ = sorted(sizes, reverse=True)
    assert first * second <= len(found) <= max(1.5 * first * second, first * second + 4)
    assert found == covering(rows)


def test_a_pair_that_exists_nowhere_is_not_asked_for_and_the_product_is_whole_when_it_is():
    axes = {"name": ("gru", "mgu"), "size": (0, 2), "bias": (True, False)}
    few, every = ({c.values for c in cases(lambda name, size: name != "gru" or not size, axes, e)} for e in (0, 1))
    assert few < every and len(every) == 6 and not any(name == "gru" and size for name, size, _ in every)


def test_values_of_an_axis_are_named_and_its_fast_part_is_taken():
    axes = {"name": Axis(["mgu"], ["mgu", "gru"]), "length": {"short": 1, "long": 100}}
    assert [case.id for case in cases(None, axes, exhaustive=False)] == ["mgu-short", "mgu-long"]
    assert [case.values for case in cases(None, axes, exhaustive=True)][-1] == ("gru", 100)


def test_every_path_of_a_cell_is_that_of_a_cell_in_the_fast_suite():
    """Every cell of the package, and of the tests: with a new kind of cell its representative is found, not listed."""
    covered = set().union(*(signature(EQUATIONS[name]) for name in representatives(EQUATIONS)))
    for record in CELLS.values():
        for options in ({}, *record.variants):
            cell = record.equations(**options)
            left = {name: value for _, name, value in signature(cell) - covered}
            assert left.keys() <= {"window", "heads"}, f"{cell.word}: {left}"  # of `test_window`, and of `test_slstm`
    assert len(representatives(EQUATIONS)) <= 15
    odd = type("Odd", (type(EQUATIONS["mingru"]),), {"states": ("h", "c")})  # takes a path of its own
    assert representatives(EQUATIONS | {"odd": odd()})[-1] == "odd"
