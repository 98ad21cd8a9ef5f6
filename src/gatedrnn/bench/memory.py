"""The section on memory: tensors saved for backward, and the peak of a forward and backward pass."""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gatedrnn.bench.layers import is_scan_cell, ours, products_alone, torch_layer
from gatedrnn.bench.measure import Bench, Contender, Setting
from gatedrnn.bench.record import Count, Shape, Sizes
from gatedrnn.processes import end_with_parent
from gatedrnn.timing import Action

KEPT, PEAK = "kept for backward", "peak of forward+backward"
MEBIBYTE = 2**20
WARM_UP: Shape = (2, 8, 8)
"""Imports and compiles what a first call does, and takes next to nothing."""
SCAN_CELLS = (
    "lstm-input-gated", "lstm-normalized", "minlstm", "gru-input-gated", "mingru", "signed-mingru", "hgrn", "rg-lru",
    "qrnn",
)  # fmt: skip
"""Measured where none is named."""
WITH_PEAK = ("mingru", "minlstm")
"""Of those the ones whose peak is measured too: each takes a process of its own."""


def kept_for_backward(
    forward: Callable[[], tuple[Tensor, ...]], numbers: int, free: Iterable[Tensor], projection: int
) -> int:  # fmt: skip
    """Tensors kept beyond inputs, parameters, outputs and one projection.

    Each storage of at least `numbers` numbers counts once, however many views of it are kept.

    Args:
        forward: runs with a graph and gives its outputs.
        free: inputs and parameters.
        projection: numbers of the one tensor that may be kept beside; 0 for none.
    """
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = forward()
    for tensor in (*free, *outputs):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    sizes = [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in kept.values()]
    if projection in sizes:
        sizes.remove(projection)
    return sum(size >= numbers for size in sizes)


def memory(bench: Bench, sizes: Sizes, cells: Sequence[str]) -> None:
    """What each scan cell keeps, and the peaks of the minimal ones and of torch's layers."""
    scans = [cell for cell in cells if is_scan_cell(cell)]
    if not scans:
        bench.leave_out("memory", "none of the cells is a scan cell")
        return
    for shape in sizes.memory:
        setting = Setting(shape, bench.device)
        for cell in scans:
            bench.on_step(f"memory: what {cell} keeps")
            bench.findings.counts.append(Count("memory", KEPT, cell, shape, kept_by(cell, setting), "tensors"))
        count_peaks(bench, "memory", [*(cell for cell in scans if cell in WITH_PEAK), "lstm", "gru"], setting)


def kept_by(cell: str, setting: Setting) -> int:
    """Tensors of size batch · time · width kept beyond input, parameters, projection and output."""
    own, layer = ours(cell, setting)
    batch, time, width = setting.shape
    projection = batch * time * layer.weight_ih_l0.shape[0]
    return kept_for_backward(own.outputs, batch * time * width, own.leaves.values(), projection)


Members: TypeAlias = Callable[[str, Setting], list[Contender]]
"""Contenders by a cell; a function of a module, for processes of their own call it."""


def with_references(cell: str, setting: Setting) -> list[Contender]:
    """A scan cell and its products, or torch's layer of another cell."""
    own = ours(cell, setting)
    return [own.contender, products_alone(own)] if is_scan_cell(cell) else [torch_layer(own)]


def count_peaks(
    bench: Bench, section: str, cells: Sequence[str], setting: Setting, members: Members = with_references
) -> None:
    """Add the peaks of all members to what is found."""
    bench.on_step(f"{section}: peaks, each in a process of its own")
    for name, peak in peaks(cells, setting, members).items():
        if peak is None:
            bench.leave_out(f"{section}: {PEAK} of {name}", "this system does not tell a process its peak")
        else:
            bench.findings.counts.append(Count(section, PEAK, name, setting.shape, peak / MEBIBYTE, "MiB"))


def peaks(cells: Sequence[str], setting: Setting, members: Members = with_references) -> dict[str, float | None]:
    """Bytes that one forward and backward pass takes beyond input, parameters and upstream gradient, by contender.

    On a CPU what a process of its own gains in resident memory, whoever allocates it; None where the system cannot say.
    """
    small = Setting(WARM_UP, setting.device)
    wanted = [(cell, contender.name) for cell in cells for contender in members(cell, small)]
    if setting.device == "cuda":
        return {name: _allocated(members, cell, name, setting) for cell, name in wanted}
    spawn = multiprocessing.get_context("spawn")
    with _freed_at_once(), ProcessPoolExecutor(2, spawn, end_with_parent, max_tasks_per_child=1) as pool:
        tasks = [(name, pool.submit(_resident_gain, members, cell, name, setting)) for cell, name in wanted]
        return {name: task.result() for name, task in tasks}


def _member(members: Members, cell: str, name: str, setting: Setting) -> Contender:
    return next(contender for contender in members(cell, setting) if contender.name == name)


def _allocated(members: Members, cell: str, name: str, setting: Setting) -> float:
    contender = _member(members, cell, name, setting)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    contender.forward_backward()
    return float(torch.cuda.max_memory_allocated() - before)


def _resident_gain(members: Members, cell: str, name: str, setting: Setting) -> float | None:
    _member(members, cell, name, Setting(WARM_UP)).forward_backward()
    return gained(_member(members, cell, name, setting).forward_backward)


def gained(action: Action) -> float | None:
    """Bytes of resident memory that the process has more of at most while the action runs."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's mode to set the peak back to the present
        before = _status("VmRSS")
        action()
        return float(_status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    """A line of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


@contextmanager
def _freed_at_once() -> Iterator[None]:
    """Processes started inside hand freed blocks back: glibc would keep some, and a peak would hide in those."""
    name = "MALLOC_MMAP_THRESHOLD_"
    before = os.environ.get(name)
    os.environ[name] = str(128 * 1024)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
