"""Executors of runs: in this process, in processes of this machine, in jobs of SLURM, in tasks of Ray."""

from gatedrnn.extras import require

require("train")

from gatedrnn.executors.work import HERE, Executor, OnProgress, Records
from gatedrnn.executors.workers import Workers, executor_for

__all__ = ["HERE", "Executor", "OnProgress", "Records", "Workers", "executor_for"]
