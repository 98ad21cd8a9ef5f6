"""The scan over logarithms of the minimal cells' paper, for fidelity to it: `linear_scan` is faster and more exact.

Heinsen 2023 (arXiv:2311.06281), as in Feng et al. 2024 (arXiv:2410.01201), appendix B. With the sums A_t of log a,

    h_t = exp(A_t + log(h_0 + sum over k <= t of exp(log b_k - A_k)))

A_t grows with t, and its trailing digits are lost when the two terms cancel: the error grows like the rounding of
|A_t|, where that of the linear form does not grow.
"""

from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import PositiveScanEquations
from gatedrnn.kernels.backends import accumulation_dtype, plain_torch_only
from gatedrnn.kinds.kind import CellFacts, Direction, LayerView, Pass, Path, SeriesResult, StepResult, is_of
from gatedrnn.kinds.scan.definition import gates_of, shown
from gatedrnn.kinds.scan.path import ScanKind
from gatedrnn.shapes import Series, State, StateTuple, Step

LOG_ZERO = -1e30
"""Log 0: its exp and the gradient of that are 0, where the gradient of an infinity would be NaN."""


def log_space_scan(log_decay: Series, log_drive: Series, h0: State, reverse: bool = False) -> tuple[Series, State]:
    """Return all states of h_t = a_t * h_(t-1) + b_t for positive a and b, from their logarithms, and the last one run.

    Args:
        log_decay, log_drive: log a_t and log b_t, (batch, time, channels); LOG_ZERO for a drive of 0.
        h0: the state before the first step, (batch, channels); positive, or 0, which is left out of the sum and gets
            no gradient.
        reverse: run from the last step to the first.
    """
    if reverse:
        states, last = log_space_scan(log_decay.flip(1), log_drive.flip(1), h0)
        return states.flip(1), last
    positive = h0 > 0
    log_h0 = torch.where(positive, torch.log(torch.where(positive, h0, 1)), LOG_ZERO)
    summed: Tensor = log_decay.cumsum(1)
    terms = torch.cat([log_h0.unsqueeze(1), log_drive - summed], dim=1)
    states = torch.exp(summed + torch.logcumsumexp(terms, dim=1)[:, 1:])
    return states, states[:, -1].clone()


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, mask = layer.cell, direction.mask
    projected = layer.project(direction.x, direction.weights, add_bias=False)
    wide, bias = projected.to(accumulation_dtype(projected.dtype)), direction.weights.get("bias_ih")
    gates = gates_of(cell, wide if bias is None else wide + bias)
    log_decay, log_drive = cell.log_coefficients(*gates)
    if mask is not None:
        real = mask.unsqueeze(2)
        log_decay, log_drive = torch.where(real, log_decay, 0), torch.where(real, log_drive, LOG_ZERO)
    h, last = log_space_scan(log_decay, log_drive, direction.state[0].to(log_decay.dtype), direction.reverse)
    return layer.project_output(shown(cell, h, gates, mask, projected.dtype), direction.weights), (last,)


def _has_logarithm(h: State) -> bool:
    """Whether a state is positive; a 0 is left out of the sum, and its gradient with it."""
    return bool((h > 0).all() if h.requires_grad else (h >= 0).all())


class LogSpaceKind(ScanKind):
    """Scan cells that run whole sequences by the paper's scan over logarithms."""

    def claims(self, cell: Any) -> bool:
        return is_of(cell, PositiveScanEquations) and getattr(cell, "log_space", False)

    def facts(self, cell: Any) -> CellFacts:
        facts = super().facts(cell)
        why = "makes steps without a logarithm, so log_space cannot run it; leave one out"
        return facts._replace(refused={**facts.refused, "zoneout": why, "state_dropout": why})

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        return ()

    def path(self, layer: LayerView, asked: Pass) -> Path:
        if asked.has_gaps:
            raise ValueError("log_space takes no gaps; use log_space=False")
        if asked.direction is not None and asked.direction.resets is not None:
            raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
        unknown = torch.compiler.is_compiling() or plain_torch_only()
        if asked.direction is not None and not unknown and not all(map(_has_logarithm, asked.direction.state)):
            raise ValueError("log_space needs hx None or positive (0 if it needs no gradient): it takes its logarithm")
        return Path("the scan over logarithms", "log_space=True asks for the paper's own", _run)

    def stream(self, layer: LayerView, x: Step, hx: Any) -> StepResult | None:
        return None

    def step(self, layer: LayerView, x: Step, state: StateTuple) -> StepResult | None:
        return None


LOG_SPACE = LogSpaceKind()
