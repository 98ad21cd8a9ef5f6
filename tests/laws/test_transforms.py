"""No number changes where torch treats modules and functions: compile, export, differentiate, map, copy, move, cast."""

import copy
import pickle
import subprocess
import sys
from functools import partial

import pytest
import torch
from covering import Axis, over
from layer_laws import (
    BATCH,
    CELL,
    CELLS,
    EQUATIONS,
    FEATURES,
    HIDDEN,
    JOINT,
    STEPS,
    TORCH,
    as_tuple,
    assert_same,
    assert_same_run,
    every_cell,
    flags_of,
    layer_of,
    packed_up,
    problem,
    results,
    run,
    series,
    states_of,
)
from paths import axis
from refusals import refused
from tolerances import assert_equal_within
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap
from torch.utils._pytree import tree_map

from gatedrnn.errors import BackendUnavailable
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.torch.path import _LACKS_BFLOAT16
from gatedrnn.verify.tolerances import ROUNDED

ITERATED = axis(EQUATIONS, [name for name in CELLS if name not in TORCH])  # no kernel of torch's, which knows no vmap
SAMPLES, SHORT = 2, 2
USES = {"plain": (), "mask+resets": ("mask", "resets")}
# torch imports its own deprecated torch.jit.script when Dynamo meets an RNN.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


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
    given = problem(layer, BATCH, SHORT, FEATURES)
    assert_same(run(layer, *given, partial(compiled, **flags)), run(layer, *given, **flags))


@pytest.fixture(scope="module")
def dynamo():
    """Load what the first compilation of a process needs."""
    torch.compile(torch.nn.Linear(FEATURES, HIDDEN), fullgraph=True, backend="aot_eager")(torch.randn(1, FEATURES))


@pytest.mark.usefixtures("dynamo")
@pytest.mark.parametrize("name, flags", [("gru", ()), ("mingru", ()), ("mgu", ("mask", "resets")), ("gru-d", ())])
def test_a_compiled_layer_is_the_layer(name, flags):
    """Cells run by torch's kernel, a scan, a generated kernel of a loop, and a loop of which there is none."""
    assert_compiles(layer_of(name), "aot_eager", **flags_of(flags, steps=SHORT))


@pytest.mark.slow
@over(name=CELL, flags=USES)
def test_every_compiled_layer_is_the_layer(name, flags):
    assert_compiles(layer_of(name), "aot_eager", **flags_of(flags, steps=SHORT))


COLD = """
import torch, gatedrnn
layer, x = gatedrnn.MinGRU(4, 8), torch.randn(5, 2, 4)
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
assert torch.equal(compiled(x)[0], layer(x)[0])
"""


@pytest.mark.slow
def test_a_layer_compiles_before_it_has_run():
    subprocess.run([sys.executable, "-c", COLD], check=True)


COMPILED = [(name, "inductor", {}) for name in ("lstm", "mgu", "mingru")]
COMPILED += [(name, "aot_eager", {"num_layers": 2, "bidirectional": True}) for name in ("gru", "mingru")]


@pytest.mark.slow
@pytest.mark.parametrize("name, backend, chosen", COMPILED)
def test_a_compiled_stack_of_both_directions_is_the_stack_and_inductor_compiles_the_layer_too(name, backend, chosen):
    assert_compiles(layer_of(name, **chosen), backend, **flags_of(["mask"], steps=SHORT))


OF_EACH_KIND = {kind_of(EQUATIONS[name]): name for name in CELL.fast}.values()
EXPORTED = [(name, ("mask",)) for name in CELL.fast] + [(name, ()) for name in OF_EACH_KIND]


@over(exported=Axis(fast=EXPORTED, every=[(name, names) for name in CELL.every for names in ((), ("mask",))]))
def test_an_exported_layer_is_the_layer_at_any_batch_and_length_and_reads_its_flags(exported):
    name, names = exported
    layer = layer_of(name).eval()
    batch, time = torch.export.Dim("batch"), torch.export.Dim("time")
    iterates = layer.runs_on(training=False).name == "the step loop in torch"  # whose steps are part of the graph
    free, steps = {0: batch} if iterates else {0: batch, 1: time}, SHORT + (0 if iterates else 2)
    x, states, more = (
        series(BATCH, SHORT, FEATURES),
        packed_up(states_of(layer)),
        packed_up(states_of(layer, BATCH + 2)),
    )
    given, flags = flags_of(names, steps=SHORT), flags_of(names, BATCH + 2, steps)
    shapes = {"input": free, "hx": tree_map(lambda _: {1: batch}, states), **dict.fromkeys(given, free)}
    module = torch.export.export(layer, (x, states), given, dynamic_shapes=shapes).module()
    other = series(BATCH + 2, steps, FEATURES)
    assert_same_run(module(other, more, **flags), layer(other, more, **flags))


@over(name=CELL, flags=USES, bidirectional=(False, True))
def test_the_gradient_of_a_function_of_the_weights_is_autograds(name, flags, bidirectional):
    layer, given = layer_of(name, num_layers=2, bidirectional=bidirectional), flags_of(flags)
    x, states, grads = problem(layer)
    found = grad(partial(score, layer, grads, **given), argnums=(0, 1, 2))(detached(layer), x, states)
    expected = {k: v for k, v in run(layer, x, states, grads, **given).items() if k.startswith("gradient")}
    assert_same(by_name(found), expected)


@over(name=CELL, flags=USES, dtype=(torch.float32, torch.float64))
def test_the_forward_derivative_is_the_backward_one_read_the_other_way(name, flags, dtype):
    """It holds in float32 too, where oneDNN has no tangent; by `torch.func` and by tensors that bear their tangents."""
    layer, given = layer_of(name, dtype=dtype), flags_of(flags)
    x, states, grads = problem(layer)
    places, way = (detached(layer), x, states), partial(score, layer, grads, **given)
    tangents = tree_map(torch.randn_like, places)
    _, along = jvp(way, places, tangents)
    with forward_ad.dual_level():
        borne = forward_ad.unpack_dual(way(*tree_map(forward_ad.make_dual, places, tangents))).tangent
    exact = tree_map(torch.Tensor.double, (x, states, grads))
    found, moved = run(copy.deepcopy(layer).double(), *exact, **given), by_name(tangents)
    expected = sum((found[name] * tangent).sum() for name, tangent in moved.items())
    for one in (along, borne):
        assert_equal_within(one, expected, dtype, "derivative along a direction", gradient=True)


def test_a_named_backend_gives_the_forward_derivative_or_says_that_it_cannot():
    """Never a wrong one: a registered op without a rule for it would return zeros."""
    layer, x, tangent = layer_of("mingru"), series(), series()
    _, expected = jvp(lambda x: layer(x)[0], (x,), (tangent,))
    layer.backend = "reference"
    assert_equal_within(jvp(lambda x: layer(x)[0], (x,), (tangent,))[1], expected, x.dtype, "tangent", gradient=True)
    layer.backend = "native"
    refused(BackendUnavailable, r"transform of torch\.func", jvp, lambda x: layer(x)[0], (x,), (tangent,))


@over(name=ITERATED, flags=USES)
def test_a_mapped_layer_or_an_ensemble_of_weights_is_a_loop_over_samples_or_members(name, flags):
    layers = [layer_of(name, bidirectional=True) for _ in range(SAMPLES)]
    weights, _ = torch.func.stack_module_state(layers)
    x, states = series(SAMPLES, BATCH, STEPS, FEATURES), states_of(layers[0], SAMPLES * BATCH)
    states = tuple(s.unflatten(1, (SAMPLES, BATCH)).transpose(0, 1) for s in states)
    given = {k: v.unflatten(0, (SAMPLES, BATCH)) for k, v in flags_of(flags, SAMPLES * BATCH).items()}

    def outcome(weights, x, states, given):
        return results(*functional_call(layers[0], weights, (x, packed_up(states)), given))

    for of_each in (True, False):  # their weights too, or those of the first
        own = weights if of_each else detached(layers[0])
        mapped = vmap(outcome, in_dims=(0 if of_each else None, 0, 0, 0))(own, x, states, given)
        for i, layer in enumerate(layers if of_each else layers[:1] * SAMPLES):
            flags = {k: v[i] for k, v in given.items()}
            expected = results(*layer(x[i], packed_up(tuple(s[i] for s in states)), **flags))
            assert_same({what: value[i] for what, value in mapped.items()}, expected)


@pytest.mark.parametrize("name", TORCH)
def test_torchs_kernels_refuse_to_be_mapped_in_our_hands_as_in_torchs_and_the_step_loop_is_mapped(name):
    ours, x = layer_of(name), series(SAMPLES, BATCH, STEPS, FEATURES)
    for layer in (ours, TORCH[name](FEATURES, HIDDEN).double()):
        refused(RuntimeError, "Batching rule not implemented", vmap(lambda x, layer=layer: layer(x)[0]), x)
    ours.backend = "reference"
    expected = torch.stack([ours(sample)[0] for sample in x])
    assert_equal_within(vmap(lambda sample: ours(sample)[0])(x), expected, torch.float64, "output")


@over(name=ITERATED, flags=USES)
def test_gradients_of_each_sample_are_those_of_the_sample_alone(name, flags):
    layer, given = layer_of(name), flags_of(flags)
    x, states, grads = problem(layer)
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
        of_row = grads[0][one], tuple(g[:, one] for g in grads[1])
        flags = {k: v[one] for k, v in given.items()}
        alone = run(layer, x[one], tuple(s[:, one] for s in states), of_row, **flags)
        of_weights = {f"gradient of {weight}": value[i] for weight, value in found.items()}
        assert_same(of_weights, {what: alone[what] for what in of_weights})


@every_cell
def test_a_copy_is_the_layer_and_owns_its_weights(name):
    zoneout = 0.0 if name in JOINT else 0.1
    layer = layer_of(name, num_layers=2, bidirectional=True, layer_norm=True, zoneout=zoneout).eval()
    given = problem(layer)
    expected = run(layer, *given)
    copies = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    for made in copies:
        assert repr(made) == repr(layer) and made._all_weights == layer._all_weights
        assert_same(run(made, *given), expected)
    for made in copies:
        for weight in made.parameters():
            torch.nn.init.zeros_(weight)
    assert_same(run(layer, *given), expected)


@every_cell
def test_a_layer_moved_to_half_precision_has_the_dtypes_of_torchs_layers(name):
    for dtype in (torch.float16, torch.bfloat16):
        layer = layer_of(name)
        rounded = {key: value.to(dtype) for key, value in layer.state_dict().items()}
        moved = layer.half() if dtype == torch.float16 else layer.bfloat16()
        assert all(torch.equal(value, rounded[key]) for key, value in moved.state_dict().items())
        output, last = moved(series(dtype=dtype))
        again, _ = moved(series(dtype=dtype), last)
        assert output.dtype == again.dtype == dtype
        assert {s.dtype for s in as_tuple(last)} == {dtype}
        assert all(s.isfinite().all() for s in (output, *as_tuple(last)))


@every_cell
def test_a_layer_without_memory_is_filled_later_and_tells_its_shapes_before(name):
    layer, x = layer_of(name, num_layers=2, bidirectional=True), series()
    empty = CELLS[name](FEATURES, HIDDEN, 2, batch_first=True, bidirectional=True, device="meta", dtype=torch.float64)
    assert {p.device.type for p in empty.parameters()} == {"meta"}
    expected = results(*layer(x))
    for flags in ({}, {"mask": torch.ones(BATCH, STEPS, dtype=torch.bool, device="meta")} if name not in TORCH else {}):
        for what, told in results(*empty(x.to("meta"), **flags)).items():
            assert (told.shape, told.dtype, told.device.type) == (expected[what].shape, torch.float64, "meta")
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(layer.state_dict())
    assert_same(results(*filled(x)), expected)


@every_cell
def test_a_layer_under_autocast_carries_on_with_its_own_state_and_gives_bfloat16(name):
    mask = torch.arange(STEPS) < torch.tensor([[7], [3], [5]])
    resets = torch.zeros(BATCH, STEPS, dtype=torch.bool).index_fill(1, torch.tensor([2, 5]), True)
    for flags in ({}, {"mask": mask}, {"resets": resets}):
        layer, x = layer_of(name, dtype=torch.float32), series(dtype=torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            output, last = layer(x, **flags)
            again, _ = layer(x, last, **flags)
            narrow, _ = layer(x.bfloat16(), packed_up(tuple(s.float() for s in as_tuple(last))), **flags)
        assert output.dtype == again.dtype == narrow.dtype == torch.bfloat16
        expected, state = layer(x, **flags)
        assert_same_run((output, last), (expected, state), ROUNDED)
        assert_equal_within(again, layer(x, state, **flags)[0], ROUNDED, "output after it")


@pytest.mark.parametrize("name", TORCH)
def test_torchs_own_layers_carry_on_alike_under_autocast(name):
    if name == "lstm" and _LACKS_BFLOAT16:
        pytest.skip("oneDNN has no LSTM in bfloat16 on this processor")
    ours, theirs = layer_of(name, dtype=torch.float32), TORCH[name](3, 4, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x = series(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        (got, state), (want, same) = ours(x), theirs(x)
        assert_equal_within(ours(x, state)[0], theirs(x, same)[0], ROUNDED, "output")
    assert_equal_within(got, want, ROUNDED, "output")
