"""Memory and compilers of a run: refused before anything is allocated; batches halved to fit; kernels made ahead."""

import os
import shutil
import sys
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gatedrnn.data import Batch, Examples, TaskData, load_task
from gatedrnn.errors import TooLarge, UsageError
from gatedrnn.kernels.backends import has_cpu_kernels
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.processes import available_memory, check_threads, readable
from gatedrnn.training.model import build_model
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import task_named

COPIES = 4
"""The copies of each parameter in training: itself, its gradient, and AdamW's two moments; all in float32."""
SHARE = 0.5
"""The share of the available memory for what a step keeps for its backward pass."""
MANY_STEPS = 2**16
"""Time steps of a batch up to which it fits wherever its model does: it is not measured."""
_COUNTED_LAYERS = 3
"""The most layers that are built to be counted: from the second on, layers of one cell are alike."""


def check_room(settings: RunSettings, data: TaskData) -> None:
    """Check that a run's threads, and its parameters in training, fit into the memory that is available now.

    Raises:
        TooLarge: they do not; the message has the bytes that they would take.
    """
    check_threads(settings.threads)
    parameters, available = _parameters(settings, data), _available()
    if parameters is not None and parameters * COPIES * 4 <= available:
        return
    size = "more parameters than can be counted in 64 bits" if parameters is None else f"{parameters:,} parameters"
    taken = "more than 8.0 EiB" if parameters is None else readable(parameters * COPIES * 4)
    raise TooLarge(
        f"--hidden-size {settings.hidden_size}, --layers {settings.model.layers}, --embedding-size "
        f"{settings.model.embedding_size}: {size}, which in training take {taken} (weights, gradients and the two "
        f"moments of AdamW), and {readable(available)} are available; choose smaller ones"
    )


def check_compiler() -> None:
    """Check that torch.compile finds what it needs.

    Raises:
        UsageError: it does not.
    """
    name = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "cl" if sys.platform == "win32" else "g++")
    if shutil.which(name) is None:
        raise UsageError(
            f"--compile needs a C++ compiler, and {name} is not there: install one, or set CXX to its name"
        )


def fitting_batch(settings: RunSettings, data: TaskData) -> int:
    """Sequences in a step: as many as the settings have, or half of them, a quarter, … where what a step of the longest
    ones keeps for its backward pass would take more than a share of the memory that is available now. One of them is
    run to measure it."""
    asked, examples = settings.train.batch_size, data.train
    assert isinstance(examples, Examples)
    longest = int(examples.lengths.argmax())
    if asked * int(examples.lengths[longest]) <= MANY_STEPS:
        return asked
    check_room(settings, data)
    compile_kernels([settings])
    kept = _kept_for_backward(settings, data, examples.collate(np.array([longest])))
    fitting = asked
    while fitting > 1 and fitting * kept > SHARE * _available():
        fitting //= 2
    return fitting


def _kept_for_backward(run: RunSettings, data: TaskData, batch: Batch) -> int:
    """Bytes, each storage once."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.random.fork_rng(devices=[]):
        model = build_model(run, data)
        storages = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_of_batch(run, data, model, batch)
    del loss
    return sum(size for place, size in sizes.items() if place not in storages)


def _parameters(settings: RunSettings, data: TaskData) -> int | None:
    """The number of parameters of the run's model, from the shapes alone; None where a tensor of it has too many
    elements for 64 bits.
    """
    layers = settings.model.layers
    if len(settings.cells) > 1 or layers <= _COUNTED_LAYERS:
        return _counted(settings, data, layers)
    few, more = _counted(settings, data, _COUNTED_LAYERS - 1), _counted(settings, data, _COUNTED_LAYERS)
    return None if few is None or more is None else few + (layers - _COUNTED_LAYERS + 1) * (more - few)


def _counted(settings: RunSettings, data: TaskData, layers: int) -> int | None:
    built = settings.model_copy(update={"model": settings.model.model_copy(update={"layers": layers})})
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in build_model(built, data).parameters())
    except (RuntimeError, OverflowError, TypeError) as error:
        if "overflow" in str(error).lower():
            return None
        raise


def _available() -> int:
    """Bytes of the GPU that trains, or of the machine's memory."""
    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else available_memory()


def compile_kernels(runs: Iterable[RunSettings]) -> None:
    """Compile what training steps of these runs call, all of it at once, where no process has done so yet.

    Says so in one line first; says and does nothing where all is there, or runs go to a GPU.
    """
    cpu = torch.device("cpu")
    if torch.cuda.is_available() or not has_cpu_kernels(cpu):
        return
    from gatedrnn.kernels.cpu.ahead import compile_ahead

    alike = {run.model_copy(update={"seed": 0}).model_dump_json(): run for run in runs}
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]), compile_ahead():
            for run in alike.values():
                torch.set_num_threads(run.threads)
                _step(run, load_task(run.data))
    finally:
        torch.set_num_threads(threads)


def _step(run: RunSettings, data: TaskData) -> None:
    """Forward and backward of the first batch."""
    model = build_model(run, data)
    loss_of_batch(run, data, model, data.train.batch(run.seed, 0, 0, run.train.batch_size)).backward()


def loss_of_batch(run: RunSettings, data: TaskData, model: GatedRNNPreTrainedModel, batch: Batch) -> Tensor:
    """The loss of a batch in training."""
    objective = task_named(data.name).objective(data, model.config, run.train)
    if run.train.gradient_checkpointing:
        model.activation_checkpointing_enable()
    with torch.autocast("cpu", torch.bfloat16, enabled=run.train.precision == "bfloat16"):
        return objective.loss(model.train(), batch, objective.count(batch))
