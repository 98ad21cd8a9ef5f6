"""The GPU's linear and gated scans obey their definitions, step by step in torch and differentiated by autograd."""

import pytest
import torch
from covering import over
from kernel_cells import FLAGS
from scan_kernels import CELLS, TILE, TILES, by_equations
from tolerances import assert_equal_within

from gatedrnn.ops.linear_scan import scan_in_torch

pytestmark = pytest.mark.slow  # a package of 700 MB, which `make slow` installs
gpu = pytest.importorskip("gatedrnn.kernels.gpu", reason="triton is not installed")
LINEAR = "linear scan"


def problem(device, kind, batch, steps, channels, dtype=torch.float64, h0=True, flags=FLAGS[-1], slow=False):
    """Arguments of a scan: decays of both signs, some exactly zero, some above one; gates far open and far shut.

    slow: states are kept for long and reset in one sequence alone, so that a chunk's start still shows at its end.
    """
    accumulation, masked = torch.promote_types(dtype, torch.float32), "mask" in flags
    resets = torch.rand(batch, steps) < 0.1 if "resets" in flags else None
    if slow and resets is not None:
        resets[1:] = False
    rest = {"resets": resets, "reset_state": None if resets is None else torch.randn(channels, dtype=accumulation)}
    start = {"h0": torch.randn(batch, channels, dtype=accumulation) if h0 else None}
    if kind == LINEAR:
        decay = torch.empty(batch, steps, channels, dtype=dtype).uniform_(-1.1, 1.1)
        decay = torch.where(torch.rand_like(decay) < 0.05, 0, decay)
        if slow:
            decay = torch.randn_like(decay).sign() * torch.empty_like(decay).uniform_(0.97, 1.03)
        arguments = {"decay": decay, "drive": torch.randn(batch, steps, channels, dtype=dtype), **start, **rest}
        if not masked:  # both are tried
            arguments["reset_state"] = None
    else:
        gates = len(CELLS[kind].projections)
        projected = (1 if slow else 3) * torch.randn(batch, steps, gates * channels)
        if slow:
            (name, sign), *_ = CELLS[kind].decay_gates.items() or (("decay", 0.2),)
            projected.unflatten(2, (gates, channels))[:, :, CELLS[kind].projections.index(name)] += 5 * sign
        bias = None if masked else torch.randn(gates * channels, dtype=accumulation)
        mask = {"mask": torch.rand(batch, steps) < 0.8 if masked else None}
        arguments = {"projected": projected.to(dtype), "bias": bias, **start, **mask, **rest}
    return {name: None if x is None else x.to(device) for name, x in arguments.items()}


def definition(decay, drive, h0, resets, reset_state, reverse, grad_h, grad_last):
    """Numbers and gradients of the plain torch loop in the dtype of accumulation."""
    h0 = torch.zeros_like(grad_last) if h0 is None else h0
    reset_state = torch.zeros_like(grad_last).sum(0) if reset_state is None else reset_state
    leaves = [x.detach().to(grad_last.dtype).clone().requires_grad_() for x in (decay, drive, h0, reset_state)]
    h, last = scan_in_torch(*leaves[:3], resets, leaves[3], reverse)
    loss = (h * grad_h).sum() + (last * grad_last).sum()
    return h, last, *torch.autograd.grad(loss, leaves, materialize_grads=True, allow_unused=True)


def assert_obeys_the_definition(kind, arguments, reverse=False, chunk=None, grad_output=None, accuracy=None):
    first, second, *rest = arguments.values()
    dtype, (batch, steps, width) = first.dtype, first.shape
    accuracy, accumulation = accuracy or dtype, torch.promote_types(dtype, torch.float32)
    channels = width if kind == LINEAR else width // len(CELLS[kind].projections)
    grad_last = torch.randn(batch, channels, dtype=accumulation, device=first.device)
    if grad_output is None:
        grad_output = torch.randn(batch, steps, channels, device=first.device).to(dtype)
    given = first, second, *rest, reverse
    if kind == LINEAR:
        expected = definition(*given, grad_output, grad_last)
        output, last = gpu.scan(*given, chunk=chunk)
        gradients = gpu.scan_gradient(grad_output, grad_last, first, output, *rest, reverse, chunk=chunk)
    else:
        expected = by_equations(kind, *given, grad_output, grad_last, accumulation)
        output, last = gpu.gated_scan(TILES[kind], *given, chunk=chunk)
        told = output if rest[1] is None and TILES[kind].output is None else None
        whole = first, second, told, *rest, reverse
        gradients = gpu.gated_scan_gradient(TILES[kind], grad_output, grad_last, *whole, chunk=chunk)
    names = "output", "last", *list(arguments)[:3], "reset_state"
    for place, (name, got, want) in enumerate(zip(names, (output, last, *gradients), expected, strict=True)):
        if name in ("bias", "reset_state") and (arguments["resets"] if name == "reset_state" else second) is None:
            assert got is None or not got.any()
            continue
        series = name in ("output", "decay", "drive", "projected")
        assert got.dtype == (dtype if series else accumulation) and (got.is_contiguous() or not series)
        within = accumulation if (kind, name) == (LINEAR, "last") else accuracy
        assert_equal_within(got, want, within, f"{kind}, {name}", gradient=place > 1)


@pytest.mark.parametrize("kind", TILES)
def test_every_cell_obeys_its_equations(device, kind):
    for reverse, dtype in ((False, torch.float32), (True, torch.float64)):
        assert_obeys_the_definition(kind, problem(device, kind, 2, 33, 5, dtype), reverse)


@over(kind=(LINEAR, *TILE.fast), flags=FLAGS, h0=(False, True), chunk=(None, 64), reverse=(False, True))
def test_every_option_obeys_the_definition_in_one_pass_and_in_two(device, kind, flags, h0, chunk, reverse):
    arguments = problem(device, kind, 2, 20 if chunk is None else 70, 2, h0=h0, flags=flags, slow=chunk is not None)
    assert_obeys_the_definition(kind, arguments, reverse, chunk)


SIZES = [(2, 4, 0), (0, 4, 3), (3, 0, 5), (2, 1, 1), (1, 2, 130), (1, 31, 64), (3, 32, 5), (1, 33, 64), (2, 100, 1)]


@pytest.mark.parametrize("kind", [LINEAR, "minlstm", "gru-input-gated"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_obeys_the_definition(device, kind, size):
    """Around the rows and the columns of a tile."""
    dtype = torch.float32 if sum(size[1:]) % 2 else torch.float64
    assert_obeys_the_definition(kind, problem(device, kind, *size, dtype), reverse=size[1] % 2 == 0)


@pytest.mark.parametrize("steps", [63, 64, 127, 128])
def test_time_may_end_anywhere_in_a_chunk(device, steps):
    arguments = problem(device, LINEAR, 2, steps, 3, slow=True)
    assert_obeys_the_definition(LINEAR, arguments, reverse=steps % 2 == 0, chunk=64)


def test_more_chunks_than_rows_of_a_tile_are_composed(device):
    arguments = problem(device, LINEAR, 1, 64 * 33, 1, flags=(), slow=True)
    states, _ = scan_in_torch(**arguments, reverse=False)
    assert_equal_within(gpu.scan(**arguments, reverse=False, chunk=64)[0], states, torch.float64, "h")


@pytest.mark.parametrize("kind", [LINEAR, "mingru", "lstm-normalized"])
def test_a_tile_of_every_size_gives_the_same_values(device, kind, monkeypatch):
    from gatedrnn.kernels.gpu._launch import HEAVY, LIGHT
    from gatedrnn.kernels.gpu.gated import _gated_scan, _gated_scan_gradient
    from gatedrnn.kernels.gpu.scan import _scan, _scan_gradient

    size, tiles = (1, 33, 33), [(_gated_scan, LIGHT), (_gated_scan_gradient, HEAVY)]
    if kind == LINEAR:
        size, tiles = (1, 70, 70), [(_scan, LIGHT), (_scan_gradient, LIGHT)]
    arguments = problem(device, kind, *size)
    for i in range(max(len(LIGHT), len(HEAVY))):
        for kernel, configurations in tiles:
            monkeypatch.setattr(kernel, "configs", [configurations[i % len(configurations)]])
        assert_obeys_the_definition(kind, arguments)


def strided(series):
    batch, steps, channels = series.shape
    wide = series.new_zeros(batch, steps, channels + 3)
    wide[..., 2:-1] = series
    yield series.transpose(1, 2).contiguous().transpose(1, 2)
    yield series.transpose(0, 1).contiguous().transpose(0, 1)
    yield wide[..., 2:-1]


def test_strides_change_nothing_and_may_be_zero(device):
    arguments = problem(device, LINEAR, 2, 35, 6)
    grad_h = torch.randn(2, 35, 6, dtype=torch.float64, device=device)
    for decay, drive, grad in zip(*(strided(x) for x in (arguments["decay"], arguments["drive"], grad_h)), strict=True):
        assert_obeys_the_definition(LINEAR, arguments | {"decay": decay, "drive": drive}, grad_output=grad)
    expanded = {"decay": arguments["decay"][:1, :1], "drive": arguments["drive"][..., :1]}
    arguments |= {name: x.expand(2, 35, 6) for name, x in expanded.items()}
    one = grad_h.new_ones(())
    assert_obeys_the_definition(LINEAR, arguments, grad_output=one.expand(2, 35, 6))
    arguments = problem(device, "minlstm", 2, 20, 3)
    for moved in (next(strided(arguments["projected"])), arguments["projected"][:1].expand(2, -1, -1)):
        assert_obeys_the_definition("minlstm", arguments | {"projected": moved}, grad_output=one.expand(2, 20, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_summed_up_in_float32(device, dtype):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter rounds to bfloat16 by cutting off; needs a CUDA device")
    for kind in (LINEAR, *TILE.fast):  # the table has no line for float16, which is finer than bfloat16
        assert_obeys_the_definition(kind, problem(device, kind, 2, 40, 5, dtype), accuracy=torch.bfloat16)


@over(kind=TILE)
def test_gates_far_open_or_far_shut_neither_overflow_nor_divide_zero_by_zero(device, kind):
    extremes = torch.tensor([-1e4, -120.0, -100.0, -1.0, 0.0, 100.0, 1e4], device=device)
    every = torch.cartesian_prod(*[extremes] * len(CELLS[kind].projections))
    given = dict.fromkeys(("projected", "bias", "h0", "mask", "resets", "reset_state"))
    h0 = torch.ones(1, len(every), device=device)
    assert_obeys_the_definition(kind, given | {"projected": every.T.reshape(1, 1, -1), "h0": h0})


@over(kind=TILE)
def test_a_masked_step_lets_not_even_a_nan_through(device, kind):
    arguments = problem(device, kind, 1, 20, 2)
    projected, _, *options = arguments.values()
    mask, upstream, results = arguments["mask"], (torch.randn_like(projected[..., :2]), arguments["h0"]), []
    for given in (projected, projected.masked_fill(~mask[..., None], torch.nan)):
        output, last = gpu.gated_scan(TILES[kind], given, None, *options, False)
        grads = gpu.gated_scan_gradient(TILES[kind], *upstream, given, None, None, *options, False)
        assert not output[~mask].any() and not grads[0][~mask].any()
        results.append((output, last, *grads))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tanh_keeps_its_digits_near_zero(device, dtype):
    numbers = torch.logspace(-6, 1, 200, dtype=dtype, device=device)
    # The input gate open and the forget gate shut: the state is the tanh of the candidate.
    opened = torch.full_like(numbers, 1e4)
    projected = torch.cat([opened, -opened, numbers]).reshape(1, 1, -1)
    _, last = gpu.gated_scan(TILES["lstm-input-gated"], projected, None, None, None, None, None, False)
    assert_equal_within(last[0] / numbers.tanh(), torch.ones_like(numbers), dtype, "tanh over torch's")


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
    assert all(map(torch.equal, gradients, (torch.zeros_like(decay), grad_h, torch.full_like(last, 4.0))))


def test_the_same_call_gives_the_same_bits_and_a_chunk_that_tiles_do_not_divide_is_refused(device):
    decay, drive, *rest = problem(device, LINEAR, 3, 70, 5, torch.float32).values()
    h, last = gpu.scan(decay, drive, *rest, False, chunk=64)
    first, second = (gpu.scan_gradient(drive, last, decay, h, *rest, False, chunk=64) for _ in range(2))
    assert all(map(torch.equal, first, second))
    with pytest.raises(ValueError, match="chunk must be a positive multiple of 64, got 100"):
        gpu.scan(decay, drive, *rest, False, chunk=100)
