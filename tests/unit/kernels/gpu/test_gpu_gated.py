"""The GPU's gated scans equal the cells' own equations, computed step by step and differentiated by autograd."""

import pytest
import torch
from covering import over
from kernel_cells import FLAGS
from scan_kernels import CELLS, TILE, TILES, by_equations
from tolerances import assert_equal_within

gpu = pytest.importorskip("gatedrnn.kernels.gpu", reason="triton is not installed")


def problem(device, kind, batch, steps, channels, dtype=torch.float64, h0=True, flags=FLAGS[-1], slow=False):
    """Arguments of a gated scan, gates far open and far shut among them.

    slow: states are kept for long and reset in one sequence alone, so that a chunk's start still shows at its end.
    """
    gates = len(CELLS[kind].projections)
    accumulation = torch.float64 if dtype == torch.float64 else torch.float32
    projected = (1 if slow else 3) * torch.randn(batch, steps, gates * channels)
    resets = torch.rand(batch, steps) < 0.1 if "resets" in flags else None
    if slow:
        (name, sign), *_ = CELLS[kind].decay_gates.items() or (("decay", 0.2),)
        projected.unflatten(2, (gates, channels))[:, :, CELLS[kind].projections.index(name)] += 5 * sign
        if resets is not None:
            resets[1:] = False
    arguments = {
        "projected": projected.to(dtype),
        "bias": None if "mask" in flags else torch.randn(gates * channels, dtype=accumulation),
        "h0": torch.randn(batch, channels, dtype=accumulation) if h0 else None,
        "mask": torch.rand(batch, steps) < 0.8 if "mask" in flags else None,
        "resets": resets,
        "reset_state": None if resets is None else torch.randn(channels, dtype=accumulation),
    }
    return {name: None if x is None else x.to(device) for name, x in arguments.items()}


def assert_obeys_the_definition(kind, arguments, reverse=False, chunk=None, grad_output=None, accuracy=None):
    projected, bias, *rest = arguments.values()
    batch, steps, width = projected.shape
    channels = width // len(CELLS[kind].projections)
    accumulation = torch.float64 if projected.dtype == torch.float64 else torch.float32
    accuracy = projected.dtype if accuracy is None else accuracy
    grad_last = torch.randn(batch, channels, dtype=accumulation, device=projected.device)
    if grad_output is None:
        grad_output = torch.randn(batch, steps, channels, device=projected.device).to(projected.dtype)
    expected = by_equations(kind, projected, bias, *rest, reverse, grad_output, grad_last, accumulation)
    output, last = gpu.gated_scan(TILES[kind], projected, bias, *rest, reverse, chunk=chunk)
    told = output if rest[1] is None and TILES[kind].output is None else None
    gradients = gpu.gated_scan_gradient(
        TILES[kind], grad_output, grad_last, projected, bias, told, *rest, reverse, chunk=chunk
    )
    assert output.dtype == gradients[0].dtype == projected.dtype and last.dtype == gradients[2].dtype == accumulation
    assert output.is_contiguous() and gradients[0].is_contiguous()
    names = "output", "last", "projected", "bias", "h0", "reset_state"
    for place, (name, got, want) in enumerate(zip(names, (output, last, *gradients), expected, strict=True)):
        if name != "bias" or bias is not None:
            assert_equal_within(got, want, accuracy, name, gradient=place > 1)


@pytest.mark.parametrize("kind", TILES)
def test_every_cell_obeys_its_equations(device, kind):
    for reverse, dtype in ((False, torch.float32), (True, torch.float64)):
        assert_obeys_the_definition(kind, problem(device, kind, 2, 33, 5, dtype), reverse)


@over(kind=TILE, flags=FLAGS, h0=(False, True), chunk=(None, 64))
def test_every_option_obeys_the_equations_in_one_pass_and_in_two(device, kind, flags, h0, chunk):
    arguments = problem(device, kind, 2, 20 if chunk is None else 70, 2, h0=h0, flags=flags, slow=chunk is not None)
    assert_obeys_the_definition(kind, arguments, reverse="mask" in flags, chunk=chunk)


@pytest.mark.parametrize(
    "steps, batch, channels", [(0, 2, 3), (1, 3, 1), (2, 1, 130), (31, 1, 64), (32, 3, 5), (33, 1, 64), (100, 1, 1)]
)
def test_every_length_and_width_obeys_the_equations(device, steps, batch, channels):
    for kind in ("minlstm", "gru-input-gated"):
        assert_obeys_the_definition(kind, problem(device, kind, batch, steps, channels, torch.float32))


def test_no_batch_and_no_channels_give_empty_results(device):
    for batch, channels in ((0, 3), (2, 0)):
        assert_obeys_the_definition("minlstm", problem(device, "minlstm", batch, 4, channels))


@pytest.mark.parametrize("kind", ["mingru", "lstm-normalized"])
def test_a_tile_of_every_size_gives_the_same_values(device, kind, monkeypatch):
    from gatedrnn.kernels.gpu._launch import HEAVY, LIGHT
    from gatedrnn.kernels.gpu.gated import _gated_scan, _gated_scan_gradient

    arguments = problem(device, kind, 1, 33, 33)
    for i in range(max(len(LIGHT), len(HEAVY))):
        for kernel, configurations in ((_gated_scan, LIGHT), (_gated_scan_gradient, HEAVY)):
            monkeypatch.setattr(kernel, "configs", [configurations[i % len(configurations)]])
        assert_obeys_the_definition(kind, arguments)


def test_strides_change_nothing(device):
    arguments = problem(device, "minlstm", 2, 20, 3)
    projected = arguments["projected"]
    one = torch.ones((), dtype=torch.float64, device=device)
    for moved in (projected.transpose(1, 2).contiguous().transpose(1, 2), projected[:1].expand(2, -1, -1)):
        assert_obeys_the_definition("minlstm", arguments | {"projected": moved}, grad_output=one.expand(2, 20, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_summed_up_in_float32(device, dtype):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter rounds to bfloat16 by cutting off; needs a CUDA device")
    for kind in TILE.fast:  # the table has no line for float16, which is finer than bfloat16
        assert_obeys_the_definition(kind, problem(device, kind, 2, 20, 3, dtype), accuracy=torch.bfloat16)


@over(kind=TILE)
def test_gates_far_open_or_far_shut_neither_overflow_nor_divide_zero_by_zero(device, kind):
    gates = len(CELLS[kind].projections)
    extremes = torch.tensor([-1e4, -120.0, -100.0, -1.0, 0.0, 100.0, 1e4], device=device)
    projected = torch.cartesian_prod(*[extremes] * gates).T.reshape(1, 1, -1)
    arguments = {"projected": projected, "bias": None, "h0": None, "mask": None, "resets": None, "reset_state": None}
    arguments["h0"] = torch.ones(1, len(extremes) ** gates, device=device)
    assert_obeys_the_definition(kind, arguments)


@over(kind=TILE)
def test_a_masked_step_lets_not_even_a_nan_through(device, kind):
    arguments = problem(device, kind, 1, 20, 2)
    mask = arguments["mask"]
    filled = arguments["projected"].masked_fill(~mask[..., None], torch.nan)
    grad_output, grad_last = torch.randn(1, 20, 2, dtype=torch.float64), torch.randn(1, 2, dtype=torch.float64)
    results = []
    for projected in (arguments["projected"], filled):
        options = arguments["h0"], mask, arguments["resets"], arguments["reset_state"], False
        output, last = gpu.gated_scan(TILES[kind], projected, None, *options)
        upstream = grad_output.to(device), grad_last.to(device)
        grads = gpu.gated_scan_gradient(TILES[kind], *upstream, projected, None, None, *options)
        assert not output[~mask].any() and not grads[0][~mask].any()
        results.append((output, last, *grads))
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tanh_keeps_its_digits_near_zero(device, dtype):
    numbers = torch.logspace(-6, 1, 200, dtype=dtype, device=device)
    # The input gate open and the forget gate shut: the state is the tanh of the candidate.
    opened = torch.full_like(numbers, 1e4)
    projected = torch.cat([opened, -opened, numbers]).reshape(1, 1, -1)
    _, last = gpu.gated_scan(TILES["lstm-input-gated"], projected, None, None, None, None, None, False)
    assert_equal_within(last[0] / numbers.tanh(), torch.ones_like(numbers), dtype, "tanh over torch's")
