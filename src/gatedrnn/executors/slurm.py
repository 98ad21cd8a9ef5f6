"""Runs as jobs of SLURM, one array of jobs for all that are handed out together, through submitit."""

import shutil
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from gatedrnn.errors import Interrupted, NoCluster, OutOfMemory, UsageError, WorkerLost
from gatedrnn.executors.work import Report, Task, work
from gatedrnn.records import cores

if TYPE_CHECKING:  # it is imported when jobs are needed
    from submitit import Job
    from submitit.helpers import DelayedSubmission

FOLDER = "jobs"
"""The folder in the driver's folder of what jobs are sent, and of what they have printed."""
MINUTES = 24 * 60
"""The minutes of a job, unless `timeout_min` says otherwise; a run that takes longer goes on in another job."""
TIMES_OUT = 1000
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

        self._executor = submitit.AutoExecutor(
            folder / FOLDER, cluster=self.cluster, **{f"{self.cluster}_max_num_timeout": TIMES_OUT}
        )
        array = {} if self.jobs is None else {"slurm_array_parallelism": self.jobs}
        try:
            self._executor.update_parameters(name="gatedrnn", cpus_per_task=self.threads, **array, **self.options)
        except (AssertionError, NameError, TypeError, ValueError) as error:
            raise UsageError(f"--on {self.on}: {error}") from error

    def start(self, tasks: Sequence[Task]) -> Sequence["Job[Report]"]:
        """Submit the tasks as one array of jobs."""
        import submitit

        try:
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
