"""The GPU's scan and its gradient obey the definition: every size, option, stride, dtype and way of cutting time."""

import pytest
import torch
from covering import over
from tolerances import assert_equal_within

from gatedrnn.ops.linear_scan import scan_in_torch

gpu = pytest.importorskip("gatedrnn.kernels.gpu", reason="triton is not installed")
NAMES = ("grad_decay", "grad_drive", "grad_h0", "grad_reset_state")


def problem(device, batch, steps, channels, dtype=torch.float64, h0=True, resets=True, reset_state=True, slow=False):
    """Arguments of a scan: decays of both signs, some exactly zero, some above one.

    slow: decays near one and resets in one sequence alone, so that a chunk's start still shows at its end.
    """
    decay = torch.empty(batch, steps, channels, dtype=dtype).uniform_(-1.1, 1.1)
    decay = torch.where(torch.rand_like(decay) < 0.05, 0, decay)
    if slow:
        decay = torch.randn_like(decay).sign() * torch.empty_like(decay).uniform_(0.97, 1.03)
    resets = torch.rand(batch, steps) < 0.1 if resets else None
    if slow and resets is not None:
        resets[1:] = False
    accumulation = torch.float64 if dtype == torch.float64 else torch.float32
    arguments = {
        "decay": decay,
        "drive": torch.randn(batch, steps, channels, dtype=dtype),
        "h0": torch.randn(batch, channels, dtype=accumulation) if h0 else None,
        "resets": resets,
        "reset_state": torch.randn(channels, dtype=accumulation) if reset_state else None,
    }
    return {name: None if x is None else x.to(device) for name, x in arguments.items()}


def definition(decay, drive, h0, resets, reset_state, reverse, grad_h, grad_last):
    """Numbers and gradients of the plain torch loop in the dtype of accumulation."""
    dtype = grad_last.dtype
    decay, drive = (x.to(dtype).requires_grad_() for x in (decay, drive))
    h0 = drive.new_zeros(drive.shape[0], drive.shape[2]) if h0 is None else h0.clone()
    reset_state = drive.new_zeros(drive.shape[2]) if reset_state is None else reset_state.clone()
    leaves = decay, drive, h0.detach().requires_grad_(), reset_state.detach().requires_grad_()
    h, last = scan_in_torch(leaves[0], leaves[1], leaves[2], resets, leaves[3], reverse)
    # A zero of the loss on every input: at T = 0 the definition does not touch them, and None is not a gradient.
    loss = (h * grad_h).sum() + (last * grad_last).sum() + sum(0 * leaf.sum() for leaf in leaves)
    return h, last, torch.autograd.grad(loss, leaves)


def assert_obeys_the_definition(arguments, reverse=False, chunk=None, grad_h=None, accuracy=None):
    drive = arguments["drive"]
    batch, _, channels = drive.shape
    accumulation = torch.float64 if drive.dtype == torch.float64 else torch.float32
    accuracy = drive.dtype if accuracy is None else accuracy
    grad_h = torch.randn_like(drive) if grad_h is None else grad_h
    grad_last = torch.randn(batch, channels, dtype=accumulation, device=drive.device)
    h_expected, last_expected, expected = definition(**arguments, reverse=reverse, grad_h=grad_h, grad_last=grad_last)
    decay, drive, *rest = arguments.values()
    h, last = gpu.scan(decay, drive, *rest, reverse, chunk=chunk)
    assert h.dtype == drive.dtype and last.dtype == accumulation and h.is_contiguous()
    assert_equal_within(h, h_expected, accuracy, "h")
    assert_equal_within(last, last_expected, accumulation, "last")
    gradients = gpu.scan_gradient(grad_h, grad_last, decay, h, *rest, reverse, chunk=chunk)
    for name, got, want in zip(NAMES, gradients, expected, strict=True):
        assert got.dtype == (drive.dtype if name in NAMES[:2] else accumulation) and got.is_contiguous()
        if name != "grad_reset_state" or arguments["resets"] is not None:
            assert_equal_within(got, want, accuracy, name, gradient=True)
    if arguments["resets"] is None:
        assert not gradients[3].any()


SIZES = [(0, 5), (1, 1), (2, 130), (31, 64), (32, 5), (33, 64), (33, 130), (100, 1), (100, 5)]
"""Steps and channels: around the rows and the columns of a tile."""


@pytest.mark.parametrize("steps, channels", SIZES)
def test_every_length_and_width_obeys_the_definition(device, steps, channels):
    dtype = torch.float32 if (steps + channels) % 2 else torch.float64
    batch = 1 if channels == 64 else 3 if channels == 5 else 2
    assert_obeys_the_definition(problem(device, batch, steps, channels, dtype), reverse=steps % 2 == 0)


RESETS = {"no resets": (False, False), "resets": (True, False), "resets to a state": (True, True)}


@over(h0=(False, True), resets=RESETS, reverse=(False, True), chunk=(None, 64))
def test_every_option_obeys_the_definition_in_one_pass_and_in_two(device, h0, resets, reverse, chunk):
    options = {"h0": h0, "resets": resets[0], "reset_state": resets[1]}
    arguments = problem(device, 2, 20 if chunk is None else 150, 2, **options, slow=chunk is not None)
    assert_obeys_the_definition(arguments, reverse, chunk)


@pytest.mark.parametrize("steps", [63, 64, 127, 128])
def test_time_may_end_anywhere_in_a_chunk(device, steps):
    assert_obeys_the_definition(problem(device, 2, steps, 3, slow=True), reverse=steps % 2 == 0, chunk=64)


def test_more_chunks_than_rows_of_a_tile_are_composed(device):
    arguments = problem(device, 1, 64 * 33, 1, resets=False, reset_state=False, slow=True)
    states, _ = scan_in_torch(**arguments, reverse=False)
    h, _ = gpu.scan(**arguments, reverse=False, chunk=64)
    assert_equal_within(h, states, torch.float64, "h")


def test_a_tile_of_every_size_gives_the_same_values(device, monkeypatch):
    from gatedrnn.kernels.gpu._launch import LIGHT
    from gatedrnn.kernels.gpu.scan import _scan, _scan_gradient

    arguments = problem(device, 1, 70, 70)
    for configuration in LIGHT:
        for kernel in (_scan, _scan_gradient):
            monkeypatch.setattr(kernel, "configs", [configuration])
        assert_obeys_the_definition(arguments)


def strided(series):
    """The same numbers with every kind of strides."""
    batch, steps, channels = series.shape
    wide = series.new_zeros(batch, steps, channels + 3)
    wide[..., 2:-1] = series
    yield series.transpose(1, 2).contiguous().transpose(1, 2)
    yield series.transpose(0, 1).contiguous().transpose(0, 1)
    yield wide[..., 2:-1]


def test_strides_change_nothing_and_may_be_zero(device):
    arguments = problem(device, 2, 35, 6)
    grad_h = torch.randn(2, 35, 6, dtype=torch.float64, device=device)
    for decay, drive, grad in zip(*(strided(x) for x in (arguments["decay"], arguments["drive"], grad_h)), strict=True):
        assert_obeys_the_definition(arguments | {"decay": decay, "drive": drive}, grad_h=grad)
    expanded = {"decay": arguments["decay"][:1, :1], "drive": arguments["drive"][..., :1]}
    arguments |= {name: x.expand(2, 35, 6) for name, x in expanded.items()}
    assert_obeys_the_definition(arguments, grad_h=grad_h.new_ones(()).expand(2, 35, 6))


def test_no_batch_and_no_channels_give_empty_results(device):
    for batch, channels in ((0, 3), (2, 0)):
        assert_obeys_the_definition(problem(device, batch, 4, channels))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_summed_up_in_float32(device, dtype):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter rounds to bfloat16 by cutting off; needs a CUDA device")
    # The table has no line for float16, which is finer than bfloat16.
    assert_obeys_the_definition(problem(device, 2, 40, 5, dtype), accuracy=torch.bfloat16)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("chunk", [None, 64])
def test_nothing_that_overflowed_passes_a_reset(device, chunk):
    decay = torch.full((1, 150, 1), 1e3, dtype=torch.float32, device=device)
    drive = torch.ones_like(decay)
    resets = torch.zeros(1, 150, dtype=torch.bool, device=device)
    resets[:, 140] = True
    h, last = gpu.scan(decay, drive, None, resets, None, False, chunk=chunk)
    assert h[0, 100, 0] == torch.inf
    expected, expected_last = gpu.scan(decay[:, 140:], drive[:, 140:], None, None, None, False)
    assert_equal_within(h[:, 140:] / expected, torch.ones_like(expected), torch.float32, "h after the reset")
    assert_equal_within(last / expected_last, torch.ones_like(last), torch.float32, "last")


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_decays_whose_product_overflows_leave_a_zero_at_zero(device):
    decay = torch.full((1, 200, 1), 4.0, dtype=torch.float32, device=device)
    drive = torch.zeros_like(decay)
    drive[:, -1] = 1
    h, last = gpu.scan(decay, drive, None, None, None, False, chunk=64)
    assert torch.equal(h, drive) and torch.equal(last, drive[:, -1])
    grad_h = drive.flip(1)
    gradients = gpu.scan_gradient(grad_h, torch.zeros_like(last), decay, h, None, None, None, False, chunk=64)
    expected = torch.zeros_like(decay), grad_h, torch.full_like(last, 4.0)
    assert all(torch.equal(got, want) for got, want in zip(gradients, expected, strict=False))


def test_the_same_call_gives_the_same_bits(device):
    arguments = problem(device, 3, 70, 5, torch.float32)
    grad_last = torch.randn(3, 5, device=device)
    decay, drive, *rest = arguments.values()
    h, _ = gpu.scan(decay, drive, *rest, False, chunk=64)
    first, second = (gpu.scan_gradient(drive, grad_last, decay, h, *rest, False, chunk=64) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_a_chunk_that_tiles_do_not_divide_is_refused(device):
    arguments = problem(device, 1, 4, 1)
    with pytest.raises(ValueError, match="chunk must be a positive multiple of 64, got 100"):
        gpu.scan(*arguments.values(), False, chunk=100)
