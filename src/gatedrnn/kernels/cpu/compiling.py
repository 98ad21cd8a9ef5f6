"""Functions that Numba compiles at their first call for each tuple of argument types, once for all processes."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    @property
    def name(self) -> str:
        """Of module and function."""
        return self._cache.name

    def is_compiled(self, argument_types: tuple[Any, ...]) -> bool:
        """Whether there is a form for these types, in memory or on disk."""
        return argument_types in self.overloads or self._cache.holds(argument_types, self.targetctx)

    def compile(self, sig: Any) -> Any:
        # Numba's lock before that of a file: else two threads could each hold what the other waits for.
        with global_compiler_lock:
            types, _ = normalize_signature(sig)
            if self.is_compiled(tuple(types)):
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


@contextmanager
def unannounced() -> Iterator[None]:
    """What is compiled inside was announced before."""
    CompiledFunction._depth += 1
    try:
        yield
    finally:
        CompiledFunction._depth -= 1


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options and a cache on disk."""
    return lambda function: CompiledFunction(function, targetoptions={**options, "nopython": True, "boundscheck": None})
