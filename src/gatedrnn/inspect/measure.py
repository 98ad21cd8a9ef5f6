"""Numbers about every layer of a model on given inputs."""

import math
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from gatedrnn.errors import DataError
from gatedrnn.inspect.inputs import Looked
from gatedrnn.inspect.trace import Traced, trace
from gatedrnn.inspect.tracking import SIGNED, tracking
from gatedrnn.layers import RecurrentLayer
from gatedrnn.shapes import Series

LOW, HIGH = 0.05, 0.95
"""A gate below the first or above the second is as good as shut or open."""
BINS = 40
DEAD = 1e-3
"""A channel whose output moves less than this part of what its layer's channels do (root mean square) is dead."""
LONGEST = 1e6
"""A half-life above this counts as for ever: a decay of 1, but for rounding."""
DRAWS = 8
"""Random directions through which a gradient is sent back: the mean of their squares is that of the whole Jacobian."""


def measure(looked: Looked) -> dict[str, Any]:
    """What there is to say about a model, as plain numbers: what report.html is drawn from.

    Raises:
        DataError: the model gives numbers that are not finite, or its gradient does.
    """
    model, layers, below = looked.model, list[dict[str, Any]](), 0
    modules = {name: module for name, module in model.named_modules() if isinstance(module, RecurrentLayer)}
    with torch.no_grad():
        read = _inputs_of(model, modules, looked.inputs)
    for name, module in modules.items():
        for traced in trace(module, read[name]):
            if not traced.output.isfinite().all():
                raise DataError(f"layer {below + traced.layer}: gives numbers that are not finite; nothing can be said")
            layers.append(_layer(f"layer {below + traced.layer}", module, traced))
        below += module.num_layers
    cells = dict.fromkeys(module.cell.name for module in modules.values())
    classes = {module.cell.name: asdict(tracking(module.cell)) for module in modules.values()}
    rows, steps = next(iter(looked.inputs.values())).shape[:2]
    return {
        "cells": list(cells),
        "classes": classes,
        "source": looked.source,
        "rows": rows,
        "steps": steps,
        "layers": layers,
        "depth": below,
        "reach": _reach(model, looked.inputs),
    }


def _inputs_of(
    model: torch.nn.Module, modules: dict[str, RecurrentLayer], inputs: dict[str, Tensor]
) -> dict[str, Series]:
    """What each recurrent layer reads."""
    read: dict[str, Series] = {}

    def note(name: str) -> Any:
        return lambda module, given: read.__setitem__(name, given[0])

    handles = [module.register_forward_pre_hook(note(name)) for name, module in modules.items()]
    model(**inputs)
    for handle in handles:
        handle.remove()
    return read


def _layer(name: str, module: RecurrentLayer, traced: Traced) -> dict[str, Any]:
    spread = traced.output.flatten(0, 1).std(0, correction=0)
    alive = spread > DEAD * spread.square().mean().sqrt()
    found: dict[str, Any] = {
        "name": f"{name}, backwards" if traced.reverse else name,
        "cell": module.cell.name,
        "channels": spread.numel(),
        "dead": int((~alive).sum()),
        "gates": {gate: _gate(values) for gate, values in traced.gates.items()},
        "half_life": None,
        "negative": None,
    }
    if traced.decay is not None:
        # Of a product of decays. None counts as below one half: after such a step half is gone, however small it is.
        rate = traced.decay.abs().double().clamp(0.5, 1).log().mean((0, 1))
        lives = torch.where(rate < math.log(0.5) / LONGEST, math.log(0.5) / rate, torch.inf)
        found["half_life"] = [None if life == torch.inf else life for life in lives.sort().values.tolist()]
        if tracking(module.cell) is SIGNED:
            found["negative"] = (traced.decay < 0).double().mean((0, 1)).sort().values.tolist()
    return found


def _gate(values: Series) -> dict[str, Any]:
    lowest = -1.0 if bool((values < 0).any()) else 0.0
    counts = torch.histc(values.float().clamp(lowest, 1.0), BINS, lowest, 1.0)  # rounding may lead beyond
    size = values.abs()
    return {
        "lowest": lowest,
        "share": (counts / counts.sum()).tolist(),
        "shut": float((size < LOW).double().mean()),
        "open": float((size > HIGH).double().mean()),
        "mean": float(values.double().mean()),
    }


def _reach(model: Any, inputs: dict[str, Tensor]) -> list[float]:
    """‖d h_T / d x_t‖ against T - t, the root mean square over rows: h the model's last states, x the embeddings."""
    embedded: list[Tensor] = []
    handle = model.model.embeddings.register_forward_hook(lambda module, given, out: embedded.append(out))
    h = model.model(**inputs).last_hidden_state
    handle.remove()
    random, total = torch.Generator().manual_seed(0), torch.zeros(h.shape[1], dtype=torch.float64)
    for draw in range(DRAWS):
        direction = torch.randn(h.shape[2], generator=random).to(h)
        (gradient,) = torch.autograd.grad(
            (h[:, -1] @ direction).sum(), embedded[0], retain_graph=draw < DRAWS - 1
        )  # rows do not read each other, so their sum gives each its own
        if not gradient.isfinite().all():
            raise DataError("the gradient is not finite; look at fewer --steps")
        total += gradient.double().square().sum(2).mean(0)
    norms: list[float] = (total / DRAWS).sqrt().flip(0).tolist()
    return norms
