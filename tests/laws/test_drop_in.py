"""All that code written for `torch.nn.LSTM` and `torch.nn.GRU` reaches for is there, and is what torch has."""

import copy
from functools import partial

import pytest
import torch
from covering import over
from layer_laws import (
    BATCH,
    CELL,
    CELLS,
    EQUATIONS,
    FEATURES,
    HIDDEN,
    PAIRS,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    every_cell,
    iterated,
    layer_of,
    packed_up,
    problem,
    refusal,
    run,
    series,
    states_of,
)
from refusals import refused
from tolerances import assert_equal_within
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads
from torch.nn.utils.rnn import pack_sequence

from gatedrnn import GRU, LSTM, MinGRU, registry

torchs_own = pytest.mark.parametrize("name", TORCH)
BOTH = (True, False)


def random_flags(x):
    return {"mask": torch.rand(x.shape[:-1]) < 0.7, "resets": torch.rand(x.shape[:-1]) < 0.3}


def alike(name, **arguments):
    """torch's layer and ours with the same weights."""
    theirs, ours = (kinds[name](FEATURES, HIDDEN, **arguments) for kinds in (TORCH, CELLS))
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def test_the_mode_is_torchs_for_torchs_cells_and_the_cells_name_for_others():
    torchs = {"lstm": "LSTM", "gru": "GRU", "gru-reset-before": "GRU"}
    assert {name: layer_of(name).mode for name in CELLS} == {n: torchs.get(n, EQUATIONS[n].name) for n in CELLS}


@pytest.mark.parametrize("name", ["lstm", "mingru"])
def test_weights_that_are_assigned_as_a_list_or_to_a_replica_are_used(name):
    layer, x = layer_of(name), series()
    doubled = copy.deepcopy(layer)
    nn.utils.vector_to_parameters(2 * nn.utils.parameters_to_vector(layer.parameters()), doubled.parameters())
    expected = doubled(x)[0]
    replica = layer._replicate_for_data_parallel()  # for another device
    for weight in layer._flat_weights_names:
        setattr(replica, weight, getattr(layer, weight) * 2)
    assert torch.equal(replica(x)[0], expected)
    layer._flat_weights = [nn.Parameter(2 * weight.detach()) for weight in layer._flat_weights]
    assert torch.equal(layer(x)[0], expected)
    layer._flat_weights = layer._flat_weights  # what code for torch does after it has replaced an attribute
    assert torch.equal(layer(x)[0], expected)
    plain, again = layer_of(name), copy.deepcopy(layer)
    plain._flat_weights = [weight * 1 for weight in layer._flat_weights]  # the parameters stay, and are not read
    assert torch.equal(plain(x)[0], expected)
    with torch.no_grad():
        assert torch.equal(plain.step(x[:, 0])[0], again.step(x[:, 0])[0])
    assert not any(torch.equal(*pair) for pair in zip(plain.parameters(), layer.parameters(), strict=True))


def test_an_attribute_that_is_gone_is_named_and_gradients_of_each_row_are_torchs():
    theirs, ours = alike("gru", batch_first=True)
    x = series(BATCH, STEPS, FEATURES, dtype=torch.float32)
    for layer in (theirs, ours):
        call_for_per_sample_grads(layer, batch_size=BATCH)(x)[0].sum().backward()
    for (name, own), right in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_equal_within(own.grad_sample, right.grad_sample, torch.float32, name, gradient=True)
    del ours.training
    refused(AttributeError, "'GRU' object has no attribute 'training'", ours, x)


@torchs_own
def test_sizes_of_states_are_torchs(name):
    for batch_first in BOTH:
        theirs, ours = alike(name, num_layers=2, bidirectional=True, batch_first=batch_first)
        packed = pack_sequence([series(5, FEATURES), series(2, FEATURES)])
        for x, sizes in ((series(4, 6, FEATURES), None), (packed.data, packed.batch_sizes)):
            assert ours.get_expected_hidden_size(x, sizes) == theirs.get_expected_hidden_size(x, sizes)
            if name in PAIRS:
                assert ours.get_expected_cell_size(x, sizes) == theirs.get_expected_cell_size(x, sizes)
            shape = theirs.get_expected_hidden_size(x, sizes)
            hidden = packed_up(tuple(torch.randn(shape) for _ in states_of(ours)))
            ours.check_forward_args(x.float(), hidden, sizes)
            wrong = packed_up(tuple(state[:1] for state in as_tuple(hidden)))
            expected, found = (refusal(each.check_forward_args, x.float(), wrong, sizes) for each in (theirs, ours))
            assert found == expected
            assert ours.permute_hidden(hidden, None) is hidden
            moved = (as_tuple(each.permute_hidden(hidden, torch.arange(shape[1]).flip(0))) for each in (theirs, ours))
            assert all(torch.equal(*pair) for pair in zip(*moved, strict=True))


@pytest.mark.parametrize("name", ["lstm-peephole", "para-lstm", "mingru", "slstm"])
def test_a_projected_state_has_the_size_that_the_layer_expects(name):
    layer, x = layer_of(name, num_layers=2, proj_size=2), series()
    found = [tuple(s.shape) for s in as_tuple(layer(x)[1])]
    sizes = [layer.get_expected_hidden_size(x, None), layer.get_expected_cell_size(x, None)]
    assert found[: len(sizes)] == sizes[: len(found)] and set(found[2:]) <= {sizes[1]}


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


TOOLS = {
    "parametrize": lambda module, name: parametrize.register_parametrization(module, name, Doubled()),
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "prune": lambda module, name: prune.l1_unstructured(module, name, 0.3),
    # These two delete the weight and set another before each call.
    "old weight_norm": nn.utils.weight_norm,
    "old spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@every_cell
def test_a_weight_that_a_tool_of_torch_computes_is_the_weight_that_is_used(name):
    plain, x = layer_of(name), series()
    for kind, tool in TOOLS.items():
        for weight in ["weight_ih_l0"] if kind.startswith("old") else plain._flat_weights_names:
            if "spectral" in kind and getattr(plain, weight).dim() == 1:
                continue
            layer = copy.deepcopy(plain)
            tool(layer, weight)
            layer.eval()(x)  # spectral_norm takes a step of its power iteration at every read in training
            expected = copy.deepcopy(plain)
            with torch.no_grad():
                getattr(expected, weight).copy_(getattr(layer, weight))
            output = layer(x)[0]
            torch.testing.assert_close(output, expected(x)[0], rtol=0, atol=0, msg=f"{kind} of {weight}")
            assert weight not in dict(layer.named_parameters())
            output.sum().backward()
            assert any(p.grad is not None for p in layer.parameters()), f"{kind} of {weight} gets no gradient"


@over(name=CELL._replace(fast=[*CELL.fast, "gru"]), batch_first=BOTH, bidirectional=BOTH, layers=(1, 2))
def test_an_output_can_be_viewed_wherever_torchs_can_and_strides_are_torchs(name, batch_first, bidirectional, layers):
    chosen = {"batch_first": batch_first, "bidirectional": bidirectional, "num_layers": layers}
    layer, theirs = layer_of(name, **chosen), TORCH.get(name, nn.LSTM)(FEATURES, HIDDEN, **chosen)
    for x in (series(4, 5, FEATURES), series(4, FEATURES), series(4, 5, FEATURES).transpose(0, 1)):
        flags = random_flags(x)
        expected = [theirs(x.float())[0], *as_tuple(theirs(x.float())[1])]
        if name in TORCH and x.is_contiguous():
            assert [y.stride() for y in expected] == [y.stride() for y in (layer(x)[0], *as_tuple(layer(x)[1]))]
        for given in ({}, *({key: value} for key, value in flags.items()), flags):
            output, last = layer(x, **given)
            assert output.is_contiguous() or not expected[0].is_contiguous()
            assert all(state.is_contiguous() for state in as_tuple(last))
            if not batch_first or name not in (*TORCH, "gru-reset-before"):
                output.view(-1, output.shape[-1])


@every_cell
def test_a_state_of_any_layout_is_the_state(name):
    layer = layer_of(name, num_layers=2)
    x, states, grads = problem(layer)

    def turned(state):
        return state.transpose(0, 2).contiguous().transpose(0, 2)

    def called(x, hx):
        return layer(x, packed_up(tuple(map(turned, as_tuple(hx)))))

    expected, other = run(layer, x, states, grads), (turned(grads[0]), tuple(map(turned, grads[1])))
    assert_same(run(layer, turned(x), tuple(map(turned, states)), other, called), expected)
    wide = tuple(torch.cat([s, s], dim=2)[..., : s.shape[2]] for s in states)
    assert torch.equal(layer(x, packed_up(wide))[0], expected["output"])


def patterns(layer, with_state):
    """Sets of input, states and weights that ask for a gradient: each alone, all but each, all."""
    names = ["input", *(["hx"] if with_state else []), *layer._flat_weights_names]
    yield set(names)
    for name in names:
        yield {name}
        yield set(names) - {name}


def second_derivatives(layer, way, wanted, x, states, grads):
    """Gradients of the first gradients' sines, for what asks for one; None for a state that is not given."""
    given = [] if states is None else [s.clone().requires_grad_("hx" in wanted) for s in states]
    x, weights = x.clone().requires_grad_("input" in wanted), dict(layer.named_parameters())
    for name, weight in weights.items():
        weight.requires_grad_(name in wanted)
    places = {"input": x} | weights | {f"hx{i}": s for i, s in enumerate(given)}
    places = {f"gradient of {k}": v for k, v in places.items() if v.requires_grad}
    output, last = way(x, packed_up(tuple(given)) if given else None)
    loss = (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(as_tuple(last), grads[1], strict=True))
    for _ in range(2):
        if not loss.requires_grad:  # hx stands for a learned initial state, or all is linear in what asks
            return {k: torch.zeros_like(v) for k, v in places.items()}
        found = torch.autograd.grad(loss, list(places.values()), create_graph=True, materialize_grads=True)
        loss = sum(g.sin().sum() for g in found)
    return dict(zip(places, found, strict=True))


@over(name=CELL, with_state={"hx=None": False, "hx": True}, flagged={"plain": False, "flags": True})
def test_second_derivatives_are_those_of_the_step_loop_whatever_is_frozen(name, with_state, flagged):
    """Steps that are differentiated are plain operations of torch."""
    layer = layer_of(name)
    x, states, grads = problem(layer, 2, 3, FEATURES)
    flags = random_flags(x) if flagged else {}
    given = states if with_state else None
    for wanted in patterns(layer, with_state):
        both = partial(layer, **flags), partial(iterated, layer, **flags)
        found, expected = (second_derivatives(layer, way, wanted, x, given, grads) for way in both)
        assert_same(found, expected)


@every_cell
def test_rows_of_a_jacobian_are_taken_all_at_once(name):
    layer, x = layer_of(name), series(1, 3, FEATURES).requires_grad_()
    places = {"input": x} | dict(layer.named_parameters())
    output, _ = layer(x)
    upward = torch.randn(4, *output.shape, dtype=x.dtype)
    asked = {"retain_graph": True, "materialize_grads": True}
    batched = torch.autograd.grad(output, list(places.values()), upward, is_grads_batched=True, **asked)
    for row in range(4):
        alone = torch.autograd.grad(output, list(places.values()), upward[row], **asked)
        for where, all_at_once, expected in zip(places, batched, alone, strict=True):
            assert_equal_within(all_at_once[row], expected, x.dtype, where, gradient=True)


@over(name=CELL, dtype=(torch.float32, torch.float64), struck=("input", "state", "weight"), flagged=(False, True))
def test_what_is_not_finite_spreads_as_in_the_step_loop(name, dtype, struck, flagged):
    spared = {"input": [1, 2], "state": [0, 2], "weight": []}[struck]
    # A masked step of a cell of blocks is a product with the identity matrix, where 0 times infinity is no number.
    judged = spared if flagged and EQUATIONS[name].block_size > 1 else [0, 1, 2]
    for value in (float("inf"), -float("inf"), float("nan")):
        layer = layer_of(name, dtype=dtype)
        x, states = series(dtype=dtype), states_of(layer, dtype=dtype)
        flags = random_flags(x) if flagged else {}
        place = {"input": x[0, 2, 1], "state": states[-1][0, 1, 2], "weight": layer.weight_ih_l0[1, 0]}[struck]
        with torch.no_grad():
            place.fill_(value)
        x.requires_grad_()
        whole, steps = (way(x, packed_up(states), **flags) for way in (layer, partial(iterated, layer)))
        found, expected = ((output, *(state[0] for state in as_tuple(last))) for output, last in (whole, steps))
        for got, want in zip(found, expected, strict=True):
            infinite = [torch.where(y.isfinite(), 0, y)[judged] for y in (got, want)]
            torch.testing.assert_close(*infinite, rtol=0, atol=0, equal_nan=True, msg=str(value))
        if spared:
            got, want = (torch.autograd.grad(y[0][spared].sum(), x)[0][spared] for y in (found, expected))
            assert_same({"gradient": got}, {"gradient": want}, dtype)


def test_a_misspelt_argument_or_option_is_told_from_the_one_that_was_meant():
    step = registry.CELLS["gru"].single_step
    for make, wrong, hint in (
        (LSTM, "bidirectonal", "; did you mean 'bidirectional'"), (GRU, "reset_afer", "; did you mean 'reset_after'"),
        (MinGRU, "activaton", "; did you mean 'activation'"), (step, "weight_int", "; did you mean 'weight_init'"),
        (MinGRU, "quux", "$"),
    ):  # fmt: skip
        said = f"{make.__name__} got an unexpected keyword argument '{wrong}'{hint}"
        refused(TypeError, said, make, 3, 4, **{wrong: 1})


X, X_ALONE = (STEPS, BATCH, FEATURES), (STEPS, FEATURES)
CALLS = {
    "features": ((STEPS, BATCH, FEATURES - 1), None), "four axes": ((1, *X), None), "one axis": ((FEATURES,), None),
    "no steps": ((0, BATCH, FEATURES), None), "no steps, unbatched": ((0, FEATURES), None), "dtype": (X, None),
    "state of another batch": (X, (1, BATCH + 1, HIDDEN)), "state of another size": (X, (1, BATCH, HIDDEN + 1)),
    "state of more layers": (X, (2, BATCH, HIDDEN)), "state without a batch": (X, (BATCH, HIDDEN)),
    "state with a batch": (X_ALONE, (1, 1, HIDDEN)),
}  # fmt: skip
ARGUMENTS = {
    "input_size": (0, -3, 3.0), "hidden_size": (0, -1, 4.0), "num_layers": (0,), "dropout": (1.5, -0.1, True),
    "bias": (1,), "batch_first": (1,),
}  # fmt: skip
PROJECTIONS = {"lstm": (-1, HIDDEN, HIDDEN + 1), "gru": (1, HIDDEN), "gru-reset-before": (1,)}


@pytest.mark.parametrize("wrong", CALLS)
def test_a_call_that_torch_refuses_is_refused_in_torchs_words(wrong):
    """It holds without gradients too, where a kernel is asked first."""
    shape, state = CALLS[wrong]
    x = torch.zeros(shape, dtype=torch.float64 if wrong == "dtype" else torch.float32)
    for name in (*TORCH, "mingru"):
        theirs, ours = TORCH.get(name, nn.GRU)(FEATURES, HIDDEN), CELLS[name](FEATURES, HIDDEN)
        hx = None if state is None else packed_up((torch.zeros(state),) * len(EQUATIONS[name].states))
        expected = refusal(theirs, x, hx)
        assert refusal(ours, x, hx) == expected
        with torch.no_grad():
            assert refusal(ours, x, hx) == expected
            if len(x) == STEPS:
                assert refusal(ours, x[:1], hx) == refusal(theirs, x[:1], hx)


@pytest.mark.parametrize("name", [*TORCH, "gru-reset-before", "mingru"])
def test_an_argument_that_torch_refuses_is_refused_in_torchs_words(name):
    ours, theirs = CELLS[name], TORCH.get(name, nn.GRU)
    for argument, wrong in [(k, value) for k, values in ARGUMENTS.items() for value in values]:
        arguments = {"input_size": FEATURES, "hidden_size": HIDDEN, "num_layers": 2, argument: wrong}
        assert refusal(ours, **arguments) == refusal(theirs, **arguments)
    for size in PROJECTIONS.get(name, ()):
        assert refusal(ours, FEATURES, HIDDEN, proj_size=size) == refusal(theirs, FEATURES, HIDDEN, proj_size=size)
    assert MinGRU(FEATURES, HIDDEN, proj_size=HIDDEN).output_size == HIDDEN  # a cell of ours takes one of any size
    assert refusal(MinGRU, FEATURES, HIDDEN, proj_size=-1) == refusal(nn.LSTM, FEATURES, HIDDEN, proj_size=-1)
