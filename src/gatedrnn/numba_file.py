"""Numba without `.numba_config.yaml`.

Numba reads that file of the current folder when it is imported and before each compilation. The current folder is often
one of data that somebody sent, and the file says where compiled code is loaded from and whether code is compiled at
all. So in a process that has imported this package, Numba is configured by its environment variables alone.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

CONFIG, FILE = "numba.core.config", ".numba_config.yaml"


class _Finder(MetaPathFinder):
    """Finds Numba's configuration as the finders after it do, and has it look for no file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != CONFIG:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and isinstance(spec.loader, InspectLoader):
            loader = spec.loader

            def exec_module(module: ModuleType) -> None:
                code = loader.get_code(fullname)
                assert code is not None
                constants = tuple(os.devnull if constant == FILE else constant for constant in code.co_consts)
                exec(code.replace(co_consts=constants), module.__dict__)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def ignore_numba_file() -> None:
    """Have Numba read no file of the current folder, whether it is imported already or will be."""
    config = sys.modules.get(CONFIG)
    if config is None:
        sys.meta_path.insert(0, _Finder())
    else:
        config._config_fname = os.devnull  # type: ignore[attr-defined]
        config.reload_config()  # changes nothing, unless a file was read
