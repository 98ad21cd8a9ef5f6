"""The scan over logarithms of the minimal cells' paper, for fidelity to it: `linear_scan` is faster and more exact.

Heinsen 2023 (arXiv:2311.06281), as in Feng et al. 2024 (arXiv:2410.01201), appendix B. With the sums A_t of log a,

    h_t = exp(A_t + log(h_0 + sum over k <= t of exp(log b_k - A_k)))

A_t grows with t, and its trailing digits are lost when the two terms cancel: the error grows like the rounding of
|A_t|, where that of the linear form does not grow.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gatedrnn.equations import PositiveScanEquations
from gatedrnn.kernels.backends import accumulation_dtype, plain_torch_only
from gatedrnn.kinds.kind import Direction, LayerView, Pass, Path, SeriesResult, is_of
from gatedrnn.kinds.scan.definition import gates_of, shown
from gatedrnn.kinds.scan.path import SCAN
from gatedrnn.shapes import Series, State

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


def _path(layer: LayerView, asked: Pass) -> Path:
    if asked.has_gaps:
        raise ValueError("log_space takes no gaps; use log_space=False")
    return Path("the scan over logarithms", "log_space=True asks for the paper's own", _run)


def _run(layer: LayerView, direction: Direction) -> SeriesResult:
    cell, mask = layer.cell, direction.mask
    projected = layer._project(direction.x, direction.weights, add_bias=False)
    wide, bias = projected.to(accumulation_dtype(projected.dtype)), direction.weights.get("bias_ih")
    gates = gates_of(cell, wide if bias is None else wide + bias)
    log_decay, log_drive = cell.log_coefficients(*gates)
    if mask is not None:
        real = mask.unsqueeze(2)
        log_decay, log_drive = torch.where(real, log_decay, 0), torch.where(real, log_drive, LOG_ZERO)
    h, last = log_space_scan(log_decay, log_drive, direction.state[0].to(log_decay.dtype), direction.reverse)
    return layer._project_output(shown(cell, h, gates, mask, projected.dtype), direction.weights), (last,)


def _check_layer(layer: LayerView) -> None:
    for name in ("zoneout", "state_dropout"):
        if getattr(layer, name):
            raise ValueError(f"{name} makes steps without a logarithm, so log_space cannot run it; leave one out")


def _check_input(layer: LayerView, input: Any, hx: Any, resets: Tensor | None) -> None:
    if resets is not None:
        raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
    unknown = torch.compiler.is_compiling() or plain_torch_only()
    if hx is not None and not unknown and not all(_has_logarithm(h) for h in hx):
        raise ValueError("log_space needs hx None or positive (0 if it needs no gradient): it takes its logarithm")


def _has_logarithm(h: State) -> bool:
    """Whether a state is positive; a 0 is left out of the sum, and its gradient with it."""
    return bool((h > 0).all() if h.requires_grad else (h >= 0).all())


LOG_SPACE = replace(
    SCAN,
    equations=lambda cell: is_of(cell, PositiveScanEquations) and getattr(cell, "log_space", False),
    backends=lambda layer: (), path=_path, stream=lambda layer, x, hx: None, step=lambda layer, x, state: None,
    check_layer=_check_layer, check_input=_check_input,
)  # fmt: skip
