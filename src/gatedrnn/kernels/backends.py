"""Backends of operations: plain torch (`reference`) or our kernels for the tensor's device (`native`)."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Proxy
from torch.jit import is_tracing  # type: ignore[attr-defined]  # documented; torch lists it nowhere

from gatedrnn.errors import BackendUnavailable
from gatedrnn.kernels.private import dispatch_modes, forward_level, innermost_transform

BACKENDS = ("auto", "reference", "native")
"""The backends of an operation; layers of cells that torch has a kernel for know "torch" too."""

DTYPES = (torch.float32, torch.float64)
"""Dtypes of kernels that are no operations, and of torch's own kernels."""

# torch has no public name for a product by oneDNN.
ONEDNN_LINEAR: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
"""The operation (x, weight, bias, activation, scalars, algorithm); None in a torch without it."""


class Choice(NamedTuple):
    """The backend that "auto" takes, and why."""

    backend: str
    reason: str


def choose_backend(device: torch.device | str) -> Choice:
    """Return the backend that "auto" takes for scans on `device`.

    Example:
        >>> choose_backend("cpu").backend
        'native'
    """
    device_type = torch.device(device).type
    if device_type == "cuda":
        if not installed("triton"):
            return Choice("reference", "triton is not installed")
        return Choice("native", "tiles of time and channels (triton)")
    if device_type != "cpu":
        return Choice("reference", f"there is no kernel for {device_type} tensors")
    if not installed("numba"):
        return Choice("reference", "numba is not installed")
    return Choice("native", "compiled loops over contiguous channels (numba)")


def native_kernels(package: str, device: torch.device) -> ModuleType:
    """Return the module of a package's kernels for a device, `package.cpu` or `package.gpu`.

    Raises:
        BackendUnavailable: there is none, or its compiler is not installed.
    """
    if device.type == "cuda":
        if not installed("triton"):
            raise BackendUnavailable("backend 'native' needs triton on a GPU, which is not installed; use 'reference'")
        if find_spec(f"{package}.gpu") is None:
            kind = package.rpartition(".")[2]
            raise BackendUnavailable(f"backend 'native' has no {kind} kernel for a GPU; use 'reference'")
        return import_module(f"{package}.gpu")
    if device.type != "cpu":
        raise BackendUnavailable(f"backend 'native' has no kernel for {device.type} tensors; use 'reference'")
    if not installed("numba"):
        raise BackendUnavailable("backend 'native' needs numba on a CPU, which is not installed; use 'reference'")
    return import_module(f"{package}.cpu")


def has_cpu_kernels(device: torch.device) -> bool:
    """Whether kernels for a CPU can run here; those of loops, blocks and single steps exist for a CPU alone."""
    return device.type == "cpu" and installed("numba")


def installed(package: str) -> bool:
    """Whether a package can be imported; called at every step of a stream, so the cheap test comes first."""
    # An entry of None blocks an import, so that the key alone does not tell that a package is there.
    return sys.modules.get(package) is not None or find_spec(package) is not None


def plain_torch_only() -> bool:
    """Whether only torch's own operations may run: in a `torch.func` transform and in an export to ONNX."""
    return transforming() or exporting_to_onnx()


def transforming() -> bool:
    """Whether a `torch.func` transform or forward-mode differentiation is active, whose tensors no kernel can read."""
    if torch.compiler.is_compiling():
        return False
    return innermost_transform() is not None or forward_level() >= 0


def observed(x: torch.Tensor) -> bool:
    """Whether a tracer, a transform, a mode, a subclass of Tensor or forward differentiation follows x: it would not
    see compiled code that is no op."""
    if torch.compiler.is_compiling() or type(x) is not torch.Tensor:
        return True
    return innermost_transform() is not None or forward_level() >= 0 or dispatch_modes() > 0 or is_tracing()


def under_dispatch_mode() -> bool:
    """Whether a mode of torch follows every operation, to count or to trace them."""
    return dispatch_modes() > 0


def streams(x: Tensor) -> bool:
    """Whether x, of any shape, may be the input of a kernel that is no op: on a CPU, without gradients or autocast."""
    return (
        not torch.is_grad_enabled()
        and not observed(x)
        and x.is_cpu
        and x.dtype in DTYPES
        and not torch.is_autocast_enabled("cpu")
        # A lazily negated view shares its base's memory: a kernel would read the values without their sign.
        and not x.is_neg()
    )


def is_proxy(x: object) -> bool:
    """Whether `torch.fx.symbolic_trace` calls; for a tensor, on which a stream waits, one comparison decides."""
    return type(x) is not Tensor and isinstance(x, Proxy)


def values_unknown() -> bool:
    """Whether code may not branch on the values of tensors: it is traced to a graph, or a transform runs."""
    # An export to ONNX traces.
    return torch.compiler.is_compiling() or is_tracing() or transforming()


def traced() -> bool:
    """Whether `torch.jit.trace` runs, which fixes every number that is not read from a tensor's shape."""
    return not torch.compiler.is_compiling() and is_tracing()


def forward_mode() -> bool:
    """Whether forward-mode differentiation is active (`torch.func.jvp`, `torch.autograd.forward_ad`)."""
    return not torch.compiler.is_compiling() and forward_level() >= 0


def exporting_to_onnx() -> bool:
    """Whether `torch.onnx.export` is running, whose format has none of our operations."""
    # Both of its exporters trace; called at every step of a stream, so torch's slower test comes second.
    return (torch.compiler.is_compiling() or is_tracing()) and torch.onnx.is_in_onnx_export()


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of states and sums: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the dtype of autocast on this device; None if it is off, or unknown."""
    # torch raises for a device type without autocast, such as meta, when it is asked whether autocast is on.
    available = torch.amp.is_autocast_available(device.type)
    return torch.get_autocast_dtype(device.type) if available and torch.is_autocast_enabled(device.type) else None
