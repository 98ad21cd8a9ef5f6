"""A cell's layer and its single step add equations and nothing else: what their bases decide holds for all cells.

So a law on errors, on dtypes or on what an argument may be has one cell where it is stated, and no axis of them.
"""

from inspect import Parameter, signature

import pytest
from torch import Tensor, nn

from gatedrnn import RecurrentLayer
from gatedrnn.cells.base import Cell, Layer
from gatedrnn.layers import SingleStep
from gatedrnn.registry import CELLS


class Empty(RecurrentLayer[Tensor]):
    """Names that Python itself writes into a class."""


WRITTEN = {*vars(Empty), "__slotnames__", "__signature__"}  # by Python, by pickling, and by the base
RECORDS = tuple(CELLS.values())
KINDS = {
    "cell_class": ((Layer, RecurrentLayer, nn.RNNBase), [record.layer for record in RECORDS]),
    "layer_class": ((Cell, SingleStep, nn.RNNCellBase), [record.single_step for record in RECORDS]),
}
every_kind = pytest.mark.parametrize("link, kind", KINDS.items(), ids=KINDS)


@every_kind
def test_a_class_names_its_equations_and_all_else_is_the_bases_also_the_constructor(link, kind):
    (typed, base, torchs), classes = kind
    assert issubclass(base, torchs) and typed.__mro__[1] is base and vars(typed).keys() <= WRITTEN
    for made in classes:
        assert made.__mro__[1] is typed, made
        wraps = {"wrapper"} if made in (CELLS["qrnn"].layer, CELLS["slstm"].layer) else set()
        assert vars(made).keys() - WRITTEN == {link} | wraps, made
    for record in RECORDS:
        assert record.single_step.layer_class is record.layer
        assert record.single_step.__name__ == f"{record.layer.__name__}Cell"


@every_kind
def test_a_signature_has_the_arguments_of_the_base_and_the_options_of_the_equations(link, kind):
    (_, base, _), classes = kind
    *shared, others = signature(base).parameters.values()
    assert others.kind == Parameter.VAR_KEYWORD
    for made, record in zip(classes, RECORDS, strict=True):
        options = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in signature(record.equations).parameters.values()]
        assert list(signature(made).parameters.values()) == [*shared, *options], made
        assert {p.name: p.default for p in options} == record.options, made


def test_a_subclass_with_a_constructor_of_its_own_shows_that_one():
    class Square(CELLS["gru"].layer):
        def __init__(self, size):
            super().__init__(size, size)

    class SquareCell(CELLS["gru"].single_step):
        def __init__(self, size):
            super().__init__(size, size)

    for made in (Square, SquareCell):
        assert list(signature(made).parameters) == ["size"] and made(3).input_size == 3
