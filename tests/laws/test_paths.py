"""The path that a layer names is the function that runs it."""

import pytest
import torch
from layer_laws import BATCH, FEATURES, HIDDEN, TORCH, as_tuple, every_cell, layer_of, series
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from gatedrnn import GRU, LSTM
from gatedrnn.kinds import kind_of
from gatedrnn.kinds.kind import Direction, Pass
from gatedrnn.kinds.loop import path as loop_path
from gatedrnn.kinds.torch import path as torch_path
from gatedrnn.kinds.torch.path import MAX_STEPS_WITH_GRADIENTS, MAX_STEPS_WITHOUT


@every_cell
@torch.no_grad()
def test_the_function_of_the_named_path_gives_the_output_and_the_state_of_the_layer(name):
    layer, x = layer_of(name).eval(), series()
    before = tuple(state[0] for state in layer.start_state(x))
    read, start, last_input = layer._wrapper.concat_previous_input(x, before)
    direction = Direction(read, start, layer.read_weights(0, ""))
    path = kind_of(layer.cell).path(layer, Pass(direction=direction))
    assert path[:2] == layer.runs_on(steps=x.shape[1])[:2]
    (output, last), (whole, h_n) = path.run(layer, direction), layer(x)
    assert output.equal(whole)
    assert all(
        of_path.equal(of_layer[0]) for of_path, of_layer in zip((*last, *last_input), as_tuple(h_n), strict=True)
    )


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("what", ["plain", "hx", "two layers, both directions", "packed", "input_dropout"])
def test_a_gru_runs_few_steps_by_torchs_kernel_and_more_by_ours_and_says_so(what, gradients, monkeypatch):
    called = []
    for module, function in ((torch_path, "call_kernel"), (torch_path, "_packed_call"), (loop_path, "loop_in_kernel")):
        own = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *a, own=own, **k: called.append(own.__name__) or own(*a, **k))
    options = {"num_layers": 2, "bidirectional": True} if what.startswith("two") else {}
    layer = layer_of("gru", **options, input_dropout=0.5 if what == "input_dropout" else 0.0)
    most = MAX_STEPS_WITH_GRADIENTS if gradients else MAX_STEPS_WITHOUT
    with torch.set_grad_enabled(gradients):
        for steps in (BATCH, most, most + 1):
            x, few = series(BATCH, steps, FEATURES), steps <= most
            hx = layer.initial_state(BATCH) if what == "hx" else None
            called.clear()
            layer(pack_sequence(list(x)) if what == "packed" else x, hx)
            kernels = {"_packed_call" if what == "packed" else "call_kernel"} if few else {"loop_in_kernel"}
            assert set(called) == kernels, steps
            path = layer.runs_on(steps=steps)
            assert path.name.startswith("torch's fused kernel" if few else "one kernel for all steps")
            assert not few or f"up to {MAX_STEPS_WITH_GRADIENTS} steps, without gradients" in path.reason


@pytest.mark.parametrize("name, ours", [("gru", GRU), ("lstm", LSTM)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_one_step_has_torchs_numbers_and_gradients_and_lies_in_memory_as_torchs(name, ours, batch_first):
    theirs = TORCH[name](FEATURES, HIDDEN, batch_first=batch_first)
    own = ours(FEATURES, HIDDEN, batch_first=batch_first)
    own.load_state_dict(theirs.state_dict())
    for rows, steps in ((1, 1), (20, 1), (2, 5)):
        x = torch.randn((rows, steps, FEATURES) if batch_first else (steps, rows, FEATURES), requires_grad=True)
        with torch.no_grad():
            last = own(x)[1]
        for hx in (None, last):
            expected, found = theirs(x, hx), own(x, hx)
            assert type(found[1]) is type(expected[1]) and found[0].stride() == expected[0].stride()
            parts = [(output, *as_tuple(state)) for output, state in (found, expected)]
            for layer, results in zip((own, theirs), parts, strict=True):
                results += torch.autograd.grad(results[0].sum(), [x, *layer.parameters()], retain_graph=True)
                parts[layer is theirs] = results
            for a, b in zip(*parts, strict=True):
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize("bad", [
    lambda layer, x: layer(x[..., :2]), lambda layer, x: layer(x.double()), lambda layer, x: layer(x[:, :0]),
    lambda layer, x: layer(x, torch.zeros(1, 2, HIDDEN)), lambda layer, x: layer(x, torch.zeros(1, 4, HIDDEN + 1)),
    lambda layer, x: layer(x, torch.zeros(4, HIDDEN)), lambda layer, x: layer(x, torch.zeros(1, 4, HIDDEN).double()),
])  # fmt: skip
def test_one_step_of_a_wrong_shape_or_dtype_is_refused_as_by_torch(bad):
    x = torch.randn(4, 1, FEATURES)
    for layer in (nn.GRU(FEATURES, HIDDEN, batch_first=True), GRU(FEATURES, HIDDEN, batch_first=True)):
        with pytest.raises((RuntimeError, ValueError)):
            bad(layer, x)


def test_one_step_reads_weights_that_were_replaced_or_computed():
    x, layer = torch.randn(20, 1, FEATURES), GRU(FEATURES, HIDDEN, batch_first=True)
    expected = layer(x)[0]
    doubled = [nn.Parameter(2 * weight.detach()) for weight in layer._flat_weights]
    layer._flat_weights = doubled
    assert not torch.equal(layer(x)[0], expected)
    torch.nn.utils.parametrizations.weight_norm(layer, "weight_hh_l0")
    layer.weight_hh_l0.sum().backward()
    layer(x)[0].sum().backward()
    assert layer.parametrizations.weight_hh_l0.original1.grad is not None
