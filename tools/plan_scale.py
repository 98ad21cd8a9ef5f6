"""The cost of a comparison of many runs and of a model over many GPUs: simulated and computed from constants that are
named.

python tools/plan_scale.py results/bench/scheduling.json OUTPUT.json
"""

import heapq
import json
import math
import random
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from gatedrnn.executors.workers import LOST_AT_MOST, SECONDS_BETWEEN_LOOKS
from gatedrnn.records import environment


@dataclass(frozen=True)
class Cluster:
    """A comparison on a cluster; what is not measured is assumed, and stated so."""

    runs: int = 10_000
    workers: int = 500
    run_seconds: float = 600.0
    """Median of a run; runs are log-normal around it."""
    spread: float = 0.5
    """The standard deviation of the logarithm of a run's seconds."""
    checkpoint_seconds: float = 60.0
    hours_between_failures: float = 100.0
    """The mean hours between failures of a worker: exponential."""


class Outcome(NamedTuple):
    """The outcome of one simulated comparison."""

    hours: float
    ideal_hours: float
    """The hours of the same work without overheads and failures."""
    lost: int
    """Times that a worker was lost."""
    given_up: int
    """Runs that were lost more often than they are handed out again."""
    repeated_share: float
    """Part of the work that was done twice."""


def simulate(cluster: Cluster, scheduling: float, starting: float, seed: int) -> Outcome:
    """Events in the order of time: a worker takes the next run, ends it, or is lost in the middle of it."""
    draw = random.Random(seed)
    seconds = [cluster.run_seconds * math.exp(draw.gauss(0, cluster.spread)) for _ in range(cluster.runs)]
    waiting, left, lost_of = list(range(cluster.runs))[::-1], list(seconds), [0] * cluster.runs
    free = [(0.0, starting) for _ in range(cluster.workers)]
    heapq.heapify(free)
    end, lost, given_up, repeated = 0.0, 0, 0, 0.0
    while waiting:
        now, start = heapq.heappop(free)
        run = waiting.pop()
        # A driver sees an ended run at its next look, half an interval later in the mean.
        begins = now + start + scheduling
        fails = draw.expovariate(1 / (3600 * cluster.hours_between_failures))
        if fails < left[run]:
            saved = cluster.checkpoint_seconds * (fails // cluster.checkpoint_seconds)
            repeated += fails - saved
            left[run] -= saved
            lost, lost_of[run] = lost + 1, lost_of[run] + 1
            if lost_of[run] > LOST_AT_MOST:
                given_up += 1
            else:
                waiting.append(run)
            ended = begins + fails
            heapq.heappush(free, (ended + SECONDS_BETWEEN_LOOKS / 2, starting))
        else:
            ended = begins + left[run]
            heapq.heappush(free, (ended + SECONDS_BETWEEN_LOOKS / 2, 0.0))
        end = max(end, ended)
    work = sum(seconds)
    return Outcome(end / 3600, work / cluster.workers / 3600, lost, given_up, repeated / work)


@dataclass(frozen=True)
class Model:
    """A language model of scan cells over GPUs, weights shared out (FSDP2), time cut in two."""

    parameters: float = 1e9
    width: int = 2048
    layers: int = 32
    gpus: int = 64
    pieces: int = 2
    """Processes that a sequence is cut over."""
    tokens: float = 20e9
    rows: int = 8
    """Sequences of a pair of GPUs at a step."""
    length: int = 8192
    flops: float = 400e12
    """A second, of a GPU in bfloat16: an assumption, about 40 % of an H100's peak."""
    bytes_a_second: float = 50e9
    """The bytes per second between GPUs, each way: an assumption, of a network of 400 Gbit/s."""


def of_model(model: Model) -> dict[str, float]:
    """Bytes and seconds of a step, by arithmetic alone."""
    groups = model.gpus // model.pieces
    tokens = groups * model.rows * model.length
    work = 6 * model.parameters * tokens / model.gpus  # forward and backward
    share = (model.gpus - 1) / model.gpus
    # Weights are gathered for the forward and for the backward pass in bfloat16, gradients reduced in float32.
    weights = share * model.parameters * (2 + 2 + 4)
    states = model.layers * 2 * 2 * model.rows * model.width * 4  # product and state, forward and backward
    steps = model.tokens / tokens
    compute, exchange = work / model.flops, (weights + states) / model.bytes_a_second
    return {
        "tokens a step": tokens, "steps": steps, "GB of weights and gradients a GPU receives a step": weights / 1e9,
        "MB of states a GPU sends a step": states / 1e6,
        "GB a GPU keeps: weights, gradients and moments": 16 * model.parameters / model.gpus / 1e9,
        "seconds of products": compute, "seconds of exchange, none of it hidden": exchange,
        "hours, exchange hidden": steps * max(compute, exchange) / 3600,
        "hours, none hidden": steps * (compute + exchange) / 3600,
        "GB of a checkpoint": 12 * model.parameters / 1e9,
    }  # fmt: skip


def main(measured: Path, output: Path) -> None:
    """Simulate with the overhead of each engine, twenty seeds each, and compute."""
    engines = json.loads(measured.read_text())["engines"]
    plans = {}
    for name, engine in engines.items():
        if name == "local":  # one machine
            continue
        each = engine["processes_started"] == engine["runs"]  # a job is a process: it starts for every run
        start, scheduling = engine["starting_seconds"], engine["scheduling_seconds"]
        overheads = (scheduling + start, 0.0) if each else (scheduling, start)
        outcomes = [simulate(Cluster(), overheads[0], overheads[1], seed) for seed in range(20)]
        plans[name] = {
            field: [round(statistics.median(values), 4), round(min(values), 4), round(max(values), 4)]
            for field, values in zip(Outcome._fields, zip(*outcomes, strict=True), strict=True)
        }
    record = {
        **environment(), "cluster, assumed": asdict(Cluster()), "simulated: median, smallest, largest of 20": plans,
        "messages of a run": {"to a worker, and back": 2, "of progress, a second": 1, "bytes of each": "below 2,000"},
        "model, assumed": asdict(Model()),
        "model, computed": {name: float(f"{value:.4g}") for name, value in of_model(Model()).items()},
    }  # fmt: skip
    output.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
