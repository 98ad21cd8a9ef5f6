"""Memory for intermediate results that no caller keeps, the same at every call."""

import threading

import torch
from torch import Tensor

_MAX_SCRATCH_BYTES = 1 << 27  # bytes that a thread keeps at most
_thread_local = threading.local()


def scratch(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Return uninitialised memory (rows, columns) that the next call in this thread may return again.

    The system clears memory that was freed before it gives it again, which takes as long as a pass over it or two.
    """
    size = rows * columns * dtype.itemsize
    if size > _MAX_SCRATCH_BYTES:
        # What is larger is not kept: every thread would hold its own for as long as it lives.
        return torch.empty(rows, columns, dtype=dtype)
    memory: Tensor | None = getattr(_thread_local, "bytes", None)
    if memory is None or len(memory) < size:
        memory = _thread_local.bytes = torch.empty(size, dtype=torch.uint8)
    return memory[:size].view(dtype).view(rows, columns)
