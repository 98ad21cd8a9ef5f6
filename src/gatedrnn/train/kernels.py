"""The kernels of training runs, compiled before the first step."""

from collections.abc import Iterable

import torch

from gatedrnn.data import TaskData, load_task
from gatedrnn.ops import choose_backend, implementation
from gatedrnn.train.model import build_model
from gatedrnn.train.objective import objective_of
from gatedrnn.train.settings import RunSettings


def compile_kernels(runs: Iterable[RunSettings]) -> None:
    """Compile what training steps of these runs call, all of it at once, where no process has done so yet.

    Says so in one line first; says and does nothing where all is there, or runs go to a GPU.
    """
    cpu = torch.device("cpu")
    if torch.cuda.is_available() or choose_backend(cpu).backend != "cpu":
        return
    kernels = implementation("cpu", cpu)
    alike = {run.model_copy(update={"seed": 0}).model_dump_json(): run for run in runs}
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]), kernels.compile_ahead():
            for run in alike.values():
                torch.set_num_threads(run.threads)
                _step(run, load_task(run.data))
    finally:
        torch.set_num_threads(threads)


def _step(run: RunSettings, data: TaskData) -> None:
    """Forward and backward of the first batch."""
    model = build_model(run, data)
    objective = objective_of(data, model.config, run.train.label_smoothing)
    if run.train.gradient_checkpointing:
        model.activation_checkpointing_enable()
    batch = data.train.batch(run.seed, 0, 0, run.train.batch_size)
    with torch.autocast("cpu", torch.bfloat16, enabled=run.train.precision == "bfloat16"):
        loss = objective.loss(model.train(), batch, objective.count(batch))
    loss.backward()
