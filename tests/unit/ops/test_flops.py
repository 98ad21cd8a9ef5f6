"""`FlopCounterMode` counts the matrix products of every layer, as those of `torch.nn`; torch's kernels as ops."""

import pytest
import torch
from covering import over
from layer_laws import BATCH, CELLS, EQUATIONS, STEPS, TORCH, UNPROJECTED, layer_of, series, states_of
from paths import axis
from tolerances import assert_equal_within
from torch.utils.flop_counter import FlopCounterMode

from gatedrnn.kernels.op import _FLOPS
from gatedrnn.kinds.torch.op import recording

COUNTED = axis(EQUATIONS, [name for name in CELLS if name != "gru-d"])  # which is counted step by step, as torch does
BLOCKS = {"block-orthogonal": 2, "lru": 2}  # rows of the small matrices that a state is multiplied by


def counted(layer, x, hx=None):
    """FLOPs of the forward and of the backward, both with a gradient of the input and the state."""
    x.requires_grad_()
    with FlopCounterMode(display=False) as forward:
        output, _ = layer(x, hx)
    with FlopCounterMode(display=False) as backward:
        output.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def by_hand(name, layer, batch=BATCH, steps=STEPS):
    """Two for each number of each matrix, at each step of each sequence."""
    matrices = sum(p.numel() for key, p in layer.named_parameters() if key.startswith("weight_") and p.dim() == 2)
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    return 2 * batch * steps * (matrices + directions * BLOCKS.get(name, 0) * layer.hidden_size)


@over(name=COUNTED)
def test_products_are_counted_forward_and_twice_backward_and_none_less_under_flags(name):
    stack, flags = {"num_layers": 2, "bidirectional": True}, torch.zeros(BATCH, STEPS, dtype=torch.bool)
    chosen = [({}, torch.float32), ({}, torch.float64), (stack, torch.float64)]
    for options, dtype in chosen if name in UNPROJECTED else [*chosen, ({"proj_size": 2}, torch.float64)]:
        layer = layer_of(name, dtype=dtype, **options)
        expected = by_hand(name, layer)
        assert counted(layer, series(dtype=dtype)) == (expected, 2 * expected), options
    for given in ({"mask": ~flags}, {"resets": flags}):
        with FlopCounterMode(display=False) as counter:
            layer(series(), **given)
        assert counter.get_total_flops() >= expected, given


def test_gru_counts_as_torchs_own_and_every_op_has_a_formula():
    """torch counts no LSTM of its own on a CPU: oneDNN's op has no formula."""
    layer = layer_of("gru", num_layers=2)
    theirs = TORCH["gru"](layer.input_size, layer.hidden_size, 2, batch_first=True, dtype=torch.float64)
    hx = states_of(layer)[0]
    found = [counted(one, series(), hx.clone().requires_grad_()) for one in (layer, theirs)]
    assert found[0] == found[1]
    ops = torch._C._dispatch_get_all_op_names()
    assert {op.split("::")[1] for op in ops if op.startswith("gatedrnn::")} == set(_FLOPS)


@pytest.mark.parametrize("name", TORCH)
def test_what_is_counted_is_what_is_computed(name):
    """A counted call may take another way; numbers, first and second derivatives are those of any other call."""
    layer, x = layer_of(name, num_layers=2, bidirectional=True), series().requires_grad_()

    def slope():
        output, _ = layer(x.clone())  # the counter hooks a layer's input, and torch takes no hook of a leaf here
        (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        return output, first, *torch.autograd.grad(first.square().sum(), [x, *layer.parameters()])

    with FlopCounterMode(display=False):
        found = slope()
    for seen, unseen in zip(found, slope(), strict=True):
        torch.testing.assert_close(seen, unseen, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("torchs_compiler")
def test_a_compiled_layer_has_the_gradients_of_the_layer():
    layer, x = layer_of("lstm", 32, 64, dtype=torch.float32), torch.randn(4, 7, 32)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = [torch.autograd.grad(run(x)[0].square().sum(), list(layer.parameters())) for run in (compiled, layer)]
    for got, want in zip(*found, strict=True):
        assert_equal_within(got, want, torch.float32, "gradient", gradient=True)


@pytest.mark.parametrize("on", [False, True])
def test_autocast_inside_an_op_is_as_it_is_outside(on):
    seen = []

    @torch.library.custom_op("gatedrnn_tests::looks_around", mutates_args=())
    def looks_around(x: torch.Tensor) -> torch.Tensor:
        with recording():
            seen.append(torch.is_autocast_enabled("cpu"))
            v = x.detach().requires_grad_()
            return torch.autograd.grad(v.square().sum(), v)[0]

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
        assert torch.equal(looks_around(torch.ones(3)), torch.full((3,), 2.0))
    assert seen == [on]
