"""Kernels compiled ahead of time, before a computation that will call them: all at once and by several processes.

The computation is run once without its kernels, which records which of them it calls, for which types.
"""

import logging
import pickle
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from subprocess import Popen
from typing import Any, NamedTuple

from numba.core import types
from numba.core.typing.typeof import Purpose, typeof

from gatedrnn.children import end_with_parent, start_python
from gatedrnn.codegen.source import Source
from gatedrnn.kernels.cpu import store
from gatedrnn.kernels.cpu.compile import LOG, any_saved, can_save, without_log
from gatedrnn.kernels.cpu.rows import compiled_row
from gatedrnn.kernels.cpu.threads import KERNELS, RecordedCalls, recording
from gatedrnn.machine import cores

_MAX_PROCESSES = 4  # at most: each starts by importing the compiler
_STARTUP_COST = 3000  # work of another process before it compiles, in bytes of code
_WORKER_CODE = "from gatedrnn.kernels.cpu.ahead import compile_for_parent; compile_for_parent()"


class KernelSpec(NamedTuple):
    """A kernel by its name, for one tuple of argument types; with the parallel form for several threads."""

    kernel: str
    arguments: Any
    """Numba's type of the tuple of arguments."""
    parallel: bool

    @property
    def signatures(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Functions and argument types."""
        import_module(f"gatedrnn.{self.module}")  # in another process it is not there yet
        int64, kernel = types.int64, KERNELS[self.kernel]
        serial = kernel.serial, (int64, int64, *self.arguments.types)
        return [serial, *([(kernel.parallel, (int64, int64, int64, self.arguments))] if self.parallel else [])]

    @property
    def module(self) -> str:
        """Kernels of one module share functions."""
        return self.kernel.rpartition(".")[0]

    @property
    def length(self) -> int:
        """Bytes of code: longer sources take longer."""
        return len(KERNELS[self.kernel].serial.py_func.__code__.co_code)

    def is_compiled(self) -> bool:
        return all(function.is_compiled(argument_types) for function, argument_types in self.signatures)

    def compile(self) -> None:
        for function, argument_types in self.signatures:
            function.compile(argument_types)


class RowSpec(NamedTuple):
    """A generated function of rows."""

    source: Source

    @property
    def module(self) -> str:
        """The module, as in `KernelSpec`."""
        return self.source.name

    @property
    def length(self) -> int:
        """Characters of the source, as `KernelSpec` has bytes of code."""
        return len(self.source.text)

    def is_compiled(self) -> bool:
        return compiled_row(self.source).is_compiled

    def compile(self) -> None:
        compiled_row(self.source).compile()


@contextmanager
def compile_ahead() -> Iterator[None]:
    """Record the kernels called inside without running them, and compile all of them at the end.

    Results inside are whatever memory holds. Logs a line first; logs and does nothing where all of them are compiled
    already.
    """
    # Where nothing is compiled yet there will be work: the other processes import their modules meanwhile.
    children = _start_workers(_worker_count()) if can_save() and not any_saved() else []
    try:
        with recording() as recorded:
            yield
        _compile_missing(recorded, children)
    finally:
        for child in children:
            child.kill()
            # Closes the pipes and collects the exit status: without it a zombie process would be left.
            child.communicate()


def _compile_missing(recorded: RecordedCalls, children: list[Popen[bytes]]) -> None:
    forms: dict[KernelSpec | RowSpec, None] = dict.fromkeys(
        KernelSpec(one.kernel.name, typeof(one.arguments, Purpose.argument), one.threads > 1) for one in recorded.calls
    )
    forms |= dict.fromkeys(RowSpec(source) for source in recorded.rows)
    missing = [form for form in forms if not form.is_compiled()]
    count = min(_worker_count(), len(missing))
    if count < 2 or not can_save():
        return  # each compiles, and logs it, where it is called
    LOG.warning(
        "compiling %d kernels for this machine in %d processes, some seconds; saved in %s",
        len(missing), count, store.saving_folder(),
    )  # fmt: skip
    children += _start_workers(count - len(children))
    first, *others = _balanced_shares(missing, count)
    # More children may have been started at first than there turned out to be kernels for.
    for child, share in zip(children, others, strict=False):
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(share))
        child.stdin.close()
    with without_log():
        for form in first:
            form.compile()
        for child, _ in zip(children, others, strict=False):
            child.wait()


def _balanced_shares(forms: Sequence[KernelSpec | RowSpec], count: int) -> list[list[KernelSpec | RowSpec]]:
    """About as much work for each process; kernels of one module, which share functions, go to one where they can."""
    modules = {form.module for form in forms}
    groups: dict[object, list[KernelSpec | RowSpec]] = {}
    for form in forms:
        groups.setdefault(form.module if len(modules) >= count else form[0], []).append(form)
    shares, work = [list[KernelSpec | RowSpec]() for _ in range(count)], [0] + [_STARTUP_COST] * (count - 1)
    # Longest first, each to the least loaded process (Graham 1969, LPT scheduling).
    for group in sorted(groups.values(), key=_total_length, reverse=True):
        least = work.index(min(work))
        shares[least] += group
        work[least] += _total_length(group)
    return shares


def _total_length(forms: Sequence[KernelSpec | RowSpec]) -> int:
    return sum(form.length for form in forms)


def _worker_count() -> int:
    return min(cores(), _MAX_PROCESSES)


def _start_workers(processes: int) -> list[Popen[bytes]]:
    """All processes but this one."""
    # Not by multiprocessing, which runs a script without a guard once more.
    return [start_python(_WORKER_CODE) for _ in range(processes - 1)]


def compile_for_parent() -> None:
    """Compile the forms that standard input gives."""
    end_with_parent()
    LOG.setLevel(logging.ERROR)  # the parent says what there is to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the parent ends this process
    pickled = sys.stdin.buffer.read()
    with without_log():
        for form in pickle.loads(pickled) if pickled else []:
            form.compile()
