"""Single-step cells: LSTMCell and GRUCell are `torch.nn`'s own, and a loop over any cell is its layer."""

import copy
import pickle
from functools import partial
from itertools import product

import pytest
import torch
from layer_laws import (
    BATCH,
    FEATURES,
    HIDDEN,
    STEPS,
    as_tuple,
    assert_same,
    begun_anew,
    packed_up,
    run,
    series,
)
from tolerances import assert_equal_within
from torch import nn
from torch.nn.utils import parametrizations, prune

from gatedrnn import registry

CELLS = {name: cell.single_step for name, cell in registry.CELLS.items()}
TORCH = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}
VARIANTS = {name: (name, {}) for name in CELLS} | {
    "gru-reset-before": ("gru", {"reset_after": False}),
    "mgu-keep": ("mgu", {"keep": True}),
    "minlstm-identity": ("minlstm", {"activation": "identity"}),
    "mingru-identity": ("mingru", {"activation": "identity"}),
    "qrnn": ("qrnn", {"window": 1}),  # what a window of 2 adds: test_window.py
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
torchs_own = pytest.mark.parametrize("name", TORCH)


def cell_of(variant, dtype=torch.float64, **kwargs):
    """A cell with weights large enough for every gate to leave its linear range."""
    name, options = VARIANTS[variant]
    cell = CELLS[name](FEATURES, HIDDEN, dtype=dtype, **options, **kwargs)
    for weight in cell.parameters():
        nn.init.normal_(weight)
    return cell


def layer_of(variant, cell, **kwargs):
    """The layer with the weights of the cell."""
    name, options = VARIANTS[variant]
    weights = {f"{k}_l0": v for k, v in cell.state_dict().items()}
    layer = registry.CELLS[name].layer(
        FEATURES, HIDDEN, batch_first=True, bias=cell.bias, dtype=cell.weight_ih.dtype, **options, **kwargs
    )
    layer.load_state_dict(weights)
    return layer


def states_for(cell, *leading, dtype=torch.float64):
    return tuple(torch.randn(*leading, HIDDEN, dtype=dtype) for _ in cell.cell.states)


def one_step(cell, x, hx):
    """As `run` wants it: h in the place of the output."""
    state = cell(x, hx)
    return as_tuple(state)[0], state


def upstream(x, states):
    return torch.randn(*x.shape[:-1], HIDDEN, dtype=x.dtype), tuple(torch.randn_like(s) for s in states)


def test_every_layer_has_its_cell():
    assert all(CELLS.values())
    for name, cell in CELLS.items():
        layer = registry.CELLS[name].layer
        assert cell.layer_class is layer and cell.__name__ == f"{layer.__name__}Cell"


@torchs_own
@pytest.mark.parametrize("bias", [True, False])
def test_a_state_dict_of_torch_gives_torchs_numbers_and_gradients_and_is_saved_again(name, bias):
    for dtype, batched in product((torch.float32, torch.float64), (True, False)):
        theirs = TORCH[name](FEATURES, HIDDEN, bias=bias, dtype=dtype)
        ours = CELLS[name](FEATURES, HIDDEN, bias=bias, dtype=dtype)
        ours.load_state_dict(theirs.state_dict())
        back = TORCH[name](FEATURES, HIDDEN, bias=bias, dtype=dtype)
        back.load_state_dict(ours.state_dict())
        leading = (BATCH,) if batched else ()
        x, states = series(*leading, FEATURES, dtype=dtype), states_for(ours, *leading, dtype=dtype)
        grads = upstream(x, states)
        expected = run(theirs, x, states, grads, partial(one_step, theirs))
        assert_same(run(ours, x, states, grads, partial(one_step, ours)), expected, dtype)
        assert_same(run(back, x, states, grads, partial(one_step, back)), expected, dtype)
        for got, want in zip(as_tuple(ours(x)), as_tuple(theirs(x)), strict=True):
            assert got.dtype == dtype
            assert_equal_within(got, want, dtype, "state without hx")


@torchs_own
@pytest.mark.parametrize("bias", [True, False])
def test_the_same_seed_draws_the_same_parameters_in_the_same_order(name, bias):
    torch.manual_seed(3)
    theirs = TORCH[name](FEATURES, HIDDEN, bias)
    torch.manual_seed(3)
    ours = CELLS[name](FEATURES, HIDDEN, bias)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for (key, mine), (other, number) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert key == other and torch.equal(mine, number)
    ours.reset_parameters(), theirs.reset_parameters()
    assert not torch.equal(ours.weight_ih, theirs.weight_ih)


NUMBERS, STATE = torch.zeros(BATCH, FEATURES), torch.zeros(BATCH, HIDDEN)
WRONG = {
    "too many features": (torch.zeros(BATCH, FEATURES + 1), STATE, "input has inconsistent input_size: got"),
    "too many features, unbatched": (
        torch.zeros(FEATURES + 1),
        torch.zeros(HIDDEN),
        "input has inconsistent input_size: got",
    ),
    "an input of three axes": (torch.zeros(BATCH, STEPS, FEATURES), STATE, "input to be 1D or 2D, got 3D"),
    "an input of no axes": (torch.zeros(()), STATE, "input to be 1D or 2D, got 0D"),
    "an input of another dtype": (NUMBERS.double(), STATE, "dtype"),
    "a state of another dtype": (NUMBERS, STATE.double(), "hx must be torch.float32"),
    "another hidden size": (NUMBERS, torch.zeros(BATCH, HIDDEN + 1), "hidden0 has inconsistent hidden_size: got"),
    "another hidden size, unbatched": (
        torch.zeros(FEATURES),
        torch.zeros(HIDDEN + 1),
        "hidden0 has inconsistent hidden_size: got",
    ),
    "another batch": (NUMBERS, torch.zeros(BATCH + 1, HIDDEN), "batch size .* doesn't match hidden0 batch size"),
    "a batch for a state alone": (
        torch.zeros(FEATURES),
        torch.zeros(1, HIDDEN),
        "hidden0 has inconsistent hidden_size: got",
    ),
    "a state of three axes": (NUMBERS, torch.zeros(1, BATCH, HIDDEN), "1D or 2D"),
    "a state of no axes": (NUMBERS, torch.zeros(()), "1D or 2D"),
}


@torchs_own
@pytest.mark.parametrize("wrong", WRONG)
def test_what_torch_refuses_is_refused_with_the_same_class_of_error(name, wrong):
    theirs, ours = TORCH[name](FEATURES, HIDDEN), CELLS[name](FEATURES, HIDDEN)
    x, state, _ = WRONG[wrong]
    hx = packed_up((state,) * len(ours.cell.states))
    with pytest.raises(Exception) as refusal:
        theirs(x, hx)
    with pytest.raises(refusal.type) as found:
        ours(x, hx)
    if "dtype" not in wrong:  # of which torch says what two matrices of its product are
        assert str(found.value) == str(refusal.value)


@every_variant
@pytest.mark.parametrize("wrong", WRONG)
def test_every_cell_refuses_what_torchs_do(variant, wrong):
    cell = cell_of(variant, torch.float32)
    x, state, message = WRONG[wrong]
    with pytest.raises((ValueError, RuntimeError), match=message):
        cell(x, packed_up((state,) * len(cell.cell.states)))


@every_variant
def test_options_numbers_of_states_and_sizes_are_checked(variant):
    name, _ = VARIANTS[variant]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        CELLS[name](FEATURES, HIDDEN, colour=1)
    for sizes in ((0, HIDDEN), (FEATURES, 0)):
        with pytest.raises(ValueError, match="must be greater than zero"):
            CELLS[name](*sizes)
    cell = cell_of(variant)
    with pytest.raises(TypeError, match=r"hx must hold . tensors?, got 3"):
        cell(series(BATCH, FEATURES), states_for(cell, BATCH)[:1] * 3)


@every_variant
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batched", [True, False])
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
    anew = packed_up(begun_anew(dict(cell.named_parameters()), states))
    x_t = x.select(-2, 0)
    for got, want in zip(as_tuple(cell(x_t)), as_tuple(cell(x_t, anew)), strict=True):
        assert torch.equal(got, want)


@every_variant
def test_a_bfloat16_cell_has_the_state_of_the_layers_step(variant):
    cell = cell_of(variant, torch.bfloat16)
    layer = layer_of(variant, cell)
    x = series(BATCH, FEATURES, dtype=torch.bfloat16)
    hx = states_for(cell, BATCH, dtype=torch.bfloat16)
    _, expected = layer.step(x, packed_up(tuple(s.unsqueeze(0) for s in hx)))
    for got, want in zip(as_tuple(cell(x, packed_up(hx))), as_tuple(expected), strict=True):
        assert got.dtype == want.dtype == (torch.bfloat16 if cell.cell.recurrent_bias else torch.float32)
        assert torch.equal(got, want[0])


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"weight_init": "orthogonal", "bias_init": "forget-one"},
        {"weight_init": "xavier", "bias_init": "time-scales", "longest_time_scale": 9},
    ],
    ids=str,
)
@every_variant
def test_a_cell_draws_the_initial_values_of_its_layer(variant, asked):
    name, options = VARIANTS[variant]
    chosen = options | asked
    torch.manual_seed(3)
    layer = registry.CELLS[name].layer(FEATURES, HIDDEN, **chosen)
    torch.manual_seed(3)
    cell = CELLS[name](FEATURES, HIDDEN, **chosen)
    assert [f"{k}_l0" for k in cell.state_dict()] == list(layer.state_dict())
    for mine, number in zip(cell.parameters(), layer.parameters(), strict=True):
        assert torch.equal(mine, number)
    for unknown in ("weight_init", "bias_init"):
        with pytest.raises(ValueError, match=f"{unknown} must be one of"):
            CELLS[name](FEATURES, HIDDEN, **{unknown: "he"})


@every_variant
def test_copies_keep_the_numbers_and_go_their_own_way(variant):
    cell = cell_of(variant)
    x, hx = series(BATCH, FEATURES), packed_up(states_for(cell, BATCH))
    expected = as_tuple(cell(x, hx))
    for twin in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        assert all(torch.equal(a, b) for a, b in zip(as_tuple(twin(x, hx)), expected, strict=True))
        assert repr(twin) == repr(cell)
        nn.init.zeros_(twin.weight_ih)
        assert not any(torch.equal(a, b) for a, b in zip(as_tuple(twin(x, hx)), expected, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(as_tuple(cell(x, hx)), expected, strict=True))


def test_the_repr_names_sizes_and_options():
    assert repr(CELLS["lstm"](3, 4)) == repr(nn.LSTMCell(3, 4))
    assert repr(CELLS["lstm"](3, 4, bias=False)) == repr(nn.LSTMCell(3, 4, bias=False))
    assert repr(CELLS["mgu"](3, 4, keep=True)) == "MGUCell(3, 4, keep=True)"
    assert repr(CELLS["mingru"](3, 4, False)) == "MinGRUCell(3, 4, bias=False)"


@pytest.mark.parametrize("theirs, ours", [(nn.LSTMCell, CELLS["lstm"]), (nn.GRUCell, CELLS["gru"])])
def test_a_parameter_that_is_shared_pruned_or_parametrised_is_still_read(theirs, ours):
    for change in (
        lambda cell: prune.random_unstructured(cell, "bias_hh", 0.5),
        lambda cell: setattr(cell, "bias_hh", cell.bias_ih),
        lambda cell: parametrizations.weight_norm(cell, "weight_hh"),
    ):
        pair = theirs(3, 4), ours(3, 4)
        pair[1].load_state_dict(pair[0].state_dict())
        outputs = []
        for cell in pair:
            torch.manual_seed(2)
            change(cell)
            outputs.append(cell(torch.arange(6.0).view(2, 3)))
        for got, want in zip(*(o if isinstance(o, tuple) else (o,) for o in outputs), strict=True):
            assert_equal_within(want, got, torch.float32, "state")
