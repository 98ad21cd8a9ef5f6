"""What a cell can follow over any length, and what no training can make it follow: a matter of its transition alone."""

from typing import NamedTuple

import torch

from gatedrnn.equations import BlockScanEquations, Equations, ScanEquations

DRAWS, SPREAD = 1000, 4.0


class Tracking(NamedTuple):
    """A class of cells by what takes the state from one step to the next."""

    name: str
    transition: str
    follows: str
    """By one layer."""
    fails: str
    """What one layer cannot follow at every length, in numbers of finite precision; "however deep": no stack either."""
    source: str


POSITIVE = Tracking(
    "positive",
    "each channel is multiplied by a number between 0 and 1 that the input alone decides",
    "what is set, kept, faded or written anew: a switch, the last of several symbols, a running mean",
    "anything periodic, however deep: parity, counting round a cycle, products in a group",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
SIGNED = Tracking(
    "signed",
    "each channel is multiplied by a number from -1 to 1 that the input alone decides",
    "parity and whatever is made of sign changes",
    "groups where order matters and longer cycles; counting modulo three, however deep",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
ROTATING = Tracking(
    "rotating",
    "blocks of channels are multiplied by an orthogonal matrix and by numbers between 0 and 1; the input alone decides "
    "both",
    "cycles of any size and products in every group that has faithful orthogonal matrices as small as a block: S3 by "
    "2 x 2, S5 by 4 x 4",
    "groups that need larger blocks; counts without bound",
    "Siems et al. 2025, arXiv:2502.10297",
)
STATE_DEPENDENT = Tracking(
    "state-dependent",
    "a non-linear function of the input and of the state before",
    "any finite automaton, once it is found; time must be walked step by step",
    "counts without bound beyond what its numbers hold",
    "Merrill et al. 2024, arXiv:2404.08819",
)


def tracking(cell: Equations) -> Tracking:
    """The class of a cell."""
    if isinstance(cell, BlockScanEquations):
        return ROTATING
    if not isinstance(cell, ScanEquations):
        return STATE_DEPENDENT
    # Its own equations say whether a decay can be negative: those of a cell that is not ours too.
    drawn = torch.randn(len(cell.projections), DRAWS, generator=torch.Generator().manual_seed(0))
    decay, _ = cell.coefficients(*(SPREAD * drawn))
    return SIGNED if bool((decay < 0).any()) else POSITIVE
