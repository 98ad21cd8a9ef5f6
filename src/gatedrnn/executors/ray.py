"""Runs as tasks of Ray: on a cluster of this machine alone, or on one that is there."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from gatedrnn.errors import NoCluster, OutOfMemory, UsageError, WorkerDiffers, WorkerLost, reason
from gatedrnn.executors.work import Report, Task, work
from gatedrnn.records import cores

if TYPE_CHECKING:  # it is imported when a cluster is needed
    from ray import ObjectRef

TOKEN = Path.home() / ".ray" / "auth_token"
"""The file of the token by which nodes and drivers of a cluster know each other."""
SECONDS_TO_ANSWER = 10.0
"""The time that a cluster has to answer a call."""


class OnRay:
    """The engine of `--on ray` and `--on ray:HOST:PORT`.

    Args:
        address: of a cluster that is there, from one of its nodes; None to start one and to stop it at the end.
        jobs: runs at a time; None for as many as the cluster has cores for.
        threads: cores that a run takes.
        options: of a task, as `ray.remote` has them: `num_gpus`.
    """

    def __init__(self, address: str | None, jobs: int | None, threads: int, options: Mapping[str, JsonValue]) -> None:
        self.on = f"ray:{address}" if address else "ray"
        self.address, self.jobs, self.threads, self.options = address, jobs, threads, options
        self._work: Any = None
        if address:
            self._check_answer(address)  # before anything is computed

    def open(self, folder: Path) -> None:
        """Connect to the cluster, or start Ray on this machine."""
        if self._work is not None:
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a user's runs are nobody else's business
        if self.address and TOKEN.exists():
            # The head of a cluster asks for it by default where there is one; who joins has to say that it has one.
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        import ray

        here: dict[str, Any] = (
            {} if self.address else {"num_cpus": max(cores(), self.threads), "include_dashboard": False}
        )
        try:
            ray.init(address=self.address or "local", log_to_driver=False, configure_logging=False, **here)
        except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
            raise NoCluster(f"--on {self.on}: no cluster can be reached ({reason(error)})") from error
        largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if largest < self.threads:
            ray.shutdown()
            raise UsageError(
                f"--threads {self.threads}: no node of the cluster has as many cores, the largest {largest:.0f}"
            )
        # Lost tasks come back to the driver, which counts them as for every engine.
        options: dict[str, Any] = {"num_cpus": self.threads, "max_retries": 0, **self.options}
        try:
            self._work = ray.remote(**options)(work)
        except (TypeError, ValueError) as error:
            ray.shutdown()
            raise UsageError(f"--on {self.on}: {reason(error)}") from error

    def _check_answer(self, address: str) -> None:
        """Check that a cluster answers at the address: Ray would try for minutes."""
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit()):
            raise UsageError(f"--on {self.on}: must be ray:HOST:PORT, as ray:10.0.0.1:6379")
        try:
            socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise NoCluster(f"--on {self.on}: no cluster can be reached ({error})") from error

    def start(self, tasks: Sequence[Task]) -> Sequence["ObjectRef[Report]"]:
        """Submit each task to the cluster."""
        return [self._work.remote(task) for task in tasks]

    def wait(self, jobs: Collection["ObjectRef[Report]"], seconds: float) -> Collection["ObjectRef[Report]"]:
        """Wait for the first of these references, and take all that are ready."""
        import ray

        ended, others = ray.wait(list(jobs), num_returns=1, timeout=seconds)
        if ended and others:
            ended += ray.wait(others, num_returns=len(others), timeout=0)[0]
        return ended

    def report(self, job: "ObjectRef[Report]") -> Report:
        """The report of a reference; Ray's errors become those of `Engine.report`."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        try:
            return ray.get(job)
        except OutOfMemoryError as error:
            raise OutOfMemory("Ray has killed its process, as its node had no memory left") from error
        except RayTaskError as error:  # `work` raises nothing: it could not be called
            raise WorkerDiffers(f"a worker of {self.on} cannot import gatedrnn ({reason(error.cause)})") from error
        except RayError as error:
            raise WorkerLost(f"its worker is lost ({type(error).__name__})") from error

    def stop(self, jobs: Collection["ObjectRef[Report]"]) -> None:
        """Cancel each task, which then saves and ends."""
        import ray

        for job in jobs:
            ray.cancel(job)  # Ctrl-C in the worker

    def close(self) -> None:
        """Disconnect from the cluster."""
        if self._work is not None:
            import ray

            self._work = None
            ray.shutdown()
