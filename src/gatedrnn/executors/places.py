"""`--on`: the executor that it names."""

import yaml
from pydantic import JsonValue

from gatedrnn.errors import UsageError
from gatedrnn.executors.executor import HERE, Executor
from gatedrnn.executors.local import Local
from gatedrnn.executors.ray import OnRay
from gatedrnn.executors.slurm import OnSlurm
from gatedrnn.executors.workers import Workers
from gatedrnn.processes import check_cores


def executor_for(on: str = "local", jobs: int | None = None, threads: int = 1) -> Executor:
    """The executor that runs are handed to.

    Args:
        on: `local`; `slurm`; `ray`, which starts a cluster on this machine; or `ray:HOST:PORT` for one that is there.
            Options of the engine follow after commas: `slurm,slurm_partition=long,timeout_min=240`.
        jobs: runs at a time; if None, 1 here and as many as a cluster takes.
        threads: of each run.

    Raises:
        UsageError: there is no such engine, it has no options, or this machine cannot run so many jobs.
    """
    place, *words = on.split(",")
    options: dict[str, JsonValue] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise UsageError(f"--on {on}: options are NAME=VALUE after commas, got {word!r}")
        options[name] = yaml.safe_load(value)
    engine, _, address = place.partition(":")
    if engine == "ray":
        return Workers(OnRay(address or None, jobs, threads, options))
    if engine == "slurm" and not address:
        return Workers(OnSlurm(jobs, threads, options))
    if place == "local" and not options:
        check_cores((jobs or 1) * threads, f"--jobs {jobs or 1:,} of {threads:,} threads")
        return HERE if jobs in (None, 1) else Workers(Local(jobs or 1))
    raise UsageError(
        f"--on {on}: must be local, slurm, ray or ray:HOST:PORT; slurm and ray take NAME=VALUE after commas"
    )
