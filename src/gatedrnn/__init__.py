"""Gated recurrent networks, from the LSTM of 1997 to the minLSTM and minGRU of 2024, shaped like `torch.nn.LSTM`."""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # `python -m gatedrnn` would import from the current folder
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gatedrnn.current_folder import ignore_matplotlib_file, ignore_numba_file

if TYPE_CHECKING:
    from gatedrnn.cells import *  # noqa: F403
    from gatedrnn.cells.base import register as register
    from gatedrnn.errors import BackendUnavailable as BackendUnavailable
    from gatedrnn.layers import RecurrentLayer as RecurrentLayer
    from gatedrnn.ops import choose_backend as choose_backend
    from gatedrnn.ops import linear_scan as linear_scan
    from gatedrnn.runs import Forecast as Forecast
    from gatedrnn.runs import Run as Run
    from gatedrnn.runs import forecast as forecast
    from gatedrnn.runs import load as load
    from gatedrnn.runs import train as train
    from gatedrnn.studies import Study as Study
    from gatedrnn.studies import compare as compare
    from gatedrnn.studies import probe as probe

__version__ = "0.1.0"

ignore_numba_file()
if sys.flags.safe_path:  # a worker, or a user who wants nothing from the current folder
    ignore_matplotlib_file()

_ELSEWHERE = {
    "BackendUnavailable": "errors", "RecurrentLayer": "layers", "choose_backend": "ops", "linear_scan": "ops",
    "register": "cells.base", **dict.fromkeys(("Forecast", "Run", "forecast", "load", "train"), "runs"),
    **dict.fromkeys(("Study", "compare", "probe"), "studies"),
}  # fmt: skip
"""Public names beside those of the cells, and the modules that they are imported from when they are first used."""
_MODULES = ("cells", "equations", "errors", "layers", "ops", "registry", "shapes")
"""Modules that `import gatedrnn` is enough for; they are imported when they are first used."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_ELSEWHERE, *import_module("gatedrnn.cells").PUBLIC])
    if name in _MODULES:
        return import_module(f"gatedrnn.{name}")
    if name.startswith("_") or name not in __getattr__("__all__"):
        raise AttributeError(f"module 'gatedrnn' has no attribute {name!r}")
    value = getattr(import_module(f"gatedrnn.{_ELSEWHERE.get(name, 'cells')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
