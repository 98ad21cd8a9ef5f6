"""The laws of h_t = a_t * h_(t-1) + b_t: one definition, and every backend, stride, split and dtype agrees with it."""

import os
import select
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import assert_equal_within

from gatedrnn import choose_backend, linear_scan
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels import cpu
from gatedrnn.kernels.cpu import _threads as pool
from gatedrnn.ops import backends
from gatedrnn.ops.linear_scan import scan_in_torch

functional = sys.modules["gatedrnn.ops.linear_scan"]  # the package's attribute of that name is the function
BACKENDS = ("reference", "native")
LEAVES = ("decay", "drive", "h0", "reset_state")


def problem(batch, steps, channels, dtype=torch.float64, *, h0=True, resets=True, reset_state=True):
    """Arguments of a scan: decays of both signs, some exactly zero, some above one."""
    decay = torch.empty(batch, steps, channels, dtype=dtype).uniform_(-1.1, 1.1)
    decay[torch.rand(batch, steps, channels) < 0.05] = 0
    arguments = {"decay": decay, "drive": torch.randn(batch, steps, channels, dtype=dtype)}
    if h0:
        arguments["h0"] = torch.randn(batch, channels, dtype=dtype)
    if resets:
        arguments["resets"] = torch.rand(batch, steps) < 0.2
    if reset_state:
        arguments["reset_state"] = torch.randn(channels, dtype=dtype)
    return arguments


def leaves(arguments):
    return {k: v.detach().requires_grad_(k in LEAVES) for k, v in arguments.items()}


def upstream(arguments):
    """Random gradients for h and for h_last."""
    batch, steps, channels = arguments["drive"].shape
    dtype = arguments["drive"].dtype
    return torch.randn(batch, steps, channels, dtype=dtype), torch.randn(batch, channels, dtype=dtype)


def run(scan, arguments, grads, **kwargs):
    """h, h_last and the gradient of every differentiable argument, by name."""
    inputs = leaves(arguments)
    h, last = scan(**inputs)
    wanted = {k: v for k, v in inputs.items() if v.requires_grad}
    # A zero of the loss on every input: at T = 0 the definition does not touch them, and None is not a gradient.
    loss = (h * grads[0]).sum() + (last * grads[1]).sum() + sum(0 * v.sum() for v in wanted.values())
    gradients = torch.autograd.grad(loss, list(wanted.values()), **kwargs)
    return {"h": h, "h_last": last} | dict(zip(wanted, gradients, strict=True))


def definition(decay, drive, h0=None, resets=None, reset_state=None, reverse=False):
    """The plain torch loop, differentiated by autograd alone."""
    start = drive.new_zeros(drive.shape[0], drive.shape[2]) if h0 is None else h0
    return scan_in_torch(decay, drive, start, resets, reset_state, reverse)


def oracle(decay, drive, h0=None, resets=None, reset_state=None, reverse=False):
    """The same written a second time, number by number."""
    decay, drive = decay.double().numpy(), drive.double().numpy()
    batch, steps, channels = drive.shape
    h, last = np.zeros((batch, steps, channels)), np.zeros((batch, channels))
    for b in range(batch):
        for d in range(channels):
            state = 0.0 if h0 is None else float(h0[b, d])
            for t in range(steps)[::-1] if reverse else range(steps):
                if resets is not None and resets[b, t]:
                    state = 0.0 if reset_state is None else float(reset_state[d])
                state = decay[b, t, d] * state + drive[b, t, d]
                h[b, t, d] = state
            last[b, d] = state
    return h, last


def assert_same(actual, expected, dtype):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        what = name if name.startswith("h") and name != "h0" else f"gradient of {name}"
        assert_equal_within(actual[name], value, dtype, what, gradient=what != name)


def assert_obeys_the_definition(backend, arguments, dtype, reverse):
    grads = upstream(arguments)
    expected = run(partial(definition, reverse=reverse), arguments, grads)
    assert_same(run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads), expected, dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("h0", [False, True])
@pytest.mark.parametrize("resets, reset_state", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_option_obeys_the_definition_in_numbers_and_gradients(backend, h0, resets, reset_state, reverse):
    for steps in (0, 1, 2, 7):
        arguments = problem(3, steps, 5, h0=h0, resets=resets, reset_state=reset_state)
        assert_obeys_the_definition(backend, arguments, torch.float64, reverse)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 5, 256, 300, 500])
@pytest.mark.parametrize("steps", [0, 1, 2, 63, 1000])
def test_every_size_obeys_the_definition_in_numbers_and_gradients(steps, channels, dtype):
    arguments = problem(2, steps, channels, dtype)
    if steps < 1000:
        for backend in BACKENDS:
            assert_obeys_the_definition(backend, arguments, dtype, reverse=channels % 2 == 0)
        return
    # Autograd through a plain loop takes quadratic time, so long sequences are compared with the reference backend.
    grads = upstream(arguments)
    for reverse in (False, True):
        expected, actual = (
            run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads) for backend in BACKENDS
        )
        assert_same(actual, expected, dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_batch_and_no_channels_give_empty_results(backend):
    for batch, channels in ((0, 3), (2, 0)):
        assert_obeys_the_definition(backend, problem(batch, 4, channels), torch.float64, reverse=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_over_single_numbers_agrees(backend, reverse):
    for options in ({}, {"h0": False}, {"resets": False, "reset_state": False}, {"reset_state": False}):
        arguments = problem(2, 6, 3, **options)
        h, last = linear_scan(**arguments, reverse=reverse, backend=backend)
        expected = oracle(**arguments, reverse=reverse)
        assert_equal_within(h, expected[0], torch.float64, "h")
        assert_equal_within(last, expected[1], torch.float64, "h_last")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decay", [-2.0, -1.0, 0.0, 1.0, 1.5])
def test_a_decay_may_be_any_real_number(backend, decay):
    arguments = problem(2, 20, 3)
    arguments["decay"] = torch.full_like(arguments["decay"], decay)
    h, _ = linear_scan(**arguments, backend=backend)
    assert_equal_within(h, oracle(**arguments)[0], torch.float64, "h")
    assert_obeys_the_definition(backend, arguments, torch.float64, reverse=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_two_halves_equal_the_whole(backend, reverse):
    """Outputs and gradients, with the state carried over the cut; T = 0 parts too."""
    arguments = problem(2, 9, 5)

    def in_two(decay, drive, h0, resets, reset_state, cut):
        parts = [(decay[:, s], drive[:, s], resets[:, s]) for s in (slice(0, cut), slice(cut, None))]
        results, state = [], h0
        for a, b, r in reversed(parts) if reverse else parts:
            h, state = linear_scan(a, b, state, resets=r, reset_state=reset_state, reverse=reverse, backend=backend)
            results.append(h)
        return torch.cat(results[::-1] if reverse else results, dim=1), state

    grads = upstream(arguments)
    whole = run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads)
    for cut in (0, 1, 4, 9):
        assert_same(run(partial(in_two, cut=cut), arguments, grads), whole, torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_resets_equal_separate_sequences(backend, reverse):
    arguments = problem(1, 8, 3, reset_state=False)
    # A reset comes before its step in the walk, so a backward walk cuts on the step's other side.
    cuts = (3, 4, 7) if not reverse else (2, 3, 6)
    arguments["resets"] = torch.zeros(1, 8, dtype=torch.bool)
    arguments["resets"][0, list(cuts)] = True
    edges = [0, *cuts, 8] if not reverse else [0, *(c + 1 for c in cuts), 8]

    def apart(decay, drive, h0, resets):
        results = []
        for low, high in pairwise(edges):
            first = high == 8 if reverse else low == 0
            start = h0 if first else None
            results.append(linear_scan(decay[:, low:high], drive[:, low:high], start, reverse=reverse, backend=backend))
        return torch.cat([h for h, _ in results], dim=1), results[0 if reverse else -1][1]

    grads = upstream(arguments)
    whole = run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads)
    assert_same(whole, run(apart, arguments, grads), torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_reset_cuts_off_a_state_that_is_not_finite(backend, reverse, bad):
    arguments = problem(2, 6, 3)
    step, before = (2, 3) if reverse else (3, 2)
    arguments["resets"] = torch.zeros(2, 6, dtype=torch.bool)
    arguments["resets"][:, step] = True
    after = slice(0, step + 1) if reverse else slice(step, None)
    grads = upstream(arguments)
    outside = torch.ones(6, dtype=torch.bool)
    outside[after] = False
    grads[0][:, outside] = 0
    healthy = run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads)
    arguments["drive"][:, before] = bad
    inputs = leaves(arguments)
    h, last = linear_scan(**inputs, reverse=reverse, backend=backend)
    torch.autograd.backward((h, last), grads)
    assert not h[:, before].isfinite().any()
    assert_equal_within(h[:, after], healthy["h"][:, after], torch.float64, "h after the reset")
    assert_equal_within(last, healthy["h_last"], torch.float64, "h_last")
    for name in LEAVES:
        assert_equal_within(inputs[name].grad, healthy[name], torch.float64, f"gradient of {name}", gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reset_at_the_first_step_discards_h0(backend):
    arguments = problem(2, 4, 3)
    arguments["resets"] = torch.zeros(2, 4, dtype=torch.bool)
    arguments["resets"][0, 0] = True
    arguments["h0"][0] = float("nan")
    inputs = leaves(arguments)
    h, last = linear_scan(**inputs, backend=backend)
    (h.sum() + last.sum()).backward()
    assert_equal_within(h, oracle(**arguments)[0], torch.float64, "h")
    assert (inputs["h0"].grad[0] == 0).all() and (inputs["h0"].grad[1] != 0).all()


def _transposed(x):
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def _channels_apart(x):
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _half_of_a_wider_tensor(x):
    return torch.cat([torch.full_like(x, torch.nan), x], dim=-1).chunk(2, dim=-1)[1]


def _every_second_step(x):
    return x.repeat_interleave(2, dim=1)[:, ::2]


LAYOUTS = (_transposed, _channels_apart, _half_of_a_wider_tensor, _every_second_step)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_in_memory_changes_no_number(backend, layout):
    arguments = problem(3, 4, 5)
    grads = upstream(arguments)
    scan = partial(linear_scan, backend=backend)
    expected = run(scan, arguments, grads)
    for name in ("decay", "drive"):
        assert_same(run(scan, arguments | {name: layout(arguments[name])}, grads), expected, torch.float64)
    assert_same(run(scan, arguments, (layout(grads[0]), grads[1])), expected, torch.float64)
    columns = {"h0": arguments["h0"].T.contiguous().T, "resets": arguments["resets"].T.contiguous().T}
    assert_same(run(scan, arguments | columns, grads), expected, torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1, 2)])
def test_an_expanded_tensor_counts_as_its_copies(backend, axes):
    arguments = problem(3, 4, 5)
    for name in ("decay", "drive"):
        one = arguments[name][tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(3))]
        arguments[name] = one.expand(3, 4, 5)
    h, _ = linear_scan(**arguments, backend=backend)
    assert_equal_within(h, oracle(**arguments)[0], torch.float64, "h")


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_backward_of_a_sum_hands_over_ones(backend):
    """Its gradient is one number expanded to the whole shape: every stride is zero."""
    arguments = problem(3, 4, 5)
    inputs = leaves(arguments)
    linear_scan(**inputs, backend=backend)[0].sum().backward()
    expected = run(definition, arguments, (torch.ones(3, 4, 5), torch.zeros(3, 5)))
    for name in LEAVES:
        assert_equal_within(inputs[name].grad, expected[name], torch.float64, f"gradient of {name}", gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 4])
def test_results_are_new_memory_and_inputs_stay_as_they_were(backend, steps):
    arguments = problem(2, steps, 3)
    before = {k: v.clone() for k, v in arguments.items()}
    h, last = linear_scan(**arguments, backend=backend)
    kept = h.clone()
    last.fill_(7)
    assert torch.equal(h, kept)
    run(partial(linear_scan, backend=backend), arguments, upstream(arguments))
    assert all(torch.equal(arguments[k], before[k]) for k in arguments)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_numbers_are_summed_up_in_float32(backend, dtype):
    """Exactly the float32 scan, rounded once at the end: summed up in bfloat16, 1000 small drives would stall."""
    arguments = problem(2, 1000, 5, dtype, reset_state=False, resets=False)
    arguments["decay"] = (1 - torch.rand(2, 1000, 5) / 100).to(dtype)
    arguments["drive"] = torch.rand(2, 1000, 5).to(dtype)
    h, last = linear_scan(**arguments, backend=backend)
    wide_h, wide_last = linear_scan(**{k: v.float() for k, v in arguments.items()}, backend=backend)
    assert h.dtype == dtype and last.dtype == torch.float32
    assert torch.equal(h, wide_h.to(dtype)) and torch.equal(last, wide_last)

    def halves(part, h0):
        return linear_scan(arguments["decay"][:, part], arguments["drive"][:, part], h0, backend=backend)

    first, state = halves(slice(400), arguments["h0"])
    second, state = halves(slice(400, None), state)
    assert torch.equal(torch.cat([first, second], dim=1), h) and torch.equal(state, last)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("state_dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_bfloat16_follow_float32_and_are_rounded_only_to_their_argument(backend, state_dtype):
    arguments = problem(2, 200, 5, torch.bfloat16)
    for name in ("h0", "reset_state"):
        arguments[name] = arguments[name].to(state_dtype)
    grads = upstream(arguments)
    narrow = run(partial(linear_scan, backend=backend), arguments, grads)
    wide = {k: v.float() if v.is_floating_point() else v for k, v in arguments.items()}
    expected = run(definition, wide, grads)
    assert_same(narrow, expected, torch.bfloat16)
    for name in ("h0", "reset_state"):
        assert narrow[name].dtype == state_dtype
        what = f"gradient of {name}, unrounded on its way"
        assert_equal_within(narrow[name], expected[name].to(state_dtype), torch.float32, what, gradient=True)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_number_of_threads_changes_no_bit(two_threads):
    arguments = problem(3, 100, 300, torch.float32)
    assert arguments["drive"].numel() > pool.WORTH_A_THREAD
    grads = upstream(arguments)
    shared = run(partial(linear_scan, backend="native"), arguments, grads)
    for threads in (1, 4):
        torch.set_num_threads(threads)
        alone = run(partial(linear_scan, backend="native"), arguments, grads)
        assert all(torch.equal(shared[name], alone[name]) for name in alone)


def test_several_python_threads_may_scan_at_once(two_threads):
    problems = [problem(3, 100, 300, torch.float32) for _ in range(8)]
    expected = [linear_scan(**p)[0] for p in problems]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda p: linear_scan(**p)[0], problems * 4))
    assert all(torch.equal(h, expected[i % 8]) for i, h in enumerate(results))


def test_a_forked_child_computes_the_same(two_threads, monkeypatch):
    """The parent's worker threads do not exist in the child; waiting for them would last for ever."""
    # Small enough for torch's own OpenMP loops to stay serial: those may not run on after a fork.
    monkeypatch.setattr(pool, "WORTH_A_THREAD", 1)
    arguments = problem(3, 20, 300, torch.float32)
    expected = linear_scan(**arguments, backend="native")[0].numpy().tobytes()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside threads, which is the very point.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(linear_scan(**arguments, backend="native")[0].numpy().tobytes())
        finally:
            os._exit(0)  # not through pytest's own end
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered, _, _ = select.select([pipe], [], [], 30)
        if not answered:
            os.kill(child, signal.SIGKILL)
        result = pipe.read()
    os.waitpid(child, 0)
    assert answered, "the child hangs"
    assert result == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", [{}, {"h0": False, "resets": False, "reset_state": False}])
def test_numerical_differences_agree_with_first_and_second_gradients(backend, reverse, options):
    arguments = leaves(problem(2, 3, 2, **options))
    names = [k for k in arguments if arguments[k].requires_grad]

    def scan(*values):
        inputs = arguments | dict(zip(names, values, strict=True))
        return linear_scan(**inputs, reverse=reverse, backend=backend)

    values = tuple(arguments[k] for k in names)
    assert torch.autograd.gradcheck(scan, values)
    assert torch.autograd.gradgradcheck(scan, values)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_gradients_that_can_be_differentiated_again_are_the_same_gradients(backend, reverse, steps):
    arguments = problem(2, steps, 3)
    grads = upstream(arguments)
    scan = partial(linear_scan, reverse=reverse, backend=backend)
    expected = run(partial(definition, reverse=reverse), arguments, grads)
    assert_same(run(scan, arguments, grads, create_graph=True), expected, torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_the_registered_operator_passes_torchs_own_check(backend, reverse, full):
    arguments = leaves(problem(2, 3, 4, h0=full, resets=full, reset_state=full))
    options = [arguments.get(k) for k in ("h0", "resets", "reset_state")]
    torch.library.opcheck(functional._linear_scan, (arguments["decay"], arguments["drive"], *options, reverse, backend))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "backend, full",
    [
        ("native", False),
        ("native", True),
        ("reference", True),
        ("reference", False),
    ],
)
def test_the_registered_gradient_passes_torchs_own_check(backend, reverse, full):
    arguments = problem(2, 3, 4, h0=full, resets=full, reset_state=full)
    h, _ = linear_scan(**arguments)
    options = [arguments.get(k) for k in ("h0", "resets", "reset_state")]
    inputs = (*upstream(arguments), arguments["decay"], h, *options, reverse, backend)
    torch.library.opcheck(functional._linear_scan_gradient, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_graph_gives_the_eager_numbers_and_gradients(backend):
    def scan(decay, drive, h0, resets, reset_state):
        # Something before and after, so that there is a graph to compile around the scan.
        h, last = linear_scan(torch.tanh(decay), 2 * drive, h0, resets=resets, reset_state=reset_state, backend=backend)
        return h.square(), last

    arguments = problem(2, 6, 5)
    grads = upstream(arguments)
    compiled = torch.compile(scan, fullgraph=True, backend="aot_eager")
    assert_same(run(compiled, arguments, grads), run(scan, arguments, grads), torch.float64)
    torch._dynamo.reset()


def shaped(*sizes, dtype=torch.float32, device="cpu"):
    return torch.zeros(*sizes, dtype=dtype, device=device)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"backend": "fast"}, "backend must be one of auto, reference, native, got 'fast'"),
        ({"decay": shaped(2, 3), "drive": shaped(2, 3)}, "drive must have the axes"),
        ({"decay": shaped(2, 3, 5)}, "decay and drive must have one shape"),
        ({"decay": shaped(1, 3, 4)}, "decay and drive must have one shape"),
        ({"decay": shaped(2, 3, 4, dtype=torch.float64)}, "one floating dtype"),
        (dict.fromkeys(("decay", "drive"), shaped(2, 3, 4, dtype=torch.int64)), "one floating dtype"),
        ({"h0": shaped(4)}, r"h0 must have shape \(2, 4\), got \(4,\)"),
        ({"h0": shaped(2, 4, dtype=torch.float64)}, "h0 must be torch.float32"),
        ({"resets": shaped(2, 3)}, "resets must be bool"),
        ({"resets": shaped(3, 2, dtype=torch.bool)}, r"resets must be bool of shape \(2, 3\)"),
        ({"resets": shaped(2, 3, dtype=torch.bool), "reset_state": shaped(2, 4)}, "reset_state must have shape"),
        (
            {"resets": shaped(2, 3, dtype=torch.bool), "reset_state": shaped(4, dtype=torch.bfloat16)},
            "reset_state must be torch.float32",
        ),
        ({"reset_state": shaped(4)}, "pass resets too"),
        ({"decay": shaped(2, 3, 4, device="meta")}, "decay is on meta and drive on cpu"),
        ({"h0": shaped(2, 4, device="meta")}, "h0 is on meta"),
        ({"resets": shaped(2, 3, dtype=torch.bool, device="meta")}, "resets is on meta"),
        ({"resets": shaped(2, 3, dtype=torch.bool), "reset_state": shaped(4, device="meta")}, "reset_state is on meta"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_their_name(wrong, words):
    fitting = {"decay": shaped(2, 3, 4), "drive": shaped(2, 3, 4)}
    linear_scan(**fitting)
    with pytest.raises(ValueError, match=words):
        linear_scan(**(fitting | wrong))


def test_a_named_backend_that_is_missing_is_refused(monkeypatch):
    arguments = problem(2, 3, 4)
    with pytest.raises(BackendUnavailable, match="no kernel for meta tensors"):
        backends.native_kernels(torch.device("meta"))
    monkeypatch.setattr(backends, "installed", lambda name: False)
    with pytest.raises(BackendUnavailable, match="numba"):
        linear_scan(**arguments, backend="native")


def test_auto_runs_the_backend_that_it_names_and_says_why(monkeypatch):
    def refuse(*_):
        raise AssertionError("the kernel was called")

    arguments = problem(2, 3, 4)
    expected = oracle(**arguments)[0]
    assert choose_backend("cpu").backend == "native" and "numba" in choose_backend("cpu").reason
    assert choose_backend(torch.device("meta")).backend == "reference" and "meta" in choose_backend("meta").reason
    monkeypatch.setattr(cpu, "scan", refuse)
    with pytest.raises(AssertionError, match="was called"):
        linear_scan(**arguments)
    assert_equal_within(linear_scan(**arguments, backend="reference")[0], expected, torch.float64, "h")
    monkeypatch.setattr(backends, "installed", lambda name: False)
    assert choose_backend("cpu").backend == "reference" and "numba is not" in choose_backend("cpu").reason
    assert_equal_within(linear_scan(**arguments)[0], expected, torch.float64, "h")


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_split_of_any_problem_equals_the_loop_over_single_numbers(data):
    batch, steps, channels = (data.draw(st.integers(low, high)) for low, high in ((1, 3), (0, 12), (1, 4)))
    reverse, backend = data.draw(st.booleans()), data.draw(st.sampled_from(BACKENDS))
    options = {name: data.draw(st.booleans()) for name in ("h0", "resets")}
    arguments = problem(batch, steps, channels, **options, reset_state=options["resets"] and data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, steps), max_size=4)))
    expected, expected_last = oracle(**arguments, reverse=reverse)
    parts = [slice(low, high) for low, high in zip([0, *cuts], [*cuts, steps], strict=True)]
    state, results = arguments.get("h0"), []
    for part in reversed(parts) if reverse else parts:
        series = {k: v[:, part] if k in ("decay", "drive", "resets") else v for k, v in arguments.items()}
        h, state = linear_scan(**(series | {"h0": state}), reverse=reverse, backend=backend)
        results.append(h)
    assert_equal_within(torch.cat(results[::-1] if reverse else results, 1), expected, torch.float64, "h")
    assert_equal_within(state, expected_last, torch.float64, "h_last")


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_decays_above_one_that_overflow_together_harm_no_state_that_does_not(count):
    """With few sequences for the threads, time is cut into stretches, and decays of a whole stretch are multiplied."""
    decay, drive = torch.full((1, 2000, 64), 1.25), torch.zeros(1, 2000, 64)
    decay[:, 1000:], drive[:, 1000:] = 0.5, 1.0
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        _, last = linear_scan(decay, drive)
        assert_equal_within(last, torch.full((1, 64), 2.0), torch.float32, "last")
        late = decay.flip(1).contiguous()
        drive = torch.zeros_like(late, requires_grad=True)
        linear_scan(late, drive)[0][:, :500].sum().backward()
        assert torch.isfinite(drive.grad).all() and not drive.grad[:, 500:].any()
    finally:
        torch.set_num_threads(before)


def test_a_package_that_is_barred_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert choose_backend("cpu").backend == "reference"
