"""Real workers, really killed: processes, jobs of submitit, Ray on two nodes. The results are those of one process."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from processes import heeds_signals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FLAGS = (
    "compare --task digits --cells lstm mingru --match layers --seeds 0 1 --hidden-size 16 --epochs 12 --threads 1 "
    "--checkpoint-every 5"
).split()
PLACES = ("local", "slurm,cluster=local", "ray")


def driver(output: Path, on: str, *flags: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "gatedrnn", *FLAGS, "--on", on, "--output", str(output), *flags], text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=heeds_signals,
    )  # fmt: skip


def to_its_end(process: subprocess.Popen) -> str:
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def unmeasured(output: Path) -> dict:
    results = json.loads((output / "results.json").read_text())
    for name, run in results["measured"]["runs"].items():
        own = json.loads((output / name / "result.json").read_text())["measured"]
        assert own["host"] == socket.gethostname() and own["processor"] == run["processor"]
    del results["measured"]
    return results


def until(condition: Callable[[], object], process: subprocess.Popen) -> None:
    last = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < last
        time.sleep(0.01)


def saved(output: Path) -> bool:
    """Whether a run is under way, and has saved."""
    return any(output.glob("*/*/checkpoint/step-*"))


def signal_a_worker(output: Path, process: subprocess.Popen, number: int = signal.SIGKILL) -> None:
    """The one that holds the lock of a run that has saved."""
    until(lambda: saved(output), process)
    lock = next(path.parents[1] / ".lock" for path in output.glob("*/*/checkpoint/step-*"))
    os.kill(int(lock.read_text().split()[0]), number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "study"
    to_its_end(driver(output, "local"))
    return unmeasured(output)


@pytest.mark.parametrize("on", PLACES)
def test_a_worker_that_is_killed_costs_nothing(on, whole, tmp_path):
    output = tmp_path / "study"
    process = driver(output, on, "--jobs", "2")
    signal_a_worker(output, process)
    said = to_its_end(process)
    assert "submitted again, 1 of 3 times" in said, said
    assert unmeasured(output) == whole


@pytest.mark.parametrize("on", PLACES)
def test_a_driver_that_is_killed_is_gone_on_with_by_the_same_command(on, whole, tmp_path):
    output = tmp_path / "study"
    process = driver(output, on, "--jobs", "2")
    until(lambda: saved(output), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    to_its_end(driver(output, on, "--jobs", "2", "--wait"))
    assert unmeasured(output) == whole


@pytest.mark.parametrize("on", PLACES)
def test_a_driver_that_is_asked_to_stop_has_its_workers_save(on, whole, tmp_path):
    output = tmp_path / "study"
    process = driver(output, on, "--jobs", "2")
    until(lambda: saved(output), process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130 and "interrupted; finished work is kept" in said, said
    assert saved(output) and not list(output.glob("*/*/progress.json")), "a worker was torn"
    to_its_end(driver(output, "local"))
    assert unmeasured(output) == whole


def test_an_interrupted_study_goes_on_elsewhere(whole, tmp_path):
    output = tmp_path / "study"
    for on in ("slurm,cluster=local", "ray"):
        process = driver(output, on, "--jobs", "1", "--wait")
        before = len(list(output.glob("*/*/result.json")))
        until(lambda before=before: len(list(output.glob("*/*/result.json"))) > before, process)
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=100)
    to_its_end(driver(output, "local", "--wait"))
    assert unmeasured(output) == whole


def test_a_job_whose_time_is_up_saves_and_goes_on_in_another(whole, tmp_path):
    output = tmp_path / "study"
    process = driver(output, "slurm,cluster=local", "--jobs", "1")
    signal_a_worker(output, process, signal.SIGUSR2)  # as SLURM does some time before it kills
    said = to_its_end(process)
    logs = "".join(path.read_text() for path in (output / "jobs").glob("*_log.*"))
    assert unmeasured(output) == whole
    assert "Requeued job" in logs and "lost" not in said, said


@pytest.fixture(scope="module")
def other_studies(tmp_path_factory):
    return other_studies_on("local", tmp_path_factory.mktemp("others"))


def other_studies_on(on, folder):
    """A search for settings, and a suite of probes."""
    process = driver(folder / "search", on, "--trials", "2", "--jobs", "2")
    to_its_end(process)
    search = unmeasured(folder / "search")
    trials = gzip.decompress((folder / "search" / "trials.json.gz").read_bytes())
    flags = "probe signed-mingru --tasks even-pairs majority --seeds 0 --lengths 512 --jobs 2".split()
    subprocess.run(
        [sys.executable, "-m", "gatedrnn", *flags, "--on", on, "--output", folder / "probes"], check=True,
        capture_output=True,
    )  # fmt: skip
    probes = json.loads((folder / "probes" / "probes.json").read_text())
    del probes["measured"]
    for task in probes["tasks"].values():
        for cell in task["cells"].values():
            del cell["tokens_per_second"]
    scores = [{k: v for k, v in trial.items() if "seconds" not in k} for trial in json.loads(trials)["trials"]]
    return search, scores, probes


@pytest.mark.parametrize("on", PLACES[1:])
def test_a_search_and_probes_find_the_same_anywhere(on, other_studies, tmp_path):
    assert other_studies_on(on, tmp_path) == other_studies


@pytest.fixture
def cluster(tmp_path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Two nodes of Ray with one core each, started as a user starts them; their address, and their processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1", "--disable-usage-stats"]
    heads = [
        ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false"],
        [f"--address=127.0.0.1:{port}"],
    ]
    nodes: list[subprocess.Popen] = []
    environment = {**os.environ, "RAY_AUTH_MODE": "token"}
    try:
        for arguments in heads:
            path = tmp_path / f"node-{len(nodes)}.log"
            with path.open("w") as log:
                node = subprocess.Popen(
                    [*ray, *arguments], stdout=log, stderr=log, start_new_session=True, env=environment
                )
                nodes.append(node)
            last = time.monotonic() + 60
            while "--block" not in path.read_text():
                assert node.poll() is None and time.monotonic() < last, path.read_text()
                time.sleep(0.1)
        yield f"ray:127.0.0.1:{port}", nodes
    finally:
        for node in nodes:
            remove(node)


def remove(node: subprocess.Popen) -> None:
    """As if its machine had lost its power."""
    if node.poll() is None:
        children = psutil.Process(node.pid).children(recursive=True)
        for process in children:
            process.suspend()
        for process in children:
            process.kill()
        node.kill()
        node.wait()


def test_a_node_that_leaves_costs_nothing(cluster, whole, tmp_path):
    address, nodes = cluster
    output = tmp_path / "study"
    process = driver(output, address)
    until(lambda: len(list(output.glob("*/*/checkpoint"))) == 2, process)
    remove(nodes[1])
    said = to_its_end(process)
    assert unmeasured(output) == whole
    assert "submitted again, 1 of 3 times" in said, said


def test_no_cluster_at_the_address_is_one_line(tmp_path):
    process = driver(tmp_path / "study", "ray:127.0.0.1:1")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1 and said.splitlines()[-1].startswith("gatedrnn: --on ray:127.0.0.1:1: no cluster"), (
        said
    )
