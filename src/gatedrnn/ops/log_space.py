"""The scan over logarithms of the minimal cells' paper, for fidelity to it: `linear_scan` is faster and more exact.

Heinsen 2023 (arXiv:2311.06281), as in Feng et al. 2024 (arXiv:2410.01201), appendix B. With the sums A_t of log a,

    h_t = exp(A_t + log(h_0 + sum over k <= t of exp(log b_k - A_k)))

A_t grows with t, and the digits behind its leading ones are lost when the two terms cancel: the error grows like the
rounding of |A_t|, where the linear form's does not grow at all.
"""

import torch
from torch import Tensor

from gatedrnn.shapes import Series, State

LOG_ZERO = -1e30
"""In the place of log 0: exp of it is 0, and its gradient is 0 where that of an infinity is NaN."""


def log_space_scan(log_decay: Series, log_drive: Series, h0: State, reverse: bool = False) -> tuple[Series, State]:
    """All states of h_t = a_t * h_(t-1) + b_t for positive a and b, from their logarithms, and the last one run.

    Args:
        log_decay, log_drive: log a_t and log b_t, (batch, time, channels); LOG_ZERO for a drive of 0.
        h0: the state before the first step, (batch, channels); positive, or 0 where there is none: that term is then
            left out, and gets no gradient.
        reverse: run from the last step to the first.
    """
    if reverse:
        states, last = log_space_scan(log_decay.flip(1), log_drive.flip(1), h0)
        return states.flip(1), last
    some = h0 > 0
    log_h0 = torch.where(some, torch.log(torch.where(some, h0, 1)), LOG_ZERO)
    summed: Tensor = log_decay.cumsum(1)
    terms = torch.cat([log_h0.unsqueeze(1), log_drive - summed], dim=1)
    states = torch.exp(summed + torch.logcumsumexp(terms, dim=1)[:, 1:])
    return states, states[:, -1].clone()
