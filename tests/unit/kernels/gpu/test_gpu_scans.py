"""The GPU's scans, bare and of cells, obey their definitions, step by step in torch and differentiated by autograd."""

import pytest
import torch
from covering import over
from kernel_cells import FLAGS
from scan_kernels import CELLS, TILE, TILES, by_equations
from tolerances import assert_equal_within

from gatedrnn.kinds.scan.definition import BARE, ScanInputs, ScanUpstream, scan_in_torch
from gatedrnn.kinds.scan.rows import bare_tiles

pytestmark = pytest.mark.slow  # a package of 700 MB, which `make slow` installs
gpu = pytest.importorskip("gatedrnn.kinds.scan.gpu", reason="triton is not installed")
PARTS = TILES | {BARE: bare_tiles()}


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
    if kind == BARE:
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


FIELDS = {"decay": "x", "projected": "x", "bias": "by_channel", "h0": "starts"}


def inputs(arguments, reverse):
    return ScanInputs(**{FIELDS.get(name, name): value for name, value in arguments.items()}, reverse=reverse)


def scanned(kind, arguments, reverse=False, chunk=None):
    """The kernel's outputs, and the last state."""
    return gpu.scan(PARTS[kind], inputs(arguments, reverse), chunk=chunk)[:2]


def gradients(kind, grad_output, grad_last, arguments, output, reverse=False, chunk=None):
    """The kernel's gradients: of decay and drive, or of projections and bias, then of h0 and reset_state."""
    upstream = ScanUpstream(grad_output, grad_last, grad_output, output, True)
    found = gpu.scan_gradient(PARTS[kind], upstream, inputs(arguments, reverse), chunk=chunk)
    assert (found.drive is None) == (kind != BARE) and found.weight is None
    return found.x, found.drive if kind == BARE else found.by_channel, found.starts, found.reset_state


def definition(decay, drive, h0, resets, reset_state, reverse, grad_h, grad_last):
    """Numbers and gradients of the plain torch loop in the dtype of accumulation."""
    h0 = torch.zeros_like(grad_last) if h0 is None else h0
    reset_state = torch.zeros_like(grad_last).sum(0) if reset_state is None else reset_state
    leaves = [x.detach().to(grad_last.dtype).clone().requires_grad_() for x in (decay, drive, h0, reset_state)]
    h, last = scan_in_torch(*leaves[:3], resets, leaves[3], reverse)
    loss = (h * grad_h).sum() + (last * grad_last).sum()
    return h, last, *torch.autograd.grad(loss, leaves, materialize_grads=True, allow_unused=True)


def assert_obeys_the_definition(kind, arguments, reverse=False, chunk=None, grad_output=None, accuracy=None):
    first, second, *_ = arguments.values()
    dtype, (batch, steps, width) = first.dtype, first.shape
    accuracy, accumulation = accuracy or dtype, torch.promote_types(dtype, torch.float32)
    channels = width if kind == BARE else width // len(CELLS[kind].projections)
    grad_last = torch.randn(batch, channels, dtype=accumulation, device=first.device)
    if grad_output is None:
        grad_output = torch.randn(batch, steps, channels, device=first.device).to(dtype)
    given, grads = (*arguments.values(), reverse), (grad_output, grad_last)
    expected = definition(*given, *grads) if kind == BARE else by_equations(kind, *given, *grads, accumulation)
    output, last = scanned(kind, arguments, reverse, chunk)
    shows = arguments.get("mask") is None and PARTS[kind].output is None
    found = gradients(kind, *grads, arguments, output if shows else None, reverse, chunk)
    names = "output", "last", *list(arguments)[:3], "reset_state"
    for place, (name, got, want) in enumerate(zip(names, (output, last, *found), expected, strict=True)):
        if name in ("bias", "reset_state") and (arguments["resets"] if name == "reset_state" else second) is None:
            assert got is None or not got.any()
            continue
        series = name in ("output", "decay", "drive", "projected")
        assert got.dtype == (dtype if series else accumulation) and (got.is_contiguous() or not series)
        within = accumulation if (kind, name) == (BARE, "last") else accuracy
        assert_equal_within(got, want, within, f"{kind}, {name}", gradient=place > 1)


@pytest.mark.parametrize("kind", TILES)
def test_every_cell_obeys_its_equations(device, kind):
    for reverse, dtype in ((False, torch.float32), (True, torch.float64)):
        assert_obeys_the_definition(kind, problem(device, kind, 2, 33, 5, dtype), reverse)


@over(kind=(BARE, *TILE.fast), flags=FLAGS, h0=(False, True), chunk=(None, 64), reverse=(False, True))
def test_every_option_obeys_the_definition_in_one_pass_and_in_two(device, kind, flags, h0, chunk, reverse):
    arguments = problem(device, kind, 2, 20 if chunk is None else 70, 2, h0=h0, flags=flags, slow=chunk is not None)
    assert_obeys_the_definition(kind, arguments, reverse, chunk)


SIZES = [(2, 4, 0), (0, 4, 3), (3, 0, 5), (2, 1, 1), (1, 2, 130), (1, 31, 64), (3, 32, 5), (1, 33, 64), (2, 100, 1)]


@pytest.mark.parametrize("kind", [BARE, "minlstm", "gru-input-gated"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_obeys_the_definition(device, kind, size):
    """Sizes around the rows and the columns of a tile."""
    dtype = torch.float32 if sum(size[1:]) % 2 else torch.float64
    assert_obeys_the_definition(kind, problem(device, kind, *size, dtype), reverse=size[1] % 2 == 0)


@pytest.mark.parametrize("steps", [63, 64, 127, 128])
def test_time_may_end_anywhere_in_a_chunk(device, steps):
    arguments = problem(device, BARE, 2, steps, 3, slow=True)
    assert_obeys_the_definition(BARE, arguments, reverse=steps % 2 == 0, chunk=64)


def test_more_chunks_than_rows_of_a_tile_are_composed(device):
    arguments = problem(device, BARE, 1, 64 * 33, 1, flags=(), slow=True)
    states, _ = scan_in_torch(**arguments, reverse=False)
    assert_equal_within(scanned(BARE, arguments, chunk=64)[0], states, torch.float64, "h")


@pytest.mark.parametrize("kind", [BARE, "mingru", "lstm-normalized"])
def test_a_tile_of_every_size_gives_the_same_values(device, kind, monkeypatch):
    from gatedrnn.kernels.gpu.launch import HEAVY, LIGHT

    size = (1, 70, 70) if kind == BARE else (1, 33, 33)
    tiles = [(gpu._scan, LIGHT), (gpu._scan_gradient, HEAVY + LIGHT)]
    arguments = problem(device, kind, *size)
    for i in range(len(HEAVY + LIGHT)):
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
    arguments = problem(device, BARE, 2, 35, 6)
    grad_h = torch.randn(2, 35, 6, dtype=torch.float64, device=device)
    for decay, drive, grad in zip(*(strided(x) for x in (arguments["decay"], arguments["drive"], grad_h)), strict=True):
        assert_obeys_the_definition(BARE, arguments | {"decay": decay, "drive": drive}, grad_output=grad)
    joined, one = torch.stack([arguments["drive"], arguments["decay"]]), grad_h.new_ones(())
    for decay, drive in ((joined[1], joined[0]), (joined[1], joined[1])):  # one behind the other in memory, or the same
        assert_obeys_the_definition(BARE, arguments | {"decay": decay, "drive": drive}, grad_output=grad_h)
    expanded = {"decay": arguments["decay"][:1, :1], "drive": arguments["drive"][..., :1]}
    arguments |= {name: x.expand(2, 35, 6) for name, x in expanded.items()}
    assert_obeys_the_definition(BARE, arguments, grad_output=one.expand(2, 35, 6))
    arguments = problem(device, "minlstm", 2, 20, 3)
    for moved in (next(strided(arguments["projected"])), arguments["projected"][:1].expand(2, -1, -1)):
        assert_obeys_the_definition("minlstm", arguments | {"projected": moved}, grad_output=one.expand(2, 20, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_summed_up_in_float32(device, dtype):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter rounds to bfloat16 by cutting off; needs a CUDA device")
    for kind in (BARE, *TILE.fast):  # the table has no line for float16, which is finer than bfloat16
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
    projected, mask = arguments["projected"], arguments["mask"]
    upstream, results = (torch.randn_like(projected[..., :2]), arguments["h0"]), []
    for given in (projected, projected.masked_fill(~mask[..., None], torch.nan)):
        given = arguments | {"projected": given, "bias": None}
        output, last = scanned(kind, given)
        grads = gradients(kind, *upstream, given, None)
        assert not output[~mask].any() and not grads[0][~mask].any()
        results.append((output, last, *grads))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tanh_keeps_its_digits_near_zero(device, dtype):
    numbers = torch.logspace(-6, 1, 200, dtype=dtype, device=device)
    # The input gate open and the forget gate shut: the state is the tanh of the candidate.
    opened = torch.full_like(numbers, 1e4)
    projected = torch.cat([opened, -opened, numbers]).reshape(1, 1, -1)
    given = dict.fromkeys(("h0", "resets", "reset_state")) | {"projected": projected}
    _, last = scanned("lstm-input-gated", given)
    assert_equal_within(last[0] / numbers.tanh(), torch.ones_like(numbers), dtype, "tanh over torch's")


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("chunk", [None, 64])
def test_nothing_that_overflowed_passes_a_reset(device, chunk):
    decay = torch.full((1, 150, 1), 1e3, dtype=torch.float32, device=device)
    drive = torch.ones_like(decay)
    resets = torch.zeros(1, 150, dtype=torch.bool, device=device)
    resets[:, 140] = True
    given = {"decay": decay, "drive": drive, "h0": None, "resets": resets, "reset_state": None}
    h, last = scanned(BARE, given, chunk=chunk)
    assert h[0, 100, 0] == torch.inf
    after = {"decay": decay[:, 140:], "drive": drive[:, 140:], "resets": None}
    expected, expected_last = scanned(BARE, given | after)
    assert_equal_within(h[:, 140:] / expected, torch.ones_like(expected), torch.float32, "h after the reset")
    assert_equal_within(last / expected_last, torch.ones_like(last), torch.float32, "last")


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_decays_whose_product_overflows_leave_a_zero_at_zero(device):
    decay = torch.full((1, 200, 1), 4.0, dtype=torch.float32, device=device)
    drive = torch.zeros_like(decay)
    drive[:, -1] = 1
    given = {"decay": decay, "drive": drive, "h0": None, "resets": None, "reset_state": None}
    h, last = scanned(BARE, given, chunk=64)
    assert torch.equal(h, drive) and torch.equal(last, drive[:, -1])
    grad_h = drive.flip(1)
    found = gradients(BARE, grad_h, torch.zeros_like(last), given, h, chunk=64)
    of_reset_state = torch.zeros_like(last[0])
    assert all(map(torch.equal, found, (torch.zeros_like(decay), grad_h, torch.full_like(last, 4.0), of_reset_state)))


def test_the_same_call_gives_the_same_bits_and_a_chunk_that_tiles_do_not_divide_is_refused(device):
    arguments = problem(device, BARE, 3, 70, 5, torch.float32)
    h, last = scanned(BARE, arguments, chunk=64)
    first, second = (gradients(BARE, arguments["drive"], last, arguments, h, chunk=64) for _ in range(2))
    assert all(map(torch.equal, first, second))
    with pytest.raises(ValueError, match="chunk must be a positive multiple of 64, got 100"):
        scanned(BARE, arguments, chunk=100)
