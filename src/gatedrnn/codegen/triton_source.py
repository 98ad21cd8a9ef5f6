"""The parts of a scan cell as the source of functions that Triton compiles, on tiles of steps and channels."""

import re

import numpy as np

from gatedrnn.codegen.lines import Dialect, Lines
from gatedrnn.codegen.row import Row
from gatedrnn.codegen.scan_tile import TileProgram

CALLS = {"abs": "tl.abs", "exp": "tl.exp", "log": "tl.log", "sqrt": "tl.sqrt", "where": "tl.where"}
"""Operations by Triton's own names; others are functions of `gatedrnn.kernels.gpu._tile`."""
ADDRESS = "projected, offset, gate, inside, like, bias, channel, channels"
"""From which every part loads the tiles of the projections."""
TILES = {
    "coefficients": "", "output": ", state", "of_state": ", state, upstream",
    "gradient": ", state, previous, delta, upstream, to, real, mask",
}  # fmt: skip
"""What the parts read beside them, and where `gradient` writes."""


def triton_source(program: TileProgram, comment: str = "") -> str:
    """Functions `coefficients`, `output` and `of_state`, which return tiles, and `gradient`, which stores them.

    Args:
        comment: at the head, such as the equations.
    """
    rows = [program.coefficients, program.output, program.of_state, program.gradient]
    head = "\n".join(f"# {line}".rstrip() for line in comment.splitlines())
    functions = [_function(program, row) for row in rows if row is not None]
    return "\n\n\n".join([head, *functions] if head else functions) + "\n"


def _function(program: TileProgram, row: Row) -> str:
    names = {f"x_{name}": "x_" + re.sub(r"\W", "_", name) for name in program.projections}
    body, outputs = Lines(row.graph, Dialect(names, _constant, CALLS, "{} == 0")), list(row.writes.values())
    lines = [
        f"{names[f'x_{name}']} = projection(projected, offset, {place}, gate, inside, like, bias, channel, channels)"
        for place, name in enumerate(program.projections)
        if f"x_{name}" in row.reads
    ]
    lines += body.of(outputs)
    results = [body.text(value) for value in outputs]
    if row is program.gradient:
        lines += [
            f"tl.store(to + {place} * channels, tl.where(real, {text}, 0.0), mask=mask)"
            for place, text in enumerate(results)
        ]
    else:
        lines.append(f"return {', '.join(results)}")
    return "\n".join([f"def {row.name}({ADDRESS}{TILES[row.name]}):", *(f"    {line}" for line in lines)])


def _constant(number: float) -> str:
    """Triton takes a number for one in float32: others must be of the tile's own kind."""
    if not np.isfinite(number):
        return f'float("{number}")'
    return repr(number) if float(np.float32(number)) == number else f"tl.full((1, 1), {number!r}, like.dtype)"
