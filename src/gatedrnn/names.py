"""Names that are known without an import of torch, which takes seconds: of cells, backbones, probes, and settings of
layers.

By them a misspelt name is refused, and a help page printed, at once.
"""

import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gatedrnn.errors import unknown

PROBES = (
    "parity", "modular-addition", "cycle-navigation", "s3", "s5", "s5-all", "even-pairs", "majority",
    "bucket-sort", "missing-duplicate", "copying", "selective-copying", "mqar", "adding",
)  # fmt: skip
"""Names of probes."""
BACKBONES = ("transformer", "mamba")
"""Names of what takes the place of recurrent layers."""
REGULARISERS = ("zoneout", "input_dropout", "state_dropout", "weight_dropout")
"""Rates of a layer whose masks are drawn once a sequence."""
OF_LAYERS = (*REGULARISERS, "layer_norm", "weight_init", "bias_init", "longest_time_scale")
"""Settings that only recurrent layers have."""


@cache
def cell_names() -> tuple[str, ...]:
    """Return the names of the cells, in the order of the registry, as their files spell them."""
    folder = Path(__file__).parent / "cells"
    files = re.findall(r"^from gatedrnn\.cells\.(\w+) import", (folder / "__init__.py").read_text("utf-8"), re.M)
    names = (re.search(r'^    name = "(.+)"$', (folder / f"{file}.py").read_text("utf-8"), re.M) for file in files)
    return tuple(name[1] for name in names if name)


def refuse_unknown(word: str, beside: Iterable[str] = ()) -> None:
    """Refuse the word of a cell that nobody ships, unless torch is imported: the registry then has a user's cells too.

    Args:
        word: a name, with options or without.
        beside: other names that are allowed.

    Raises:
        ValueError: with the nearest name that exists.

    Example:
        >>> "mingru" in cell_names()
        True
    """
    name, names = word.partition(":")[0], [*cell_names(), *beside]
    if "torch" not in sys.modules and name not in names:
        raise ValueError(unknown("cell", name, names))
