"""Functions that Numba compiles at their first call for each tuple of argument types, once for all processes.

Compiled functions are saved, one file each, and loaded only if the file is whole and was compiled from these very
sources. Numba's own cache compares the source of one function alone, not of those that were compiled into it; two
processes that save signatures of one function at the same time lose one of them; and where nothing can be written, the
import fails.
"""

import hashlib
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import llvmlite
import numba
from filelock import FileLock, Timeout
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
"""Options of every kernel: no lock held, no branch on a division, products and sums may be fused."""
REORDERED = FAST | {"fastmath": {"contract", "reassoc", "nsz"}}
"""Options of kernels whose sums may be taken in any order."""
INNER = FAST | {"no_cpython_wrapper": True}
"""Options of functions that only compiled code calls."""
INLINED = {
    "error_model": "numpy", "fastmath": {"contract"}, "forceinline": True, "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # fmt: skip
"""Options of functions in inner loops: a call that is left in a loop keeps it from being vectorised."""

LOG = logging.getLogger("gatedrnn")
SOURCES = Path(__file__).parent
DRIVERS = ("cpu.py", "loops.py", "step.py")
"""Files of a kind that are compiled."""
WAIT = 120.0  # seconds for another process that compiles the same: that one may be suspended
DIGEST = hashlib.sha256().digest_size


@cache
def stamp() -> bytes:
    """Return a sum over the sources of all kernels and what compiles them."""
    total = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    package = files("gatedrnn")
    kinds = [file for folder in (package / "kinds").iterdir() if folder.is_dir() for file in folder.iterdir()]
    machinery = [file for file in (package / "kernels" / "cpu").iterdir() if file.name.endswith(".py")]
    for source in sorted([*machinery, *(file for file in kinds if file.name in DRIVERS)], key=str):
        total.update(source.name.encode() + source.read_bytes())
    return total.digest()


def folders() -> list[Path]:
    """Return where compiled functions are looked for; they are saved in the first that can be written.

    In NUMBA_CACHE_DIR alone where it is set; else beside the sources, or in the user's cache.
    """
    name = "gatedrnn-" + hashlib.sha256(str(SOURCES).encode()).hexdigest()[:16]
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / name]
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    # Without a home "~" remains, which would be a folder of the current one.
    return [SOURCES / "__pycache__", *([user / "gatedrnn" / name] if user.is_absolute() else [])]


def can_save() -> bool:
    """Whether one of the folders can be written, as far as its permissions say."""
    there = (next(path for path in (folder, *folder.parents) if path.exists()) for folder in folders())
    return any(path.is_dir() and os.access(path, os.W_OK) for path in there)


def any_saved() -> bool:
    """Whether something of these sources is compiled already."""
    return any(_begins_as_ours(file) for folder in folders() if folder.is_dir() for file in folder.glob("*.compiled"))


def _begins_as_ours(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(2 * DIGEST)[DIGEST:] == stamp()
    except OSError:
        return False


class DiskCache(_Cache):
    """The compiled forms of one function, one for each tuple of argument types; Numba's interface."""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__.removeprefix('gatedrnn.')}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        return str(folders()[0])

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether there is a compiled form for these argument types."""
        return self._read(self._file(sig, target_context.codegen())) is not None

    def remove(self, sig: Any, target_context: Any) -> None:
        """Delete the file of these argument types."""
        for folder in folders():
            with suppress(OSError):
                (folder / self._file(sig, target_context.codegen())).unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        data = self._read(self._file(sig, target_context.codegen()))
        return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write into the first folder that can be written; without one, the compiled form serves this process alone."""
        assert not data.library.has_dynamic_globals, f"{self.name} holds addresses of this process"
        name, content = self._file(sig, data.library.codegen), stamp() + dumps(data._reduce())
        reasons = []
        for folder in folders():
            try:
                return _write(folder / name, hashlib.sha256(content).digest() + content)
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror}")
        if not _WARNED:
            _WARNED.append("; ".join(reasons))
            LOG.warning(
                "compiled kernels cannot be saved (%s): every process compiles them again; set NUMBA_CACHE_DIR to a "
                "folder that can be written", _WARNED[0],
            )  # fmt: skip

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
        key = hashlib.sha256(repr((types, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return f"{self.name}-{key}.{sys.implementation.cache_tag}.compiled"

    def _read(self, name: str) -> bytes | None:
        """A file's content, if it is whole and of these sources."""
        for folder in folders():
            try:
                content = (folder / name).read_bytes()
            except OSError:
                continue
            if content.startswith(hashlib.sha256(content[DIGEST:]).digest() + stamp()):
                return content[2 * DIGEST :]
        return None


_WARNED: list[str] = []


def _write(path: Path, content: bytes) -> None:
    """Under another name first: who reads it finds all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _lock(name: str) -> FileLock | None:
    for folder in folders():
        lock = FileLock(folder / f"{name}.lock", timeout=WAIT)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
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
    """Log nothing of what is compiled inside: it was announced before."""
    CompiledFunction._depth += 1
    try:
        yield
    finally:
        CompiledFunction._depth -= 1


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with these options and a cache on disk."""
    return lambda function: CompiledFunction(function, targetoptions={**options, "nopython": True, "boundscheck": None})
