"""A cell's layer and its single step add equations and nothing else: what their bases decide holds for all cells.

So a law on errors, on dtypes or on what an argument may be has one cell where it is stated, and no axis of them.
"""

import ast
import textwrap
from inspect import Parameter, getsource, signature

import pytest
from torch import Tensor, nn

from gatedrnn import RecurrentLayer
from gatedrnn.layers import SingleStep
from gatedrnn.registry import CELLS


class Empty(RecurrentLayer[Tensor]):
    """What Python itself writes into a class."""


RECORDS = tuple(CELLS.values())
KINDS = {
    "cell_class": (RecurrentLayer, nn.RNNBase, [record.layer for record in RECORDS]),
    "layer_class": (SingleStep, nn.RNNCellBase, [record.single_step for record in RECORDS]),
}
every_kind = pytest.mark.parametrize("link, kind", KINDS.items(), ids=KINDS)


@every_kind
def test_a_class_names_its_equations_and_has_a_constructor_and_all_else_is_the_bases(link, kind):
    base, torchs, classes = kind
    assert issubclass(base, torchs)
    for made in classes:
        assert made.__mro__[1] is base, made
        own = vars(made).keys() - vars(Empty).keys() - {"__slotnames__"}  # which pickling leaves
        assert own == {link, "__init__"}, made
    for record in RECORDS:
        assert record.single_step.layer_class is record.layer
        assert record.single_step.__name__ == f"{record.layer.__name__}Cell"


@every_kind
def test_a_constructor_has_the_arguments_of_the_base_and_the_options_of_the_equations(link, kind):
    base, _, classes = kind
    shared = signature(base).parameters
    of_a_series = {"log_space"} if base is SingleStep else set()
    for made, record in zip(classes, RECORDS, strict=True):
        found, expected = dict(signature(made).parameters), record.options
        options = {name: found.pop(name) for name in expected.keys() - of_a_series}
        assert {name: p.default for name, p in options.items()}.items() <= expected.items(), made
        assert {p.kind for p in options.values()} <= {Parameter.KEYWORD_ONLY}, made
        for (name, own), other in zip(found.items(), shared.values(), strict=True):
            assert own.kind == other.kind and own.default == other.default, f"{name} of {made}"
            assert name == other.name or own.kind == Parameter.VAR_KEYWORD, f"{name} of {made}"


@every_kind
def test_a_constructor_passes_every_argument_to_the_base_and_does_nothing_beside(link, kind, monkeypatch):
    base, _, classes = kind
    takes, received = signature(base.__init__), {}

    def record(self, *args, **kwargs):
        (_, *bound) = takes.bind(self, *args, **kwargs).arguments.items()
        received.update(bound)

    monkeypatch.setattr(base, "__init__", record)
    for made in classes:
        received.clear()
        names = [name for name, p in signature(made).parameters.items() if p.kind != Parameter.VAR_KEYWORD]
        given = {name: object() for name in (*names, "unknown")}
        made(**given)
        assert received.pop("options") | received == given, made
        (function,) = ast.parse(textwrap.dedent(getsource(made.__init__))).body
        (call,) = function.body
        assert ast.unparse(call.value.func) == "super().__init__", made
