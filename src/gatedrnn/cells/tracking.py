"""What a cell can follow over any length, and what no training can make it follow: a matter of its transition alone."""

from typing import NamedTuple

from gatedrnn.cells.base import BlockScanCell, Cell


class Tracking(NamedTuple):
    """A class of cells by what takes the state from one step to the next."""

    name: str
    transition: str
    follows: str
    fails: str
    """What no cell of the class can follow at every length, in numbers of finite precision."""
    source: str


POSITIVE = Tracking(
    "positive",
    "each channel is multiplied by a number between 0 and 1 that the input alone decides",
    "what is kept, faded or written anew: a bit set and left, the last of several symbols, a running mean",
    "anything that must come back after it has changed: parity, counting round a cycle, products in a group",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
SIGNED = Tracking(
    "signed",
    "each channel is multiplied by a number from -1 to 1 that the input alone decides",
    "parity and whatever is made of sign changes",
    "cycles of three or more and groups where order matters, which need a turn and not only a sign",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
ROTATING = Tracking(
    "rotating",
    "blocks of channels are turned and mirrored by an orthogonal matrix that the input alone decides",
    "cycles of any size and products in every group that has faithful matrices as small as a block: S3 by 2 x 2, S5 by "
    "4 x 4",
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


def tracking(cell: Cell) -> Tracking:
    """The class of a cell."""
    if cell.reads_state:
        return STATE_DEPENDENT
    if isinstance(cell, BlockScanCell):
        return ROTATING
    return SIGNED if cell.clamped_decay else POSITIVE
