"""Helpers of the laws of layers: small layers of every cell, random states, outputs and gradients by name."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from covering import over
from paths import axis
from tolerances import assert_equal_within
from torch import Tensor, nn

from gatedrnn import GRU, MGU, QRNN, RecurrentLayer, registry
from gatedrnn.equations import (
    ElementwiseLoopEquations,
    Equations,
    GappedEquations,
    InputGatedEquations,
    LoopEquations,
    ScanEquations,
)
from gatedrnn.kinds import kind_of
from gatedrnn.shapes import Flags, Hidden, StateTuple

BATCH, STEPS, FEATURES, HIDDEN = 3, 7, 3, 4
NAN, INF = float("nan"), float("inf")
TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}
UNPROJECTED = ("gru", "gru-reset-before")  # as nn.GRU, which refuses proj_size

Named = dict[str, Tensor]  # by their names
Returned = tuple[Tensor, Hidden]  # output and final states
Grads = tuple[Tensor, StateTuple]  # of both
Way = Callable[..., Returned]  # a layer, or what takes the place of calling it
Flag = Flags | None


class Signed(ScanEquations):
    """A cell in a few lines, with a decay of either sign and an output that is not its state."""

    name = "signed"
    projections = ("keep", "value")
    decay_gates = {"keep": 1}

    def coefficients(self, *projected: Tensor) -> tuple[Tensor, Tensor]:
        keep, value = projected
        return torch.tanh(keep), (1 - torch.tanh(keep).abs()) * value

    def output(self, state: StateTuple, projected: StateTuple) -> Tensor:
        return torch.sin(state[0])


class Own(RecurrentLayer):
    """The layer of `Signed`."""

    cell_class = Signed


CELLS: dict[str, Callable[..., RecurrentLayer]] = {name: cell.layer for name, cell in registry.CELLS.items()} | {
    "gru-reset-before": partial(GRU, reset_after=False),
    "mgu-keep": partial(MGU, keep=True),
    "qrnn": partial(QRNN, window=1),  # what a window of 2 adds has laws of its own, in test_window.py
    "own": Own,
}
LAYERS = {name: layer(FEATURES, HIDDEN) for name, layer in CELLS.items()}
EQUATIONS: dict[str, Equations] = {name: layer.cell for name, layer in LAYERS.items()}
STATES = {name: len(layer.state_names) for name, layer in LAYERS.items()}  # tensors of hx


def _of(family: type[Any]) -> tuple[str, ...]:
    return tuple(name for name, cell in EQUATIONS.items() if isinstance(cell, family))


PROJECTED_STATES = tuple(name for name, cell in EQUATIONS.items() if cell.projects_state)  # as in LSTMP
PAIRS = tuple(name for name, count in STATES.items() if count == 2)
JOINT = tuple(name for name, cell in EQUATIONS.items() if "zoneout" in kind_of(cell).facts(cell).refused)
SCAN_CELLS, INPUT_GATED_CELLS = _of(ScanEquations), _of(InputGatedEquations)
DIAGONAL_CELLS, LOOP_CELLS = _of(ElementwiseLoopEquations), _of(LoopEquations)
KERNEL_LOOP_CELLS = tuple(name for name in LOOP_CELLS if name not in _of(GappedEquations))  # those step in torch
CELL = axis(EQUATIONS, CELLS)  # the axis of a law that holds for every cell: `@over(name=CELL, …)`
SCAN_CELL = axis(EQUATIONS, SCAN_CELLS)
LOOP_CELL = axis(EQUATIONS, LOOP_CELLS)
every_cell, every_scan_cell = over(name=CELL), over(name=SCAN_CELL)


def own_weights(layer: RecurrentLayer) -> list[Tensor]:
    """The diagonal weights of a layer of one scan cell, as `coefficients` takes them."""
    return [getattr(layer, f"weight_{name}_l0").to(torch.promote_types(layer.weight_ih_l0.dtype, torch.float32))
            for name in layer.cell.diagonals]  # fmt: skip


def layer_of(name: str, *args: int, **kwargs: object) -> RecurrentLayer:
    """A small layer, float64 and batch first by default, with weights that take every gate out of its linear range."""
    layer = CELLS[name](*(args or (FEATURES, HIDDEN)), **{"batch_first": True, "dtype": torch.float64, **kwargs})
    for weight in layer.parameters():
        nn.init.normal_(weight)
    return layer


def as_many(name: str, state: Tensor | None) -> Hidden | None:
    """The tensor as often as the cell has states, in the form of `hx`; None for None."""
    return None if state is None else packed_up((state,) * STATES[name])


def series(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*(shape or (BATCH, STEPS, FEATURES)), dtype=dtype)


def states_of(layer: RecurrentLayer, batch: int = BATCH, dtype: torch.dtype = torch.float64) -> StateTuple:
    """A random hx as a tuple, one tensor or two."""
    leading = layer.num_layers * (1 + layer.bidirectional), batch
    return tuple(torch.randn(*leading, size, dtype=dtype) for size in layer.state_sizes())


def begun_anew(weights: Named, states: StateTuple) -> StateTuple:
    """The states after a reset, by the parameters of one layer and direction without its suffix."""
    learned = weights.get("initial_state", torch.zeros(()))
    return tuple(torch.zeros_like(s) + learned for s in states)


def iterated(layer: RecurrentLayer, x: Tensor, hx: Hidden | None, mask: Flag = None, resets: Flag = None) -> Returned:
    """A layer of one direction, one step after another: what the whole sequence means, with its mask and resets."""
    outputs, hx = list[Tensor](), layer.initial_state(len(x)) if hx is None else hx
    for t, x_t in enumerate(x.unbind(1)):
        cut = None if resets is None else resets[:, t]
        output, after = layer.step(x_t, hx, resets=cut, wide_state=True)
        if mask is not None:
            real, before = mask[:, t, None], as_tuple(hx)
            if cut is not None:
                anew = begun_anew(layer.read_weights(0, ""), before)
                before = tuple(torch.where(cut[:, None], a, s) for a, s in zip(anew, before, strict=True))
            after = packed_up(tuple(torch.where(real, a, b) for a, b in zip(as_tuple(after), before, strict=True)))
            output = torch.where(real, output, 0)
        outputs.append(output)
        hx = after
    return torch.stack(outputs, dim=1), hx


def refusal(make: Callable[..., object], *args: object, **kwargs: object) -> tuple[type[Exception], str]:
    """The class and the words of an error; a MinGRU calls itself by its name where nn.GRU does, and is named alike."""
    with pytest.raises((ValueError, RuntimeError, TypeError)) as caught:
        make(*args, **kwargs)
    return caught.type, str(caught.value).removeprefix("Min")


def projection(name: str, size: int) -> dict[str, int]:
    """The argument proj_size, where the cell takes it."""
    return {} if name in UNPROJECTED else {"proj_size": size}


def packed_up(states: StateTuple) -> Hidden:
    return states if len(states) > 1 else states[0]


def as_tuple(state: Hidden) -> StateTuple:
    return state if isinstance(state, tuple) else (state,)


def flags_of(names: Iterable[str], batch: int = BATCH, steps: int = STEPS) -> Named:
    """Random flags of these names."""
    given = {"mask": torch.rand(batch, steps) < 0.7, "resets": torch.rand(batch, steps) < 0.3}
    return {name: given[name] for name in names}


def upstream(layer: RecurrentLayer, x: Tensor, states: StateTuple) -> Grads:
    """Random gradients for an output of every step of x, and for every final state."""
    return torch.randn(*x.shape[:-1], layer.output_size, dtype=x.dtype), tuple(torch.randn_like(s) for s in states)


def problem(layer: RecurrentLayer, *shape: int) -> tuple[Tensor, StateTuple, Grads]:
    """A random input, hx as a tuple, and gradients for what the layer returns of them."""
    x = series(*shape, dtype=layer.weight_ih_l0.dtype)
    states = states_of(layer, len(x), x.dtype)
    return x, states, upstream(layer, x, states)


def run(layer: nn.Module, x: Tensor, states: StateTuple, grads: Grads, way: Way | None = None, **flags: Flags) -> Named:
    """Output, final states, and all gradients by name; `way(x, hx)` takes the place of calling the layer."""
    x, states = x.detach().requires_grad_(), tuple(s.detach().requires_grad_() for s in states)
    output, last = (way or partial(layer, **flags))(x, packed_up(states))
    wanted = {"input": x} | {f"hx{i}": s for i, s in enumerate(states)} | dict(layer.named_parameters())
    loss = (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(as_tuple(last), grads[1], strict=True))
    found = torch.autograd.grad(loss, list(wanted.values()), materialize_grads=True)
    return results(output, last) | {f"gradient of {k}": g for k, g in zip(wanted, found, strict=True)}


def results(output: Tensor, state: Hidden) -> Named:
    """The results of a layer by the names that `assert_same` compares."""
    return {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(state))}


def assert_same_run(found: Returned, expected: Returned, dtype: torch.dtype | str = torch.float64) -> None:
    """Assert that two layers return the same."""
    assert_same(results(*found), results(*expected), dtype)


def assert_same(actual: Named, expected: Named, dtype: torch.dtype | str = torch.float64) -> None:
    assert actual.keys() == expected.keys()
    for what, value in expected.items():
        assert_equal_within(actual[what], value, dtype, what, gradient=what.startswith("gradient"))
