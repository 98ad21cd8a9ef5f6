"""A compiled kernel on all threads of an OpenMP team at once, without the interpreter in between."""

import hashlib
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from gatedrnn.kernels.cpu.compiling import CompiledFunction, unannounced
from gatedrnn.kernels.cpu.numbers import FAST

WORD, HALF_WORD, POINTER = ir.IntType(64), ir.IntType(32), cgutils.voidptr_t


@intrinsic
def on_team(typing: Any, kernel: Any, begin: Any, items: Any, parts: Any, arguments: Any) -> Any:
    """Run kernel(first, last, *arguments) over all items, cut into `parts`, on as many threads.

    `begin` is the address of GOMP_parallel(function, data, threads, flags), which calls function(data) on every thread
    of a team and waits. Each takes the next part that nobody has: it does not matter how many threads there are.
    """
    signature = kernel.get_call_type(typing, (types.int64, types.int64, *arguments.types), {})

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        result = kernel.dispatcher.get_compile_result(signature)
        context.add_linking_libs([result.library])
        function = context.declare_function(builder.module, result.fndesc)
        return _begin(context, builder, function, result.fndesc, values)

    return types.none(kernel, types.int64, types.int64, types.int64, arguments), build


@intrinsic
def _on_team_by_name(typing: Any, kernel: Any, begin: Any, items: Any, parts: Any, arguments: Any) -> Any:
    """The same with a kernel that is looked up among the compiled ones in memory, by its `symbol`."""
    signature = kernel.get_call_type(typing, (types.int64, types.int64, *arguments.types), {})

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        described = kernel.dispatcher.get_compile_result(signature).fndesc
        kind = context.call_conv.get_function_type(described.restype, described.argtypes)
        function = ir.Function(builder.module, kind, name=symbol(kernel.dispatcher, described.argtypes))
        return _begin(context, builder, function, described, values)

    return types.none(kernel, types.int64, types.int64, types.int64, arguments), build


def symbol(kernel: Any, argument_types: Any) -> str:
    """The name of a kernel's compiled form for these types; Numba's own is another one in each process."""
    key = hashlib.sha256(repr(tuple(argument_types)).encode()).hexdigest()[:16]
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}-{key}"


class SharedForm(CompiledFunction):
    """A kernel as a function of (begin, items, parts, *arguments), see `on_team`.

    It holds the kernel's name and no copy of its code, which would be compiled once more.
    """

    def __init__(self, kernel: CompiledFunction) -> None:
        def shared(begin: int, items: int, parts: int, *arguments: Any) -> None:
            _on_team_by_name(kernel, begin, items, parts, arguments)

        shared.__module__ = kernel.py_func.__module__
        shared.__qualname__ = f"{kernel.py_func.__qualname__}.shared"
        super().__init__(shared, targetoptions={**FAST, "nopython": True, "boundscheck": None})
        self._kernel = kernel

    def compile(self, sig: Any) -> Any:
        (_, _, _, arguments), _ = normalize_signature(sig)
        wanted = (types.int64, types.int64, *arguments.types)
        self._kernel.compile(wanted)
        found = self._kernel.overloads[wanted]
        address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
        llvmlite.binding.add_symbol(symbol(self._kernel, wanted), address)
        with unannounced():  # it takes no time that a line would have to explain
            return super().compile(sig)


def _begin(context: Any, builder: Any, function: Any, described: Any, values: Any) -> Any:
    """Begin the work of a team and wait for its end."""
    _, address, all_items, all_parts, packed = values
    fields = cgutils.unpack_tuple(builder, packed)
    shared = ir.LiteralStructType([WORD, WORD, WORD, *(field.type for field in fields)])
    data = cgutils.alloca_once(builder, shared)
    for i, value in enumerate([WORD(0), all_items, all_parts, *fields]):
        builder.store(value, cgutils.gep_inbounds(builder, data, 0, i))
    work = _thread(context, builder.module, function, described, shared)
    start = ir.FunctionType(ir.VoidType(), [work.type, POINTER, HALF_WORD, HALF_WORD])
    builder.call(
        builder.inttoptr(address, start.as_pointer()),
        [work, builder.bitcast(data, POINTER), builder.trunc(all_parts, HALF_WORD), HALF_WORD(0)],
    )
    return context.get_dummy_value()


def _thread(context: Any, module: Any, function: Any, described: Any, shared: Any) -> Any:
    """What each thread of the team does."""
    name = module.get_unique_name("gatedrnn_thread")
    work = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), name=name)
    work.linkage = "internal"
    builder = ir.IRBuilder(work.append_basic_block("entry"))
    data = builder.bitcast(work.args[0], shared.as_pointer())
    places = [cgutils.gep_inbounds(builder, data, 0, i) for i in range(len(shared.elements))]
    items, parts, *arguments = (builder.load(place) for place in places[1:])
    take, run, leave = (work.append_basic_block(label) for label in ("take", "run", "leave"))
    builder.branch(take)
    builder.position_at_end(take)
    number = builder.atomic_rmw("add", places[0], WORD(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", number, parts), run, leave)
    builder.position_at_end(run)
    first, last = (builder.sdiv(builder.mul(items, n), parts) for n in (number, builder.add(number, WORD(1))))
    # A thread of the team has nobody to hand an exception to; kernels raise none.
    values = [first, last, *arguments]
    context.call_conv.call_function(builder, function, described.restype, described.argtypes, values)
    builder.branch(take)
    builder.position_at_end(leave)
    builder.ret_void()
    return work
