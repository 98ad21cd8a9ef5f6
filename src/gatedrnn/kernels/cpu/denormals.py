"""Numbers too small for full precision are taken for zero inside a kernel.

A gradient that enters at the last step alone shrinks by every decay on its way back, below 1e-38 within a few hundred
steps; an operation on such a number takes a hundred times as long, and what comes of it is nothing.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

ON_X86 = llvmlite.binding.get_process_triple().startswith(("x86_64", "i386", "i686", "amd64"))
FLUSH = 0x8040  # of the SSE control register: results and operands that are denormal are zero


@intrinsic
def flush_denormals(typing: Any) -> Any:
    """From here on, in this thread. Hands out what `restore_denormals` takes; on other processors nothing happens."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not ON_X86:
            return cgutils.int32_t(0)
        place = cgutils.alloca_once(builder, cgutils.int32_t)
        _control(builder, "stmxcsr", place)
        before = builder.load(place)
        builder.store(builder.or_(before, cgutils.int32_t(FLUSH)), place)
        _control(builder, "ldmxcsr", place)
        return before

    return types.int32(), build


@intrinsic
def restore_denormals(typing: Any, before: Any) -> Any:
    """As it was, for whoever uses the thread next."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if ON_X86:
            place = cgutils.alloca_once(builder, cgutils.int32_t)
            builder.store(arguments[0], place)
            _control(builder, "ldmxcsr", place)
        return context.get_dummy_value()

    return types.none(types.int32), build


def _control(builder: Any, name: str, place: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(place, cgutils.voidptr_t)])
