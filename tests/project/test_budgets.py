"""The code grows by a line in a diff: sizes of packages against budgets.csv, and counts against the limits here."""

from functools import cache

import budgets
import pytest
import torch

import gatedrnn
from gatedrnn.kinds.kind import Kind, LayerView

LIMITS = budgets.read_limits()
MOST = {
    "files": 361,
    "public module constants": 417,
    "calls of isinstance": 380,
    "functions with 10 or more parameters": 43,
    "context managers": 46,
    "90th percentile of a function's statements": 13,
}
WARM_CALLS = {
    "MinGRU": budgets.CallTrace(files=15, calls=98, look_ups=2),
    "GRU": budgets.CallTrace(files=19, calls=177, look_ups=2),  # 175 where torch multiplies, not oneDNN
    "LSTM": budgets.CallTrace(files=6, calls=11, look_ups=0),
}
LEAST = {"comment lines, per mille": 11.2}
SMALL = '''"""A module."""

MOST = 3  # of anything
_PRIVATE = 4


class Held:
    """A class."""

    size: int = 1
    """A field."""

    def __enter__(self):
        return self


# Why this is so.
def add(a, b, c, d, e, f, g, h, i, j):
    """A function."""
    if isinstance(a, int):
        return a + b
    return c  # noqa: RET505
'''


@cache  # by the first test that asks: every worker imports this file, and one runs it
def sizes():
    return budgets.sizes(budgets.sources())


@cache
def counts():
    return budgets.counts(budgets.sources())


@pytest.mark.parametrize("package", LIMITS)
def test_a_package_is_no_larger_than_its_budget(package):
    for what, size, limit in zip(budgets.COLUMNS[1:], sizes()[package], LIMITS[package], strict=True):
        assert size <= limit, f"{package}: {size:,} {what}, its budget is {limit:,}"


def test_every_package_that_exists_and_no_other_has_a_budget():
    assert LIMITS.keys() == sizes().keys()


@pytest.mark.parametrize("what", [*MOST, *LEAST])
def test_what_makes_code_hard_to_read_does_not_grow(what):
    if what in MOST:
        assert counts()[what] <= MOST[what], f"{counts()[what]:,} {what}, at most {MOST[what]:,} are allowed"
    else:
        assert counts()[what] >= LEAST[what], f"{counts()[what]:,} {what}, at least {LEAST[what]:,} are asked for"


def test_every_count_has_a_limit():
    assert counts().keys() == {*MOST, *LEAST}


@pytest.mark.parametrize("name", WARM_CALLS)
def test_the_way_of_a_warm_call_grows_no_longer(name):
    layer, x = getattr(gatedrnn, name)(4, 8, batch_first=True), torch.randn(2, 40, 4)
    layer(x)
    for what, count, limit in zip(
        budgets.CallTrace._fields, budgets.trace_call(lambda: layer(x)), WARM_CALLS[name], strict=True
    ):
        assert count <= limit, f"{name}: {count} {what} of a call, at most {limit} are allowed"


@pytest.mark.parametrize("interface, most", [(Kind, 12), (LayerView, 10)])
def test_a_kind_and_a_layer_meet_at_few_members_none_of_them_private(interface, most):
    members = {name for name in (*vars(interface), *interface.__annotations__) if not name.startswith(("__", "_abc_"))}
    members -= {"_is_protocol", "_is_runtime_protocol"}
    assert len(members) <= most and not [name for name in members if name.startswith("_")], sorted(members)


def test_a_trace_counts_each_call_and_each_file_once():
    flags = torch.zeros(2, 3, dtype=torch.bool)
    found = budgets.trace_call(lambda: [gatedrnn.layers.arguments.check_flags("mask", flags, (2, 3)) for _ in range(2)])
    assert found == budgets.CallTrace(files=1, calls=2, look_ups=0)


def test_counts_are_those_of_a_module_counted_by_hand():
    texts = {"kinds/small.py": SMALL, "top.py": "import math\n"}
    assert budgets.sizes(texts)["kinds"] == budgets.Size(10, 22)
    assert budgets.sizes(texts)["core"] == budgets.Size(10, 22)
    assert budgets.sizes(texts)["all"] == budgets.Size(11, 23)
    assert budgets.counts(texts) == {
        "files": 2,
        "public module constants": 1,
        "calls of isinstance": 1,
        "functions with 10 or more parameters": 1,
        "context managers": 1,
        "90th percentile of a function's statements": 3,
        "comment lines, per mille": 43.5,
    }
