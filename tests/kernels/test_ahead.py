"""What a computation will call is compiled before it, by several processes at once, and nothing runs meanwhile."""

import subprocess
import sys

import pytest
import torch
from numba.core.typing.typeof import Purpose, typeof

import gatedrnn
from gatedrnn.kernels.cpu import ahead, loops, threads

STEP = """
import sys, torch, gatedrnn
from gatedrnn.kernels.cpu import ahead, loops
torch.set_num_threads(int(sys.argv[1]))
ahead._processes = lambda: 2
def step():
    gatedrnn.MinGRU(4, 8)(torch.randn(500, 8, 4))[0].sum().backward()
if sys.argv[2] == "ahead":
    with ahead.compiled_ahead():
        step()
else:
    step()
    forms = (loops.WALK.alone, loops.WALK.shared, loops.WALK_BACK.alone, loops.WALK_BACK.shared)
    print(*(sum(form.stats.cache_misses.values()) for form in forms))
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_another_process_finds_all_that_was_noted_and_a_line_was_said_first(count, tmp_path):
    where = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    first, then = (
        subprocess.run([sys.executable, "-c", STEP, count, when], capture_output=True, text=True, check=True, env=where)
        for when in ("ahead", "afterwards")
    )
    (line,) = first.stderr.splitlines()
    assert line.startswith("compiling 2 kernels for this machine in 2 processes, some seconds; saved in ")
    assert then.stdout.split() == ["0"] * 4 and not then.stderr


def test_nothing_runs_while_calls_are_noted():
    kernel = threads.Kernel(lambda *_: pytest.fail("was run"), None)
    with threads.noting() as calls:
        threads.share_out(kernel, 5, 3, "an argument")
    assert calls == [threads.Call(kernel, 3, ("an argument",))]


@pytest.mark.parametrize("missing, can_be_saved", [(0, True), (1, True), (2, False)])
def test_what_one_process_compiles_is_left_to_the_call(missing, can_be_saved, monkeypatch, caplog):
    monkeypatch.setattr(ahead, "_processes", lambda: 2)
    monkeypatch.setattr(ahead, "can_save", lambda: can_be_saved)
    monkeypatch.setattr(ahead, "any_saved", lambda: True)
    there = iter([True] * (2 - missing) + [False] * missing)
    monkeypatch.setattr(ahead.Form, "is_compiled", lambda form: next(there))
    monkeypatch.setattr(ahead, "_begin", lambda processes: pytest.fail("a process began"))
    with ahead.compiled_ahead():
        gatedrnn.MinGRU(4, 8)(torch.randn(500, 8, 4))[0].sum().backward()
    assert not caplog.messages


def test_work_is_shared_out_by_length_and_module():
    arguments = typeof((1, 2), Purpose.argument)
    names = ["loops.walk", "loops.walk_back", "loop_walk.walk_cells", "loop_walk.walk_cells_back", "products._pack"]
    forms = [ahead.Form(name, arguments, False) for name in names]
    own, other = ahead._shares(forms, 2)
    assert [form.kernel for form in other] == names[:2] and len(own) == 3
    one, two = ahead._shares(forms[:2], 2)
    assert [form.kernel for form in (*one, *two)] == ["loops.walk_back", "loops.walk"]


def test_every_kernel_is_known_by_its_name():
    assert threads.KERNELS["loops.walk"] is loops.WALK and loops.WALK.name == "loops.walk"
    assert len(threads.KERNELS) >= 10
