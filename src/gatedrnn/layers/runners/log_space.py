"""Positive scan cells by the scan over logarithms of their paper (`log_space=True`)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import PositiveScanEquations, output_of, split_gates
from gatedrnn.layers.graphs import is_proxy
from gatedrnn.layers.module import RecurrentModule
from gatedrnn.layers.runners.record import Direction, Path, Runner, SeriesResult, StepResult
from gatedrnn.ops.backends import accumulation_dtype, plain_torch_only
from gatedrnn.ops.log_space import LOG_ZERO, log_space_scan
from gatedrnn.ops.masking import zero_masked_steps
from gatedrnn.shapes import Series, State, Step


def _backends(layer: RecurrentModule) -> tuple[str, ...]:
    return ()


def _path(layer: RecurrentModule, training: bool) -> Path:
    return Path("the scan over logarithms", "log_space=True asks for the paper's own")


def _check_layer(layer: RecurrentModule) -> None:
    for name in ("zoneout", "state_dropout"):
        if getattr(layer, name):
            raise ValueError(f"{name} makes steps without a logarithm, so log_space cannot run it; leave one out")


def _check_input(layer: RecurrentModule, input: Series | PackedSequence, hx: Any, resets: Tensor | None) -> None:
    if resets is not None:
        raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
    traced = torch.compiler.is_compiling() or plain_torch_only() or is_proxy(input)
    if hx is not None and not traced and not all(_has_logarithm(h) for h in hx):
        raise ValueError("log_space needs hx None or positive (0 if it needs no gradient): it takes its logarithm")


def _has_logarithm(h: State) -> bool:
    """Positive; a 0 is left out of the sum, and its gradient with it."""
    return bool((h > 0).all() if h.requires_grad else (h >= 0).all())


def _direction(layer: RecurrentModule, given: Direction) -> SeriesResult:
    cell, mask = layer.cell, given.mask
    assert isinstance(cell, PositiveScanEquations)
    projected = layer._project(given.x, given.weights, add_bias=False)
    wide, bias = projected.to(accumulation_dtype(projected.dtype)), given.weights.get("bias_ih")
    gates = split_gates(len(cell.projections), wide if bias is None else wide + bias)
    log_decay, log_drive = cell.log_coefficients(*gates)
    if mask is not None:
        real = mask.unsqueeze(2)
        log_decay, log_drive = torch.where(real, log_decay, 0), torch.where(real, log_drive, LOG_ZERO)
    h, last = log_space_scan(log_decay, log_drive, given.state[0].to(log_decay.dtype), given.reverse)
    output = output_of(cell, (h,), gates)
    output = output if mask is None else zero_masked_steps(output, mask)
    return layer._project_output(output.to(projected.dtype), given.weights), (last,)


def _stream(layer: RecurrentModule, x: Step, hx: Any) -> StepResult | None:
    return None


LOG_SPACE = Runner(_backends, _path, _direction, _stream, check_layer=_check_layer, check_input=_check_input)
