"""Programs of kernels by cell: each is traced once from the cell's equations, and valid from then on.

Equations do not change once they are made (`gatedrnn.equations`), and what else they read, such as a number of their
module, is read once, while they are traced.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `register` files them under the cell's word, such as "gru" or "gru:reset_after=false".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch

from gatedrnn.codegen.row import Row
from gatedrnn.codegen.source import numba_source
from gatedrnn.equations import Equations
from gatedrnn.errors import CannotBeTraced
from gatedrnn.kernels.backends import choose_backend, has_cpu_kernels
from gatedrnn.kinds.kind import Kernel

Program = TypeVar("Program")
Tracer = Callable[[Any], Program]
CLASSES: dict[str, type[Equations]] = {}
"""The equations of each registered cell: a class derived from them may compute something else, and has no kernel."""
EQUATIONS: dict[str, Equations] = {}
"""The equations of each registered cell and variant by its word."""
PROGRAMS: dict[tuple[str, Tracer[Any]], Any] = {}
"""Programs by the cell's word and the tracer; a string says why there is none: `torch.compile` can read it, but no
error."""


# Hashed by identity (eq=False): programs are keys of caches, and their rows hold dictionaries.
@dataclass(frozen=True, eq=False)
class TracedCell:
    """All that kernels know of a cell."""

    word: str
    """The cell's."""
    projections: tuple[str, ...]
    """Their names, in order."""

    @cached_property
    def gates(self) -> int:
        """Number of projections."""
        return len(self.projections)

    def numba_sources(self, rows: Sequence[Row], equations: str) -> list[str]:
        """Return the source of rows for a CPU in float32, headed by the equations."""
        return [numba_source(self.word, row, dict.fromkeys(row.rows, "float32"), equations).text for row in rows]


def register(cell: Equations, anew: bool = False) -> None:
    """Let operations find a cell from now on.

    Args:
        anew: trace its programs again, from what its equations read now.
    """
    word = cell.word
    if CLASSES.get(cell.name) is type(cell) and (anew or type(EQUATIONS.get(word)) is not type(cell)):
        EQUATIONS[word] = cell
        for key in [key for key in PROGRAMS if key[0] == word]:
            del PROGRAMS[key]  # a class that was defined again may compute something else


def program_for(cell: Equations, tracer: Tracer[Program]) -> Program | str:
    """Return the program that kernels run for a cell; or why there is none: its equations are those of no registered
    cell, or cannot be traced."""
    if CLASSES.get(cell.name) is not type(cell):
        return f"no kernel runs {cell.name} here"
    found: Program | str = _cached_program(cell, tracer)
    return found


def cpu_kernel(cell: Equations, tracer: Tracer[Program], device: torch.device, dtype: torch.dtype) -> Kernel:
    """Find the kernel for a CPU of a cell that a tracer makes a program of."""
    found = program_for(cell, tracer)
    # A reason of the cell itself comes before a missing Numba: installing that would not help.
    if isinstance(found, str) or has_cpu_kernels(device):
        return kernel_with(found, device, dtype)
    return Kernel(device, dtype, missing=choose_backend(device).reason)


def kernel_with(found: object, device: torch.device, dtype: torch.dtype) -> Kernel:
    """Return the kernel of a program, or without one for the reason that is in its place."""
    return Kernel(device, dtype, missing=found) if isinstance(found, str) else Kernel(device, dtype, found)


def program_of(word: str, tracer: Tracer[Program]) -> Program:
    """Return the program of a cell that has one."""
    program: Program = _cached_program(EQUATIONS[word], tracer)
    assert not isinstance(program, str), program
    return program


def _cached_program(cell: Equations, tracer: Tracer[Any]) -> Any:
    key = cell.word, tracer
    if key not in PROGRAMS:
        try:
            PROGRAMS[key] = tracer(cell)
        # The failure is remembered too: `torch.compile` can read a word, and cannot trace the cell again.
        except CannotBeTraced as error:
            blocks = f"channels act in blocks of {cell.block_size}, and a generated kernel runs each by itself"
            PROGRAMS[key] = str(error) if cell.block_size == 1 else blocks
    return PROGRAMS[key]
