"""What the tests of dropout and zoneout share: layers with one regulariser or with all that a cell takes."""

from covering import Axis
from layer_laws import JOINT, LOOP_CELLS, UNPROJECTED, layer_of

RATES = {"zoneout": 0.3, "input_dropout": 0.4, "state_dropout": 0.3, "weight_dropout": 0.2}
REGULARISERS = RATES | {"layer_norm": True}
WHAT = Axis(fast=("zoneout", "state_dropout", "all"), every=(*REGULARISERS, "all"))
"""Those that decide how a layer runs; the others, of every cell, are part of test_equivalence.py."""


def takes(name, what):
    """Whether a cell takes a regulariser: some have no recurrent matrix, or states that belong together."""
    return not ((what == "weight_dropout" and name not in LOOP_CELLS) or (what == "zoneout" and name in JOINT))


def regularised(name, what="all", *sizes, **kwargs):
    """A layer with one regulariser, or with all that the cell takes and then, where it can, a projection."""
    chosen = {k: v for k, v in REGULARISERS.items() if what in (k, "all") and takes(name, k)}
    if what == "all" and name not in UNPROJECTED:
        kwargs = {"proj_size": 2} | kwargs
    return layer_of(name, *sizes, **chosen, **kwargs)
