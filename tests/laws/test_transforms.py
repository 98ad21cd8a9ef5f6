"""What torch does to modules and functions — compile, export, differentiate, map, copy, move — changes no number."""

import copy
import os
import pickle
import subprocess
import sys
from functools import partial

import pytest
import torch
from layer_laws import (
    BATCH,
    CELLS,
    FEATURES,
    HIDDEN,
    JOINT,
    SMOOTH,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    begun_anew,
    every_cell,
    layer_of,
    packed_up,
    run,
    series,
    states_of,
    upstream,
)
from tolerances import assert_equal_within
from torch.func import functional_call, grad, jvp, vmap

from gatedrnn.errors import BackendUnavailable

ITERATED = tuple(name for name in CELLS if name not in TORCH)  # no kernel of torch's, which knows no vmap
SAMPLES, SHORT = 2, 3
every_use = pytest.mark.parametrize("flags", [(), ("mask", "resets")], ids=lambda flags: "+".join(flags) or "plain")
# torch imports its own deprecated torch.jit.script when Dynamo meets an RNN.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


def flags_of(*names, steps=STEPS, batch=BATCH):
    """A ragged mask and resets, both of them random."""
    draw = {"mask": 0.7, "resets": 0.3}
    return {name: torch.rand(batch, steps) < draw[name] for name in names}


def score(layer, grads, weights, x, states, **flags):
    """The output and the last states in one number, as a function of everything."""
    output, last = functional_call(layer, weights, (x, packed_up(states)), flags)
    return (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(as_tuple(last), grads[1], strict=True))


def detached(layer):
    return {name: weight.detach() for name, weight in layer.named_parameters()}


def by_name(found):
    """Gradients of (weights, x, states) as `run` names them."""
    weights, x, states = found
    named = {"input": x} | {f"hx{i}": s for i, s in enumerate(states)} | weights
    return {f"gradient of {name}": value for name, value in named.items()}


def assert_compiles(layer, backend, **flags):
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    x, states = series(BATCH, SHORT, FEATURES), states_of(layer)
    grads = upstream(layer, x, states)
    assert_same(run(layer, x, states, grads, partial(compiled, **flags)), run(layer, x, states, grads, **flags))


@pytest.mark.parametrize(
    "name", [name if name in ("gru", "mingru", "mgu") else pytest.param(name, marks=pytest.mark.slow) for name in CELLS]
)
@every_use
def test_a_compiled_layer_is_the_layer(name, flags):
    assert_compiles(layer_of(name), "aot_eager", **flags_of(*flags, steps=SHORT))


COLD = """
import torch, gatedrnn
layer, x = gatedrnn.MinGRU(4, 8), torch.randn(5, 2, 4)
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
assert torch.equal(compiled(x)[0], layer(x)[0])
"""


@pytest.mark.slow
def test_a_layer_compiles_before_it_has_run():
    subprocess.run(
        [sys.executable, "-c", COLD], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


@pytest.mark.parametrize("name", ["lstm", "gru", "mgu", "mingru"])
def test_a_compiled_stack_of_both_directions_is_the_stack(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    assert_compiles(layer, "aot_eager", **flags_of("mask", steps=SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "mgu", "mingru"])
def test_inductor_compiles_the_layer_too(name):
    assert_compiles(layer_of(name), "inductor", **flags_of("mask", steps=SHORT))


@every_cell
def test_an_exported_layer_is_the_layer_and_reads_its_flags(name):
    layer = layer_of(name).eval()
    x, other, states = series(BATCH, SHORT, FEATURES), series(BATCH, SHORT, FEATURES), packed_up(states_of(layer))
    exported = torch.export.export(layer, (x, states)).module()
    masked = torch.export.export(layer, (x, states), flags_of("mask", steps=SHORT)).module()
    for flags, module in (({}, exported), (flags_of("mask", steps=SHORT), masked)):
        (output, last), (expected, expected_last) = module(other, states, **flags), layer(other, states, **flags)
        assert_equal_within(output, expected, torch.float64, "output")
        for i, (ours, theirs) in enumerate(zip(as_tuple(last), as_tuple(expected_last), strict=True)):
            assert_equal_within(ours, theirs, torch.float64, f"state {i}")


@every_cell
@pytest.mark.parametrize("bidirectional", [False, True])
@every_use
def test_the_gradient_of_a_function_of_the_weights_is_autograds(name, flags, bidirectional):
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional)
    x, states, given = series(), states_of(layer), flags_of(*flags)
    grads = upstream(layer, x, states)
    found = grad(partial(score, layer, grads, **given), argnums=(0, 1, 2))(detached(layer), x, states)
    expected = {k: v for k, v in run(layer, x, states, grads, **given).items() if k.startswith("gradient")}
    assert_same(by_name(found), expected)


@every_cell
@every_use
def test_the_forward_derivative_is_the_backward_one_read_the_other_way(name, flags):
    layer = layer_of(name)
    x, states, given = series(), states_of(layer), flags_of(*flags)
    grads = upstream(layer, x, states)
    places = detached(layer), x, states
    tangents = torch.utils._pytree.tree_map(torch.randn_like, places)
    _, along = jvp(partial(score, layer, grads, **given), places, tangents)
    found, moved = run(layer, x, states, grads, **given), by_name(tangents)
    expected = sum((found[name] * tangent).sum() for name, tangent in moved.items())
    assert_equal_within(along, expected, torch.float64, "derivative along a direction", gradient=True)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_named_backend_gives_the_forward_derivative_or_says_that_it_cannot(backend):
    """Never a wrong one: a registered op without a rule for it would return zeros."""
    layer, x, tangent = layer_of("mingru"), series(), series()
    _, expected = jvp(lambda x: layer(x)[0], (x,), (tangent,))
    layer.backend = backend
    if backend != "reference":
        with pytest.raises(BackendUnavailable, match=r"transform of torch\.func"):
            jvp(lambda x: layer(x)[0], (x,), (tangent,))
        return
    _, found = jvp(lambda x: layer(x)[0], (x,), (tangent,))
    assert_equal_within(found, expected, torch.float64, "tangent", gradient=True)


@pytest.mark.parametrize("name", ITERATED)
@every_use
def test_a_mapped_layer_is_a_loop_over_its_samples(name, flags):
    layer = layer_of(name, bidirectional=True)
    x, states = series(SAMPLES, BATCH, STEPS, FEATURES), states_of(layer, SAMPLES * BATCH)
    states = tuple(s.unflatten(1, (SAMPLES, BATCH)).transpose(0, 1) for s in states)
    given = {k: v.unflatten(0, (SAMPLES, BATCH)) for k, v in flags_of(*flags, batch=SAMPLES * BATCH).items()}

    def outcome(x, states, given):
        output, last = layer(x, packed_up(states), **given)
        return output, *as_tuple(last)

    mapped = vmap(outcome)(x, states, given)
    for i in range(SAMPLES):
        expected = outcome(x[i], tuple(s[i] for s in states), {k: v[i] for k, v in given.items()})
        for which, value in enumerate(expected):
            assert_equal_within(mapped[which][i], value, torch.float64, f"result {which}")


@pytest.mark.parametrize("name", TORCH)
def test_torchs_kernels_refuse_to_be_mapped_in_our_hands_as_in_torchs(name):
    for layer in (layer_of(name), TORCH[name](FEATURES, HIDDEN).double()):
        with pytest.raises(RuntimeError, match="Batching rule not implemented"):
            vmap(lambda x, layer=layer: layer(x)[0])(series(SAMPLES, BATCH, STEPS, FEATURES))


@pytest.mark.parametrize("name", TORCH)
def test_on_the_step_loop_torchs_cells_are_mapped_as_well(name):
    layer, x = layer_of(name), series(SAMPLES, BATCH, STEPS, FEATURES)
    layer.backend = "reference"
    expected = torch.stack([layer(sample)[0] for sample in x])
    assert_equal_within(vmap(lambda sample: layer(sample)[0])(x), expected, torch.float64, "output")


@pytest.mark.parametrize("name", ITERATED)
def test_an_ensemble_of_weights_is_a_loop_over_its_members(name):
    layers = [layer_of(name) for _ in range(SAMPLES)]
    weights, _ = torch.func.stack_module_state(layers)
    x = series()
    mapped = vmap(lambda weights: functional_call(layers[0], weights, (x,))[0])(weights)
    for i, layer in enumerate(layers):
        assert_equal_within(mapped[i], layer(x)[0], torch.float64, "output")


@pytest.mark.parametrize("name", ITERATED)
@every_use
def test_gradients_of_each_sample_are_those_of_the_sample_alone(name, flags):
    layer = layer_of(name)
    x, states, given = series(), states_of(layer), flags_of(*flags)
    grads = upstream(layer, x, states)
    rows = tuple(s.transpose(0, 1) for s in states)

    def of_one(weights, x, states, grads, given):
        batch = tuple(s.unsqueeze(1) for s in states)
        given = {k: v.unsqueeze(0) for k, v in given.items()}
        one = grads[0].unsqueeze(0), tuple(g.unsqueeze(1) for g in grads[1])
        return score(layer, one, weights, x.unsqueeze(0), batch, **given)

    upward = grads[0], tuple(g.transpose(0, 1) for g in grads[1])
    found = vmap(grad(of_one), in_dims=(None, 0, 0, 0, 0))(detached(layer), x, rows, upward, given)
    for i in range(BATCH):
        one = slice(i, i + 1)
        alone = run(
            layer, x[one], tuple(s[:, one] for s in states), (grads[0][one], tuple(g[:, one] for g in grads[1])),
            **{k: v[one] for k, v in given.items()},
        )  # fmt: skip
        for weight, value in found.items():
            expected = alone[f"gradient of {weight}"]
            assert_equal_within(value[i], expected, torch.float64, f"gradient of {weight}", gradient=True)


@every_cell
@every_use
def test_gradients_of_gradients_are_those_of_the_step_loop(name, flags):
    layer = layer_of(name)
    x, states, given = series(BATCH, SHORT, FEATURES), states_of(layer), flags_of(*flags, steps=SHORT)
    grads = upstream(layer, x, states)

    def second_order(way):
        inputs = x.clone().requires_grad_(), *(s.clone().requires_grad_() for s in states)
        output, last = way(inputs[0], packed_up(inputs[1:]))
        loss = (output * grads[0]).sum() + sum((s * g).sum() for s, g in zip(as_tuple(last), grads[1], strict=True))
        wanted = dict(zip(["input", "hx0", "hx1"], inputs, strict=False)) | dict(layer.named_parameters())
        first = torch.autograd.grad(loss, list(wanted.values()), create_graph=True, materialize_grads=True)
        loss = sum(g.sin().sum() for g in first)
        second = torch.autograd.grad(loss, list(wanted.values()), materialize_grads=True)
        return {f"gradient of {k}": g for k, g in zip(wanted, second, strict=True)}

    def iterated(x, hx):
        outputs = []
        for t in range(SHORT):
            at_t = {key: value[:, t] for key, value in given.items()}
            cut, real = at_t.get("resets"), at_t.get("mask", torch.ones(BATCH, dtype=torch.bool)).unsqueeze(1)
            output, after = layer.step(x[:, t], hx, resets=cut)
            before = as_tuple(hx)
            if cut is not None:
                anew = begun_anew(layer._weights(0, ""), before)
                before = (torch.where(cut.unsqueeze(1), a, s) for a, s in zip(anew, before, strict=True))
            hx = packed_up(tuple(torch.where(real, a, b) for a, b in zip(as_tuple(after), before, strict=True)))
            outputs.append(torch.where(real, output, 0))
        return torch.stack(outputs, dim=1), hx

    assert_same(second_order(partial(layer, **given)), second_order(iterated))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_gradients_are_finite_differences_of_gradients(name):
    layer = CELLS[name](2, 2, dtype=torch.float64)
    names, weights = zip(*layer.named_parameters(), strict=True)
    states = tuple(torch.randn(1, 1, size, dtype=torch.float64) for size in layer.state_sizes())

    def outcome(x, *rest):
        given = dict(zip(names, rest[: len(names)], strict=True))
        output, last = functional_call(layer, given, (x, packed_up(rest[len(names) :])))
        return output, *as_tuple(last)

    places = [v.detach().clone().requires_grad_() for v in (torch.randn(2, 1, 2).double(), *weights, *states)]
    assert torch.autograd.gradgradcheck(outcome, places)


@every_cell
def test_a_copy_is_the_layer_and_owns_its_weights(name):
    zoneout = 0.0 if name in JOINT else 0.1
    layer = layer_of(name, num_layers=2, bidirectional=True, layer_norm=True, zoneout=zoneout).eval()
    x, states = series(), states_of(layer)
    grads = upstream(layer, x, states)
    expected = run(layer, x, states, grads)
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(made) == repr(layer)
        assert_same(run(made, x, states, grads), expected)
        for weight in made.parameters():
            torch.nn.init.zeros_(weight)
    assert_same(run(layer, x, states, grads), expected)


@every_cell
def test_all_weights_are_the_parameters_by_layer_and_direction(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    listed = iter(layer.named_parameters())
    suffixes = ("_l0", "_l0_reverse", "_l1", "_l1_reverse")
    assert len(layer.all_weights) == len(suffixes)
    for weights, suffix in zip(layer.all_weights, suffixes, strict=True):
        for weight in weights:
            found, parameter = next(listed)
            assert weight is parameter
            assert found.endswith(suffix)
    assert next(listed, None) is None
    before = copy.deepcopy(layer.state_dict())
    assert layer.flatten_parameters() is None
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


@pytest.mark.parametrize("name", TORCH)
def test_all_weights_are_torchs(name):
    ours, theirs = (
        layer_of(name, num_layers=2, bidirectional=True),
        TORCH[name](FEATURES, HIDDEN, 2, bidirectional=True),
    )
    theirs.double().load_state_dict(ours.state_dict())
    for mine, yours in zip(ours.all_weights, theirs.all_weights, strict=True):
        for one, other in zip(mine, yours, strict=True):
            assert torch.equal(one, other)


@every_cell
def test_a_layer_moved_to_single_precision_is_the_layer_of_the_rounded_weights(name):
    layer = layer_of(name, num_layers=2, bidirectional=True, layer_norm=True)
    moved = copy.deepcopy(layer).float()
    exact = copy.deepcopy(moved).to(torch.float64)
    x = series(dtype=torch.float32)
    output, last = moved(x)
    expected, expected_last = exact(x.double())
    assert_equal_within(output, expected, torch.float32, "output")
    assert {s.dtype for s in (output, *as_tuple(last))} == {torch.float32}
    for i, (ours, theirs) in enumerate(zip(as_tuple(last), as_tuple(expected_last), strict=True)):
        assert_equal_within(ours, theirs, torch.float32, f"state {i}")


@every_cell
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_layer_moved_to_half_precision_keeps_its_state_in_single_where_it_is_ours(name, dtype):
    layer = layer_of(name)
    rounded = {key: value.to(dtype) for key, value in layer.state_dict().items()}
    moved = layer.half() if dtype == torch.float16 else layer.bfloat16()
    assert all(torch.equal(value, rounded[key]) for key, value in moved.state_dict().items())
    output, last = moved(series(dtype=dtype))
    assert output.dtype == dtype
    assert {s.dtype for s in as_tuple(last)} == {dtype if name in TORCH else torch.float32}
    assert all(s.isfinite().all() for s in (output, *as_tuple(last)))
    again, _ = moved(series(dtype=dtype), packed_up(as_tuple(last)))
    assert again.dtype == dtype


@every_cell
def test_a_layer_without_memory_is_filled_later_and_tells_its_shapes_before(name):
    layer = layer_of(name, num_layers=2, bidirectional=True)
    empty = CELLS[name](FEATURES, HIDDEN, 2, batch_first=True, bidirectional=True, device="meta", dtype=torch.float64)
    assert {p.device.type for p in empty.parameters()} == {"meta"}
    x, states = series(), states_of(layer)
    for flags in ({}, {"mask": torch.ones(BATCH, STEPS, dtype=torch.bool)} if name not in TORCH else {}):
        output, last = empty(x.to("meta"), **{k: v.to("meta") for k, v in flags.items()})
        expected, expected_last = layer(x)
        for ours, theirs in zip((output, *as_tuple(last)), (expected, *as_tuple(expected_last)), strict=True):
            assert (ours.shape, ours.dtype, ours.device.type) == (theirs.shape, theirs.dtype, "meta")
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(layer.state_dict())
    grads = upstream(layer, x, states)
    assert_same(run(filled, x, states, grads), run(layer, x, states, grads))
