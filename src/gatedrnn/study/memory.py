"""What training a contender adds to a process's memory, measured in a short process of its own."""

import gc
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gatedrnn.data import load_task
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.loop import Trainer
from gatedrnn.train.settings import RunSettings

STEPS = 20


def training_memory(settings: RunSettings) -> float | None:
    """Peak resident memory of model, optimizer and a few training steps, in MiB; None where the system cannot say.

    The data are loaded before the measurement begins, so that what remains is the contender's own.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, settings).result()


def _measure(settings: RunSettings) -> float | None:
    data = load_task(settings.data)
    # The first step of a process imports and compiles: it is taken before the measurement, by the smallest model.
    tiny = settings.model_copy(
        update={"hidden_size": 1, "model": settings.model.model_copy(update={"embedding_size": 1})}
    )
    _train(tiny, 1)
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's way to set the peak back to the present
    except OSError:
        return None
    before = _resident("VmRSS")
    if before is None:
        return None
    _train(settings, min(STEPS, data.train.steps_per_epoch(settings.train.batch_size)))
    peak = _resident("VmHWM")
    return None if peak is None else max(0.0, peak - before)


def _train(settings: RunSettings, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Trainer(settings, load_task(settings.data), RunFolder(Path(folder))).rehearse(steps)


def _resident(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)
