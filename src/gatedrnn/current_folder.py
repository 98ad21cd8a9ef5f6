"""Libraries that read settings from the current folder, which is often one of data that somebody sent.

Numba's file there says where compiled code is loaded from, and whether code is compiled at all. In a process that has
imported this package, Numba is configured by its environment variables alone.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NUMBA = "numba.core.config", ".numba_config.yaml"
_MATPLOTLIB = "matplotlib", "matplotlibrc"


class _Finder(MetaPathFinder):
    """Finds a module as the finders after it do; while it is executed, a file of the current folder seems missing."""

    def __init__(self, module: str, file: str) -> None:
        self.module, self.file = module, file

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        # Not another of these either: two for one module would ask each other without end.
        others = (finder for finder in sys.meta_path if type(finder) is not _Finder)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            self._hide_file(spec.loader)
        return spec

    def _hide_file(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            exists = os.path.exists
            os.path.exists = lambda path: path != self.file and exists(path)
            try:
                execute(module)
            finally:
                os.path.exists = exists
            _forget_numba_file(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]


def _forget_numba_file(module: ModuleType) -> None:
    """Have Numba look for no file before a compilation, either."""
    if module.__name__ == NUMBA[0]:
        module._config_fname = os.devnull  # type: ignore[attr-defined]


def ignore_numba_file() -> None:
    """Have Numba read no file of the current folder, whether it is imported already or will be."""
    config = sys.modules.get(NUMBA[0])
    if config is None:
        sys.meta_path.insert(0, _Finder(*NUMBA))
    else:
        _forget_numba_file(config)
        config.reload_config()  # changes nothing, unless a file was read


def ignore_matplotlib_file() -> None:
    """Have Matplotlib read no file of the current folder when it is imported; in a process of this package alone."""
    sys.meta_path.insert(0, _Finder(*_MATPLOTLIB))
