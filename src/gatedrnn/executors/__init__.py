"""Executors of runs: in this process, in processes of this machine, in jobs of SLURM, in tasks of Ray."""

from gatedrnn.executors.executor import HERE, Executor, OnProgress, Records
from gatedrnn.executors.places import executor_for
from gatedrnn.executors.workers import Workers

__all__ = ["HERE", "Executor", "OnProgress", "Records", "Workers", "executor_for"]
