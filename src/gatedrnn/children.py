"""Python processes that this package starts: none imports from the current folder, whose files are data, and none
outlives its parent."""

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker, spawn, util
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import current_process
from multiprocessing.synchronize import Event
from typing import Any

PYTHON = f"{shlex.quote(sys.executable)} -P"
"""The interpreter of a child, for a shell."""


def import_path() -> list[str]:
    """Return the folders that a child imports from: those of this process, without relative ones."""
    return list(filter(os.path.isabs, sys.path))


def isolating_variables() -> dict[str, str]:
    """Return variables by which a Python process, and each that it starts, imports nothing from the current folder."""
    folders = filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(folders)}


def start_python(code: str, stdout: int | None = None, stderr: int | None = None) -> subprocess.Popen[bytes]:
    """Start a Python process that runs `code` and reads from a pipe.

    Args:
        stdout, stderr: as `subprocess.Popen` has them.
    """
    environment = {**os.environ, **isolating_variables(), "PYTHONPATH": os.pathsep.join(import_path())}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr)


def process_pool(
    workers: int, initializer: Callable[..., None], *arguments: object, max_tasks_per_child: int | None = None
) -> ProcessPoolExecutor:
    """Return a pool of processes that are started anew, not forked: a fork would copy threads half-way.

    Args:
        workers: processes at a time.
        initializer: called in each as it begins, with `arguments`.
        max_tasks_per_child: tasks of a process, before another takes its place.
    """
    _start_tracker()
    begin: Any = partial(initializer, *arguments)
    return ProcessPoolExecutor(workers, _CONTEXT, begin, max_tasks_per_child=max_tasks_per_child)


def shared_event() -> Event:
    """Return an event that processes of pools can be sent."""
    _start_tracker()
    return _CONTEXT.Event()


@contextmanager
def isolated_children() -> Iterator[None]:
    """Have Python processes that another library starts here, and theirs, import nothing from the current folder."""
    variables = isolating_variables()
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def may_have_workers() -> bool:
    """Whether this process may have pools of processes: multiprocessing forbids it to the workers of its own."""
    return not current_process().daemon


def end_with_parent() -> None:
    """Called by a child process as it begins: it ends within a second of its parent, which may be killed."""
    threading.Thread(target=_wait_for_end, args=(os.getppid(),), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _isolating():
            return SpawnProcess._Popen(process_obj)


class _Context(SpawnContext):
    Process = _Process


_CONTEXT = _Context()
_starting = threading.Lock()


def _start_tracker() -> None:
    """Start multiprocessing's tracker of resources, as the first of its locks would do."""
    if sys.platform != "win32":
        with _isolating():
            resource_tracker.ensure_running()


@contextmanager
def _isolating() -> Iterator[None]:
    """Have multiprocessing start processes of this thread with `-P`, and without the caller's script.

    It would run that script once more in each. What is sent to a worker names modules of this package alone.
    """
    with _starting, isolated_children():
        internals: Any = util  # which has no public function for the flags of a process
        thread, prepare = threading.get_ident(), spawn.get_preparation_data
        flags = internals._args_from_interpreter_flags

        def get_preparation_data(name: str) -> dict[str, Any]:
            given = prepare(name)
            if threading.get_ident() != thread:  # a process of the caller's
                return given
            return {key: given[key] for key in given if not key.startswith("init_main")} | {"sys_path": import_path()}

        def args_from_interpreter_flags() -> list[str]:
            return [*flags(), *(["-P"] if threading.get_ident() == thread else [])]

        spawn.get_preparation_data = get_preparation_data
        internals._args_from_interpreter_flags = args_from_interpreter_flags
        try:
            yield
        finally:
            spawn.get_preparation_data, internals._args_from_interpreter_flags = prepare, flags
