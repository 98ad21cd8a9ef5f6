"""State tracking: what a cell can track over any length, and what no training can teach it, by its transition alone."""

from dataclasses import dataclass

import torch

from gatedrnn.equations import BlockScanEquations, ElementwiseLoopEquations, Equations, ScanEquations

DRAWS, SPREAD = 1000, 4.0


@dataclass(frozen=True)
class Tracking:
    """A class of cells with the same kind of transition from one state to the next."""

    name: str
    transition: str
    follows: str
    """What one layer can track."""
    fails: str
    """What one layer cannot track at every length in finite precision; "however deep": nor can a stack."""
    source: str


POSITIVE = Tracking(
    "positive",
    "each channel is multiplied by a value between 0 and 1 that depends on the input alone",
    "what is set, kept, decayed or overwritten: a switch, the last of several symbols, a running mean",
    "anything periodic, however deep: parity, counting modulo n, products in a group",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
SIGNED = Tracking(
    "signed",
    "each channel is multiplied by a value from -1 to 1 that depends on the input alone",
    "parity and whatever is made of sign changes",
    "groups where order matters and longer cycles; counting modulo three, however deep",
    "Grazzi et al. 2025, arXiv:2411.12537",
)
ROTATING = Tracking(
    "rotating",
    "blocks of channels are multiplied by an orthogonal matrix and by values between 0 and 1; both depend on the input "
    "alone",
    "cycles of any size and products in every group that has faithful orthogonal matrices as small as a block: S3 by "
    "2 x 2, S5 by 4 x 4",
    "groups that need larger blocks; unbounded counts",
    "Siems et al. 2025, arXiv:2502.10297",
)
FIXED = Tracking(
    "fixed",
    "blocks of channels are turned and multiplied by a value between 0 and 1, the same at every step, whatever the "
    "input",
    "how long ago something came: delays, filters, positions modulo n",
    "whatever an input must change in the state beside adding to it, in one layer: a switch, parity, products in a "
    "group; S5 however deep",
    "Merrill et al. 2024, arXiv:2404.08819",
)
CHANNELWISE = Tracking(
    "channelwise",
    "a non-linear function of the input and of the channel's own previous state",
    "parity and what else one channel can tell from itself",
    "in no run here found: products in a group where order matters, such as S3",
    "measured, docs/expressivity.md",
)
STATE_DEPENDENT = Tracking(
    "state-dependent",
    "a non-linear function of the input and of the previous state",
    "any finite automaton, once training finds it; the steps must run one after another",
    "unbounded counts beyond the precision of its state",
    "Merrill et al. 2024, arXiv:2404.08819",
)


def tracking(cell: Equations) -> Tracking:
    """The class of a cell."""
    if isinstance(cell, BlockScanEquations):
        own = torch.zeros(len(cell.diagonals), 1)
        drawn = torch.randn(len(cell.projections), 2, cell.block_size, generator=torch.Generator().manual_seed(0))
        transitions, _ = cell.coefficients(*drawn, *own)
        return FIXED if torch.equal(*transitions) else ROTATING
    if isinstance(cell, ElementwiseLoopEquations):
        return CHANNELWISE
    if not isinstance(cell, ScanEquations):
        return STATE_DEPENDENT
    # Evaluating the equations finds a negative decay in a user's own cell too.
    drawn = torch.randn(len(cell.projections) + len(cell.diagonals), DRAWS, generator=torch.Generator().manual_seed(0))
    decay, _ = cell.coefficients(*(SPREAD * drawn))
    return SIGNED if bool((decay < 0).any()) else POSITIVE
