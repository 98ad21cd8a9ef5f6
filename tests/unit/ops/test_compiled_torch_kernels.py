"""torch's own kernels as ops, for compiled graphs: the gradients that they have in eager mode."""

import pytest
import torch
from tolerances import assert_equal_within

import gatedrnn
from gatedrnn.ops.torch_rnn import recording


@pytest.mark.usefixtures("torchs_compiler")
def test_a_compiled_layer_has_the_gradients_of_the_layer():
    layer, x = gatedrnn.LSTM(32, 64, batch_first=True), torch.randn(4, 7, 32)
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
