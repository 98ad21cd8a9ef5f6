"""`verify` fails when an equation, a sign, a gradient or an execution mode is broken on purpose."""

import inspect
import sys
import textwrap
from importlib import import_module

import pytest

from gatedrnn import cells, equations
from gatedrnn.cells import lstm_normalized
from gatedrnn.kernels.cpu import loop
from gatedrnn.layers import module, packing, runners, window
from gatedrnn.layers.layer import RecurrentLayer
from gatedrnn.layers.runners import Runner
from gatedrnn.ops import _time, gated_scan, masking, step
from gatedrnn.ops import loop as loop_op
from gatedrnn.ops.cells import cell_program
from gatedrnn.registry import CELLS
from gatedrnn.verify.contract import check_cell

NAMES = "ops.linear_scan", "kernels.cpu.scan", "kernels.cpu.linear_scan", "kernels.cpu.elementwise_loop"
linear_scan, scan, bare_scan, elementwise_loop = (import_module(f"gatedrnn.{name}") for name in NAMES)

# Cell that shows it, where the line stands, the line, and what it is broken into: one of each function.
MUTATIONS = [
    ("lstm", cells.LSTMEquations, "step", "torch.sigmoid(f) * c", "torch.sigmoid(-f) * c"),
    ("lstm-peephole", cells.PeepholeLSTMEquations, "step", "f + w_cf * c", "f - w_cf * c"),
    ("lstm-no-output-gate", cells.NoOutputGateLSTMEquations, "output", "torch.tanh(state[0])", "state[0]"),
    ("lstm-normalized", equations.ConvexScanEquations, "coefficients", "torch.sigmoid(-logit) *", ""),
    ("minlstm", lstm_normalized, "normalized_log_ratio", "softplus(-forget)", "softplus(forget)"),
    ("gru", cells.GRUEquations, "step", "(1 - z) * n + z * h", "z * n + (1 - z) * h"),
    ("mingru", cells.MinGRUEquations, "logit", "return -update", "return update"),
    ("mingru", equations.ConvexScanEquations, "coefficients_over", "-torch.expm1(log_decay)", "torch.exp(log_decay)"),
    ("lstm-input-gated", cells.InputGatedLSTMEquations, "coefficients_over", "gaps * ", ""),
    ("mingru", masking, "gaps_between_real_steps", "clock.gather(1, since)", "clock[:, :-1]"),
    ("mingru", masking, "_next", "places[:, 1:]", "places[:, :-1]"),
    ("mingru", equations.ScanEquations, "step", "decay * state[0] + ", "decay * (2 * state[0] - state[0].detach()) + "),
    ("mingru", equations.Recurrent, "drop", "x * self.dropped", "x"),
    ("mingru", linear_scan, "_gradient_by_scan", "return delta * previous,", "return delta * h,"),
    ("mingru", scan, "scan", "(last,) = forward.last", "last = 0 * forward.last[0]"),
    ("mingru", _time, "over_time", "reversed(steps) if reverse else", "steps if reverse else"),
    ("mingru", linear_scan, "scan_in_torch", "torch.where(reset.unsqueeze(1), reset_to, state[0])", "state[0]"),
    ("mingru", masking, "hold_masked_steps", "torch.where(real, decay, 1)", "torch.where(real, decay, 0)"),
    ("mingru", step, "zoned_coefficients", "torch.zeros_like(drive)", "torch.ones_like(drive)"),
    ("mingru", scan, "inputs_of", "flags(resets)", "flags(None)"),
    ("para-gru", elementwise_loop, "elementwise_loop", "forward.last", "(0 * forward.last[0],)"),
    ("para-gru", cells.ParaGRUEquations, "step", "a_n * (r * read)", "a_n * read"),
    ("slstm", cells.SLSTMEquations, "step", "torch.maximum(log_i, log_f)", "log_f"),
    ("qrnn", window, "_of_the_last_real_step", "found > cut", "found >= cut"),
    ("janet", cells.JANETEquations, "step", "self.beta - s_t", "-s_t"),
    ("mingru", gated_scan, "scan_in_torch", "drive * dropout_mask.unsqueeze(1)", "drive"),
    ("mingru", runners.scan, "_direction", "if given.reverse and resets is not None", "if False"),
    ("mgu", loop_op, "loop_in_torch", "z if t is None else t for", "z if t is None else t.roll(1, 0) for"),
    ("mgu", loop_op, "loop_in_kernel", "zero_masked_steps(h, mask)", "h"),
    ("mgu", loop_op, "_before_each_step", "if reverse else", "if not reverse else"),
    ("mgu", loop, "loop_cells", "flags(mask), flags(resets)", "flags(None), flags(resets)"),
    ("mgu", step, "zoned", "(mask, b, a)", "(mask, a, b)"),
    ("lstm", runners.torch, "_aligned", "if padding_gates:", "if False:"),
    ("lstm", runners.torch, "_padded", "if not ragged_left:", "if True:"),
    ("gru", runners.torch, "_last_valid", "lengths - 1", "lengths - 2"),
    ("gru", packing.Segments, "start", "hx[self.first.clamp(min=0)], 0", "hx[self.first.clamp(min=0)], 1"),
    ("gru", masking, "reversed_resets", "resets[:, 1:]", "resets[:, :-1]"),
    ("gru", RecurrentLayer, "_run", "start, weights = tuple(s[index]", "start, weights = tuple(s[0]"),
    ("gru", module.RecurrentModule, "_project", ".flatten(-2)", ".flatten(-2) + 0.1"),
    ("gru", packing, "repacked", "output[like.sorted_indices]", "output"),
]  # fmt: skip


MODULES = [owner.__module__ if inspect.isclass(owner) else owner.__name__ for _, owner, *_ in MUTATIONS]
PACKAGES = [name.rpartition(".")[0] for name in MODULES]
FAST = [i for i, each in enumerate(PACKAGES) if each not in PACKAGES[:i] or each not in PACKAGES[i + 1 :]]
"""The first and the last of each package."""


@pytest.mark.parametrize(
    "cell, owner, name, line, broken",
    [pytest.param(*case, marks=() if i in FAST else pytest.mark.slow) for i, case in enumerate(MUTATIONS)],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_broken_line_is_seen(cell, owner, name, line, broken, monkeypatch):
    mutate(monkeypatch, owner, name, line, broken)
    assert any(not row.holds for row in check_cell(cell, ("float64",)))


@pytest.mark.slow
@pytest.mark.parametrize("cell", sorted({MUTATIONS[i][0] for i in FAST}))
def test_the_same_lines_unbroken_hold(cell, monkeypatch):
    for other, owner, name, line, _ in MUTATIONS:
        if other == cell:
            mutate(monkeypatch, owner, name, line, line)
    assert all(row.holds for row in check_cell(cell, ("float64",)))


@pytest.fixture(autouse=True, scope="module")
def programs():
    """Kernels come from the equations as they are."""
    for record in CELLS.values():
        cell_program(record.equations())


def mutate(monkeypatch, owner, name, line, broken):
    """Put a function with one line changed in the place of itself, wherever the library holds it."""
    original = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(line) == 1, f"{line!r} stands {source.count(line)} times in {name}"
    names = dict(vars(sys.modules[original.__module__]))
    exec(source.replace(line, broken), names)
    changed = names[name]
    if inspect.isclass(owner):
        return monkeypatch.setattr(owner, name, changed)
    for loaded in [loaded for key, loaded in sys.modules.items() if key.startswith("gatedrnn")]:
        for key, value in list(vars(loaded).items()):
            if value is original:
                monkeypatch.setattr(loaded, key, changed)
            elif isinstance(value, Runner) and original in value:
                monkeypatch.setattr(loaded, key, Runner(*(changed if part is original else part for part in value)))
            elif isinstance(value, dict):
                for inner in [k for k, v in value.items() if v is original]:
                    monkeypatch.setitem(value, inner, changed)
