"""The laws of h_t = a_t * h_(t-1) + b_t: one definition, and every backend, stride, split and dtype agrees with it."""

import os
import select
import signal
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
import onnxruntime
import pytest
import torch
from covering import over
from hypothesis import given
from hypothesis import strategies as st
from properties import few
from tolerances import assert_equal_within

from gatedrnn import choose_backend, linear_scan
from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels import backends
from gatedrnn.kernels.cpu import threads as pool
from gatedrnn.kinds.scan import cpu, op
from gatedrnn.kinds.scan.definition import BARE, scan_in_torch

BACKENDS = ("reference", "native")


def problem(batch, steps, channels, dtype=torch.float64, *, h0=True, resets=True, reset_state=True):
    """Arguments of a scan: decays of both signs, some exactly zero, some above one."""
    decay = torch.empty(batch, steps, channels, dtype=dtype).uniform_(-1.1, 1.1)
    decay[torch.rand(batch, steps, channels) < 0.05] = 0
    arguments = {"decay": decay, "drive": torch.randn(batch, steps, channels, dtype=dtype)}
    arguments |= {"h0": torch.randn(batch, channels, dtype=dtype)} if h0 else {}
    arguments |= {"resets": torch.rand(batch, steps) < 0.2} if resets else {}
    return arguments | ({"reset_state": torch.randn(channels, dtype=dtype)} if reset_state else {})


def leaves(arguments):
    return {k: v.detach().requires_grad_(v.is_floating_point()) for k, v in arguments.items()}


def upstream(arguments):
    """Random gradients for h and for h_last."""
    drive = arguments["drive"]
    return torch.randn_like(drive), torch.randn(drive.shape[0], drive.shape[2], dtype=drive.dtype)


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
    """A scan written a second time, number by number."""
    batch, steps, channels = drive.shape
    h, last = np.zeros((batch, steps, channels)), np.zeros((batch, channels))
    for b, d in product(range(batch), range(channels)):
        state = 0.0 if h0 is None else float(h0[b, d])
        for t in range(steps)[::-1] if reverse else range(steps):
            if resets is not None and resets[b, t]:
                state = 0.0 if reset_state is None else float(reset_state[d])
            state = float(decay[b, t, d]) * state + float(drive[b, t, d])
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


@over(backend=BACKENDS, reverse=(False, True), h0=(False, True), resets=((False, False), (True, False), (True, True)))
def test_every_option_obeys_the_definition_in_numbers_and_gradients(backend, reverse, h0, resets):
    for steps in (0, 1, 2, 7):
        arguments = problem(3, steps, 5, h0=h0, resets=resets[0], reset_state=resets[1])
        assert_obeys_the_definition(backend, arguments, torch.float64, reverse)


SIZES = (
    (2, 0, 5), (2, 1, 1), (2, 2, 5), (2, 63, 1), (2, 63, 256), (2, 63, 300), (2, 63, 500), (2, 1000, 5), (2, 1000, 300),
    (0, 4, 3), (2, 4, 0),
)  # fmt: skip
"""Sequences, steps and channels: none, one, a whole block of channels, parts of two."""


@over(size=SIZES, dtype=(torch.float32, torch.float64))
def test_every_size_obeys_the_definition_in_numbers_and_gradients(size, dtype):
    arguments = problem(*size, dtype)
    if size[1] < 1000:
        for backend in BACKENDS:
            assert_obeys_the_definition(backend, arguments, dtype, reverse=size[2] % 2 == 0)
        return
    # Autograd through a plain loop takes quadratic time, so long sequences are compared with the reference backend.
    grads = upstream(arguments)
    for reverse in (False, True):
        scans = (partial(linear_scan, reverse=reverse, backend=backend) for backend in ("native", "reference"))
        assert_same(*(run(scan, arguments, grads) for scan in scans), dtype)


@over(backend=BACKENDS, reverse=(False, True), bad=(float("inf"), float("nan")))
def test_a_reset_cuts_off_a_state_that_is_not_finite(backend, reverse, bad):
    """One inside the series, or of one sequence that of h0."""
    arguments = problem(2, 6, 3)
    grads = upstream(arguments)
    first, before, step = (5, 3, 2) if reverse else (0, 2, 3)
    after = slice(0, step + 1) if reverse else slice(step, None)
    arguments["resets"] = torch.zeros(2, 6, dtype=torch.bool)
    arguments["resets"][:, step] = arguments["resets"][0, first] = True
    grads[0][:, [t for t in range(6) if t not in range(6)[after]]] = 0
    scan = partial(linear_scan, reverse=reverse, backend=backend)
    healthy = run(scan, arguments, grads)
    arguments["drive"][:, before] = arguments["h0"][0] = bad
    found = run(scan, arguments, grads)
    assert not found["h"][:, before].isfinite().any() and found["h"][:, first].isfinite().all()
    found["h"], healthy["h"] = found["h"][:, after], healthy["h"][:, after]
    assert_same(found, healthy, torch.float64)


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


@over(layout=LAYOUTS | EXPANDED)
def test_the_layout_in_memory_changes_no_number(layout):
    arguments = problem(3, 4, 5)
    columns, (grad, last) = {name: arguments[name].T.contiguous().T for name in ("h0", "resets")}, upstream(arguments)
    for name in ("decay", "drive", "gradient"):
        laid, found = layout(grad if name == "gradient" else arguments[name]), []
        for x, rest in ((laid, arguments | columns), (laid.clone().contiguous(), arguments)):
            rest, above = (rest, x) if name == "gradient" else (rest | {name: x}, grad)
            found.append(run(partial(linear_scan, backend="native"), rest, (above, last)))
        assert_same(*found, torch.float64)


@over(backend=BACKENDS, steps=(0, 4))
def test_results_are_new_memory_and_inputs_stay_as_they_were(backend, steps):
    arguments = problem(2, steps, 3)
    before, (h, last) = {k: v.clone() for k, v in arguments.items()}, linear_scan(**arguments, backend=backend)
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

    state, parts = arguments["h0"], []
    for decay, drive in zip(*(arguments[name].split(400, 1) for name in ("decay", "drive")), strict=True):
        part, state = linear_scan(decay, drive, state, backend=backend)
        parts.append(part)
    assert torch.equal(torch.cat(parts, dim=1), h) and torch.equal(state, last)


@over(backend=BACKENDS, reverse=(False, True))
def test_float16_obeys_float32_in_numbers_and_gradients_whatever_its_strides(backend, reverse):
    arguments = problem(2, 63, 5, torch.float16)
    grads = upstream(arguments)
    expected = run(
        partial(definition, reverse=reverse),
        {k: v.float() if v.is_floating_point() else v for k, v in arguments.items()},
        grads,
    )
    for lie in (lambda x: x, lambda x: x.mT.contiguous().mT, lambda x: x.repeat_interleave(2, 1)[:, ::2]):
        laid_out = arguments | {name: lie(arguments[name]) for name in ("decay", "drive")}
        found = run(partial(linear_scan, reverse=reverse, backend=backend), laid_out, grads)
        assert found["h"].dtype == found["decay"].dtype == torch.float16 and found["h_last"].dtype == torch.float32
        assert_same(found, expected, torch.float16)


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


def test_a_forked_child_computes_the_same(set_threads, monkeypatch):
    """The parent's worker threads do not exist in the child; waiting for them would last for ever."""
    set_threads(2)
    # Small enough for torch's own OpenMP loops to stay serial: those may not run on after a fork.
    monkeypatch.setattr(pool, "WORTH_A_THREAD", 1)
    arguments = problem(3, 20, 300, torch.float32)
    expected = linear_scan(**arguments, backend="native")[0].numpy().tobytes()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which is the very point
        child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(linear_scan(**arguments, backend="native")[0].numpy().tobytes())
        finally:
            os._exit(0)  # not through pytest's own end
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        if not select.select([pipe], [], [], 30)[0]:
            os.kill(child, signal.SIGKILL)  # it hangs
        result = pipe.read()
    os.waitpid(child, 0)
    assert result == expected


@over(backend=BACKENDS, reverse=(False, True), full=(False, True))
def test_numerical_differences_agree_with_first_and_second_gradients(backend, reverse, full):
    arguments = leaves(problem(2, 3, 2, h0=full, resets=full, reset_state=full))
    learned = {k: v for k, v in arguments.items() if v.requires_grad}

    def scan(*values):
        return linear_scan(**(arguments | dict(zip(learned, values, strict=True))), reverse=reverse, backend=backend)

    assert torch.autograd.gradcheck(scan, tuple(learned.values()))
    assert torch.autograd.gradgradcheck(scan, tuple(learned.values()))


@pytest.mark.usefixtures("torchs_compiler")
@over(backend=BACKENDS, full=(False, True))
def test_the_operator_and_its_gradient_pass_torchs_own_check(backend, full):
    arguments = problem(2, 3, 4, h0=full, resets=full, reset_state=full)
    chosen, h, nothing = (BARE, not full, backend == "native"), linear_scan(**arguments)[0], torch.empty(0)

    def given():
        decay, drive, h0, resets, reset_state = map(arguments.get, ("decay", "drive", "h0", "resets", "reset_state"))
        return decay, drive, None, None, h0, None, resets, reset_state, *chosen

    torch.library.opcheck(op.scan_gradient, (*upstream(arguments), nothing, h, True, *given()))
    arguments = leaves(arguments)
    torch.library.opcheck(op.scan, given())


def shaped(*sizes, dtype=torch.float32, device="cpu"):
    return torch.zeros(*sizes, dtype=dtype, device=device)


FLAGS = shaped(2, 3, dtype=torch.bool)
WRONG = [
    ({"backend": "fast"}, "backend must be one of auto, reference, native, got 'fast'"),
    ({"decay": shaped(2, 3), "drive": shaped(2, 3)}, "drive must have the axes"),
    ({"decay": shaped(2, 3, 5)}, "decay and drive must have one shape"),
    ({"decay": shaped(2, 3, 4, dtype=torch.float64)}, "one floating dtype"),
    (dict.fromkeys(("decay", "drive"), shaped(2, 3, 4, dtype=torch.int64)), "one floating dtype"),
    ({"h0": shaped(4)}, r"h0 must have shape \(2, 4\), got \(4,\)"),
    ({"h0": shaped(2, 4, dtype=torch.float64)}, "h0 must be torch.float32"),
    ({"resets": shaped(2, 3)}, "resets must be bool"),
    ({"resets": shaped(3, 2, dtype=torch.bool)}, r"resets must be bool of shape \(2, 3\)"),
    ({"resets": FLAGS, "reset_state": shaped(2, 4)}, "reset_state must have shape"),
    ({"resets": FLAGS, "reset_state": shaped(4, dtype=torch.bfloat16)}, "reset_state must be torch.float32"),
    ({"reset_state": shaped(4)}, "pass resets too"),
    ({"decay": shaped(2, 3, 4, device="meta")}, "decay is on meta and drive on cpu"),
    ({"h0": shaped(2, 4, device="meta")}, "h0 is on meta"),
    ({"resets": shaped(2, 3, dtype=torch.bool, device="meta")}, "resets is on meta"),
    ({"resets": FLAGS, "reset_state": shaped(4, device="meta")}, "reset_state is on meta"),
]


def test_arguments_that_do_not_fit_are_refused_with_their_name():
    fitting = {"decay": shaped(2, 3, 4), "drive": shaped(2, 3, 4)}
    linear_scan(**fitting)
    for wrong, words in WRONG:
        with pytest.raises(ValueError, match=words):
            linear_scan(**(fitting | wrong))


def test_auto_runs_the_backend_that_it_names_and_says_why_and_a_missing_one_is_refused(monkeypatch):
    arguments = problem(2, 3, 4)
    expected = oracle(**arguments)[0]
    assert choose_backend("cpu").backend == "native" and "numba" in choose_backend("cpu").reason
    assert choose_backend(torch.device("meta")).backend == "reference" and "meta" in choose_backend("meta").reason
    with pytest.raises(BackendUnavailable, match="no kernel for meta tensors"):
        backends.native_kernels("gatedrnn.kinds.scan", torch.device("meta"))
    with monkeypatch.context() as barred:
        barred.setitem(sys.modules, "numba", None)
        assert choose_backend("cpu").backend == "reference"
    monkeypatch.setattr(cpu, "scan", lambda *_: pytest.fail("the kernel was called"))
    with pytest.raises(pytest.fail.Exception, match="was called"):
        linear_scan(**arguments)
    assert_equal_within(linear_scan(**arguments, backend="reference")[0], expected, torch.float64, "h")
    monkeypatch.setattr(backends, "installed", lambda name: False)
    assert choose_backend("cpu").backend == "reference" and "numba is not" in choose_backend("cpu").reason
    assert_equal_within(linear_scan(**arguments)[0], expected, torch.float64, "h")
    with pytest.raises(BackendUnavailable, match="numba"):
        linear_scan(**arguments, backend="native")


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


def test_decays_above_one_that_overflow_together_harm_no_state_that_does_not(set_threads):
    """Time is cut into chunks where sequences are too few for the threads, and the decays of a chunk are multiplied."""
    decay, drive = torch.full((1, 2000, 64), 1.25), torch.zeros(1, 2000, 64)
    decay[:, 1000:], drive[:, 1000:] = 0.5, 1.0
    late = decay.flip(1).contiguous()
    for count in (1, 2, 3, 8):
        set_threads(count)
        _, last = linear_scan(decay, drive)
        assert_equal_within(last, torch.full((1, 64), 2.0), torch.float32, f"last, {count} threads")
        given = torch.zeros_like(late, requires_grad=True)
        linear_scan(late, given)[0][:, :500].sum().backward()
        assert torch.isfinite(given.grad).all() and not given.grad[:, 500:].any()


def test_a_graph_in_onnx_takes_any_batch_and_length(tmp_path):
    class Scan(torch.nn.Module):
        def forward(self, decay, drive):
            return linear_scan(decay, drive, backend="reference")

    batch, time = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=2)
    free = {name: {0: batch, 1: time} for name in ("decay", "drive")}
    example, path = tuple(torch.rand(2, 4, 7, 3)), tmp_path / "scan.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own workings
        torch.onnx.export(
            Scan().eval(), example, path, dynamo=True, dynamic_shapes=free, input_names=[*free], verbose=False
        )
    decay, drive = torch.rand(2, 3, 11, 3)
    found, last = onnxruntime.InferenceSession(path).run(None, {"decay": decay.numpy(), "drive": drive.numpy()})
    expected = linear_scan(decay, drive, backend="reference")
    torch.testing.assert_close((torch.from_numpy(found), torch.from_numpy(last)), expected)
