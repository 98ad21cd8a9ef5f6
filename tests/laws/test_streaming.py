"""A step without gradients is a kernel's where it can be: the same numbers as the whole sequence."""

from functools import partial

import pytest
import torch
from layer_laws import as_tuple
from tolerances import assert_equal_within
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils.flop_counter import FlopCounterMode

import gatedrnn
from gatedrnn.kernels import cpu
from gatedrnn.ops.cells import loop_program
from gatedrnn.registry import CELLS

SCANS = {
    "mingru": gatedrnn.MinGRU, "minlstm": gatedrnn.MinLSTM, "lstm-input-gated": gatedrnn.InputGatedLSTM,
    "lstm-normalized": gatedrnn.NormalizedLSTM, "gru-input-gated": gatedrnn.InputGatedGRU,
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """Of every layer's step that a kernel has run: whether by itself, or with all others and their products."""
    seen, step, stack = [], cpu.gated_step, cpu.stack_step

    def all_at_once(program, x, weights, *rest):
        seen.extend([f"{program.word} and products"] * len(weights))
        return stack(program, x, weights, *rest)

    monkeypatch.setattr(cpu, "gated_step", lambda program, *rest: (seen.append("gates"), step(program, *rest))[1])
    monkeypatch.setattr(cpu, "stack_step", all_at_once)
    return seen


def stream(layer, x, resets=None):
    state, outputs = None, []
    for t in range(x.shape[1]):
        output, state = layer.step(x[:, t], state, resets=None if resets is None else resets[:, t])
        outputs.append(output)
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"layer_norm": True}, {"proj_size": 3}], ids=str)
@pytest.mark.parametrize("rows", [1, 3, 6])
def test_a_stream_without_gradients_gives_the_numbers_of_the_whole_sequence(name, dtype, options, rows, calls):
    torch.manual_seed(0)
    layer = SCANS[name](5, 37, num_layers=2, batch_first=True, dtype=dtype, **options).eval()
    x, resets = torch.randn(rows, 9, 5, dtype=dtype), torch.rand(rows, 9) < 0.2
    with_products = rows <= 4 and dtype != torch.bfloat16 and not {"layer_norm", "proj_size"} & options.keys()
    for given in (None, resets):
        with torch.no_grad():
            output, last = layer(x, resets=given)
            calls.clear()
            found, state = stream(layer, x, given)
        assert len(calls) == 2 * 9 and all(kind.endswith("products") == with_products for kind in calls)
        assert_equal_within(found, output, dtype, "output")
        assert_equal_within(state, last, dtype, "state")


LOOPS = {
    "lstm": gatedrnn.LSTM, "lstm-peephole": gatedrnn.PeepholeLSTM, "lstm-no-output-gate": gatedrnn.NoOutputGateLSTM,
    "gru": gatedrnn.GRU, "gru-reset-before": partial(gatedrnn.GRU, reset_after=False), "mgu": gatedrnn.MGU,
    "mgu-keep": partial(gatedrnn.MGU, keep=True), "gru-no-reset-gate": gatedrnn.NoResetGateGRU,
}  # fmt: skip


@pytest.fixture
def loop_steps(monkeypatch):
    """The programs of the stacks of loop cells that one call has run for a step."""
    seen, step = [], cpu.loop_step
    monkeypatch.setattr(cpu, "loop_step", lambda record, *rest: (seen.append(record), step(record, *rest))[1])
    return seen


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows, hidden, threads", [(1, 37, 1), (3, 33, 1), (1, 300, 2)])
def test_a_stream_of_a_loop_cell_is_one_call_a_step(name, dtype, bias, rows, hidden, threads, loop_steps):
    """By `step`, and by calls of the whole layer with one step each; several blocks of channels, and parts of one."""
    torch.manual_seed(0)
    layer = LOOPS[name](5, hidden, num_layers=2, batch_first=True, dtype=dtype, bias=bias)
    x, before = torch.randn(rows, 4, 5, dtype=dtype), torch.get_num_threads()
    output, last = layer(x)
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            by_step = stream(layer, x)
            state, outputs = None, []
            for t in range(4):
                one, state = layer(x[:, t : t + 1], state)
                outputs.append(one)
    finally:
        torch.set_num_threads(before)
    assert loop_steps == 8 * [loop_program(layer.cell)]
    for got, ends in (by_step, (torch.cat(outputs, 1), state)):
        assert_equal_within(got, output, dtype, "output")
        for end, want in zip(as_tuple(ends), as_tuple(last), strict=True):
            assert_equal_within(end, want, dtype, "state")


@pytest.mark.parametrize(
    "name, options", [*(("block-orthogonal", {"block_size": size}) for size in (2, 3, 4)), ("lru", {})], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bias", [True, False])
def test_a_stream_of_a_cell_of_blocks_is_a_kernels(name, options, dtype, bias, monkeypatch):
    """By `step`, by calls of one step each, and by its single-step module."""
    seen, step = [], cpu.block_step
    monkeypatch.setattr(cpu, "block_step", lambda record, *rest: (seen.append(record), step(record, *rest))[1])
    torch.manual_seed(0)
    layer = CELLS[name].layer(5, 24, num_layers=2, batch_first=True, dtype=dtype, bias=bias, **options)
    x = 3 * torch.randn(3, 6, 5, dtype=dtype)
    output, last = layer(x)
    with torch.no_grad():
        by_step = stream(layer, x)
        state, outputs = None, []
        for t in range(6):
            one, state = layer(x[:, t : t + 1], state)
            outputs.append(one)
    for got, end in (by_step, (torch.cat(outputs, 1), state)):
        assert_equal_within(got, output, dtype, "output")
        assert_equal_within(end, last, dtype, "state")
    module = CELLS[name].single_step(5, 24, bias, dtype=dtype, **options)
    h = module(x[:, 0])
    with torch.no_grad():
        assert_equal_within(module(x[:, 0]), h, dtype, "one step")
        nowhere = module(torch.full_like(x[:, 0], torch.nan))
    assert nowhere.isnan().all()
    assert len(seen) == 2 * 6 + 2 * 6 + 2 and set(seen) == {layer.cell.kernel}


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru", "block-orthogonal"])
def test_a_step_reads_the_weights_as_they_are_now(name):
    layer = CELLS[name].layer(5, 8)
    x = torch.randn(2, 5)

    def agrees():
        expected, _ = layer.step(x)
        with torch.no_grad():
            found, _ = layer.step(x)
        assert_equal_within(found, expected, torch.float32, "output")

    for change in (
        lambda: layer.load_state_dict({k: torch.randn_like(v) for k, v in layer.state_dict().items()}, assign=True),
        lambda: parametrizations.weight_norm(layer, "weight_ih_l0"),
        lambda: setattr(layer, "bias_ih_l0", nn.Parameter(torch.randn(len(layer.bias_ih_l0)))),
        lambda: prune.random_unstructured(layer, "bias_ih_l0", 0.5),
    ):
        change()
        agrees()


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru"])
def test_what_is_not_plain_goes_the_way_of_all_steps(name, loop_steps, calls):
    """A state or an input in other memory or dtype, what drops or stands between, and what a mode follows."""
    layer, x = CELLS[name].layer(5, 8), torch.randn(2, 5)
    with torch.no_grad():
        state = layer.step(x)[1]
        expected = layer.step(x, state)[0]
        strided = tuple(s.transpose(0, 1).clone().transpose(0, 1) for s in as_tuple(state))
        same = layer.step(torch.stack([x, x], 1)[:, 0], strided if len(strided) > 1 else strided[0])[0]
        assert_equal_within(same, expected, torch.float32, "strided")
        del loop_steps[:], calls[:]
        with FlopCounterMode(display=False):
            layer.step(x, state)
        with pytest.raises((RuntimeError, ValueError)):
            layer.step(x.double(), state)
        with pytest.raises((RuntimeError, ValueError)):
            layer.step(x, tuple(s[:, :1] for s in as_tuple(state)) if len(strided) > 1 else state[:, :1])
    assert not loop_steps and not calls


@pytest.mark.parametrize("activation", ["g", "identity"])
def test_a_named_activation_is_the_kernels_too(activation, calls):
    layer = gatedrnn.MinLSTM(4, 6, activation=activation, batch_first=True)
    x = torch.randn(2, 5, 4)
    with torch.no_grad():
        found, _ = stream(layer, x)
        expected, _ = layer(x)
    assert set(calls) == {f"{layer.cell.word} and products"}
    assert_equal_within(found, expected, torch.float32, "output")


def test_a_state_that_is_carried_on_is_left_as_it_was():
    layer = gatedrnn.MinGRU(4, 6).eval()
    with torch.no_grad():
        _, first = layer.step(torch.randn(2, 4))
        kept = first.clone()
        layer.step(torch.randn(2, 4), first)
    assert torch.equal(first, kept)


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
    monkeypatch.setattr("gatedrnn.layers.step_inputs.SMALL_PRODUCT", 2 * 12 * 6 - 1)
    with torch.no_grad():
        for threads, kind in ((2, "gates"), (1, "mingru and products")):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            calls.clear()
            layer.step(x)
            assert calls == [kind]


def test_a_step_reads_weights_that_lie_otherwise_in_memory(calls):
    layer, x = gatedrnn.MinGRU(4, 6), torch.randn(2, 4)
    with torch.no_grad():
        expected, _ = layer.step(x)
        layer.weight_ih_l0.data = layer.weight_ih_l0.data.t().contiguous().t()
        found, _ = layer.step(x.t().contiguous().t())
    assert torch.equal(found, expected) and set(calls) == {"mingru and products"}


def test_a_step_under_a_narrow_autocast_is_in_its_dtype(calls):
    layer, x = gatedrnn.MinGRU(4, 6), torch.randn(2, 4)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            output, state = layer.step(x)
        assert output.dtype == dtype and state.dtype == torch.float32
    assert calls == ["gates"]  # in float16 there is no such kernel


def test_what_follows_a_step_does_not_lose_sight_of_it(calls):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx

    layer, x = gatedrnn.MinGRU(4, 6), torch.randn(2, 4)
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
