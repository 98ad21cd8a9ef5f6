"""The compiled loops for the CPU against the cells' own torch forms and the plain torch scan."""

from itertools import product

import numba
import pytest
import torch
from covering import over
from kernel_cells import FLAGS, SCAN_KERNEL, by_channel
from scan_kernels import CELLS, PROGRAMS, by_equations
from tolerances import assert_equal_within

import gatedrnn
from gatedrnn.kernels.cpu import functions
from gatedrnn.kernels.cpu.products import add_product, packed, padded
from gatedrnn.kernels.cpu.views import flat
from gatedrnn.kinds.scan.cpu import plan_for, scan, scan_gradient
from gatedrnn.kinds.scan.definition import ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.rows import bare_scan

FULL = torch.float64
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def problem(kernel, batch, steps, channels, dtype=torch.float64, flags=(), spread=3.0):
    """Arguments, and gradients of what they give; biased where nothing is cut: both are tried where both flags are."""
    torch.manual_seed(0)
    masked, cut = "mask" in flags, "resets" in flags
    count = len(CELLS[kernel].projections)
    accumulation = torch.float64 if dtype == torch.float64 else torch.float32
    arguments = {
        "projected": (spread * torch.randn(batch, steps, count * channels, dtype=torch.float64)).to(dtype),
        "bias": by_channel(CELLS[kernel], channels, accumulation, biased=not cut),
        "h0": torch.rand(batch, channels, dtype=accumulation),
        "mask": torch.rand(batch, steps) < 0.7 if masked else None,
        "resets": torch.rand(batch, steps) < 0.2 if cut else None,
        "reset_state": torch.randn(channels, dtype=accumulation) if cut and masked else None,
    }
    return arguments, (torch.randn(batch, steps, channels).to(dtype), torch.randn_like(arguments["h0"]))


NAMES = "output", "last", "projected", "bias", "h0", "reset_state"


def computed(name, arguments, grads, reverse=False, keeps_output=True):
    program, (projected, *others) = PROGRAMS[name], arguments.values()
    given = ScanInputs(projected, None, None, *others, reverse=reverse)
    output, last, _ = scan(program, given)
    states = output if keeps_output and arguments["mask"] is None and program.output_is_state else None
    found = scan_gradient(program, ScanUpstream(*grads, projected, states, True), given)
    return dict(zip(NAMES, (output, last, found.x, found.by_channel, found.starts, found.reset_state), strict=True))


def scanned(decay, drive, h0=None):
    """The states of the bare scan, and the last one."""
    return scan(bare_scan(), ScanInputs(decay, drive, starts=h0))[:2]


def expected_of(name, arguments, grads, reverse):
    found = by_equations(name, **arguments, reverse=reverse, grad_output=grads[0], grad_last=grads[1], dtype=FULL)
    return dict(zip(NAMES, found, strict=True))


def assert_same(name, arguments, found, expected, dtype):
    for place, (what, want) in enumerate(expected.items()):
        if what not in ("bias", "reset_state") or arguments[what] is not None:
            assert_equal_within(found[what], want, dtype, f"{name} {what}", gradient=place > 1)


@over(kernel=SCAN_KERNEL, flags=FLAGS, dtype=DTYPES, reverse=(False, True), keeps_output=(True, False))
def test_each_kernel_computes_its_cells_equations(kernel, flags, dtype, reverse, keeps_output):
    arguments, grads = problem(kernel, 2, 23, 37, dtype, flags, spread=1.5)
    found = computed(kernel, arguments, grads, reverse, keeps_output)
    assert found["output"].dtype == found["projected"].dtype == dtype
    assert_same(kernel, arguments, found, expected_of(kernel, arguments, grads, reverse), dtype)


@over(kernel=SCAN_KERNEL, reverse=(False, True))
def test_the_division_of_channels_among_threads_and_of_time_does_not_matter(kernel, reverse, threads):
    for size, flags in (((1, 1, 1), FLAGS[-1]), ((3, 20, 700), FLAGS[-1]), ((2, 70, 5), ("mask",))):
        arguments, grads = problem(kernel, *size, flags=flags)
        expected = expected_of(kernel, arguments, grads, reverse)
        for count in (1, 2, 8):
            threads(count)
            assert_same(kernel, arguments, computed(kernel, arguments, grads, reverse), expected, FULL)


@over(kernel=SCAN_KERNEL, flags=FLAGS, reverse=(False, True))
def test_chunks_of_time_that_run_at_once_give_what_one_run_gives(kernel, flags, reverse, threads):
    """Threads are more than sequences and blocks of channels."""
    shape = (1, 1700, 20)
    arguments, grads = problem(kernel, *shape, flags=flags)
    threads(1)
    assert plan_for(PROGRAMS[kernel], shape, reverse).chunks == 1
    whole = computed(kernel, arguments, grads, reverse)
    threads(8)
    assert plan_for(PROGRAMS[kernel], shape, reverse).chunks == 8
    assert_same(kernel, arguments, computed(kernel, arguments, grads, reverse), whole, FULL)


@over(kernel=("minlstm", "lstm-normalized"), dtype=(torch.float64, torch.float32))
def test_two_shut_gates_share_by_how_far_they_are_shut(kernel, dtype):
    forget, input_ = torch.tensor([-100.0, -200, -120, 0, 90, -1e30]), torch.tensor([-120.0, -200, -100, -1e30, 90, 0])
    order = {"forget": forget, "input": input_}
    rows = [order.get(name, torch.ones(6)) for name in CELLS[kernel].projections]
    projected, h0 = torch.cat(rows)[None, None].to(dtype), torch.full((1, 6), 8.0).to(dtype)
    _, last, _ = scan(PROGRAMS[kernel], ScanInputs(projected, starts=h0))
    candidate = 1.5 if kernel == "minlstm" else torch.tanh(torch.ones(1, dtype=torch.float64)).item()
    keep = torch.tensor([1, 0.5, 2e-9, 1, 0.5, 0], dtype=torch.float64)
    assert_equal_within(last[0], keep * 8 + (1 - keep) * candidate, torch.float32, "state")


def test_the_elementary_functions_are_accurate_to_the_last_digits_and_keep_nan():
    @numba.njit
    def both(x, e, t):
        for i in range(x.size):
            e[i], t[i] = functions.exp(x[i]), functions.tanh(x[i])

    small = torch.logspace(-9, 0, 2000)
    for dtype in (torch.float32, torch.float64):
        x = torch.cat([torch.linspace(-86, 86, 20001), small, -small, torch.tensor([torch.nan, torch.inf, -torch.inf])])
        x = x.to(dtype)
        e, t = torch.empty_like(x), torch.empty_like(x)
        both(x.numpy(), e.numpy(), t.numpy())
        for found, function in ((e, torch.exp), (t, torch.tanh)):
            assert ((found.double() / function(x.double()) - 1)[:-3].abs() <= 4 * torch.finfo(dtype).eps).all()
        assert e[-3].isnan() and t[-3].isnan() and t[-2] == 1 and t[-1] == -1 and e[-2] > 1e37 and e[-1] < 1e-37


def test_sine_and_cosine_are_accurate_at_any_size_and_nan_at_infinity():
    @numba.njit
    def both(x, s, c):
        for i in range(x.size):
            s[i], c[i] = functions.sin(x[i]), functions.cos(x[i])

    generator = torch.Generator().manual_seed(0)
    of_any_bits = torch.randint(-(2**31), 2**31, (20000,), generator=generator, dtype=torch.int64)
    quarters = torch.arange(-3000, 3000, dtype=torch.float64) * (torch.pi / 2)
    hard = torch.tensor([16367173.0 * 2.0**72, 2.0**127, 3.4028235e38, 1e22, 0.0, -0.0, 1e-30, 1e-42])
    odd = torch.tensor([torch.nan, torch.inf, -torch.inf])
    for dtype in (torch.float32, torch.float64):
        x = torch.cat([of_any_bits.to(torch.int32).view(torch.float32).double(), quarters, hard.double(), odd.double()])
        x = x.to(dtype)
        s, c = torch.empty_like(x), torch.empty_like(x)
        both(x.numpy(), s.numpy(), c.numpy())
        finite = x.isfinite()
        for found, function in ((s, torch.sin), (c, torch.cos)):
            right = function(x.double())
            error = (found.double() - right).abs()[finite]
            assert (error <= 4 * torch.finfo(dtype).eps * right.abs()[finite] + torch.finfo(dtype).tiny).all()
            assert found[~finite].isnan().all()


def test_bfloat16_is_rounded_as_torch_rounds_it():
    x = torch.cat([torch.randn(2000), torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1e-37, 3.4e38])])
    ties = (torch.arange(2000, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    exact = torch.cat([x, ties, torch.tensor([torch.nan])])[None, None]
    rounded = exact.bfloat16()
    one, zero = torch.ones_like(rounded), torch.zeros_like(rounded)
    h, _ = scanned(zero, rounded)
    assert torch.equal(h.nan_to_num(7), rounded.nan_to_num(7))
    # 1 + 2^-9 lies between two bfloat16 numbers: h = 1 * h0 + 0 rounds it, ties to even.
    h, last = scanned(one, zero, exact[0])
    assert torch.equal(h.nan_to_num(7), rounded.nan_to_num(7)) and torch.equal(
        last.nan_to_num(7), exact[0].nan_to_num(7)
    )


@pytest.mark.parametrize("count", [1, 4])
def test_denormal_numbers_are_zero_in_a_kernel_and_unchanged_outside(count, threads):
    """They cost a hundred times as much: a gradient that enters at the last step alone shrinks to them."""
    threads(count)
    small, many = torch.full((4, 1, 1 << 14), 1e-40), torch.full((1 << 18,), 1e-40)
    states, _ = scanned(torch.ones_like(small), small)
    assert bool(states.any()) != functions.ON_X86
    for _ in range(4):  # every thread that may have been at work
        assert bool(((many + many) > 0).all())
    kept, _ = scanned(torch.ones_like(small), 1e3 * small)
    assert bool((kept > 0).all())


@pytest.mark.parametrize("name", ["MinGRU", "MGU", "BlockOrthogonalRNN"])
def test_a_layer_of_each_kind_leaves_denormal_numbers_as_they_were(name, threads):
    threads(1)
    layer, many = getattr(gatedrnn, name)(4, 8), torch.full((64,), 1e-40)
    x = torch.randn(5, 2, 4)

    def kept():
        return bool(((many + many) > 0).all())

    output, _ = layer(x)
    assert kept(), "after forward"
    output.sum().backward()
    assert kept(), "after backward"
    with torch.no_grad():
        layer(x)
        layer(x[:1])
    assert kept(), "after a step"


SIZES = [(1, 1), (5, 3), (37, 64), (256, 33), (300, 70), (513, 257)]
"""(inner, columns): within one block of the inner axis and beyond it, whole panels and parts of one."""


@pytest.mark.parametrize("inner, columns", SIZES)
def test_a_product_with_a_packed_matrix_is_the_product_and_no_row_depends_on_its_neighbours(inner, columns):
    for dtype, transposed in product((torch.float32, torch.float64), (False, True)):
        matrix, a = torch.randn(inner, columns, dtype=dtype), torch.randn(23, inner + 2, dtype=dtype)
        panels = packed(matrix.t().contiguous() if transposed else matrix, transposed)
        there = torch.randn(23, padded(columns, matrix.element_size()), dtype=dtype)

        def added(low, rows, there=there, a=a, panels=panels):
            out = there[low : low + rows].clone()
            add_product(rows, inner, flat(a[low : low + rows]), inner + 2, panels, there.shape[1], flat(out))
            return out

        whole, expected = added(0, 23), there[:, :columns].double() + a[:, :inner].double() @ matrix.double()
        assert_equal_within(whole[:, :columns], expected.to(dtype), dtype, f"product, transposed {transposed}")
        for low, rows in product((0, 5, 14), range(1, 10)):
            assert torch.equal(added(low, rows), whole[low : low + rows])
