"""Engines that run the work of workers: processes of this machine, jobs of SLURM, tasks of Ray."""

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, chdir
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.process import parent_process
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from gatedrnn.children import PYTHON, isolated_children, process_pool, shared_event
from gatedrnn.data import tasks_kept
from gatedrnn.errors import Interrupted, NoCluster, OutOfMemory, UsageError, WorkerDiffers, WorkerLost, reason
from gatedrnn.executors.work import Report, Task, work
from gatedrnn.extras import require
from gatedrnn.machine import cores
from gatedrnn.processes import StopFlag
from gatedrnn.registry import CELLS

if TYPE_CHECKING:  # imported where a cluster is asked for
    from ray import ObjectRef
    from submitit import Job
    from submitit.helpers import DelayedSubmission

_KILLS = Path("/proc/vmstat")
"""The file in which Linux counts the processes that it has killed for want of memory."""


class Local:
    """The engine of `--on local` with several `--jobs`: as many pools of one process each, so that one that is killed
    takes no other with it."""

    on: str = "local"

    def __init__(self, jobs: int) -> None:
        self.jobs: int | None = jobs
        self._stop = shared_event()
        self._free: list[Executor] = []
        self._busy: dict[Future[Report], Executor] = {}
        self._killed = 0

    def open(self, folder: Path) -> None:
        """Start a pool of one process for each job."""
        self._stop.clear()
        self._free += [self._pool() for _ in range((self.jobs or 0) - len(self._free))]
        self._killed = _killed_for_memory()

    def _pool(self) -> Executor:
        return process_pool(1, _begin, self._stop, _script_with_cells())

    def start(self, tasks: Sequence[Task]) -> Sequence[Future[Report]]:
        """Submit each task to a free pool."""
        jobs = []
        for task in tasks:
            pool = self._free.pop()
            jobs.append(pool.submit(_work, task))
            self._busy[jobs[-1]] = pool
        return jobs

    def wait(self, jobs: Collection[Future[Report]], seconds: float) -> Collection[Future[Report]]:
        """Wait for the first of these futures."""
        return wait(jobs, seconds, FIRST_COMPLETED).done

    def report(self, job: Future[Report]) -> Report:
        """The report of a future; its pool is free again."""
        pool = self._busy.pop(job)
        try:
            report = job.result()
        except BrokenProcessPool as error:
            pool.shutdown()
            self._free.append(self._pool())
            before, self._killed = self._killed, _killed_for_memory()
            if self._killed > before:
                raise OutOfMemory("its process was killed by the system, which had no memory left") from error
            raise WorkerLost("its process was killed") from error
        self._free.append(pool)
        return report

    def stop(self, jobs: Collection[Future[Report]]) -> None:
        """Set the event on which workers save and end."""
        self._stop.set()

    def close(self) -> None:
        """Shut all pools down."""
        for pool in (*self._free, *self._busy.values()):
            pool.shutdown(cancel_futures=True)
        self._free, self._busy = [], {}


class _ParentStops:
    """Set when the parent process asks to stop, or is no more."""

    def __init__(self, asked: StopFlag) -> None:
        self.asked = asked

    def is_set(self) -> bool:
        parent = parent_process()
        return self.asked.is_set() or (parent is not None and not parent.is_alive())


_tasks = ExitStack()  # of a worker process, which ends with its comparison
_stop: StopFlag | None = None  # a worker process's own; set once, when it begins
_at_work = threading.Lock()


def _end_with_parent() -> None:
    """End this process when the parent is killed, as soon as the run under way has saved: nobody would."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    with _at_work:
        os._exit(1)


def _script_with_cells() -> str | None:
    """The Python file that was started and has registered cells, which workers need too; None of any other."""
    own = any(record.layer.__module__ == "__main__" for record in CELLS.values())
    file = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(file) if own and file is not None else None


def _begin(asked: StopFlag, script: str | None) -> None:
    global _stop
    if script is not None:
        spec = spec_from_file_location("__mp_main__", script)
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    _stop = _ParentStops(asked)
    _tasks.enter_context(tasks_kept())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A terminal sends Ctrl-C, and SIGHUP when it closes, to every process; the parent alone answers, through the flag.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _work(task: Task) -> Report:
    with _at_work:
        report = work(task, _stop)
    if isinstance(report.fault, Interrupted) and report.fault.signal_number is not None:
        signal.raise_signal(report.fault.signal_number)  # this process alone was asked to end, and has saved
    return report


def _killed_for_memory() -> int:
    """The number of processes that the system has killed so far for want of memory; 0 where it does not count them."""
    try:
        lines = _KILLS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


FOLDER = "jobs"
"""The folder in the driver's folder of what jobs are sent, and of what they have printed."""
MINUTES = 24 * 60
"""The minutes of a job, unless `timeout_min` says otherwise; a run that takes longer goes on in another job."""
_TIMES_OUT = 1000
"""Jobs that one run may take."""
SECONDS_BETWEEN_LOOKS = 0.1


class OnSlurm:
    """The engine of `--on slurm`; `--on slurm,cluster=local` has submitit run the same jobs as processes here.

    Args:
        jobs: at a time; None for as many as SLURM runs.
        threads: cores of a job.
        options: as submitit's `update_parameters` has them: `timeout_min`, `slurm_partition`, `gpus_per_node`.
    """

    def __init__(self, jobs: int | None, threads: int, options: Mapping[str, JsonValue]) -> None:
        require("slurm")
        self.on, self.threads = "slurm", threads
        self.options = {"timeout_min": MINUTES, **options}
        self.cluster = str(self.options.pop("cluster", "slurm"))
        self.jobs = jobs or max(1, cores() // threads) if self.cluster == "local" else jobs
        self._executor: Any = None
        if self.cluster == "slurm" and shutil.which("sbatch") is None:  # before anything is computed
            raise NoCluster("--on slurm: there is no sbatch on this machine; run it where jobs are submitted")

    def open(self, folder: Path) -> None:
        """Make submitit's executor, whose files are below the driver's folder."""
        import submitit

        of_engine = {f"{self.cluster}_max_num_timeout": _TIMES_OUT, f"{self.cluster}_python": PYTHON}
        self._executor = submitit.AutoExecutor(folder / FOLDER, cluster=self.cluster, **of_engine)
        array = {} if self.jobs is None else {"slurm_array_parallelism": self.jobs}
        try:
            self._executor.update_parameters(name="gatedrnn", cpus_per_task=self.threads, **array, **self.options)
        except (AssertionError, NameError, TypeError, ValueError) as error:
            raise UsageError(f"--on {self.on}: {error}") from error

    def start(self, tasks: Sequence[Task]) -> Sequence["Job[Report]"]:
        """Submit the tasks as one array of jobs."""
        import submitit

        try:
            with isolated_children():
                return self._executor.map_array(_Work(), tasks)
        except submitit.core.utils.FailedJobError as error:
            raise NoCluster(
                f"--on {self.on}: sbatch refuses the jobs ({str(error).strip().splitlines()[-1]})"
            ) from error

    def wait(self, jobs: Collection["Job[Report]"], seconds: float) -> Collection["Job[Report]"]:
        """Wait until the queue or a file says that a job has ended."""
        last = time.monotonic() + seconds
        while not (ended := [job for job in jobs if _has_result(job) or job.done()]) and time.monotonic() < last:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return ended

    def report(self, job: "Job[Report]") -> Report:
        """The report of a job; submitit's errors become those of `Engine.report`."""
        import submitit

        try:
            if not _has_result(job):
                return job.result()
            outcome, result = submitit.core.utils.pickle_load(job.paths.result_pickle)
            if outcome == "success":
                return result
            raise submitit.core.utils.FailedJobError(str(result))
        except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as error:
            if job.state == "OUT_OF_MEMORY":
                raise OutOfMemory(f"job {job.job_id} took more memory than it may; see --on slurm,mem_gb=…") from error
            raise WorkerLost(f"job {job.job_id} is lost ({job.state}), its log {job.paths.stderr}") from error

    def stop(self, jobs: Collection["Job[Report]"]) -> None:
        """Cancel the jobs."""
        for job in jobs:
            job.cancel()

    def close(self) -> None:
        """Forget the executor; jobs end by themselves."""
        self._executor = None


def _has_result(job: "Job[Report]") -> bool:
    """Whether its result is there: some time before its process has ended, and SLURM has said so."""
    return job.paths.result_pickle.exists()


class _Work:
    """`work`; at the end of a job's time the run saves, and the job is put in the queue again."""

    def __call__(self, task: Task) -> Report:
        time_is_up = threading.Event()

        def set_flag(number: int, frame: FrameType | None) -> None:
            time_is_up.set()

        requeue: Any = signal.signal(signal.SIGUSR2, set_flag)  # submitit's own handler
        report = work(task, time_is_up)
        if time_is_up.is_set() and isinstance(report.fault, Interrupted):
            requeue(signal.SIGUSR2, None)
        return report

    def checkpoint(self, task: Task) -> "DelayedSubmission":
        """The submission that submitit puts in the queue again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, task)


TOKEN = Path.home() / ".ray" / "auth_token"
"""The file of the token by which nodes and drivers of a cluster know each other."""
_SECONDS_TO_ANSWER = 10.0
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
        require("ray")
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
            with isolated_children(), chdir(os.path.abspath(os.sep)):  # workers import from the driver's folder first
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
            socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
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
