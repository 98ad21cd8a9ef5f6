"""`verify` fails when an equation, a sign, a gradient or an execution mode is broken on purpose."""

import inspect
import sys
import textwrap

import pytest

from gatedrnn import cells, equations
from gatedrnn.cells import lstm_normalized
from gatedrnn.kinds import definition, kernel_of
from gatedrnn.kinds.loop import cpu as loop_cpu
from gatedrnn.kinds.loop import op as loop_op
from gatedrnn.kinds.loop import path as loop_path
from gatedrnn.kinds.scan import cpu as scan_cpu
from gatedrnn.kinds.scan import definition as scan_definition
from gatedrnn.kinds.scan import op as scan_op
from gatedrnn.kinds.torch import path as torch_path
from gatedrnn.kinds.torch.segments import Segments
from gatedrnn.layers import layer, module, wrappers
from gatedrnn.layers.layer import RecurrentLayer
from gatedrnn.registry import CELLS
from gatedrnn.verify.contract import check_cell

# Cell that shows it, where the line stands, the line, and what it is broken into: one of each function at least.
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
    ("mingru", definition, "gaps_between_real_steps", "clock.gather(1, since)", "clock[:, :-1]"),
    ("mingru", definition, "_next_position", "positions[:, 1:]", "positions[:, :-1]"),
    ("mingru", equations.ScanEquations, "step", "decay * state[0] + ", "decay * (2 * state[0] - state[0].detach()) + "),
    ("mingru", equations.Recurrent, "drop", "x * self.dropped", "x"),
    ("mingru", scan_op, "_gradient_by_scan", "return delta * previous,", "return delta * h,"),
    ("mingru", scan_cpu, "scan", "forward.last, None", "0 * forward.last, None"),
    ("mingru", scan_cpu, "scan", "forward.last, series", "0 * forward.last, series"),
    ("mingru", definition, "over_time", "reversed(steps) if reverse else", "steps if reverse else"),
    ("mingru", scan_definition, "scan_in_torch", "torch.where(reset.unsqueeze(1), reset_to, state[0])", "state[0]"),
    ("mingru", scan_definition, "coefficients_of", "torch.where(real, decay, 1)", "torch.where(real, decay, 0)"),
    ("mingru", scan_definition, "coefficients_of", "torch.zeros_like(drive)", "torch.ones_like(drive)"),
    ("mingru", scan_cpu, "operands_of", "flags(inputs.resets)", "flags(None)"),
    ("para-gru", scan_cpu, "scan", "forward.last, None", "0 * forward.last, None"),
    ("para-gru", cells.ParaGRUEquations, "step", "a_n * (r * read)", "a_n * read"),
    ("slstm", cells.SLSTMEquations, "step", "torch.maximum(log_i, log_f)", "log_f"),
    ("qrnn", wrappers, "_of_the_last_real_step", "last_real > cut", "last_real >= cut"),
    ("janet", cells.JANETEquations, "step", "self.beta - s_t", "-s_t"),
    ("mingru", scan_definition, "coefficients_of", "drive * dropped.unsqueeze(1)", "drive"),
    ("mingru", loop_path, "cuts_of", "and direction.reverse", "and False"),
    ("mgu", definition, "iterate", "z if t is None else t for", "z if t is None else t.roll(1, 0) for"),
    ("mgu", loop_op, "loop_in_kernel", "zero_masked_steps(h, mask)", "h"),
    ("mgu", loop_op, "_before_each_step", "if reverse else", "if not reverse else"),
    ("mgu", loop_cpu, "loop_cells", "flags(inputs.mask), flags(", "flags(None), flags("),
    ("mgu", definition, "one_step", "(mask, b, a)", "(mask, a, b)"),
    ("lstm", torch_path, "_run_left_aligned", "if padding_gates:", "if False:"),
    ("lstm", torch_path, "_run_padded", "if not ragged_left:", "if True:"),
    ("gru", torch_path, "_last_valid", "lengths - 1", "lengths - 2"),
    ("gru", Segments, "start", "hx[self.first.clamp(min=0)], 0", "hx[self.first.clamp(min=0)], 1"),
    ("gru", definition, "reversed_resets", "resets[:, 1:]", "resets[:, :-1]"),
    ("gru", RecurrentLayer, "_run_stack", "[s[index] for s in state]", "[s[0] for s in state]"),
    ("gru", module.RecurrentModule, "project", ".flatten(-2)", ".flatten(-2) + 0.1"),
    ("gru", layer, "repack", "output[like.sorted_indices]", "output"),
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


def test_every_line_that_is_broken_stands_once():
    for _, owner, name, line, _ in MUTATIONS:
        assert inspect.getsource(getattr(owner, name)).count(line) == 1, (name, line)


@pytest.mark.slow
@pytest.mark.parametrize("cell", sorted({MUTATIONS[i][0] for i in FAST}))
def test_the_same_lines_unbroken_hold(cell, monkeypatch):
    lines = {(owner, name): line for other, owner, name, line, _ in MUTATIONS if other == cell}
    for (owner, name), line in lines.items():
        mutate(monkeypatch, owner, name, line, line)
    assert all(row.holds for row in check_cell(cell, ("float64",)))


@pytest.fixture(autouse=True, scope="module")
def programs():
    """Kernels come from the equations as they are."""
    for cell in (record.equations() for record in CELLS.values()):
        kernel_of(cell)


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
            elif isinstance(value, dict):
                for inner in [k for k, v in value.items() if v is original]:
                    monkeypatch.setitem(value, inner, changed)
