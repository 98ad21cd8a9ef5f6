"""Single-step cells: LSTMCell and GRUCell are `torch.nn`'s own, and a loop over any cell is its layer."""

import re
from functools import partial
from itertools import product

import pytest
import torch
from covering import over
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    STEPS,
    as_tuple,
    assert_same,
    assert_same_run,
    begun_anew,
    packed_up,
    refusal,
    run,
    series,
)
from paths import axis
from refusals import refused
from small_cells import CELLS as EQUATIONS
from small_cells import VARIANTS
from torch import nn
from torch.nn.utils import parametrizations, prune

from gatedrnn import registry

CELLS = {name: cell.single_step for name, cell in registry.CELLS.items()}
TORCH = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}
OPTIONS = {variant: options for variant, (_, options) in VARIANTS.items()} | {"qrnn": {"window": 1}}
"""The law of each cell; what a window of 2 adds is in test_window.py."""
VARIANT = axis(EQUATIONS | {"qrnn": registry.CELLS["qrnn"].equations(window=1)}, OPTIONS)


def cell_of(variant, dtype=torch.float64, **kwargs):
    """A cell with weights large enough for every gate to leave its linear range."""
    name, _ = VARIANTS[variant]
    cell = CELLS[name](FEATURES, HIDDEN, dtype=dtype, **OPTIONS[variant], **kwargs)
    for weight in cell.parameters():
        nn.init.normal_(weight)
    return cell


def layer_of(variant, cell):
    """The layer with the weights of the cell."""
    arguments = {"batch_first": True, "bias": cell.bias, "dtype": cell.weight_ih.dtype, **OPTIONS[variant]}
    layer = cell.layer_class(FEATURES, HIDDEN, **arguments)
    layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
    return layer


def states_for(cell, *leading, dtype=torch.float64):
    return tuple(torch.randn(*leading, HIDDEN, dtype=dtype) for _ in cell.cell.states)


def one_step(cell, x, hx=None):
    """The arguments as `run` wants them: h in the place of the output."""
    state = cell(x, hx)
    return as_tuple(state)[0], state


def upstream(x, states):
    return torch.randn(*x.shape[:-1], HIDDEN, dtype=x.dtype), tuple(torch.randn_like(s) for s in states)


@pytest.mark.parametrize("name", TORCH)
def test_the_same_seed_or_a_state_dict_gives_torchs_numbers_and_gradients(name):
    for bias, dtype, batched in product((True, False), (torch.float32, torch.float64), (True, False)):
        pair = []
        for kind in (TORCH[name], CELLS[name]):
            torch.manual_seed(3)
            pair.append(kind(FEATURES, HIDDEN, bias, dtype=dtype))
        theirs, ours = pair
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert all(torch.equal(*numbers) for numbers in zip(ours.parameters(), theirs.parameters(), strict=True))
        ours.reset_parameters()
        assert not torch.equal(ours.weight_ih, theirs.weight_ih)
        theirs.load_state_dict(ours.state_dict())
        leading = (BATCH,) if batched else ()
        x, states = series(*leading, FEATURES, dtype=dtype), states_for(ours, *leading, dtype=dtype)
        grads = upstream(x, states)
        expected = run(theirs, x, states, grads, partial(one_step, theirs))
        assert_same(run(ours, x, states, grads, partial(one_step, ours)), expected, dtype)
        assert {s.dtype for s in as_tuple(ours(x))} == {dtype}
        assert_same_run(one_step(ours, x), one_step(theirs, x), dtype)


SHAPES = {
    "too many features": ((BATCH, FEATURES + 1), (BATCH, HIDDEN)), "the same unbatched": ((FEATURES + 1,), (HIDDEN,)),
    "an input of three axes": ((BATCH, STEPS, FEATURES), (BATCH, HIDDEN)), "of no axes": ((), (BATCH, HIDDEN)),
    "another hidden size": ((BATCH, FEATURES), (BATCH, HIDDEN + 1)), "it unbatched": ((FEATURES,), (HIDDEN + 1,)),
    "another batch": ((BATCH, FEATURES), (BATCH + 1, HIDDEN)), "one for a state alone": ((FEATURES,), (1, HIDDEN)),
    "a state of three axes": ((BATCH, FEATURES), (1, BATCH, HIDDEN)), "a state of none": ((BATCH, FEATURES), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", [*TORCH, "mingru"])
def test_what_torch_refuses_is_refused_in_torchs_words_and_another_dtype_with_its_class_of_error(name):
    """Torch says of another dtype what two matrices of its product are."""
    theirs, ours = TORCH.get(name, nn.GRUCell)(FEATURES, HIDDEN), CELLS[name](FEATURES, HIDDEN)
    for what, (x, state) in SHAPES.items():
        hx = packed_up((torch.zeros(state),) * len(ours.cell.states))
        with torch.set_grad_enabled(name != "mingru"):  # without them a kernel is asked first
            assert refusal(ours, torch.zeros(x), hx) == refusal(theirs, torch.zeros(x), hx), what
    x, hx = torch.zeros(BATCH, FEATURES), torch.zeros(BATCH, HIDDEN)
    for given, states, said in (
        (x.double(), hx, "input dtype"), (x, hx.double(), r"hx must be torch\.float32"),
        (x.double(), hx.double(), "input dtype"),
    ):  # fmt: skip
        states = packed_up((states,) * len(ours.cell.states))
        kind, words = refusal(ours, given, states)
        assert kind is refusal(theirs, given, states)[0] and re.search(said, words)
    for of_input, of_state in ((1, 0), (0, 1)):  # a wrong size and a wrong dtype at once: the size comes first
        both = torch.zeros(BATCH, FEATURES + of_input).double()
        states = packed_up((torch.zeros(BATCH, HIDDEN + of_state).double(),) * len(ours.cell.states))
        assert refusal(ours, both, states) == refusal(theirs, both, states)


def test_options_numbers_of_states_and_sizes_are_checked():
    for name, count in {"lstm": "2 tensors", "mingru": "1 tensor"}.items():
        for sizes in ((-1, HIDDEN), (FEATURES, -1)):
            refused(ValueError, "must be at least 0, got -1", CELLS[name], *sizes)
        for sizes in ((0, HIDDEN), (FEATURES, 0)):  # which torch's cells take, and its layers do not
            theirs, ours = (
                cell(*sizes)(torch.zeros(BATCH, sizes[0])) for cell in (TORCH.get(name, nn.GRUCell), CELLS[name])
            )
            assert [s.shape for s in as_tuple(ours)] == [s.shape for s in as_tuple(theirs)]
        for unknown in ("weight_init", "bias_init"):
            refused(ValueError, f"{unknown} must be one of", CELLS[name], FEATURES, HIDDEN, **{unknown: "he"})
        cell, x = cell_of(name), series(BATCH, FEATURES)
        refused(TypeError, f"hx must hold {count}, got 3", cell, x, states_for(cell, BATCH)[:1] * 3)


@over(variant=VARIANT, bias=(True, False), batched=(True, False))
def test_a_loop_over_the_cell_is_the_layer(variant, bias, batched):
    cell = cell_of(variant, bias=bias)
    layer = layer_of(variant, cell)
    leading = (BATCH,) if batched else ()
    x, states = series(*leading, STEPS, FEATURES), states_for(cell, *leading)
    grads = upstream(x, states)

    def loop(x, hx):
        outputs = []
        for x_t in x.unbind(-2):
            hx = cell(x_t, hx)
            outputs.append(cell.output(hx, x_t))
        return torch.stack(outputs, dim=-2), hx

    def whole(x, hx):
        output, last = layer(x, packed_up(tuple(s.unsqueeze(0) for s in as_tuple(hx))))
        return output, packed_up(tuple(s.squeeze(0) for s in as_tuple(last)))

    results = run(cell, x, states, grads, loop), run(layer, x, states, grads, whole)
    assert_same(results[0], {k.removesuffix("_l0"): v for k, v in results[1].items()})
    anew, x_t = packed_up(begun_anew(dict(cell.named_parameters()), states)), x.select(-2, 0)
    assert all(torch.equal(*pair) for pair in zip(as_tuple(cell(x_t)), as_tuple(cell(x_t, anew)), strict=True))


@over(variant=VARIANT)
def test_a_bfloat16_cell_has_the_state_of_the_layers_step(variant):
    cell = cell_of(variant, torch.bfloat16)
    layer = layer_of(variant, cell)
    x = series(BATCH, FEATURES, dtype=torch.bfloat16)
    hx = states_for(cell, BATCH, dtype=torch.bfloat16)
    _, expected = layer.step(x, packed_up(tuple(s.unsqueeze(0) for s in hx)))
    for got, want in zip(as_tuple(cell(x, packed_up(hx))), as_tuple(expected), strict=True):
        assert got.dtype == want.dtype == torch.bfloat16 and torch.equal(got, want[0])
    assert {s.dtype for s in as_tuple(cell(x, packed_up(hx), wide_state=True))} == {torch.float32}


SPREAD = {"weight_init": "xavier", "bias_init": "time-scales", "longest_time_scale": 9}


@pytest.mark.parametrize("name", ["gru", "lstm-peephole", "mingru", "block-orthogonal"])
def test_a_cell_draws_what_its_layer_draws_at_the_beginning(name):
    for asked in ({}, {"weight_init": "orthogonal", "bias_init": "forget-one"}, SPREAD):
        torch.manual_seed(3)
        layer = registry.CELLS[name].layer(FEATURES, HIDDEN, **asked)
        torch.manual_seed(3)
        cell = CELLS[name](FEATURES, HIDDEN, **asked)
        assert [f"{k}_l0" for k in cell.state_dict()] == list(layer.state_dict())
        assert all(torch.equal(*pair) for pair in zip(cell.parameters(), layer.parameters(), strict=True))


def test_the_repr_names_sizes_and_options():
    for bias in (True, False):
        assert repr(CELLS["lstm"](3, 4, bias)) == repr(nn.LSTMCell(3, 4, bias))
    assert repr(CELLS["mgu"](3, 4, keep=True)) == "MGUCell(3, 4, keep=True)"
    assert repr(CELLS["mingru"](3, 4, False)) == "MinGRUCell(3, 4, bias=False)"


CHANGES = {
    "pruned": lambda cell: prune.random_unstructured(cell, "bias_hh", 0.5),
    "shared": lambda cell: setattr(cell, "bias_hh", cell.bias_ih),
    "parametrised": lambda cell: parametrizations.weight_norm(cell, "weight_hh"),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_parameter_that_is_replaced_is_still_read(name, change):
    theirs, ours = TORCH[name](3, 4), CELLS[name](3, 4)
    ours.load_state_dict(theirs.state_dict())
    outputs = []
    for cell in (theirs, ours):
        torch.manual_seed(2)
        change(cell)
        outputs.append(one_step(cell, torch.arange(6.0).view(2, 3)))
    assert_same_run(*outputs, torch.float32)
