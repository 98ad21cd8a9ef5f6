"""Where the time of a training step goes: by part, from torch's profiler, and the bytes that it must move."""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

from gatedrnn.models.modeling import KernelDropout
from gatedrnn.timing import Action

PROFILED = 5
"""Steps whose time is divided into parts."""
PARTS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "torch's LSTM or GRU, products and gates": ("mkldnn_rnn", "aten::lstm", "aten::gru"),
    "gates and scan, or loop": ("_scan", "loop_cells", "elementwise_loop", "gatedrnn::loop"),
    "dropout": ("dropout", "bernoulli"),
    "pooling": ("masked_max",),
    "norms": ("layer_norm",),
    "activations": ("gelu",),
    "embedding": ("embedding", "index_select", "Embedding"),
    "loss": ("CrossEntropy", "softmax", "nll_loss"),
    "optimizer": ("adamw", "Optimizer."),
    "clipping": ("norm", "clamp"),
    "copies and fills": ("copy_", "fill_", "zero_", "clone", "aten::cat"),
}
"""By what an operation's name contains; the first that fits."""
REST = "all other operations, and the calls"


def parts_of(model: nn.Module, step: Action) -> dict[str, float]:
    """Milliseconds of a training step of the model by part."""
    step()
    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, KernelDropout):
                _name_in_profile(module, "dropout", hooks)
        with profile(activities=[ProfilerActivity.CPU]) as found:
            with record_function("all steps"):
                for _ in range(PROFILED):
                    step()
    spent, total = defaultdict[str, float](float), 0.0
    for event in found.key_averages():
        if event.key == "all steps":
            total = event.cpu_time_total
        else:
            part = next((part for part, names in PARTS.items() if any(name in event.key for name in names)), REST)
            spent[part] += event.self_cpu_time_total
    spent[REST] += total - sum(spent.values())
    return {part: spent[part] / PROFILED / 1000 for part in (*PARTS, REST) if spent[part]}


def _name_in_profile(module: nn.Module, name: str, hooks: ExitStack) -> None:
    """What a module does by no operation of torch bears its name."""
    open_ranges: list[record_function] = []

    def enter(*_: Any) -> None:
        open_ranges.append(record_function(name))
        open_ranges[-1].__enter__()

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    hooks.callback(module.register_forward_pre_hook(enter).remove)
    hooks.callback(module.register_forward_hook(leave).remove)


class _Written(TorchDispatchMode):
    """Adds up the bytes of what operations write into new memory; products are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not any(name in str(func) for name in ("aten.mm", "aten.addmm", "aten.bmm")):
            known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
            for x in found if isinstance(found, (tuple, list)) else (found,):
                if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in known:
                    self.bytes += x.numel() * x.element_size()
        return found


def bytes_beside_products(model: nn.Module, step: Action) -> int:
    """What a step must move beside its products: all that it writes once out and once in, and the optimizer's reading
    of weight, gradient and two moments, and writing of weight and moments."""
    with _Written() as written:
        step()
    return 2 * written.bytes + 7 * sum(4 * weight.numel() for weight in model.parameters())


def bandwidth_of_memory(numbers: int) -> float:
    """Bytes a second of `torch.add`, the best of several."""
    x, y, out = (torch.ones(numbers) for _ in range(3))
    best = min(_seconds_of(lambda: torch.add(x, y, out=out)) for _ in range(5))
    return 3 * 4 * numbers / best


def _seconds_of(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
