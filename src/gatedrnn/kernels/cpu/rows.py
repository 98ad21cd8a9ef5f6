"""Generated functions of rows, compiled; loops call them by their address, so that one loop serves all cells.

Each row of memory that a function takes is another one than the rest: its loop is vectorised without asking.
"""

import ctypes
import linecache
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from torch import Tensor

from gatedrnn.codegen.row import Row, error_mask, evaluate, rounding_spread, sample_inputs
from gatedrnn.codegen.source import Source, numba_source
from gatedrnn.errors import WrongKernel
from gatedrnn.kernels.cpu import functions
from gatedrnn.kernels.cpu.compile import FAST, INLINED, CompiledFunction
from gatedrnn.kernels.cpu.threads import recorded_rows
from gatedrnn.shapes import Channels, Series

WORD = ir.IntType(64)
NEAREST, IS_DATA = 3, 1  # arguments of llvm.prefetch
_SIGNATURE = (types.int64, types.int64)
"""The arguments of every function of rows: the number of channels, and the address of the rows' addresses."""
NAMES = {name: getattr(functions, name) for name in (
    "exp", "shrinking", "expm1", "log", "log1p", "tanh", "sin", "cos", "sign", "minimum", "maximum", "where",
)} | {"sqrt": math.sqrt, "float32": np.float32, "float64": np.float64}  # fmt: skip
"""Functions that sources may call."""
MAX_ERROR = {"float64": 1e-11, "float32": 3e-5, "bfloat16": 2e-2}
"""The largest error of a number, beside 1, when a function is new: wrong formulas are further off."""
_SPREADS = 4
"""Multiples of what rounding may do (`rounding_spread`), which is estimated from a few samples."""
_TYPES = {"float32": types.float32, "float64": types.float64, "bfloat16": types.uint16}


class CompiledRow:
    """One generated function; `address` is what loops call."""

    def __init__(self, source: Source) -> None:
        self.source = source
        names: dict[str, Any] = NAMES | {"address": _address, "__name__": __name__}
        for position, (row, dtype) in enumerate(zip(source.identifiers, source.dtypes, strict=True)):
            names[f"read_{row}"], names[f"write_{row}"] = _access(position, len(source.rows), dtype)
        file = f"<{source.name} {source.key}>"
        # Numba and tracebacks look a function's source up there; generated code has no file.
        linecache.cache[file] = len(source.text), None, source.text.splitlines(keepends=True), file
        exec(compile(source.text, file, "exec"), names)
        function: Any = names[source.name]
        # The key is a part of the file's name on disk: other equations under one name get another file.
        function.__qualname__ = f"{source.name}-{source.key}"
        self.function = CompiledFunction(function, targetoptions={
            **FAST, "no_cpython_wrapper": True, "nopython": True, "boundscheck": None,
        })  # fmt: skip

    @property
    def address(self) -> int:
        """The address of its machine code; compiled, or loaded, at the first time."""
        self.compile()
        overload = self.function.overloads[_SIGNATURE]
        return int(overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name))

    @property
    def is_compiled(self) -> bool:
        """Whether it is, in memory or on disk."""
        return self.function.is_compiled(_SIGNATURE)

    def compile(self) -> None:
        """Compile or load it, and hold it to what the row computes where it is new.

        Raises:
            WrongKernel: it computes something else.
        """
        new = not self.is_compiled
        self.function.compile(_SIGNATURE)
        if new:
            try:
                self._check()
            except WrongKernel:
                # The file would be loaded without a check by the next process.
                self.function.forget(_SIGNATURE)
                raise

    def _check(self) -> None:
        """Compare with the row's graph in float64, on random numbers and on edges."""
        source, row = self.source, self.source.row
        drawn = sample_inputs(source.rows, edges=True)
        stored = {name: _rounded(drawn[name], dtype) for name, dtype in zip(source.rows, source.dtypes, strict=True)}
        table = np.array([stored[name].data_ptr() for name in source.rows], np.int64)
        before = {name: x.double().numpy().copy() for name, x in stored.items()}
        as_callable(self.address)(len(before[source.rows[0]]), table)
        outputs = row.writes | row.adds
        read, wide = {name: before[name] for name in row.reads}, np.float64 if source.is_wide else np.float32
        expected = evaluate(row.graph, list(outputs.values()), read)
        spreads = rounding_spread(row.graph, list(outputs.values()), read, wide)
        for name, exact, spread in zip(outputs, expected, spreads, strict=True):
            with np.errstate(all="ignore"):
                exact = exact + before[name] if name in row.adds else exact
            dtype = source.dtypes[source.rows.index(name)]
            # Near the end of float32 a formula may overflow on the way to a finite result.
            limit = math.inf if dtype == "float64" else 1e30
            got = stored[name].double().numpy()
            wrong = np.isnan(exact) & ~np.isnan(got) & (spread != np.inf)
            wrong |= error_mask(
                got, np.where(np.abs(exact) < limit, exact, np.inf), MAX_ERROR[dtype], _SPREADS * spread
            )
            if wrong.any():
                numbers = ", ".join(f"{key} = {before[key][wrong][0]:g}" for key in row.reads)
                raise WrongKernel(
                    f"{source.name} gives {stored[name][wrong][0]:g} for {name} where {numbers}: "
                    f"it should be {exact[wrong][0]:g}"
                )


def as_callable(address: int) -> Callable[[int, np.ndarray], None]:
    """The function of rows at an address, as one of (n, table) in Python."""
    function = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 2)(address)

    def call(n: int, table: np.ndarray) -> None:
        outcome, error = ctypes.c_int64(), ctypes.c_int64()  # where Numba's convention puts a result
        function(ctypes.byref(outcome), ctypes.byref(error), n, table.ctypes.data)

    return call


def _rounded(numbers: np.ndarray, dtype: str) -> Tensor:
    """Numbers as a row of that dtype holds them; what is denormal there is zero, as in kernels."""
    narrow: torch.dtype = getattr(torch, dtype)
    rounded = torch.from_numpy(numbers).to(narrow)
    return torch.where(rounded.abs() < torch.finfo(narrow).tiny, torch.zeros((), dtype=narrow), rounded)


def row_address(row: Row, title: str, dtypes: tuple[str, ...]) -> int:
    """The address of a row's compiled function; 0 while calls are recorded and not run."""
    recorded = recorded_rows()
    if recorded is None:
        return _address_of(row, title, dtypes)
    recorded.append(_source(row, title, dtypes))
    return 0


@cache
def _address_of(row: Row, title: str, dtypes: tuple[str, ...]) -> int:
    return compiled_row(_source(row, title, dtypes)).address


@cache
def _source(row: Row, title: str, dtypes: tuple[str, ...]) -> Source:
    return numba_source(title, row, dict(zip(row.rows, dtypes, strict=True)))


@cache
def compiled_row(source: Source) -> CompiledRow:
    """The compiled function of a source."""
    return CompiledRow(source)


class Site(NamedTuple):
    """The place of a row in memory, and the dtype of its numbers."""

    dtype: str
    address: int
    """The address of the first number; the others are in bytes from one to the next."""
    batch: int
    chunk: int
    time: int
    size: int
    """Bytes of a number."""
    prefetch: int
    """NOT_PREFETCHED, READ_SOON or WRITTEN_SOON."""


NOT_PREFETCHED, READ_SOON, WRITTEN_SOON = range(3)
_SITE = np.dtype([(name, np.int64) for name in Site._fields[1:]])
"""A site as compiled loops read it."""


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype as sources write it."""
    return str(dtype).removeprefix("torch.")


def at_steps(x: Series, written: bool = False) -> Site:
    """Locate a row of a series at every step."""
    size, prefetch = x.element_size(), WRITTEN_SOON if written else READ_SOON
    return Site(dtype_name(x.dtype), x.data_ptr(), x.stride(0) * size, 0, x.stride(1) * size, size, prefetch)


def at_state(x: Tensor) -> Site:
    """Locate a row of (batch, chunks, channels), contiguous."""
    size = x.element_size()
    return Site(dtype_name(x.dtype), x.data_ptr(), x.stride(0) * size, x.stride(1) * size, 0, size, NOT_PREFETCHED)


def at_channels(x: Channels) -> Site:
    """Locate one row for all."""
    return Site(dtype_name(x.dtype), x.data_ptr(), 0, 0, 0, x.element_size(), NOT_PREFETCHED)


def sites(of_rows: Sequence[Site]) -> np.ndarray:
    """Return these sites for compiled loops."""
    return np.array([site[1:] for site in of_rows], _SITE)


@intrinsic
def call_row(typing: Any, function: Any, n: Any, table: Any) -> Any:
    """Call the function of rows at an address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.call_conv.get_function_type(types.none, _SIGNATURE)
        outputs = [cgutils.alloca_once(builder, argument.pointee) for argument in kind.args[:2]]
        # The status that Numba's convention returns is ignored: rows raise nothing.
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [*outputs, *arguments[1:]])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), build


@intrinsic
def address_of(typing: Any, array: Any) -> Any:
    """Return the address of a flat array's first element."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, WORD)

    return types.int64(array), build


@intrinsic
def copy_bytes(typing: Any, source: Any, to: Any, count: Any) -> Any:
    """Copy so many bytes from one address to another."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # Alignment 1 in the copy: a row may begin at any address.
        pointers = [builder.inttoptr(argument, cgutils.voidptr_t) for argument in arguments[:2]]
        cgutils.raw_memcpy(builder, pointers[1], pointers[0], arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), build


@intrinsic
def clear_bytes(typing: Any, to: Any, count: Any) -> Any:
    """Zeros in so many bytes from an address on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cgutils.memset(builder, builder.inttoptr(arguments[0], cgutils.voidptr_t), arguments[1], 0)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), build


@intrinsic
def prefetch_at(typing: Any, address: Any, to_write: Any) -> Any:
    """Ask for the cache line at an address, which need not be that of anything."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *(cgutils.int32_t,) * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        with builder.if_else(arguments[1]) as (then, otherwise):
            for branch, for_writing in ((then, 1), (otherwise, 0)):
                with branch:  # the hint is part of the instruction
                    builder.call(function, [pointer, *(cgutils.int32_t(n) for n in (for_writing, NEAREST, IS_DATA))])
        return context.get_dummy_value()

    return types.none(types.int64, types.boolean), build


@intrinsic
def _address(typing: Any, table: Any, position: Any) -> Any:
    """The address at a place of a table of addresses."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], WORD.as_pointer())
        return builder.load(builder.gep(pointer, [arguments[1]]))

    return types.int64(types.int64, types.int64), build


@cache
def _access(position: int, count: int, dtype: str) -> tuple[Any, Any]:
    """Reading and writing a number of the row at that place among so many, in the dtype of sums."""
    stored: Any = _TYPES[dtype]
    wide = types.float64 if dtype == "float64" else types.float32

    def mark(module: Any, instruction: Any) -> Any:
        # Promises LLVM that rows do not overlap: else it tests each pair at run time, or does not vectorise.
        domain = module.add_metadata(["gatedrnn rows"])
        scopes = [module.add_metadata([f"gatedrnn row {i}", domain]) for i in range(count)]
        instruction.set_metadata("alias.scope", module.add_metadata([scopes[position]]))
        if count > 1:
            instruction.set_metadata("noalias", module.add_metadata([s for i, s in enumerate(scopes) if i != position]))
        return instruction

    def element(context: Any, builder: Any, address: Any, index: Any) -> Any:
        pointer = builder.inttoptr(address, context.get_data_type(stored).as_pointer())
        return builder.gep(pointer, [index])

    @intrinsic
    def load(typing: Any, address: Any, index: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return mark(builder.module, builder.load(element(context, builder, *arguments)))

        return stored(types.int64, types.int64), build

    @intrinsic
    def store_value(typing: Any, address: Any, index: Any, number: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to = element(context, builder, *arguments[:2])
            mark(builder.module, builder.store(arguments[2], to))
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, stored), build

    if dtype != "bfloat16":
        return load, _casting(store_value, wide)

    @numba.njit(**INLINED)
    def read(address: int, index: int) -> Any:
        # A bfloat16 is the upper half of a float32's bits.
        return functions.float_of_bits(np.int32(np.uint32(load(address, index)) << np.uint32(16)))

    @numba.njit(**INLINED)
    def write(address: int, index: int, number: Any) -> None:
        store_value(address, index, functions.rounded_to_bfloat16(np.float32(number)))

    return read, write


def _casting(store_value: Any, wide: Any) -> Any:
    """Writing a number of any type."""
    cast = np.float64 if wide == types.float64 else np.float32

    @numba.njit(**INLINED)
    def write(address: int, index: int, number: Any) -> None:
        store_value(address, index, cast(number))

    return write
