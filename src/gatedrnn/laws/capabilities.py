"""Abilities of a subject: whether it computes in float64, where its rows lie, what it can be asked."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from gatedrnn.laws.case import as_results, worst_of
from gatedrnn.laws.subject import Subject, is_plain

_PERTURBATION = 1e-9
"""A change of all parameters that float32 does not see: where outputs follow it in proportion, none is cast inside."""


def in_double(subject: Subject) -> Subject:
    """Return the subject in float64 where all of it computes in float64; else as it is."""
    if subject.dtype == torch.float64 and subject.source is not None:
        return replace(subject, source=subject.source._replace(double=True))
    if not isinstance(subject.module, nn.Module) or subject.dtype != torch.float32:
        return subject
    try:
        if subject.source is None:
            double = replace(subject, module=deepcopy(subject.module).double())
        else:
            source = subject.source._replace(double=True)
            double = replace(subject, module=source.make(), source=source)
        return double if _computes_in_float64(double) else subject
    except Exception:  # what cannot be copied, or run in float64, is judged in float32
        return subject


@torch.no_grad()
def _computes_in_float64(subject: Subject) -> bool:
    """Whether outputs change in proportion to a change of the parameters that float32 does not see."""
    x, run, outputs = subject.draw(2, 4, 0), subject.run_of(), []
    parameters = [p for _, p in subject.parameters() if p.is_floating_point()]
    generator = torch.Generator().manual_seed(0)
    perturbations = [_PERTURBATION * torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
    originals = [p.clone() for p in parameters]
    for _ in range(3):
        outputs.append(run(x.clone())[0].double())
        for parameter, perturbation in zip(parameters, perturbations, strict=True):
            parameter.add_(perturbation)
    for parameter, original in zip(parameters, originals, strict=True):
        parameter.copy_(original)
    once, twice = outputs[1] - outputs[0], outputs[2] - outputs[0]
    return bool(once.abs().max() > 0) and bool((twice - 2 * once).abs().max() < 1e-3 * once.abs().max())


@torch.no_grad()
def batch_axis(subject: Subject) -> int | None:
    """Return the axis of the rows in a plain state that begins at zeros; None where there is no such axis."""
    if "state" not in subject.abilities() or subject.both_directions or "opaque" in subject.abilities():
        return None
    run, x = subject.run_of(), subject.draw(2, 3, 0)
    try:
        pairs = zip(*(tree_leaves(run(subject.draw(batch, 2, 0))[1]) for batch in (2, 3)), strict=True)
        # Of the axes of two batches, that of the rows is the one whose size changed from 2 to 3.
        axes = {[*zip(two.shape, three.shape, strict=True)].index((2, 3)) for two, three in pairs}
        from_zeros = run(x, tree_map(torch.zeros_like, run(x)[1]))
        holds = worst_of(as_results(from_zeros), as_results(run(x)), subject.dtype).holds
    except Exception:  # its own laws say what is wrong
        return None
    return axes.pop() if holds and len(axes) == 1 else None


def abilities_of(subject: Subject, axis: int | None) -> set[str]:
    """Return what a subject can be asked, in the words that laws need."""
    module, has = subject.module, {*subject.abilities(), *subject.others}
    facts = {
        "parameters": bool(subject.parameters()), "one direction": not subject.both_directions,
        "copies": _works(lambda: deepcopy(module)), "pickle": _works(lambda: pickle.dumps(module)),
        "no dropout": not _differs_in_training(subject), "axis": axis is not None,
        "plain state": "state" in has and "opaque" not in has and _returns_plain_state(subject),
    }  # fmt: skip
    return (has | {word for word, holds in facts.items() if holds}) - ({"state"} if subject.both_directions else set())


def _works(make: Callable[[], object]) -> bool:
    try:
        make()
    except Exception:
        return False
    return True


@torch.no_grad()
def _returns_plain_state(subject: Subject) -> bool:
    """Whether the state that a call returns is made of tensors."""
    try:
        return is_plain(subject.run_of()(subject.draw(2, 2, 0))[1])
    except Exception:  # its own laws say what is wrong
        return False


def _differs_in_training(subject: Subject) -> bool:
    """Whether a module drops out or normalises over the batch in training mode."""
    parts = subject.module.modules() if isinstance(subject.module, nn.Module) else ()
    # Batch statistics are the same in two calls, so that the comparison below misses them.
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in parts):
        return True
    try:
        with torch.no_grad():
            # Many rows of few steps: a step may take long.
            run, x = subject.run_of(deepcopy(subject.module).train()), subject.draw(64, 8, 0)
            return not torch.equal(run(x.clone())[0], run(x.clone())[0])
    except Exception:  # its own law says what is wrong
        return False
