"""Kernels that a computation will call are compiled ahead of time, by several processes, and none runs meanwhile."""

import subprocess
import sys

import pytest
import torch
from numba.core.typing.typeof import Purpose, typeof

import gatedrnn
from gatedrnn.codegen import row
from gatedrnn.kernels.cpu import ahead, rows, threads

STEP = """
import sys, torch, gatedrnn
from gatedrnn.kernels.cpu import ahead
from gatedrnn.kinds.scan import loops
torch.set_num_threads(int(sys.argv[1]))
ahead._worker_count = lambda: 2
def step():
    gatedrnn.MinGRU(4, 8)(torch.randn(500, 8, 4))[0].sum().backward()
if sys.argv[2] == "ahead":
    with ahead.compile_ahead():
        step()
else:
    step()
    forms = (loops.RUN.serial, loops.RUN.parallel, loops.RUN_BACKWARD.serial, loops.RUN_BACKWARD.parallel)
    print(*(sum(form.stats.cache_misses.values()) for form in forms))
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_another_process_loads_all_kernels_recorded_and_a_line_is_logged_first(count, tmp_path):
    where = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    first, then = (
        subprocess.run([sys.executable, "-c", STEP, count, when], capture_output=True, text=True, check=True, env=where)
        for when in ("ahead", "afterwards")
    )
    (line,) = first.stderr.splitlines()
    assert line.startswith("compiling 5 kernels for this machine in 2 processes, some seconds; saved in ")
    assert then.stdout.split() == ["0"] * 4 and not then.stderr


def test_nothing_runs_while_calls_are_recorded():
    kernel = threads.Kernel(lambda *_: pytest.fail("was run"), None)
    with threads.recording() as recorded:
        threads.parallel_for(kernel, 5, 3, "an argument")
        assert not rows.row_address(row.ADD, "never compiled", ("float32", "float32"))
    assert recorded.calls == [threads.Call(kernel, 3, ("an argument",))]
    assert [source.name for source in recorded.rows] == ["never_compiled_add"]


@torch.no_grad()
def test_steps_of_a_stream_are_recorded_too():
    norm, projected = {"layer_norm": True}, {"proj_size": 3}
    mingru, para = [("mingru", norm), ("mingru", norm | projected)], [("para-gru", {}), ("para-gru", projected)]
    for name, options in (*mingru, *para, ("gru", {})):
        layer = gatedrnn.registry.CELLS[name].layer(4, 8, **options)
        with threads.recording() as recorded:
            layer.step(torch.randn(2, 4))
        assert len(recorded.rows) <= 1 and not recorded.calls, (name, options)


@pytest.mark.parametrize("missing, can_be_saved", [(0, True), (1, True), (2, False)])
def test_work_for_one_process_is_left_to_the_call(missing, can_be_saved, monkeypatch, caplog):
    for name, value in {"_worker_count": 2, "can_save": can_be_saved, "any_saved": True}.items():
        monkeypatch.setattr(ahead, name, lambda value=value: value)
    there = iter([True] * (2 - missing) + [False] * missing)
    monkeypatch.setattr(ahead.KernelSpec, "is_compiled", lambda form: next(there))
    monkeypatch.setattr(ahead.RowSpec, "is_compiled", lambda form: True)
    monkeypatch.setattr(ahead, "_start_workers", lambda processes: pytest.fail("a process started"))
    with ahead.compile_ahead():
        gatedrnn.MinGRU(4, 8)(torch.randn(500, 8, 4))[0].sum().backward()
    assert not caplog.messages


def test_processes_share_work_by_length_and_module():
    arguments = typeof((1, 2), Purpose.argument)
    scan, loop = "kinds.scan.loops.run", "kinds.loop.loops.run"
    names = [scan, f"{scan}_backward", loop, f"{loop}_backward", "kernels.cpu.products._pack"]
    forms = [ahead.KernelSpec(name, arguments, False) for name in names]
    own, other = ahead._balanced_shares(forms, 2)
    assert {form.module for form in own}.isdisjoint({form.module for form in other}) and len(own) + len(other) == 5
    one, two = ahead._balanced_shares(forms[:2], 2)
    assert [form.kernel for form in (*one, *two)] == [f"{scan}_backward", scan]
