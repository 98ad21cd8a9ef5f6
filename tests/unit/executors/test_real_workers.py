"""Real workers, really killed: processes, jobs of submitit, Ray on two nodes. The results are those of one process."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from commands import heeds_signals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
COMMAND = """
from gatedrnn.cli.app import main
from gatedrnn.study import experiment, probes
from gatedrnn.training.task import task_named
experiment.SPEED_SECONDS = probes.SPEED_SECONDS = 0.05
for task in ("even-pairs", "majority"):
    task_named(task).recipe.cells["train"]["total_steps"] = 30
main()
"""
SIZES = "--task digits --hidden-size 16 --epochs 10 --threads 1 --checkpoint-every 5".split()
ONE = [*"compare --cells mingru --seeds 0".split(), *SIZES]
SEVERAL = [*"compare --cells lstm mingru --match layers --seeds 0 1".split(), *SIZES]
SLURM = "slurm,cluster=local"


class Driver:
    """A command that hands runs to workers, in a process of its own."""

    started = []

    def __init__(self, output, on, *flags, command=SEVERAL):
        self.output, self.log = output, output.parent / f"{len(list(output.parent.iterdir()))}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *command, "--on", on, "--output", str(output), *flags],
                stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, preexec_fn=heeds_signals,
            )  # fmt: skip
        self.started.append(self.process)

    def said(self):
        return self.log.read_text()

    def until(self, condition):
        last = time.monotonic() + 200
        while not condition():
            assert self.process.poll() is None and time.monotonic() < last, self.said()
            time.sleep(0.01)

    def ended(self, code=0):
        assert self.process.wait(timeout=800) == code, self.said()
        return self.said()

    def signal_a_worker(self, number):
        """The one that holds the lock of a run that has saved; until another holds it."""
        self.until(lambda: saved(self.output))
        lock = next(path.parents[1] / ".lock" for path in self.output.glob("*/*/checkpoint/step-*"))
        held = lock.read_text()
        os.kill(int(held.split()[0]), number)
        self.until(lambda: lock.exists() and lock.read_text() not in ("", held))


@pytest.fixture(autouse=True, scope="module")
def none_is_left():
    yield
    for process in Driver.started:
        if process.poll() is None:  # its test has failed
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def saved(output):
    return any(output.glob("*/*/checkpoint/step-*"))


def unmeasured(output):
    results = json.loads((output / "results.json").read_text())
    for name, run in results["measured"]["runs"].items():
        own = json.loads((output / name / "result.json").read_text())["measured"]
        assert own["processor"] == run["processor"]
    del results["measured"]
    return results


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "study"
    Driver(output, "local").ended()
    return unmeasured(output)


INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize("on, number, then", [("local", INT, SLURM), (SLURM, TERM, "ray"), ("ray", INT, "local")])
def test_what_is_killed_or_stopped_costs_nothing_and_goes_on_anywhere(on, number, then, whole, tmp_path):
    output = tmp_path / "study"
    driver = Driver(output, on, "--jobs", "2")
    driver.signal_a_worker(signal.SIGKILL)
    driver.process.send_signal(number)
    said = driver.ended(128 + number)
    assert "submitted again, 1 of 3 times" in said and "interrupted; the same command goes on with it" in said, said
    assert saved(output) and not list(output.glob("*/*/progress.json")), "a worker was torn"
    driver = Driver(output, on, "--jobs", "2")
    driver.until(lambda: any(output.glob("*/*/progress.json")))
    driver.process.kill()
    driver.process.wait()
    Driver(output, then, "--jobs", "2", "--wait").ended()
    assert unmeasured(output) == whole


def test_a_job_whose_time_is_up_saves_and_goes_on_in_another(whole, tmp_path):
    output = tmp_path / "study"
    driver = Driver(output, SLURM, "--jobs", "1", command=ONE)
    driver.signal_a_worker(signal.SIGUSR2)  # as SLURM does some time before it kills
    said = driver.ended()
    logs = "".join(path.read_text() for path in (output / "jobs").glob("*_log.*"))
    assert unmeasured(output)["contenders"][0]["runs"][0] == whole["contenders"][1]["runs"][0]
    assert "Requeued job" in logs and "lost" not in said, said


def search_on(on, output):
    Driver(output, on, "--trials", "2", "--jobs", "2", command=ONE).ended()
    trials = json.loads(gzip.decompress((output / "trials.json.gz").read_bytes()))["trials"]
    return unmeasured(output), [{k: v for k, v in trial.items() if "seconds" not in k} for trial in trials]


def probes_on(on, output):
    asked = "probe signed-mingru --tasks even-pairs majority --seeds 0 --lengths 512".split()
    Driver(output, on, "--jobs", "2", command=asked).ended()
    probes = json.loads((output / "probes.json").read_text())
    assert probes.pop("measured")["wall_seconds"] > 0
    for cell in (cell for task in probes["tasks"].values() for cell in task["cells"].values()):
        del cell["tokens_per_second"]
    return probes


@pytest.mark.parametrize(("found_on", "on"), [(search_on, SLURM), (probes_on, "ray")])
def test_a_search_and_probes_find_the_same_anywhere(found_on, on, tmp_path):
    assert found_on(on, tmp_path / "there") == found_on("local", tmp_path / "here")


@pytest.fixture
def cluster(tmp_path):
    """Two nodes of Ray with one core each, started as a user starts them; their address, and their processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [str(Path(sys.executable).with_name("ray")), *"start --block --num-cpus=1 --disable-usage-stats".split()]
    head = f"--head --node-ip-address=127.0.0.1 --port={port} --include-dashboard=false"
    nodes, chosen = [], {"start_new_session": True, "env": {**os.environ, "RAY_AUTH_MODE": "token"}}
    subprocess.run([ray[0], "get-auth-token", "--generate"], check=True, capture_output=True, env=chosen["env"])
    try:
        for arguments in (head, f"--address=127.0.0.1:{port}"):
            path = tmp_path / f"node-{len(nodes)}.log"
            with path.open("w") as log:
                nodes.append(subprocess.Popen([*ray, *arguments.split()], stdout=log, stderr=log, **chosen))
            last = time.monotonic() + 60
            while "--block" not in path.read_text():
                assert nodes[-1].poll() is None and time.monotonic() < last, path.read_text()
                time.sleep(0.1)
        yield f"ray:127.0.0.1:{port}", nodes
    finally:
        for node in nodes:
            remove(node)


def remove(node):
    """End a node as if its machine had lost its power."""
    if node.poll() is None:
        children = psutil.Process(node.pid).children(recursive=True)
        for end in (psutil.Process.suspend, psutil.Process.kill):
            for process in children:
                end(process)
        node.kill()
        node.wait()


def test_a_node_that_leaves_costs_nothing(cluster, whole, tmp_path):
    address, nodes = cluster
    output = tmp_path / "study"
    driver = Driver(output, address)
    driver.until(lambda: len(list(output.glob("*/*/checkpoint"))) == 2)
    remove(nodes[1])
    said = driver.ended()
    assert unmeasured(output) == whole
    assert "submitted again, 1 of 3 times" in said, said
