"""A run that does not fit into memory is refused by a sentence with its bytes, before anything is allocated or
written.
"""

import subprocess
import sys

import pytest
import torch
from commands import outcome
from train_helpers import digits_settings

from gatedrnn import processes
from gatedrnn.data import load_task
from gatedrnn.errors import TooLarge
from gatedrnn.processes import readable
from gatedrnn.training import resources
from gatedrnn.training.model import build_model
from gatedrnn.training.resources import check_room

HUGE = {
    "train --task digits --hidden-size 3000000 --cell lstm": "which in training take",
    "train --task digits --hidden-size 10000000000 --cell gru": "more than 8.0 EiB",
    "train --task digits --layers 1000000000": "which in training take",
    "train --task digits --threads 100000 --oversubscribe": "--threads 100000: their stacks take 781.2 GiB, and",
    "compare --task digits --cells gru lstm --hidden-size 3000000": "which in training take",
    "compare --task digits --threads 100000 --oversubscribe": "--threads 100000: their stacks take 781.2 GiB, and",
}


@pytest.mark.parametrize("command", HUGE)
def test_what_memory_does_not_hold_is_refused_with_its_bytes(command, tmp_path, capsys):
    code, error = outcome(capsys, *command.split(), "--output", tmp_path / "run")
    assert code == 2 and error.startswith("gatedrnn: ") and error.count("\n") == 1
    assert HUGE[command] in error and "iB are available" in error, error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("block", [False, True])
def test_what_is_demanded_is_four_times_the_parameters_that_are_built(block, monkeypatch):
    monkeypatch.setattr(resources, "check_threads", lambda _: None)
    for layers in (1, 2, 5):
        settings = digits_settings("gru")
        model = settings.model.model_copy(update={"layers": layers, "block": block})
        settings = settings.model_copy(update={"model": model})
        data = load_task(settings.data)
        parameters = sum(parameter.numel() for parameter in build_model(settings, data).parameters())
        exact = 4 * parameters * torch.float32.itemsize
        monkeypatch.setattr(resources, "_available", lambda exact=exact: exact)
        check_room(settings, data)
        monkeypatch.setattr(resources, "_available", lambda exact=exact: exact - 1)
        with pytest.raises(TooLarge):
            check_room(settings, data)


def test_bytes_read_in_units_and_every_core_runs_a_thread_unless_fewer_are_asked_for(monkeypatch):
    found = [readable(size) for size in (0, 1023, 1536, 3 * 2**30, 2.0**70)]
    assert found == ["0 bytes", "1023 bytes", "1.5 KiB", "3.0 GiB", "1,024.0 EiB"]
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [processes.threads_for(jobs) for jobs in (1, 2, 8)] == [4, 2, 1]
    for asked, jobs, threads in (("1", 1, 1), ("3", 1, 3), ("9", 2, 2), ("x", 1, 4)):
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert processes.threads_for(jobs) == threads


SMALL_BESIDE_LARGE = """
from gatedrnn.cli.arguments import use_large_pages
use_large_pages()
import torch
kept = []
for _ in range(20):
    torch.zeros(1 << 25)  # 128 MiB, gone at once
    kept.append(torch.zeros(1 << 10))
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):  # of this program alone: getrusage counts that of the process it was forked from
        print(int(line.split()[1]) >> 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="as the system counts memory there")
def test_small_tensors_that_outlive_large_ones_cost_no_more_than_themselves():
    """The losses of a long text are kept beside the scores of its pieces, which are not."""
    done = subprocess.run([sys.executable, "-c", SMALL_BESIDE_LARGE], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000, "MiB at most; two large tensors at once would be half of it"
