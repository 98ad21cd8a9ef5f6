"""A step without gradients is a kernel's where it can be: the same numbers as the whole sequence."""

import pytest
import torch
from covering import over
from layer_laws import CELLS, EQUATIONS, KERNEL_LOOP_CELLS, SCAN_CELLS, as_tuple, assert_same_run, packed_up
from paths import axis
from refusals import refused
from tolerances import assert_equal_within
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils.flop_counter import FlopCounterMode

import gatedrnn
from gatedrnn import registry
from gatedrnn.kinds import kernel_of
from gatedrnn.kinds.block import cpu as block_kernels
from gatedrnn.kinds.loop import step as loop_step
from gatedrnn.kinds.scan import step as scan_step

OPTIONS = {"plain": {}, "no bias": {"bias": False}, "norm": {"layer_norm": True}, "projection": {"proj_size": 3}}
BLOCKS = {f"blocks of {size}": ("block-orthogonal", {"block_size": size}) for size in (2, 3, 4)} | {"lru": ("lru", {})}


@pytest.fixture
def calls(monkeypatch):
    """Tell of every layer's step that a kernel has run whether by itself, or with all others and their products."""
    seen, step, stack = [], scan_step.gated_step, scan_step.stack_step

    def all_at_once(program, x, layers, *rest):
        seen.extend([f"{program.word} and products"] * layers)
        return stack(program, x, layers, *rest)

    monkeypatch.setattr(scan_step, "gated_step", lambda program, *rest: (seen.append("gates"), step(program, *rest))[1])
    monkeypatch.setattr(scan_step, "stack_step", all_at_once)
    return seen


def watched(monkeypatch, module, name):
    """The programs of the stacks, or of the layers, that one call of a kernel has run for a step."""
    seen, step = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda program, *rest: (seen.append(program), step(program, *rest))[1])
    return seen


@torch.no_grad()
def stream(layer, x, resets=None, step=None):
    state, outputs = None, []
    for t in range(x.shape[1]):
        cut = None if resets is None else resets[:, t]
        output, state = (step or layer.step)(x[:, t], state, resets=cut, wide_state=True)
        outputs.append(output)
    return torch.stack(outputs, 1), state


def in_calls_of_one_step(layer, x):
    def step(x_t, hx, resets, wide_state):
        output, state = layer(x_t.unsqueeze(1), hx, wide_state=wide_state)
        return output.squeeze(1), state

    return stream(layer, x, step=step)


SCAN_CELL = axis(EQUATIONS, [name for name in SCAN_CELLS if name in registry.CELLS])  # which have kernels
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


@over(name=SCAN_CELL, dtype=DTYPES, options=OPTIONS, rows=(1, 3, 6))
def test_a_stream_without_gradients_gives_the_numbers_of_the_whole_sequence(name, dtype, options, rows, calls):
    layer = CELLS[name](5, 37, num_layers=2, batch_first=True, dtype=dtype, **options).eval()
    x, resets = torch.randn(rows, 9, 5, dtype=dtype), torch.rand(rows, 9) < 0.2
    with_products = rows <= 4 and dtype != torch.bfloat16 and not {"layer_norm", "proj_size"} & options.keys()
    for given in (None, resets):
        with torch.no_grad():
            whole = layer(x, resets=given)
        calls.clear()
        assert_same_run(stream(layer, x, given), whole, dtype)
        assert len(calls) == 2 * 9 and all(kind.endswith("products") == with_products for kind in calls)


SIZES = {"a part": (1, 37, 1), "rows": (3, 33, 1), "threads": (1, 300, 2)}


@over(name=axis(EQUATIONS, KERNEL_LOOP_CELLS), dtype=(torch.float64, torch.float32), bias=(True, False), size=SIZES)
def test_a_stream_of_a_loop_cell_is_one_call_a_step(name, dtype, bias, size, monkeypatch):
    """Stream by `step`, and by calls of the layer with one step each; several blocks of channels, and parts of one."""
    (rows, hidden, threads), loop_steps = size, watched(monkeypatch, loop_step, "loop_step")
    layer = CELLS[name](5, hidden, num_layers=2, batch_first=True, dtype=dtype, bias=bias)
    x, before = torch.randn(rows, 4, 5, dtype=dtype), torch.get_num_threads()
    whole = layer(x)
    torch.set_num_threads(threads)
    try:
        for way in (stream, in_calls_of_one_step):
            assert_same_run(way(layer, x), whole, dtype)
    finally:
        torch.set_num_threads(before)
    assert loop_steps == 8 * [kernel_of(layer.cell).program]


@over(cell=BLOCKS, dtype=(torch.float64, torch.float32), bias=(True, False))
def test_a_stream_of_a_cell_of_blocks_is_a_kernels(cell, dtype, bias, monkeypatch):
    """Stream by `step`, by calls of one step each, and by its single-step module."""
    (name, options), block_steps = cell, watched(monkeypatch, block_kernels, "block_step")
    layer = CELLS[name](5, 24, num_layers=2, batch_first=True, dtype=dtype, bias=bias, **options)
    x = 3 * torch.randn(3, 6, 5, dtype=dtype)
    whole = layer(x)
    for way in (stream, in_calls_of_one_step):
        assert_same_run(way(layer, x), whole, dtype)
    module = registry.CELLS[name].single_step(5, 24, bias, dtype=dtype, **options)
    h = module(x[:, 0])
    with torch.no_grad():
        assert_equal_within(module(x[:, 0]), h, dtype, "one step")
        nowhere = module(torch.full_like(x[:, 0], torch.nan))
    assert nowhere.isnan().all()
    assert len(block_steps) == 2 * 6 + 2 * 6 + 2 and set(block_steps) == {layer.cell.kernel}


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru", "block-orthogonal"])
def test_a_step_reads_the_weights_as_they_are_now(name):
    layer, x = CELLS[name](5, 8), torch.randn(2, 5)
    for change in (
        lambda: layer.load_state_dict({k: torch.randn_like(v) for k, v in layer.state_dict().items()}, assign=True),
        lambda: parametrizations.weight_norm(layer, "weight_ih_l0"),
        lambda: setattr(layer, "bias_ih_l0", nn.Parameter(torch.randn(len(layer.bias_ih_l0)))),
        lambda: prune.random_unstructured(layer, "bias_ih_l0", 0.5),
    ):
        change()
        expected = layer.step(x)
        with torch.no_grad():
            assert_same_run(layer.step(x), expected, torch.float32)


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru"])
def test_what_is_not_plain_goes_the_way_of_all_steps(name, monkeypatch, calls):
    """A state or an input in other memory or dtype, what drops or stands between, and what a mode follows."""
    layer, x, loop_steps = CELLS[name](5, 8), torch.randn(2, 5), watched(monkeypatch, loop_step, "loop_step")
    with torch.no_grad():
        state = layer.step(x)[1]
        expected = layer.step(x, state)[0]
        strided = tuple(s.transpose(0, 1).clone().transpose(0, 1) for s in as_tuple(state))
        same = layer.step(torch.stack([x, x], 1)[:, 0], packed_up(strided))[0]
        assert_equal_within(same, expected, torch.float32, "strided")
        del loop_steps[:], calls[:]
        with FlopCounterMode(display=False):
            layer.step(x, state)
        for given in ((x.double(), state), (x, packed_up(tuple(s[:, :1] for s in as_tuple(state))))):
            refused((RuntimeError, ValueError), None, layer.step, *given)
    assert not loop_steps and not calls


@pytest.mark.parametrize("case", ["gradients", "zoneout", "dropout", "named backend", "float16", "empty batch"])
def test_what_the_kernel_does_not_know_runs_in_torch(case, calls):
    options = {"zoneout": {"zoneout": 0.2}, "dropout": {"dropout": 0.5, "num_layers": 2}}.get(case, {})
    layer = gatedrnn.MinGRU(4, 6, **options).train(case == "dropout")
    x = torch.randn(0 if case == "empty batch" else 2, 4)
    if case == "float16":
        layer, x = layer.half(), x.half()
    if case == "named backend":
        layer.backend = "reference"
    with torch.set_grad_enabled(case == "gradients"):
        output, _ = layer.step(x)
    assert output.shape == (len(x), 6) and output.requires_grad == (case == "gradients")
    assert bool(calls) == (case == "empty batch")


def test_large_products_of_several_threads_are_the_librarys(calls, monkeypatch):
    layer, x = gatedrnn.MinGRU(4, 6), torch.randn(2, 4)
    monkeypatch.setattr("gatedrnn.kinds.stream.SMALL_PRODUCT", 2 * 12 * 6 - 1)
    with torch.no_grad():
        for threads, kind in ((2, "gates"), (1, "mingru and products")):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            calls.clear()
            layer.step(x)
            assert calls == [kind]


@pytest.mark.parametrize("activation", ["g", "identity"])
def test_a_step_reads_weights_that_lie_otherwise_in_memory_and_leaves_the_state_as_it_was(activation, calls):
    layer, x = gatedrnn.MinLSTM(4, 6, activation=activation), torch.randn(2, 4)
    in_torch, _ = layer.step(x)
    with torch.no_grad():
        expected, first = layer.step(x)
        assert_equal_within(expected, in_torch, torch.float32, "output")
        kept = first.clone()
        layer.step(x, first)
        assert torch.equal(first, kept)
        layer.weight_ih_l0.data = layer.weight_ih_l0.data.t().contiguous().t()
        found, _ = layer.step(x.t().contiguous().t())
    assert torch.equal(found, expected) and set(calls) == {f"{layer.cell.word} and products"}


def test_a_step_under_a_narrow_autocast_is_in_its_dtype_and_what_follows_a_step_does_not_lose_sight_of_it(calls):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx

    layer, x = gatedrnn.MinGRU(4, 6), torch.randn(2, 4)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            output, state = layer.step(x)
        assert output.dtype == dtype and state.dtype == torch.float32
    assert calls == ["gates"]  # in float16 there is no such kernel
    with torch.no_grad():
        expected, _ = layer.step(x)
        calls.clear()
        assert_equal_within(make_fx(lambda v: layer.step(v)[0])(x)(x), expected, torch.float32, "traced")
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert layer.step(mode.from_tensor(x))[0].shape == (2, 6)
        with forward_ad.dual_level():
            output, _ = layer.step(forward_ad.make_dual(x, torch.ones_like(x)))
            assert forward_ad.unpack_dual(output).tangent is not None
    assert not calls
