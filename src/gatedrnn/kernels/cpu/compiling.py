"""Functions that Numba compiles at their first call for each tuple of argument types, once for all processes."""

import logging
from collections.abc import Callable
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

from gatedrnn.kernels.cpu.cache import DiskCache, folders

LOG = logging.getLogger("gatedrnn")


class CompiledFunction(CPUDispatcher):
    """Loaded from disk where another process compiled it; two processes do not compile the same at the same time."""

    _depth = 0
    """Functions that are being compiled, one for the other; guarded by Numba's lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cache = DiskCache(self.py_func)

    def compile(self, sig: Any) -> Any:
        # Numba's lock before that of a file: else two threads could each hold what the other waits for.
        with global_compiler_lock:
            types, _ = normalize_signature(sig)
            if tuple(types) in self.overloads or self._cache.holds(sig, self.targetctx):
                return super().compile(sig)
            with self._cache.locked(sig, self.targetctx):
                if not CompiledFunction._depth and not self._cache.holds(sig, self.targetctx):
                    LOG.warning(
                        "compiling %s for this machine, a few seconds; saved in %s", self.py_func.__name__, folders()[0]
                    )
                CompiledFunction._depth += 1
                try:
                    return super().compile(sig)
                finally:
                    CompiledFunction._depth -= 1


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options and a cache on disk."""
    return lambda function: CompiledFunction(function, targetoptions={**options, "nopython": True, "boundscheck": None})
