"""The parts of a scan cell, generated from its equations, as functions that Triton's kernels call."""

import hashlib
import linecache
from functools import cache
from typing import Any, NamedTuple

import triton
import triton.language as tl

from gatedrnn.codegen.scan_tile import TileProgram
from gatedrnn.codegen.triton_source import triton_source
from gatedrnn.kernels.gpu import _tile

HELPERS = ("projection", "shrinking", "tanh", "expm1", "log1p", "sign", "minimum", "maximum")


class Parts(NamedTuple):
    """Functions for Triton; None as in `TileProgram`."""

    key: str
    """The cell and a sum over its source: Triton knows functions by their names, which all cells share."""
    coefficients: Any
    output: Any
    of_state: Any
    gradient: Any


@cache
def parts_of(program: TileProgram) -> Parts:
    """The functions of a cell."""
    text = triton_source(program)
    # Triton reads the source of what it compiles.
    key = f"{program.word} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    file = f"<{key}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"tl": tl, "__name__": __name__, **{name: getattr(_tile, name) for name in HELPERS}}
    exec(compile(text, file, "exec"), names)
    return Parts(key, *(triton.jit(names[part]) if part in names else None for part in Parts._fields[1:]))
