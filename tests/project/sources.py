"""The sources of the package that the tests import, and its graph of imports, by the reader of the tools."""

from functools import cache
from pathlib import Path

import imports

import gatedrnn

PACKAGE = Path(gatedrnn.__file__).parent


@cache
def modules():
    """Source by dotted name; a package goes by its folder's name."""
    return imports.modules(PACKAGE)


@cache
def package_graph(at_import=False):
    """The imports of each module."""
    return imports.import_graph(modules(), at_import)
