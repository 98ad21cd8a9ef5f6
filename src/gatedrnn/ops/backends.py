"""Who runs an operation: plain torch (`reference`) or our kernels for the tensor's device (`native`)."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from gatedrnn.errors import BackendUnavailable

BACKENDS = ("auto", "reference", "native")
"""Of an operation; a layer of a cell that torch has a kernel for knows "torch" too."""


class Choice(NamedTuple):
    """The backend that "auto" takes, and why."""

    backend: str
    reason: str


def choose_backend(device: torch.device | str) -> Choice:
    """The backend that "auto" takes for scans on `device`.

    Example:
        >>> choose_backend("cpu").backend
        'native'
    """
    kind = torch.device(device).type
    if kind == "cuda":
        if not installed("triton"):
            return Choice("reference", "triton is not installed")
        return Choice("native", "tiles of time and channels (triton)")
    if kind != "cpu":
        return Choice("reference", f"there is no kernel for {kind} tensors")
    if not installed("numba"):
        return Choice("reference", "numba is not installed")
    return Choice("native", "compiled loops over contiguous channels (numba)")


def native_kernels(device: torch.device) -> ModuleType:
    """The package of our kernels for a device.

    Raises:
        BackendUnavailable: there is none, or what compiles it is not installed.
    """
    if device.type == "cuda":
        if not installed("triton"):
            raise BackendUnavailable("backend 'native' needs triton on a GPU, which is not installed; use 'reference'")
        return import_module("gatedrnn.kernels.gpu")
    if device.type != "cpu":
        raise BackendUnavailable(f"backend 'native' has no kernel for {device.type} tensors; use 'reference'")
    if not installed("numba"):
        raise BackendUnavailable("backend 'native' needs numba on a CPU, which is not installed; use 'reference'")
    return import_module("gatedrnn.kernels.cpu")


def has_cpu_kernels(device: torch.device) -> bool:
    """Whether the kernels for a CPU run on this device: those of loops, blocks and single steps are for it alone."""
    return device.type == "cpu" and installed("numba")


def installed(package: str) -> bool:
    """Whether a package can be imported; asked at every step of a stream, so the cheap question comes first."""
    return sys.modules.get(package) is not None or find_spec(package) is not None


def plain_torch_only() -> bool:
    """Whether only torch's own operations may run: in a `torch.func` transform and in an export to ONNX."""
    return transforming() or exporting_to_onnx()


def transforming() -> bool:
    """Whether a `torch.func` transform or forward-mode differentiation is active, whose tensors no kernel can read."""
    if torch.compiler.is_compiling():
        return False
    # torch has no public function for it.
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_mode()


def observed(x: torch.Tensor) -> bool:
    """Whether something follows what is done to x, and would lose sight of it in compiled code that is no op: a
    tracer, a transform, a mode, a tensor of another kind, forward differentiation."""
    if torch.compiler.is_compiling() or transforming() or type(x) is not torch.Tensor:
        return True
    # torch has no public words for these.
    modes, traced = torch._C._len_torch_dispatch_stack() > 0, torch._C._get_tracing_state() is not None
    return modes or traced or forward_ad._current_level >= 0


def values_unknown() -> bool:
    """Whether code may not decide by the values of tensors: a graph is made of it, or a transform runs."""
    return torch.compiler.is_compiling() or traced() or plain_torch_only()


def traced() -> bool:
    """Whether `torch.jit.trace` runs, which keeps any number that is not asked of a tensor's shape."""
    return not torch.compiler.is_compiling() and torch._C._get_tracing_state() is not None


def forward_mode() -> bool:
    """Whether forward-mode differentiation is active (`torch.func.jvp`, `torch.autograd.forward_ad`)."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def exporting_to_onnx() -> bool:
    """Whether `torch.onnx.export` is running, whose format has none of our operations."""
    # Both of its exporters trace; asked at every step of a stream, so torch's slower question comes second.
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced and torch.onnx.is_in_onnx_export()


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of states and sums: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32
