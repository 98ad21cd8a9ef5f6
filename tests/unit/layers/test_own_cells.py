"""Mistakes in a cell of one's own are told with cell, method and shapes; its output may read the projections."""

import pytest

from gatedrnn import RecurrentLayer
from gatedrnn.equations import ScanEquations


def layer_of(**members):
    """A layer of new equations with these members."""
    good = {"name": "own", "projections": ("candidate", "gate"), "coefficients": lambda self, v, z: (z.sigmoid(), v)}
    equations = type("Own", (ScanEquations,), good | members)
    return type("OwnLayer", (RecurrentLayer,), {"cell_class": equations})


@pytest.mark.parametrize(
    "members, words",
    [
        ({"projections": "gate"}, r"Own.projections must be a tuple of names"),
        (
            {"coefficients": lambda self, v: (v, v)},
            r"Own.coefficients cannot take its 2 projections \(candidate, ",
        ),
        ({"coefficients": lambda self, v, z: v}, r"must return \(decay, drive\) of shapes"),
        ({"coefficients": lambda self, v, z: (z, v[..., :1])}, r"got \[\(2, 3, 5\), \(2, 3, 1\)\]"),
        ({"output": lambda self, state, projected: state[0].sum(-1)}, r"Own.output must return one tensor"),
    ],
)
def test_a_mistake_is_told_when_the_first_layer_is_made(members, words):
    with pytest.raises(TypeError, match=words):
        layer_of(**members)(3, 4)
