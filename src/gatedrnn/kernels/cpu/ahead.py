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
from gatedrnn.kernels.cpu.compile import LOG, any_saved, can_save, unannounced
from gatedrnn.kernels.cpu.rows import compiled_row
from gatedrnn.kernels.cpu.threads import KERNELS, Recorded, recording
from gatedrnn.machine import cores

PROCESSES = 4  # at most: each starts by importing the compiler
START = 3000  # work of another process before it compiles, in bytes of code
CHILD = "from gatedrnn.kernels.cpu.ahead import compile_for_parent; compile_for_parent()"


class Form(NamedTuple):
    """A kernel by its name, for one tuple of argument types; with the parallel form for several threads."""

    kernel: str
    arguments: Any
    """Numba's type of the tuple of arguments."""
    parallel: bool

    @property
    def signatures(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Functions and argument types."""
        import_module(f"gatedrnn.{self.module}")  # in another process it is not there yet
        whole, kernel = types.int64, KERNELS[self.kernel]
        serial = kernel.serial, (whole, whole, *self.arguments.types)
        return [serial, *([(kernel.parallel, (whole, whole, whole, self.arguments))] if self.parallel else [])]

    @property
    def module(self) -> str:
        """Kernels of one module share functions."""
        return self.kernel.rpartition(".")[0]

    @property
    def length(self) -> int:
        """Bytes of code: longer sources take longer."""
        return len(KERNELS[self.kernel].serial.py_func.__code__.co_code)

    def is_compiled(self) -> bool:
        return all(function.is_compiled(wanted) for function, wanted in self.signatures)

    def compile(self) -> None:
        for function, wanted in self.signatures:
            function.compile(wanted)


class GeneratedForm(NamedTuple):
    """A generated function of rows."""

    source: Source

    @property
    def module(self) -> str:
        """The module, as in `Form`."""
        return self.source.name

    @property
    def length(self) -> int:
        """Characters of the source, as `Form` has bytes of code."""
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
    children = _start(_processes()) if can_save() and not any_saved() else []
    try:
        with recording() as recorded:
            yield
        _compile(recorded, children)
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _compile(recorded: Recorded, children: list[Popen[bytes]]) -> None:
    forms: dict[Form | GeneratedForm, None] = dict.fromkeys(
        Form(call.kernel.name, typeof(call.arguments, Purpose.argument), call.threads > 1) for call in recorded.calls
    )
    forms |= dict.fromkeys(GeneratedForm(source) for source in recorded.rows)
    missing = [form for form in forms if not form.is_compiled()]
    count = min(_processes(), len(missing))
    if count < 2 or not can_save():
        return  # each compiles, and logs it, where it is called
    LOG.warning(
        "compiling %d kernels for this machine in %d processes, some seconds; saved in %s",
        len(missing), count, store.saving_folder(),
    )  # fmt: skip
    children += _start(count - len(children))
    first, *others = _shares(missing, count)
    for child, share in zip(children, others, strict=False):
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(share))
        child.stdin.close()
    with unannounced():
        for form in first:
            form.compile()
        for child, _ in zip(children, others, strict=False):
            child.wait()


def _shares(forms: Sequence[Form | GeneratedForm], count: int) -> list[list[Form | GeneratedForm]]:
    """About as much work for each process; kernels of one module, which share functions, go to one where they can."""
    modules = {form.module for form in forms}
    groups: dict[object, list[Form | GeneratedForm]] = {}
    for form in forms:
        groups.setdefault(form.module if len(modules) >= count else form[0], []).append(form)
    shares, work = [list[Form | GeneratedForm]() for _ in range(count)], [0] + [START] * (count - 1)
    for group in sorted(groups.values(), key=_length, reverse=True):
        least = work.index(min(work))
        shares[least] += group
        work[least] += _length(group)
    return shares


def _length(forms: Sequence[Form | GeneratedForm]) -> int:
    return sum(form.length for form in forms)


def _processes() -> int:
    return min(cores(), PROCESSES)


def _start(processes: int) -> list[Popen[bytes]]:
    """All processes but this one."""
    # Not by multiprocessing, which runs a script without a guard once more.
    return [start_python(CHILD) for _ in range(processes - 1)]


def compile_for_parent() -> None:
    """Compile the forms that standard input gives."""
    end_with_parent()
    LOG.setLevel(logging.ERROR)  # the parent says what there is to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the parent ends this process
    pickled = sys.stdin.buffer.read()
    with unannounced():
        for form in pickle.loads(pickled) if pickled else []:
            form.compile()
