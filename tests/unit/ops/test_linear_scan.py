"""The laws of h_t = a_t * h_(t-1) + b_t: one definition, and every backend, stride, split and dtype agrees with it."""

import os
import select
import signal
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from covering import over
from hypothesis import given
from hypothesis import strategies as st
from properties import few
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
every_backend = pytest.mark.parametrize("backend", BACKENDS)


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
    """Gradients that can be differentiated again are the same gradients."""
    grads = upstream(arguments)
    expected = run(partial(definition, reverse=reverse), arguments, grads)
    for again in (False, True):
        scan = partial(linear_scan, reverse=reverse, backend=backend)
        assert_same(run(scan, arguments, grads, create_graph=again), expected, dtype)


RESETS = {"no resets": (False, False), "resets": (True, False), "resets to a state": (True, True)}


@over(backend=BACKENDS, reverse=(False, True), h0=(False, True), resets=RESETS)
def test_every_option_obeys_the_definition_in_numbers_and_gradients(backend, reverse, h0, resets):
    for steps in (0, 1, 2, 7):
        arguments = problem(3, steps, 5, h0=h0, resets=resets[0], reset_state=resets[1])
        assert_obeys_the_definition(backend, arguments, torch.float64, reverse)


SIZES = [
    (2, 0, 5), (2, 1, 1), (2, 2, 5), (2, 63, 1), (2, 63, 256), (2, 63, 300), (2, 63, 500), (2, 1000, 5), (2, 1000, 300),
    (0, 4, 3), (2, 4, 0),
]  # fmt: skip
"""Sequences, steps and channels: none, one, a whole block of channels, parts of two."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_obeys_the_definition_in_numbers_and_gradients(size, dtype):
    arguments = problem(*size, dtype)
    if size[1] < 1000:
        for backend in BACKENDS:
            assert_obeys_the_definition(backend, arguments, dtype, reverse=size[2] % 2 == 0)
        return
    # Autograd through a plain loop takes quadratic time, so long sequences are compared with the reference backend.
    grads = upstream(arguments)
    for reverse in (False, True):
        expected, actual = (
            run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads) for backend in BACKENDS
        )
        assert_same(actual, expected, dtype)


@every_backend
def test_a_decay_may_be_any_real_number(backend):
    arguments = problem(2, 20, 5)
    arguments["decay"] = torch.tensor([-2.0, -1.0, 0.0, 1.0, 1.5], dtype=torch.float64).repeat(2, 20, 1)
    h, _ = linear_scan(**arguments, backend=backend)
    assert_equal_within(h, oracle(**arguments)[0], torch.float64, "h")
    assert_obeys_the_definition(backend, arguments, torch.float64, reverse=False)


@over(backend=BACKENDS, reverse=(False, True), bad=(float("inf"), float("nan")))
def test_a_reset_cuts_off_a_state_that_is_not_finite(backend, reverse, bad):
    """One inside the series, or of one sequence that of h0."""
    arguments = problem(2, 6, 3)
    grads = upstream(arguments)
    first, before, step = (5, 3, 2) if reverse else (0, 2, 3)
    after = slice(0, step + 1) if reverse else slice(step, None)
    arguments["resets"] = torch.zeros(2, 6, dtype=torch.bool)
    arguments["resets"][:, step] = arguments["resets"][0, first] = True
    outside = torch.ones(6, dtype=torch.bool)
    outside[after] = False
    grads[0][:, outside] = 0
    healthy = run(partial(linear_scan, reverse=reverse, backend=backend), arguments, grads)
    arguments["drive"][:, before] = arguments["h0"][0] = bad
    inputs = leaves(arguments)
    h, last = linear_scan(**inputs, reverse=reverse, backend=backend)
    torch.autograd.backward((h, last), grads)
    assert not h[:, before].isfinite().any() and h[:, first].isfinite().all()
    assert_equal_within(h[:, after], healthy["h"][:, after], torch.float64, "h after the reset")
    assert_equal_within(last, healthy["h_last"], torch.float64, "h_last")
    for name in LEAVES:
        assert_equal_within(inputs[name].grad, healthy[name], torch.float64, f"gradient of {name}", gradient=True)


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels apart": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "half of a wider tensor": lambda x: torch.cat([torch.full_like(x, torch.nan), x], dim=-1).chunk(2, dim=-1)[1],
    "every second step": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
}  # fmt: skip
EXPANDED = {
    str(axes): lambda x, axes=axes: x[tuple(slice(0, 1) if i in axes else slice(None) for i in range(3))].expand_as(x)
    for axes in ((0,), (1,), (2,), (0, 1, 2))
}
"""Along these axes; along all of them as the gradient of a sum is, whose strides are zero."""


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), *EXPANDED.values()], ids=[*LAYOUTS, *EXPANDED])
def test_the_layout_in_memory_changes_no_number(layout):
    arguments = problem(3, 4, 5)
    grads = upstream(arguments)
    scan = partial(linear_scan, backend="native")
    for name in ("decay", "drive"):
        laid = layout(arguments[name])
        found, expected = (run(scan, arguments | {name: x}, grads) for x in (laid, laid.clone().contiguous()))
        assert_same(found, expected, torch.float64)
    laid = layout(grads[0])
    found, expected = (run(scan, arguments, (x, grads[1])) for x in (laid, laid.clone().contiguous()))
    assert_same(found, expected, torch.float64)


def test_the_layout_of_a_state_and_of_flags_changes_no_number():
    arguments = problem(3, 4, 5)
    grads, columns = upstream(arguments), {name: arguments[name].T.contiguous().T for name in ("h0", "resets")}
    found, expected = (run(linear_scan, given, grads) for given in (arguments | columns, arguments))
    assert_same(found, expected, torch.float64)


@every_backend
def test_results_are_new_memory_and_inputs_stay_as_they_were(backend):
    for steps in (0, 4):
        arguments = problem(2, steps, 3)
        before = {k: v.clone() for k, v in arguments.items()}
        h, last = linear_scan(**arguments, backend=backend)
        kept = h.clone()
        last.fill_(7)
        assert torch.equal(h, kept)
        run(partial(linear_scan, backend=backend), arguments, upstream(arguments))
        assert all(torch.equal(arguments[k], before[k]) for k in arguments)


@over(backend=BACKENDS, dtype=(torch.bfloat16, torch.float16))
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


@over(backend=BACKENDS, state_dtype=(torch.bfloat16, torch.float32))
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


@over(backend=BACKENDS, reverse=(False, True), full=(False, True))
def test_numerical_differences_agree_with_first_and_second_gradients(backend, reverse, full):
    arguments = leaves(problem(2, 3, 2, h0=full, resets=full, reset_state=full))
    names = [k for k in arguments if arguments[k].requires_grad]

    def scan(*values):
        inputs = arguments | dict(zip(names, values, strict=True))
        return linear_scan(**inputs, reverse=reverse, backend=backend)

    values = tuple(arguments[k] for k in names)
    assert torch.autograd.gradcheck(scan, values)
    assert torch.autograd.gradgradcheck(scan, values)


@pytest.mark.usefixtures("torchs_compiler")
@over(backend=BACKENDS, full=(False, True))
def test_the_operator_and_its_gradient_pass_torchs_own_check(backend, full):
    arguments = leaves(problem(2, 3, 4, h0=full, resets=full, reset_state=full))
    options = [arguments.get(k) for k in ("h0", "resets", "reset_state")]
    torch.library.opcheck(functional._linear_scan, (arguments["decay"], arguments["drive"], *options, full, backend))
    arguments = {name: value.detach() for name, value in arguments.items()}
    h, _ = linear_scan(**arguments)
    options = [arguments.get(k) for k in ("h0", "resets", "reset_state")]
    inputs = (*upstream(arguments), arguments["decay"], h, *options, not full, backend)
    torch.library.opcheck(functional._linear_scan_gradient, inputs)


@pytest.mark.usefixtures("torchs_compiler")
@every_backend
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


WRONG = [
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
]


def test_arguments_that_do_not_fit_are_refused_with_their_name():
    fitting = {"decay": shaped(2, 3, 4), "drive": shaped(2, 3, 4)}
    linear_scan(**fitting)
    for wrong, words in WRONG:
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


@few(max_examples=25)
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


def test_decays_above_one_that_overflow_together_harm_no_state_that_does_not(two_threads):
    """With few sequences for the threads, time is cut into stretches, and decays of a whole stretch are multiplied."""
    decay, drive = torch.full((1, 2000, 64), 1.25), torch.zeros(1, 2000, 64)
    decay[:, 1000:], drive[:, 1000:] = 0.5, 1.0
    late = decay.flip(1).contiguous()
    for count in (1, 2, 3, 8):
        torch.set_num_threads(count)
        _, last = linear_scan(decay, drive)
        assert_equal_within(last, torch.full((1, 64), 2.0), torch.float32, f"last, {count} threads")
        given = torch.zeros_like(late, requires_grad=True)
        linear_scan(late, given)[0][:, :500].sum().backward()
        assert torch.isfinite(given.grad).all() and not given.grad[:, 500:].any()


def test_a_package_that_is_barred_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert choose_backend("cpu").backend == "reference"
