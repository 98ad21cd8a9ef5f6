"""The scan over small blocks: three backends, one law; a block that keeps all of itself keeps its length."""

import pytest
import torch
from covering import over
from tolerances import assert_equal_within
from torch.func import vmap

from gatedrnn import BlockOrthogonalRNN
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kinds.block.op import _block_scan
from gatedrnn.ops import block_scan


def problem(size, steps=9, batch=3, blocks=5, start=True, cut=True, dtype=torch.float64):
    given = {
        "transition": torch.randn(batch, steps, size, size, blocks, dtype=dtype) / size**0.5,
        "drive": torch.randn(batch, steps, size * blocks, dtype=dtype),
        "h0": torch.randn(batch, size * blocks, dtype=dtype) if start else None,
        "resets": torch.rand(batch, steps) < 0.3 if cut else None,
        "reset_state": torch.randn(size * blocks, dtype=dtype) if cut else None,
    }  # fmt: skip
    return {k: v.requires_grad_() if v is not None and v.is_floating_point() else v for k, v in given.items()}


def run(given, reverse, backend):
    """Outputs, the last state, and all gradients from random ones."""
    inputs = [v for v in given.values() if v is not None and v.requires_grad]
    h, last = block_scan(**given, reverse=reverse, backend=backend)
    torch.manual_seed(1)
    loss = (h * torch.randn_like(h)).sum() + (last * torch.randn_like(last)).sum()
    return h, last, *torch.autograd.grad(loss, inputs, materialize_grads=True)


def assert_same(found, expected, dtype):
    for place, (got, want) in enumerate(zip(found, expected, strict=True)):
        assert_equal_within(got, want, dtype, f"result {place}", gradient=place > 1)


@over(
    lambda steps, start: steps or start, size=(1, 2, 3, 4), steps=(0, 1, 2, 9, 16), start=(False, True),
    cut=(False, True), reverse=(False, True),
)  # fmt: skip
def test_every_backend_computes_the_same(size, steps, start, cut, reverse):
    given = problem(size, steps, start=start, cut=cut)
    expected = run(given, reverse, "reference")
    for backend in ("torch", "native"):
        assert_same(run(given, reverse, backend), expected, torch.float64)


@pytest.mark.parametrize("batch, blocks", [(1, 100), (5, 3), (40, 20)])
def test_it_does_not_matter_how_the_work_is_cut(batch, blocks, set_threads):
    given = problem(2, 60, batch, blocks)
    expected = run(given, False, "torch")
    for threads in (1, 2, 8):
        set_threads(threads)
        assert_same(run(given, False, "native"), expected, torch.float64)


@pytest.mark.usefixtures("torchs_compiler")
def test_the_op_is_registered_as_torch_wants_it_and_its_second_derivative_is_that_of_finite_differences():
    for cut in (False, True):
        torch.library.opcheck(_block_scan, (*problem(2, 5, cut=cut).values(), cut))
    given = problem(2, 3, 1, 2)
    resets = given.pop("resets")
    scan = lambda *values: block_scan(**dict(zip(given, values, strict=True)), resets=resets, backend="native")  # noqa: E731
    torch.autograd.gradgradcheck(scan, tuple(given.values()))


def test_a_transform_takes_the_tree_and_refuses_the_compiled_loops():
    given = problem(2, 5, cut=False)
    expected = block_scan(**given)[0]
    values = {k: v.detach().unsqueeze(1) for k, v in given.items() if v is not None}
    assert_equal_within(vmap(lambda v: block_scan(**v)[0])(values).squeeze(1), expected, torch.float64, "states")
    with pytest.raises(BackendUnavailable, match="cannot run in a transform of"):
        vmap(lambda v: block_scan(**v, backend="native")[0])(values)


WRONG = [
    ({"backend": "gpu"}, "backend must be one of auto, reference, torch, native, got 'gpu'"),
    ({"transition": torch.zeros(3, 9, 2, 3, 5)}, "transition must have the axes"),
    ({"drive": torch.zeros(3, 8, 10)}, r"drive must have shape \(3, 9, 10\), got"),
    ({"drive": torch.zeros(3, 9, 10)}, "drive must be torch.float64"),
    ({"resets": torch.zeros(3, 9)}, "resets must be torch.bool"),
    ({"resets": None}, "reset_state is used only where resets are"),
]


def test_what_does_not_fit_is_refused_by_name():
    for changes, message in WRONG:
        with pytest.raises(ValueError, match=message):
            block_scan(**(problem(2) | changes))
    half = {k: v.half() if v is not None and v.is_floating_point() else v for k, v in problem(2).items()}
    with pytest.raises(ValueError, match="transition must be float32 or float64"):
        block_scan(**half)
    with pytest.raises(ValueError, match="of block-orthogonal:block_size=4 must be a multiple of 4, got 6"):
        BlockOrthogonalRNN(3, 6, block_size=4)
    with pytest.raises(ValueError, match="block_size must be one of 2, 3, 4, got 5"):
        BlockOrthogonalRNN(3, 10, block_size=5)


@pytest.mark.parametrize("block_size", [2, 3, 4])
def test_a_block_that_keeps_all_keeps_its_length_over_a_hundred_thousand_steps(block_size):
    """Whatever the input: nothing enters it, and nothing but rounding changes how long it is."""
    layer, hx = BlockOrthogonalRNN(3, 12, batch_first=True, block_size=block_size), torch.randn(1, 1, 12)
    with torch.no_grad():
        layer.bias_ih_l0[12:24] = 100.0
        output, _ = layer(torch.randn(1, 100_000, 3), hx)
        lengths, begun = (h.unflatten(2, (block_size, -1)).norm(dim=2) for h in (output, hx))
        assert ((lengths / begun - 1).abs() < 1e-3).all()
        assert (output[0].std(dim=0) > 0.1).all(), "it turned"


def test_the_sign_of_a_mirror_learns_as_if_it_were_smooth():
    """s is -1 or 1 to the last digit; its gradient is that of tanh."""
    layer = BlockOrthogonalRNN(1, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0[:, 0] = torch.tensor([0.0, 0.0, 2.0, 2.0, 0.0, 0.3]).double()  # v v, d d, angle, mirror
        layer.initial_state_l0.copy_(torch.tensor([1.0, 2.0]))
    output, _ = layer(torch.ones(1, 1, 1, dtype=torch.float64))
    assert output.flatten().tolist() == [1.0, 2.0]
    (grad,) = torch.autograd.grad(output[0, 0, 1], layer.weight_ih_l0)
    expected = 2.0 * (1 - torch.tanh(torch.tensor(0.3).double()) ** 2)
    assert_equal_within(grad[5, 0], expected, torch.float64, "slope of the mirror", gradient=True)


@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
def test_the_output_of_one_step_is_no_view_of_the_last_state(backend):
    h, last = block_scan(torch.randn(2, 1, 2, 2, 3), torch.randn(2, 1, 6), backend=backend)
    expected = last.clone()
    h.zero_()
    assert last.equal(expected)
