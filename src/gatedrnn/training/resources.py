"""Memory and threads of a run: refused before anything is allocated; batches halved to fit; kernels compiled ahead."""

from collections.abc import Iterable

import numpy as np
import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gatedrnn.data import Batch, Examples, TaskData, load_task
from gatedrnn.errors import TooLarge
from gatedrnn.kernels.backends import has_cpu_kernels
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.processes import check_cores
from gatedrnn.records import cores
from gatedrnn.training.model import build_model
from gatedrnn.training.objective import objective_of
from gatedrnn.training.settings import RunSettings, threads_for

COPIES = 4
"""The copies of each parameter in training: itself, its gradient, and AdamW's two moments; all in float32."""
STACK = 8 * 2**20
"""Bytes of a thread's stack where the system sets no other size."""
SHARE = 0.5
"""The share of the available memory for what a step keeps for its backward pass."""
MANY_STEPS = 2**16
"""Time steps of a batch up to which it fits wherever its model does: it is not measured."""
COUNTED_LAYERS = 3
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
            loss = _loss(run, data, model, batch)
    del loss
    return sum(size for place, size in sizes.items() if place not in storages)


def check_threads(threads: int) -> None:
    """Check that the stacks of so many threads fit into the memory that is available now.

    Raises:
        UsageError: they are far more than there are cores.
        TooLarge: they do not.
    """
    check_cores(threads, f"--threads {threads:,}")
    available = _available(host=True)
    if threads * STACK > available:
        raise TooLarge(
            f"--threads {threads}: their stacks take {readable(threads * STACK)}, and {readable(available)} are "
            f"available; this machine runs {cores()} at the same time"
        )


def use_threads(threads: int | None) -> None:
    """Have torch use so many threads; all cores if None.

    Raises:
        TooLarge: there is no memory for them.
    """
    check_threads(threads or 1)
    torch.set_num_threads(threads or threads_for())


def readable(size: float) -> str:
    """Bytes in the largest unit of which there is at least one: 1.5 GiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while size >= 1024 and power < len(units) - 1:
        size, power = size / 1024, power + 1
    return f"{size:,.1f} {units[power]}" if power else f"{size:.0f} bytes"


def _parameters(settings: RunSettings, data: TaskData) -> int | None:
    """The number of parameters of the run's model, from the shapes alone; None where a tensor of it has too many
    elements for 64 bits.
    """
    layers = settings.model.layers
    if len(settings.cells) > 1 or layers <= COUNTED_LAYERS:
        return _counted(settings, data, layers)
    few, more = _counted(settings, data, COUNTED_LAYERS - 1), _counted(settings, data, COUNTED_LAYERS)
    return None if few is None or more is None else few + (layers - COUNTED_LAYERS + 1) * (more - few)


def _counted(settings: RunSettings, data: TaskData, layers: int) -> int | None:
    built = settings.model_copy(update={"model": settings.model.model_copy(update={"layers": layers})})
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in build_model(built, data).parameters())
    except (RuntimeError, OverflowError, TypeError) as error:
        if "overflow" in str(error).lower():
            return None
        raise


def _available(host: bool = False) -> int:
    """Bytes of the GPU that trains, or of the machine's memory; a container's limit counts."""
    if torch.cuda.is_available() and not host:
        return int(torch.cuda.mem_get_info()[0])
    available = int(psutil.virtual_memory().available)
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            return min(available, int(limit.read()) - int(used.read()))
    except (OSError, ValueError):  # no container, or one without a limit
        return available


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
    _loss(run, data, model, data.train.batch(run.seed, 0, 0, run.train.batch_size)).backward()


def _loss(run: RunSettings, data: TaskData, model: GatedRNNPreTrainedModel, batch: Batch) -> Tensor:
    """The loss of a batch in training."""
    objective = objective_of(data, model.config, run.train)
    if run.train.gradient_checkpointing:
        model.activation_checkpointing_enable()
    with torch.autocast("cpu", torch.bfloat16, enabled=run.train.precision == "bfloat16"):
        return objective.loss(model.train(), batch, objective.count(batch))
