"""The section on memory: tensors saved for backward, and the peak of a forward and backward pass."""

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from benchmarks.contenders import Contender, Setting
from benchmarks.layers import is_scan_cell, ours, products_alone, torch_layer
from benchmarks.measure import Bench
from benchmarks.record import Count
from benchmarks.sizes import Shape, Sizes
from gatedrnn.children import end_with_parent, process_pool
from gatedrnn.registry import CELLS
from gatedrnn.timing import Action

KEPT, PEAK = "kept for backward", "peak of forward+backward"
MEBIBYTE = 2**20
WARM_UP: Shape = (2, 8, 8)
"""The shape of a first call, which imports and compiles in next to no memory."""
SCAN_CELLS = tuple(name for name in CELLS if is_scan_cell(name))
"""Cells that are measured by default."""
WITH_PEAK = ("mingru", "minlstm")
"""Cells whose peak is measured too, each in a process of its own."""


def kept_for_backward(
    forward: Callable[[], tuple[Tensor, ...]], numbers: int, free: Iterable[Tensor], projection: int
) -> int:  # fmt: skip
    """Count the tensors saved for backward beyond inputs, parameters, outputs and one projection.

    Each storage of at least `numbers` elements counts once, however many views of it are saved.

    Args:
        forward: runs with a graph and returns its outputs.
        free: inputs and parameters.
        projection: elements of the one projection that may be saved; 0 for none.
    """
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = forward()
    for tensor in (*free, *outputs):
        saved.pop(tensor.untyped_storage().data_ptr(), None)
    sizes = [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in saved.values()]
    if projection in sizes:
        sizes.remove(projection)
    return sum(size >= numbers for size in sizes)


def memory(bench: Bench, sizes: Sizes, cells: Sequence[str], _: float) -> None:
    """Count the tensors that each scan cell saves, and the peaks of the minimal cells and torch's layers."""
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
    """Count the tensors of size batch · time · width saved beyond input, parameters, projection and output."""
    contender, layer = ours(cell, setting)
    batch, time, width = setting.shape
    projection = batch * time * layer.weight_ih_l0.shape[0]
    return kept_for_backward(contender.outputs, batch * time * width, contender.leaves.values(), projection)


Members: TypeAlias = Callable[[str, Setting], list[Contender]]
"""A function of the contenders of a cell; it must be a module's, since other processes call it."""


def with_references(cell: str, setting: Setting) -> list[Contender]:
    """Make a scan cell and its products, or torch's layer of another cell."""
    layer = ours(cell, setting)
    return [layer.contender, products_alone(layer)] if is_scan_cell(cell) else [torch_layer(layer)]


def count_peaks(
    bench: Bench, section: str, cells: Sequence[str], setting: Setting, members: Members = with_references
) -> None:
    """Add the peaks of all members to the findings."""
    bench.on_step(f"{section}: peaks, each in a process of its own")
    for name, peak in peaks(cells, setting, members).items():
        if peak is None:
            bench.leave_out(f"{section}: {PEAK} of {name}", "this system does not tell a process its peak")
        else:
            bench.findings.counts.append(Count(section, PEAK, name, setting.shape, peak / MEBIBYTE, "MiB"))


def peaks(cells: Sequence[str], setting: Setting, members: Members = with_references) -> dict[str, float | None]:
    """Measure the bytes of one forward and backward pass beyond input, parameters and upstream gradient, by contender.

    On a CPU they are the gain in resident memory of a separate process; None if the system does not report it.
    """
    small = Setting(WARM_UP, setting.device)
    wanted = [(cell, contender.name) for cell in cells for contender in members(cell, small)]
    if setting.device == "cuda":
        return {name: _allocated(members, cell, name, setting) for cell, name in wanted}
    with _freed_at_once(), process_pool(2, end_with_parent, max_tasks_per_child=1) as pool:
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
    """Measure the largest gain in resident bytes of this process while the action runs."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's mode to set the peak back to the present
        before = _status("VmRSS")
        action()
        return float(_status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    """Read a line of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


@contextmanager
def _freed_at_once() -> Iterator[None]:
    """Make processes that are started inside return freed blocks: glibc would keep some, which could hide a peak."""
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
