"""What code written for `torch.nn.LSTM` and `torch.nn.GRU` reaches for is there, and is what torch has."""

import copy
import io
import pickle
from functools import partial
from itertools import product

import pytest
import torch
from layer_laws import (
    BATCH,
    CELLS,
    FEATURES,
    HIDDEN,
    PAIRS,
    SMOOTH,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    every_cell,
    layer_of,
    packed_up,
    run,
    series,
    states_of,
    upstream,
)
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.nn.utils.rnn import pack_sequence

from gatedrnn import GRU, LSTM, MinGRU, registry

torchs_own = pytest.mark.parametrize("name", TORCH)
SHAPES = [{"num_layers": 2, "bidirectional": True}, {"bias": False}, {"num_layers": 3}]
FORMS = list(product((True, False), (True, False), (1, 2)))  # batch_first, bidirectional, num_layers


def alike(name, **arguments):
    """torch's layer and ours with the same weights."""
    theirs = TORCH[name](FEATURES, HIDDEN, **arguments)
    ours = CELLS[name](FEATURES, HIDDEN, **arguments)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@every_cell
def test_every_layer_is_an_rnn_base_and_every_cell_an_rnn_cell_base(name):
    assert isinstance(layer_of(name), nn.RNNBase)
    if name in registry.CELLS:
        cell = registry.CELLS[name].single_step(FEATURES, HIDDEN, bias=False)
        assert isinstance(cell, nn.RNNCellBase)
        assert cell.bias_ih is None and cell.bias_hh is None
        assert not any(key.startswith("bias") for key in cell.state_dict())


@every_cell
def test_the_mode_is_torchs_for_torchs_cells_and_the_cells_name_for_others(name):
    layer = layer_of(name)
    assert layer.mode == {"lstm": "LSTM", "gru": "GRU", "gru-reset-before": "GRU"}.get(name, layer.cell.name)


@torchs_own
@pytest.mark.parametrize("arguments", SHAPES, ids=str)
def test_lists_of_weights_are_torchs(name, arguments):
    theirs, ours = alike(name, **arguments)
    assert ours._all_weights == theirs._all_weights
    assert ours._flat_weights_names == theirs._flat_weights_names
    for mine, yours in zip(ours._flat_weights, theirs._flat_weights, strict=True):
        assert torch.equal(mine, yours)


@every_cell
def test_lists_of_weights_name_every_parameter_once(name):
    layer = layer_of(name, num_layers=2, bidirectional=True, layer_norm=True)
    names = [parameter for parameter, _ in layer.named_parameters()]
    assert layer._flat_weights_names == names == [one for each in layer._all_weights for one in each]
    assert all(a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True))


@every_cell
def test_weights_that_are_assigned_as_a_list_are_used(name):
    layer = layer_of(name)
    doubled = [2 * weight.detach() for weight in layer._flat_weights]
    expected = copy.deepcopy(layer)
    with torch.no_grad():
        for weight, value in zip(expected.parameters(), doubled, strict=True):
            weight.copy_(value)
    layer._flat_weights = [nn.Parameter(value) for value in doubled]
    x = series()
    assert torch.equal(layer(x)[0], expected(x)[0])
    layer._flat_weights = layer._flat_weights  # what code for torch does after it has replaced an attribute
    assert torch.equal(layer(x)[0], expected(x)[0])


@torchs_own
def test_sizes_of_states_are_torchs(name):
    for batch_first in (True, False):
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
            with pytest.raises(RuntimeError) as expected:
                theirs.check_forward_args(x.float(), wrong, sizes)
            with pytest.raises(RuntimeError) as found:
                ours.check_forward_args(x.float(), wrong, sizes)
            assert str(found.value) == str(expected.value)


@every_cell
def test_a_projected_state_has_the_size_that_the_layer_expects(name):
    if name in ("gru", "gru-reset-before"):
        pytest.skip("no proj_size")
    layer = layer_of(name, num_layers=2, proj_size=2)
    x = series()
    _, last = layer(x)
    sizes = [layer.get_expected_hidden_size(x, None), layer.get_expected_cell_size(x, None)]
    found = [tuple(s.shape) for s in as_tuple(last)]
    assert found[: len(sizes)] == sizes[: len(found)] and set(found[2:]) <= {sizes[1]}


@every_cell
def test_a_state_is_permuted_by_rows(name):
    layer, order = layer_of(name), torch.tensor([2, 0, 1])
    hx = packed_up(states_of(layer))
    assert layer.permute_hidden(hx, None) is hx
    for moved, state in zip(as_tuple(layer.permute_hidden(hx, order)), as_tuple(hx), strict=True):
        assert torch.equal(moved, state[:, order])


@every_cell
def test_a_layer_pickled_before_it_was_an_rnn_base_is_the_layer(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    old = layer.__class__.__new__(layer.__class__)
    old.__setstate__({k: v for k, v in layer.__dict__.items() if k not in ("_all_weights", "_flat_weights_names")})
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    x = series()
    for made in (old, pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)):
        assert made._all_weights == layer._all_weights
        assert torch.equal(made(x)[0], layer(x)[0])


@every_cell
def test_a_replica_for_another_device_has_weights_of_its_own(name):
    layer = layer_of(name)
    replica = layer._replicate_for_data_parallel()
    for weight in layer._flat_weights_names:
        setattr(replica, weight, getattr(layer, weight) * 2)
    assert not torch.equal(replica(series())[0], layer(series())[0])


def scale_of(module, name):
    weight = getattr(module, name)
    return {
        "parametrize": lambda: parametrize.register_parametrization(module, name, Doubled()),
        "weight_norm": lambda: parametrizations.weight_norm(module, name),
        "spectral_norm": lambda: parametrizations.spectral_norm(module, name) if weight.dim() > 1 else None,
        "prune": lambda: prune.l1_unstructured(module, name, 0.3),
    }


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def weight_by_hand(module, name, kind):
    """The weight as the tool makes it, from the module itself."""
    return getattr(module, name).detach().clone()


@every_cell
@pytest.mark.parametrize("kind", ["parametrize", "weight_norm", "spectral_norm", "prune"])
def test_a_weight_that_a_tool_of_torch_computes_is_the_weight_that_is_used(name, kind):
    plain = layer_of(name)
    for weight in plain._flat_weights_names:
        layer = copy.deepcopy(plain)
        apply = scale_of(layer, weight)[kind]
        if apply() is None:
            continue
        layer.eval()  # spectral_norm takes a step of its power iteration at every read in training
        with torch.no_grad():
            expected = copy.deepcopy(plain)
            getattr(expected, weight).copy_(getattr(layer, weight))
        x = series()
        assert torch.equal(layer(x)[0], expected(x)[0]), weight
        layer(x)[0].sum().backward()
        inner = [p for p in layer.parameters() if p.grad is not None]
        assert inner, f"{kind} of {weight} gets no gradient"


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@every_cell
@pytest.mark.parametrize("tool", [nn.utils.weight_norm, nn.utils.spectral_norm], ids=lambda tool: tool.__name__)
def test_tools_that_delete_a_weight_and_set_another_before_each_call_work(name, tool):
    plain, layer, x = layer_of(name), None, series()
    layer = tool(copy.deepcopy(plain), "weight_ih_l0")
    layer(x)
    with torch.no_grad():
        expected = copy.deepcopy(plain)
        expected.weight_ih_l0.copy_(layer.eval().weight_ih_l0)
    torch.testing.assert_close(layer(x)[0], expected(x)[0])
    assert "weight_ih_l0" not in dict(layer.named_parameters())


@torchs_own
@pytest.mark.parametrize("batch_first, bidirectional, num_layers", FORMS)
def test_strides_are_torchs(name, batch_first, bidirectional, num_layers):
    theirs, ours = alike(name, batch_first=batch_first, bidirectional=bidirectional, num_layers=num_layers)
    for x in (series(STEPS, BATCH, FEATURES).float(), series(STEPS, FEATURES).float()):
        (expected, expected_last), (output, last) = theirs(x), ours(x)
        assert output.stride() == expected.stride()
        for mine, yours in zip(as_tuple(last), as_tuple(expected_last), strict=True):
            assert mine.stride() == yours.stride()


@every_cell
@pytest.mark.parametrize("batch_first, bidirectional, num_layers", FORMS)
def test_an_output_can_be_viewed_wherever_torchs_can(name, batch_first, bidirectional, num_layers):
    layer = layer_of(name, batch_first=batch_first, bidirectional=bidirectional, num_layers=num_layers)
    theirs = TORCH.get(name, nn.LSTM)(FEATURES, HIDDEN, batch_first=batch_first, bidirectional=bidirectional)
    for x in (series(4, 5, FEATURES), series(4, FEATURES), series(4, 5, FEATURES).transpose(0, 1)):
        flags = {"mask": torch.rand(x.shape[:-1]) < 0.7, "resets": torch.rand(x.shape[:-1]) < 0.3}
        expected = theirs(x.float())[0].is_contiguous()
        for given in ({}, *({key: value} for key, value in flags.items()), flags):
            output, last = layer(x, **given)
            assert output.is_contiguous() or not expected
            assert all(state.is_contiguous() for state in as_tuple(last))
            if not batch_first or name not in (*TORCH, "gru-reset-before"):
                output.view(-1, output.shape[-1])


@torchs_own
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_dropout_after_the_layer_drops_what_it_drops_after_torchs(name, batch_first):
    theirs, ours = alike(name, batch_first=batch_first)
    x, kept = series(STEPS, BATCH, FEATURES).float(), []
    for layer in (theirs, ours):
        torch.manual_seed(3)
        kept.append(nn.functional.dropout(layer(x)[0], 0.5) != 0)
    assert torch.equal(*kept)


@every_cell
def test_a_state_of_any_layout_is_the_state(name):
    layer = layer_of(name, num_layers=2)
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)

    def turned(state):
        return state.transpose(0, 2).contiguous().transpose(0, 2)

    layer_of_turned = partial(layer)
    expected = run(layer, x, states, grads)
    found = run(
        layer, turned(x), tuple(turned(s) for s in states), (turned(grads[0]), tuple(turned(g) for g in grads[1])),
        lambda x, hx: layer_of_turned(x, packed_up(tuple(turned(s) for s in as_tuple(hx)))),
    )  # fmt: skip
    assert_same(found, expected)
    wide = tuple(torch.cat([s, s], dim=2)[..., : s.shape[2]] for s in states)
    assert torch.equal(layer(x, packed_up(wide))[0], expected["output"])


SECOND_ORDER_CALLS = {"alone": {}, "flags": {"mask": 0.7, "resets": 0.3}}


def patterns(layer, with_state):
    """Which of input, states and weights ask for a gradient: each alone, all but each, all."""
    names = ["input", *(["hx"] if with_state else []), *layer._flat_weights_names]
    yield set(names)
    for name in names:
        yield {name}
        yield set(names) - {name}


def second_derivatives(layer, way, wanted, x, states, grads):
    """Gradients of the first gradients' sines, for what asks for one; None for a state that is not given."""
    for name, weight in layer.named_parameters():
        weight.requires_grad_(name in wanted)
    x = x.clone().requires_grad_("input" in wanted)
    given = None if states is None else tuple(s.clone().requires_grad_("hx" in wanted) for s in states)
    output, last = way(x, None if given is None else packed_up(given))
    loss = (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(as_tuple(last), grads[1], strict=True))
    places = {"input": x} | dict(layer.named_parameters())
    places |= {} if given is None else {f"hx{i}": s for i, s in enumerate(given)}
    places = {k: v for k, v in places.items() if v.requires_grad}
    nothing = {f"gradient of {k}": torch.zeros_like(v) for k, v in places.items()}
    if not loss.requires_grad:  # an initial state in whose place hx stands
        return nothing
    first = torch.autograd.grad(loss, list(places.values()), create_graph=True, materialize_grads=True)
    again = sum(g.sin().sum() for g in first)
    if not again.requires_grad:  # linear in all that asks
        return nothing
    second = torch.autograd.grad(again, list(places.values()), materialize_grads=True)
    return {f"gradient of {k}": g for k, g in zip(places, second, strict=True)}


@every_cell
@pytest.mark.parametrize("with_state", [False, True], ids=["hx=None", "hx"])
def test_second_derivatives_are_those_of_the_step_loop_whatever_is_frozen(name, with_state):
    layer = layer_of(name)
    x = series(2, 3, FEATURES)
    states = states_of(layer, 2)
    grads = upstream(layer, x, states)

    def loop(x, hx):
        outputs = []
        for x_t in x.unbind(1):
            output, hx = layer.step(x_t, hx)
            outputs.append(output)
        return torch.stack(outputs, dim=1), hx

    given = states if with_state else None
    for wanted in patterns(layer, with_state):
        found = second_derivatives(layer, layer, wanted, x, given, grads)
        assert_same(found, second_derivatives(layer, loop, wanted, x, given, grads))


@pytest.mark.parametrize("name", [name for name in CELLS if name != "lru"])  # which is linear in its input
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_second_derivative_of_a_plain_call_is_there_in_both_directions(name, dtype):
    layer = layer_of(name, dtype=dtype, num_layers=2, bidirectional=True).requires_grad_(False)
    x = series(dtype=dtype).requires_grad_()
    (first,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sin().sum(), x)
    assert second.isfinite().all()


@every_cell
def test_jacobians_are_taken_all_rows_at_once(name):
    layer = layer_of(name)
    x = series(1, 3, FEATURES)
    rows = torch.autograd.functional.jacobian(lambda x: layer(x)[0], x)
    at_once = torch.autograd.functional.jacobian(lambda x: layer(x)[0], x, vectorize=True)
    assert_same({"gradient": at_once}, {"gradient": rows})
    places = [x.clone().requires_grad_(), *layer.parameters()]
    output, _ = layer(places[0])
    upward = torch.randn(4, *output.shape, dtype=x.dtype)
    batched = torch.autograd.grad(output, places, upward, is_grads_batched=True, retain_graph=True, allow_unused=True)
    for i in range(4):
        alone = torch.autograd.grad(output, places, upward[i], retain_graph=True, allow_unused=True)
        pairs = [(b[i], a) for b, a in zip(batched, alone, strict=True) if a is not None]
        assert_same({f"gradient {k}": b for k, (b, _) in enumerate(pairs)}, {
            f"gradient {k}": a for k, (_, a) in enumerate(pairs)
        })  # fmt: skip


@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_mode_gives_the_tangent_of_the_step_loop(name, dtype):
    """In float32 too, where oneDNN's LSTM has no tangent, and for tangents without `torch.func`."""
    layer = layer_of(name, dtype=dtype)
    exact = copy.deepcopy(layer).double()
    x, tangent = series(dtype=dtype), series(dtype=dtype)
    _, expected = torch.func.jvp(lambda x: exact(x)[0], (x.double(),), (tangent.double(),))
    _, found = torch.func.jvp(lambda x: layer(x)[0], (x,), (tangent,))
    assert_same({"gradient": found}, {"gradient": expected.to(dtype)}, dtype)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        found = torch.autograd.forward_ad.unpack_dual(layer(dual)[0]).tangent
    assert_same({"gradient": found}, {"gradient": expected.to(dtype)}, dtype)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_finite_differences_whatever_is_frozen(name):
    layer = CELLS[name](2, 2, dtype=torch.float64)
    names = list(layer._flat_weights_names)
    values = [weight.detach().clone() for weight in layer.parameters()]
    x, states = torch.randn(2, 1, 2).double(), [torch.randn(1, 1, n).double() for n in layer.state_sizes()]

    def outcome(x, *rest):
        given = dict(zip(names, rest[: len(names)], strict=True))
        output, last = torch.func.functional_call(layer, given, (x, packed_up(rest[len(names) :])))
        return output, *as_tuple(last)

    places = [x, *values, *states]
    for asking in [{0}, {1}, set(range(1, len(names) + 1)), set(range(len(names) + 1, len(places)))]:
        given = [v.clone().requires_grad_(i in asking) for i, v in enumerate(places)]
        assert torch.autograd.gradgradcheck(outcome, given)


INFINITE = [float("inf"), -float("inf"), float("nan")]


@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["input", "state", "weight"])
def test_infinities_propagate_as_in_the_step_loop(name, dtype, where):
    for value in INFINITE:
        layer = layer_of(name, dtype=dtype)
        x, states = series(dtype=dtype), states_of(layer, dtype=dtype)
        if where == "input":
            x[0, 2, 1] = value
        elif where == "state":
            states[-1][0, 1, 2] = value
        else:
            with torch.no_grad():
                layer.weight_ih_l0[1, 0] = value
        output, _ = layer(x, packed_up(states))
        hx, steps = packed_up(states), []
        for x_t in x.unbind(1):
            y, hx = layer.step(x_t, hx)
            steps.append(y)
        expected = torch.stack(steps, dim=1)
        for kind in (torch.isnan, torch.isposinf, torch.isneginf):
            assert torch.equal(kind(output), kind(expected)), (value, kind.__name__)


@pytest.mark.parametrize("make", [LSTM, GRU, MinGRU], ids=lambda make: make.__name__)
def test_a_misspelt_argument_is_told_from_the_one_that_was_meant(make):
    with pytest.raises(TypeError, match="unexpected keyword argument 'bidirectonal'; did you mean 'bidirectional'"):
        make(3, 4, bidirectonal=True)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'quux'$"):
        make(3, 4, quux=1)


def test_an_option_of_the_cell_is_proposed_too():
    with pytest.raises(TypeError, match="did you mean 'reset_after'"):
        GRU(3, 4, reset_afer=False)
    with pytest.raises(TypeError, match="did you mean 'activation'"):
        MinGRU(3, 4, activaton="g")
    with pytest.raises(TypeError, match="did you mean 'weight_init'"):
        registry.CELLS["gru"].single_step(3, 4, weight_int="torch")


SIZES = torch.zeros(STEPS, BATCH, FEATURES)
TEXTS = {
    "features": lambda make: make(FEATURES, HIDDEN)(SIZES[..., :-1]),
    "axes": lambda make: make(FEATURES, HIDDEN)(SIZES[None]),
    "dtype": lambda make: make(FEATURES, HIDDEN)(SIZES.double()),
    "no steps": lambda make: make(FEATURES, HIDDEN)(SIZES[:0]),
    "state": lambda make: make(FEATURES, HIDDEN)(SIZES, state_for(make, 1, BATCH + 1, HIDDEN)),
    "state's axes": lambda make: make(FEATURES, HIDDEN)(SIZES, state_for(make, BATCH, HIDDEN)),
    "state's axes, unbatched": lambda make: make(FEATURES, HIDDEN)(SIZES[:, 0], state_for(make, 1, 1, HIDDEN)),
    "input_size": lambda make: make(0, HIDDEN),
    "input_size as float": lambda make: make(3.0, HIDDEN),
    "hidden_size": lambda make: make(FEATURES, -1),
    "num_layers": lambda make: make(FEATURES, HIDDEN, 0),
    "bias": lambda make: make(FEATURES, HIDDEN, bias=1),
    "batch_first": lambda make: make(FEATURES, HIDDEN, batch_first=1),
    "dropout": lambda make: make(FEATURES, HIDDEN, dropout=1.5),
    "proj_size": lambda make: make(FEATURES, HIDDEN, proj_size=HIDDEN),
}


def state_for(make, *shape):
    state = torch.zeros(shape)
    return (state, state) if make in (LSTM, nn.LSTM) else state


@torchs_own
@pytest.mark.parametrize("wrong", TEXTS)
def test_what_torch_refuses_is_refused_in_torchs_words(name, wrong):
    raised = []
    for make in (TORCH[name], CELLS[name]):
        with pytest.raises((ValueError, RuntimeError, TypeError)) as caught:
            TEXTS[wrong](make)
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")
@every_cell
def test_ids_are_said_to_need_an_embedding_and_complex_numbers_are_refused(name):
    layer = layer_of(name, dtype=torch.float32)
    with pytest.raises(ValueError, match="Ids need an embedding"):
        layer(torch.ones(BATCH, STEPS, FEATURES, dtype=torch.long))
    numbers = torch.ones(BATCH, STEPS, FEATURES, dtype=torch.complex64)
    with pytest.raises(ValueError, match="compute with real numbers"):
        layer(numbers)
    with pytest.raises(TypeError, match="real numbers"):
        CELLS[name](FEATURES, HIDDEN, dtype=torch.complex64)
    with pytest.raises(TypeError, match="real numbers"):
        layer.to(torch.complex64)(numbers)
