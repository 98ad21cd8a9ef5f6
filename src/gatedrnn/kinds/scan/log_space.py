"""The scan over logarithms of the minimal cells' paper, for fidelity to it: `linear_scan` is faster and more exact.

Heinsen 2023 (arXiv:2311.06281), as in Feng et al. 2024 (arXiv:2410.01201), appendix B. With the sums A_t of log a,

    h_t = exp(A_t + log(h_0 + sum over k <= t of exp(log b_k - A_k)))

A_t grows with t, and its last digits are lost when the two terms cancel; the error of the linear form does not grow.
"""

import torch
from torch import Tensor

from gatedrnn.equations import ConvexScanEquations, Equations, ScanEquations
from gatedrnn.kernels.backends import accumulation_dtype, values_unknown
from gatedrnn.kinds.kind import CellFacts, Direction, LayerView, Pass, Path, SeriesResult, StepResult, is_of
from gatedrnn.kinds.scan.definition import coefficients_of, gates_of, shown
from gatedrnn.kinds.scan.path import SCAN, ScanBase
from gatedrnn.shapes import Hidden, Series, State, Step


def log_space_scan(decay: Series, drive: Series, h0: State, reverse: bool = False) -> tuple[Series, State]:
    """Return all states of h_t = decay_t * h_(t-1) + drive_t, by the logarithms of its numbers, and the last one run.

    Args:
        decay, drive: 0 or more, (batch, time, channels). A drive of 0 is left out of the sum and gets no gradient.
        h0: the state before the first step, (batch, channels), 0 or more, as `drive`.
        reverse: run from the last step to the first.
    """
    if reverse:
        decay, drive = decay.flip(1), drive.flip(1)
    # log 0 is -inf, and the difference of two such sums NaN.
    summed: Tensor = decay.clamp(min=torch.finfo(decay.dtype).tiny).log().cumsum(1)
    terms = torch.cat([_finite_log(h0).unsqueeze(1), _finite_log(drive) - summed], dim=1)
    states = torch.exp(summed + torch.logcumsumexp(terms, dim=1)[:, 1:])
    return states.flip(1) if reverse else states, states[:, -1].clone()


def _finite_log(x: Tensor) -> Tensor:
    # Log 0 is no infinity, whose gradient is NaN; nor has a number below the least normal one its slope, 1 / x.
    is_normal = x >= torch.finfo(x.dtype).tiny
    return torch.where(is_normal, torch.where(is_normal, x, 1).log(), -1e30)


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    mask, bias = direction.mask, direction.weights.get("bias_ih")
    projected = layer.project(direction.x, direction.weights, add_bias=False)
    # The bias is added in float32 at least, as kernels add it.
    gates = gates_of(layer.cell, projected if bias is None else projected + bias.to(accumulation_dtype(bias.dtype)))
    decay, drive = coefficients_of(layer.cell, gates, (), mask)
    h, last = log_space_scan(decay, drive, direction.state[0].to(drive.dtype), direction.reverse)
    return layer.project_output(shown(layer.cell, h, gates, mask, projected.dtype), direction.weights), (last,)


def _has_logarithm(h: State) -> bool:
    """Whether a state is positive; a 0 is left out of the sum, and its gradient with it."""
    return bool((h > 0).all() if h.requires_grad else (h >= 0).all())


class LogSpaceKind(ScanBase):
    """Scan cells that run whole sequences by the paper's scan over logarithms."""

    def claims(self, cell: Equations | type[Equations]) -> bool:
        # A class has no such attribute, which the constructor sets: it is claimed by `ScanKind`.
        return is_of(cell, ConvexScanEquations) and getattr(cell, "log_space", False)

    def facts(self, cell: ScanEquations | type[ScanEquations]) -> CellFacts:
        facts = SCAN.facts(cell)
        why = "makes steps without a logarithm, so log_space cannot run it; leave one out"
        return facts._replace(refused={**facts.refused, "zoneout": why, "state_dropout": why})

    def backends(self, layer: LayerView) -> tuple[str, ...]:
        return ()

    def path(self, layer: LayerView, query: Pass) -> Path:
        if query.has_gaps:
            raise ValueError("log_space takes no gaps; use log_space=False")
        if query.direction is not None and query.direction.resets is not None:
            raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
        if query.direction is not None and not values_unknown() and not _has_logarithm(query.direction.state[0]):
            raise ValueError("log_space needs hx None or positive (0 if it needs no gradient): it takes its logarithm")
        return Path("the scan over logarithms", "log_space=True asks for the paper's own", _run)

    def stream(self, layer: LayerView, x: Step, hx: Hidden | None) -> StepResult | None:
        return None


LOG_SPACE = LogSpaceKind()
