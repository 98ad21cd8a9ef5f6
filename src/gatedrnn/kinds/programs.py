"""Programs of kernels by cell: each is traced once from the cell's equations, and valid from then on.

Equations do not change once they are made (`gatedrnn.equations`), and what else they read, such as a number of their
module, is read once, while they are traced.

A registered operation takes tensors, numbers and strings; its fake form and its second derivative need the cell's
equations. `register` files them under the cell's word, such as "gru" or "gru:reset_after=false".
"""

from collections.abc import Callable
from typing import Any, TypeVar

from gatedrnn.equations import Equations
from gatedrnn.errors import CannotBeTraced

Program = TypeVar("Program")
Tracer = Callable[[Any], Program]
CLASSES: dict[str, type[Equations]] = {}
"""The equations of each registered cell: a class derived from them may compute something else, and has no kernel."""
EQUATIONS: dict[str, Equations] = {}
"""The equations of each registered cell and variant by its word."""
PROGRAMS: dict[tuple[str, Tracer[Any]], Any] = {}
"""Programs by the cell's word and the tracer; a string says why there is none: `torch.compile` can read it, but no
error."""


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


def program_for(cell: Equations, tracer: Tracer[Program]) -> Program | None:
    """Return the program that kernels run for a cell; None if its equations are those of no registered cell, or cannot
    be traced."""
    program = _traced(cell, tracer) if CLASSES.get(cell.name) is type(cell) else None
    return None if isinstance(program, str) else program


def program_of(word: str, tracer: Tracer[Program]) -> Program:
    """Return the program of a cell that has one."""
    program: Program = _traced(EQUATIONS[word], tracer)
    assert not isinstance(program, str), program
    return program


def why_no_program(cell: Equations, tracer: Tracer[Program]) -> str | None:
    """Return why a registered cell has no program; None if it has one."""
    program = _traced(cell, tracer) if CLASSES.get(cell.name) is type(cell) else None
    return program if isinstance(program, str) else None


def _traced(cell: Equations, tracer: Tracer[Any]) -> Any:
    key = cell.word, tracer
    if key not in PROGRAMS:
        try:
            PROGRAMS[key] = tracer(cell)
        except CannotBeTraced as error:
            blocks = f"channels act in blocks of {cell.block_size}, and a generated kernel runs each by itself"
            PROGRAMS[key] = str(error) if cell.block_size == 1 else blocks
    return PROGRAMS[key]
