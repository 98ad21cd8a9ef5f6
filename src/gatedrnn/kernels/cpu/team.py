"""A compiled kernel on all threads of an OpenMP team at once, without the interpreter in between."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

WORD, HALF_WORD, POINTER = ir.IntType(64), ir.IntType(32), cgutils.voidptr_t


@intrinsic
def on_team(typing: Any, kernel: Any, begin: Any, items: Any, parts: Any, arguments: Any) -> Any:
    """Run kernel(first, last, *arguments) over all items, cut into `parts`, on as many threads.

    `begin` is the address of GOMP_parallel(function, data, threads, flags), which calls function(data) on every thread
    of a team and waits. Each takes the next part that nobody has: it does not matter how many threads there are.
    """
    signature = kernel.get_call_type(typing, (types.int64, types.int64, *arguments.types), {})

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        _, address, all_items, all_parts, packed = values
        fields = cgutils.unpack_tuple(builder, packed)
        shared = ir.LiteralStructType([WORD, WORD, WORD, *(field.type for field in fields)])
        data = cgutils.alloca_once(builder, shared)
        for i, value in enumerate([WORD(0), all_items, all_parts, *fields]):
            builder.store(value, cgutils.gep_inbounds(builder, data, 0, i))
        work = _thread(context, builder.module, kernel, signature, shared)
        start = ir.FunctionType(ir.VoidType(), [work.type, POINTER, HALF_WORD, HALF_WORD])
        builder.call(
            builder.inttoptr(address, start.as_pointer()),
            [work, builder.bitcast(data, POINTER), builder.trunc(all_parts, HALF_WORD), HALF_WORD(0)],
        )
        return context.get_dummy_value()

    return types.none(kernel, types.int64, types.int64, types.int64, arguments), build


def _thread(context: Any, module: Any, kernel: Any, signature: Any, shared: Any) -> Any:
    """What each thread of the team does."""
    result = kernel.dispatcher.get_compile_result(signature)
    context.add_linking_libs([result.library])
    compiled = result.fndesc
    function = context.declare_function(module, compiled)
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
    context.call_conv.call_function(builder, function, compiled.restype, compiled.argtypes, [first, last, *arguments])
    builder.branch(take)
    builder.position_at_end(leave)
    builder.ret_void()
    return work
