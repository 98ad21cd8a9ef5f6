"""The faster of two precisions for the training steps of a run, by a short measurement on this machine."""

import logging
import sys
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Literal, TypeAlias

import torch

from gatedrnn.children import start_python
from gatedrnn.data import TaskData, load_task
from gatedrnn.errors import UsageError
from gatedrnn.timing import interleave, ratio_of
from gatedrnn.training.model import build_model
from gatedrnn.training.optimise import denormals_as_zero
from gatedrnn.training.resources import compile_kernels, loss_of_batch
from gatedrnn.training.settings import RunSettings

Precision: TypeAlias = Literal["float32", "bfloat16"]
_PRECISIONS: tuple[Precision, Precision] = "float32", "bfloat16"
LOG = logging.getLogger("gatedrnn")
SECONDS = 2.0
"""Seconds of measuring, where a step takes less."""
_CHILD = "from gatedrnn.training.precision import answer_parent; answer_parent()"


def faster_precision(settings: RunSettings, data: TaskData) -> Precision:
    """Return bfloat16 where forward and backward of the first batch are faster in it, else float32.

    It must be faster in three of four rounds, on a CPU. Where the processor announces AMX, another process tries it
    first: some machines end a process that uses it.

    Raises:
        UsageError: the run is a GPU's, whose steps are not measured.
    """
    if torch.cuda.is_available():
        raise UsageError("--precision auto: measures on a CPU alone; name the precision")
    compile_kernels([in_precision(settings, each) for each in _PRECISIONS])
    ratio = _ratio_in_child(settings) if _has_amx() else _ratio(settings, data)
    found: Precision = "bfloat16" if ratio is not None and ratio < 1 else "float32"
    took = "a process that tried it ended" if ratio is None else f"a step in bfloat16 takes {ratio:.2f} times as long"
    LOG.warning("--precision auto: %s, since %s here", found, took)
    return found


def in_precision(settings: RunSettings, precision: str) -> RunSettings:
    """Return the settings with this precision."""
    return settings.model_copy(update={"train": settings.train.model_copy(update={"precision": precision})})


def _ratio(settings: RunSettings, data: TaskData) -> float:
    """The time of a step in bfloat16 over that in float32, in three of four rounds no more."""
    batch = data.train.batch(settings.seed, 0, 0, settings.train.batch_size)
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]), denormals_as_zero():
            torch.set_num_threads(settings.threads)
            model = build_model(settings, data)

            def step(run: RunSettings) -> None:
                loss_of_batch(run, data, model, batch).backward()
                model.zero_grad()

            steps = {each: partial(step, in_precision(settings, each)) for each in _PRECISIONS}
            samples = interleave(steps, SECONDS)
    finally:
        torch.set_num_threads(threads)
    return ratio_of(samples["bfloat16"], samples["float32"]).high


def _has_amx() -> bool:
    file = Path("/proc/cpuinfo")
    return file.exists() and "amx_tile" in file.read_text(encoding="utf-8", errors="replace")


def _ratio_in_child(settings: RunSettings) -> float | None:
    """The ratio by another process; None where it ended without one."""
    with start_python(_CHILD, stdout=PIPE, stderr=DEVNULL) as child:
        printed, _ = child.communicate(settings.model_dump_json().encode())
    return float(printed.split()[-1]) if child.returncode == 0 else None


def answer_parent() -> None:
    """Print the ratio for the settings that standard input has."""
    settings = RunSettings.model_validate_json(sys.stdin.read())
    print(_ratio(settings, load_task(settings.data)))
