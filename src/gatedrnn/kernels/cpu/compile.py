"""Functions that Numba compiles at their first call for each tuple of argument types, once for all processes.

Compiled functions are saved, one file each, and loaded only if the file is whole, was compiled from these very sources
and cannot be somebody else's (see `store`). Numba's own cache compares the source of one function alone, not of those
that were compiled into it; two processes that save signatures of one function at the same time lose one of them; and
where nothing can be written, the import fails.
"""

import hashlib
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import llvmlite
import numba
from filelock import FileLock, Timeout
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from gatedrnn.kernels.cpu import store

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
"""Options of every kernel: no lock held, no branch on a division, products and sums may be fused."""
REORDERED = FAST | {"fastmath": {"contract", "reassoc", "nsz"}}
"""Options of kernels whose sums may be taken in any order."""
INLINED = {
    "error_model": "numpy", "fastmath": {"contract"}, "forceinline": True, "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # fmt: skip
"""Options of functions in inner loops: a call that is left in a loop keeps it from being vectorised."""

LOG = logging.getLogger("gatedrnn")
_COMPILED_FILES = ("cpu.py", "loops.py", "step.py")
"""Files of a kind that are compiled."""
_LOCK_TIMEOUT = 120.0  # seconds for another process that compiles the same: that one may be suspended


@cache
def source_hash() -> bytes:
    """Return a sum over the sources of all kernels and what compiles them."""
    total = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    package = files("gatedrnn")
    kinds = [file for folder in (package / "kinds").iterdir() if folder.is_dir() for file in folder.iterdir()]
    models = [file for file in (package / "models").iterdir() if file.name.endswith("_kernel.py")]
    machinery = [file for file in (package / "kernels" / "cpu").iterdir() if file.name.endswith(".py")]
    # Sorted: the order in which a file system lists a folder differs from machine to machine.
    for source in sorted([*machinery, *models, *(file for file in kinds if file.name in _COMPILED_FILES)], key=str):
        total.update(source.name.encode() + source.read_bytes())
    return total.digest()


def folders() -> list[Path]:
    """Return where compiled functions are looked for; they are saved in the first that only this user can write."""
    return [location.folder for location in store.locations()]


def can_save() -> bool:
    """Whether one of the folders can be written, as far as its permissions say."""
    return store.saving_folder() is not None


def any_saved() -> bool:
    """Whether something of these sources is compiled already."""
    return any(store.is_of(file, source_hash()) for one in store.trusted() for file in one.folder.glob("*.compiled"))


class DiskCache(_Cache):
    """The compiled forms of one function, one for each tuple of argument types; Numba's interface."""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__.removeprefix('gatedrnn.')}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        return str(folders()[0])

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether there is a compiled form for these argument types."""
        return store.read(self._file(sig, target_context.codegen()), source_hash()) is not None

    def remove(self, sig: Any, target_context: Any) -> None:
        """Delete the file of these argument types."""
        store.remove(self._file(sig, target_context.codegen()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # As Numba's own cache does: the context must know all types before code is rebuilt from a pickle.
        target_context.refresh()
        data = store.read(self._file(sig, target_context.codegen()), source_hash())
        return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write into the first folder that can be written; without one, the compiled form serves this process alone."""
        assert not data.library.has_dynamic_globals, f"{self.name} holds addresses of this process"
        if reasons := store.write(self._file(sig, data.library.codegen), source_hash(), dumps(data._reduce())):
            _warn_not_saved(reasons)

    @contextmanager
    def locked(self, sig: Any, target_context: Any) -> Iterator[None]:
        """No other process compiles the same meanwhile, if there is a folder that can be written."""
        lock = _lock(self._file(sig, target_context.codegen()))
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _file(self, sig: Any, codegen: Any) -> str:
        types, _ = normalize_signature(sig)
        # The codegen's tuple names the processor and its features: a folder of a cluster serves several kinds.
        key = hashlib.sha256(repr((types, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return f"{self.name}-{key}.{sys.implementation.cache_tag}.compiled"


_WARNED: list[str] = []


def _warn_not_saved(reasons: list[str]) -> None:
    if not _WARNED:
        _WARNED.extend(reasons)
        LOG.warning(
            "compiled kernels cannot be saved (%s): every process compiles them again; set %s to a folder that only "
            "you can write", "; ".join(reasons), store.VARIABLES[0],
        )  # fmt: skip


def _lock(name: str) -> FileLock | None:
    for location in store.trusted():
        lock = FileLock(location.folder / f"{name}.lock", timeout=_LOCK_TIMEOUT)
        try:
            store.make_folder(location)
            lock.acquire()
        # To compile the same twice costs seconds; a suspended process could hold the lock for ever.
        except Timeout:
            return None
        except OSError:
            continue
        return lock
    return None


class CompiledFunction(CPUDispatcher):
    """Loaded from disk where another process compiled it; two processes do not compile the same at the same time."""

    _depth = 0
    """Functions that are being compiled, one for the other; guarded by Numba's lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cache = DiskCache(self.py_func)

    @property
    def name(self) -> str:
        """Module and function."""
        return self._cache.name

    def is_compiled(self, argument_types: tuple[Any, ...]) -> bool:
        """Whether there is a form for these types, in memory or on disk."""
        return argument_types in self.overloads or self._cache.holds(argument_types, self.targetctx)

    def forget(self, argument_types: tuple[Any, ...]) -> None:
        """Remove the form for these types, from memory and disk."""
        self.overloads.pop(argument_types, None)
        self._cache.remove(argument_types, self.targetctx)

    def _log_compilation(self) -> None:
        if (folder := store.saving_folder()) is None:
            _warn_not_saved(store.why_not_saved())
        else:
            LOG.warning("compiling %s for this machine, a few seconds; saved in %s", self.py_func.__name__, folder)

    def compile(self, sig: Any) -> Any:
        # Numba's lock before that of a file: else two threads could each hold what the other waits for.
        with global_compiler_lock:
            types, _ = normalize_signature(sig)
            # Loading needs no lock: a file is replaced in one step.
            if self.is_compiled(tuple(types)):
                return super().compile(sig)
            with self._cache.locked(sig, self.targetctx):
                # Looked up once more: another process may have compiled it while this one waited for the lock.
                if not CompiledFunction._depth and not self._cache.holds(sig, self.targetctx):
                    self._log_compilation()
                CompiledFunction._depth += 1
                try:
                    return super().compile(sig)
                finally:
                    CompiledFunction._depth -= 1


@contextmanager
def without_log() -> Iterator[None]:
    """Log nothing of what is compiled inside: it was announced before."""
    CompiledFunction._depth += 1
    try:
        yield
    finally:
        CompiledFunction._depth -= 1


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options and a cache on disk."""
    # boundscheck None leaves it to NUMBA_BOUNDSCHECK, for debugging.
    return lambda function: CompiledFunction(function, targetoptions={**options, "nopython": True, "boundscheck": None})
