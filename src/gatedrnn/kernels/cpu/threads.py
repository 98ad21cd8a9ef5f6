"""Kernels run by several threads at once; they are serial functions that release the interpreter lock.

On torch's own OpenMP threads where they can be reached: those wait for the next product by spinning, and any other
thread would have to share a core with one of them; a team of them runs a kernel without the interpreter in between.
Elsewhere, and after a fork, on a small pool of our own. Safe from several Python threads; no threading library of the
kernels' own is involved.
"""

import ctypes
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from gatedrnn.kernels.cpu.compile import FAST, CompiledFunction, without_log

WORTH_A_THREAD = 1 << 15  # elements below which a second thread costs more than it saves
_FIRST_PROCESS = os.getpid()
WORD, HALF_WORD, POINTER = ir.IntType(64), ir.IntType(32), cgutils.voidptr_t


class Kernel(NamedTuple):
    """A compiled function in two forms; `KERNELS` has all of them."""

    serial: Any
    """Called with (first, last, *arguments) for the work items from first to last."""
    parallel: Any
    """Called with (begin, items, parts, *arguments) for all items, on an OpenMP team, see `on_team`."""

    @classmethod
    def of(cls, kernel: CompiledFunction) -> "Kernel":
        """Both forms of a function of (first, last, *arguments)."""
        forms = KERNELS[kernel.name] = cls(kernel, ParallelForm(kernel))
        return forms

    @property
    def name(self) -> str:
        return str(self.serial.name)


KERNELS: dict[str, Kernel] = {}


class Call(NamedTuple):
    """A call of `parallel_for` that was recorded and not run."""

    kernel: Kernel
    threads: int
    arguments: tuple[Any, ...]


class RecordedCalls(NamedTuple):
    """The calls that would have run."""

    calls: list[Call]
    rows: list[Any]
    """Sources of generated functions."""


_active_recording: ContextVar[RecordedCalls | None] = ContextVar("recorded", default=None)


@contextmanager
def recording() -> Iterator[RecordedCalls]:
    """Have `parallel_for` record its calls and run nothing: results are whatever memory holds."""
    recorded = RecordedCalls([], [])
    token = _active_recording.set(recorded)
    try:
        yield recorded
    finally:
        _active_recording.reset(token)


def recorded_rows() -> list[Any] | None:
    """Return the list that records sources of generated functions; None if they are compiled and run."""
    return None if (recorded := _active_recording.get()) is None else recorded.rows


def threads_for(elements: int) -> int:
    """Number of threads worth using for this number of elements."""
    return torch.get_num_threads() if elements >= WORTH_A_THREAD else 1


def parallel_for(kernel: Kernel, items: int, threads: int, *arguments: Any) -> None:
    """Run a kernel over all items, in up to `threads` parts at once."""
    threads = min(threads, items)
    if (recorded := _active_recording.get()) is not None:
        recorded.calls.append(Call(kernel, threads, arguments))
    elif threads <= 1:
        kernel.serial(0, items, *arguments)
    elif (begin := team(os.getpid())) is not None:
        kernel.parallel(begin, items, threads, *arguments)
    else:
        _in_pool(kernel.serial, items, threads, arguments)


@cache
def team(process: int) -> int | None:
    """Address of the function that starts work on torch's OpenMP threads; None where there is none, and after a fork,
    which those threads do not survive."""
    if process != _FIRST_PROCESS:
        return None
    # The copy of libgomp in torch's wheel: another copy on the system would start a team of its own.
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        begin = getattr(ctypes.CDLL(str(library)), "GOMP_parallel", None)
        if begin is not None:
            return ctypes.cast(begin, ctypes.c_void_p).value
    return None


def _in_pool(serial: Any, items: int, threads: int, arguments: tuple[Any, ...]) -> None:
    edges = [items * i // threads for i in range(threads + 1)]
    # The first part is this thread's own: it would only wait.
    (first, until), *others = pairwise(edges)
    pool = _pool(os.getpid(), threads - 1)
    parts = [pool.submit(serial, low, high, *arguments) for low, high in others]
    serial(first, until, *arguments)
    for part in parts:
        # Raises in this thread what the part has raised.
        part.result()


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process and size: after a fork the parent's threads do not exist in the child."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gatedrnn")


@intrinsic
def on_team(typing: Any, kernel: Any, begin: Any, items: Any, parts: Any, arguments: Any) -> Any:
    """Run kernel(first, last, *arguments) over all items, cut into `parts`, on as many threads.

    `begin` is the address of GOMP_parallel(function, data, threads, flags), which calls function(data) on every thread
    of a team and waits. Each takes the next part that is free: the number of threads does not matter.
    """
    signature = kernel.get_call_type(typing, (types.int64, types.int64, *arguments.types), {})

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        result = kernel.dispatcher.get_compile_result(signature)
        context.add_linking_libs([result.library])
        function = context.declare_function(builder.module, result.fndesc)
        return _start_team(context, builder, function, result.fndesc, values)

    return types.none(kernel, types.int64, types.int64, types.int64, arguments), build


@intrinsic
def _on_team_by_name(typing: Any, kernel: Any, begin: Any, items: Any, parts: Any, arguments: Any) -> Any:
    """Run `on_team` with a kernel that is looked up among the compiled ones in memory, by its `symbol`."""
    signature = kernel.get_call_type(typing, (types.int64, types.int64, *arguments.types), {})

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        descriptor = kernel.dispatcher.get_compile_result(signature).fndesc
        called = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
        function = ir.Function(builder.module, called, name=symbol(kernel.dispatcher, descriptor.argtypes))
        return _start_team(context, builder, function, descriptor, values)

    return types.none(kernel, types.int64, types.int64, types.int64, arguments), build


def symbol(kernel: Any, argument_types: Any) -> str:
    """The name of a kernel's compiled form for these types; Numba's own is another one in each process."""
    key = hashlib.sha256(repr(tuple(argument_types)).encode()).hexdigest()[:16]
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}-{key}"


class ParallelForm(CompiledFunction):
    """A kernel as a function of (begin, items, parts, *arguments), see `on_team`.

    It holds the kernel's name and no copy of its code, which would be compiled once more.
    """

    def __init__(self, kernel: CompiledFunction) -> None:
        def parallel(begin: int, items: int, parts: int, *arguments: Any) -> None:
            _on_team_by_name(kernel, begin, items, parts, arguments)

        parallel.__module__ = kernel.py_func.__module__
        parallel.__qualname__ = f"{kernel.py_func.__qualname__}.parallel"
        super().__init__(parallel, targetoptions={**FAST, "nopython": True, "boundscheck": None})
        self._kernel = kernel

    def compile(self, sig: Any) -> Any:
        (_, _, _, arguments), _ = normalize_signature(sig)
        argument_types = (types.int64, types.int64, *arguments.types)
        self._kernel.compile(argument_types)
        overload = self._kernel.overloads[argument_types]
        address = overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name)
        # LLVM resolves the kernel's name by this table when the parallel form is linked.
        llvmlite.binding.add_symbol(symbol(self._kernel, argument_types), address)
        with without_log():  # it takes no time that a line would have to explain
            return super().compile(sig)


def _start_team(context: Any, builder: Any, function: Any, descriptor: Any, values: Any) -> Any:
    """Start the work of a team and wait for its end."""
    _, address, all_items, all_parts, packed = values
    fields = cgutils.unpack_tuple(builder, packed)
    shared = ir.LiteralStructType([WORD, WORD, WORD, *(field.type for field in fields)])
    data = cgutils.alloca_once(builder, shared)
    for i, value in enumerate([WORD(0), all_items, all_parts, *fields]):
        builder.store(value, cgutils.gep_inbounds(builder, data, 0, i))
    work = _thread_function(context, builder.module, function, descriptor, shared)
    start = ir.FunctionType(ir.VoidType(), [work.type, POINTER, HALF_WORD, HALF_WORD])
    builder.call(
        builder.inttoptr(address, start.as_pointer()),
        [work, builder.bitcast(data, POINTER), builder.trunc(all_parts, HALF_WORD), HALF_WORD(0)],
    )
    return context.get_dummy_value()


def _thread_function(context: Any, module: Any, function: Any, descriptor: Any, shared: Any) -> Any:
    """The function that each thread of the team runs."""
    name = module.get_unique_name("gatedrnn_thread")
    work = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), name=name)
    work.linkage = "internal"
    builder = ir.IRBuilder(work.append_basic_block("entry"))
    data = builder.bitcast(work.args[0], shared.as_pointer())
    fields = [cgutils.gep_inbounds(builder, data, 0, i) for i in range(len(shared.elements))]
    items, parts, *arguments = (builder.load(field) for field in fields[1:])
    take, run, leave = (work.append_basic_block(label) for label in ("take", "run", "leave"))
    builder.branch(take)
    builder.position_at_end(take)
    # monotonic: only the counter is shared, and the end of GOMP_parallel is a barrier for all results.
    number = builder.atomic_rmw("add", fields[0], WORD(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", number, parts), run, leave)
    builder.position_at_end(run)
    # Edges at items · n / parts: sizes of parts differ by one at most.
    first, last = (builder.sdiv(builder.mul(items, n), parts) for n in (number, builder.add(number, WORD(1))))
    # An exception in a thread of the team has no caller to reach; kernels raise none.
    values = [first, last, *arguments]
    context.call_conv.call_function(builder, function, descriptor.restype, descriptor.argtypes, values)
    builder.branch(take)
    builder.position_at_end(leave)
    builder.ret_void()
    return work
