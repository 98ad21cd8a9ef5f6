"""Training steps of standard models: ratios to their matrix products, and the parts of their time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, cast

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.contenders import Contender
from benchmarks.layers import is_scan_cell, over_floor, products_of, step_of
from benchmarks.measure import Bench, Mode, first_right, threads
from benchmarks.record import Count
from benchmarks.sizes import Sizes
from benchmarks.standards import BFLOAT16, IN_BFLOAT16, MOVED, Standard, standards
from benchmarks.steps import (
    Products,
    TrainingStep,
    bandwidth_of_memory,
    bytes_beside_products,
    products_of_step,
    training_step,
)
from gatedrnn.timing import Action

SECTION = "training"
FLOOR = "floor: products, and one pass over the rest"
PROFILED = 5
"""The number of profiled steps."""
PARTS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise"),
    "torch's LSTM or GRU, products and gates": ("mkldnn_rnn", "aten::lstm", "aten::gru"),
    "gates and scan, or loop": ("scan", "loop_cell"),
    "dropout": ("dropout", "bernoulli"),
    "pooling": ("amax",),
    "norms": ("layer_norm",),
    "activations": ("gelu",),
    "embedding": ("embedding", "index_select", "Embedding"),
    "loss, or decoding of quantiles": ("softmax", "nll_loss", "softplus"),
    "optimizer": ("adamw", "Optimizer."),
    "clipping": ("norm", "clamp"),
    "copies and fills": ("copy_", "fill_", "zero_", "clone", "aten::cat"),
}
"""Parts by substrings of operations' names; the first match counts."""
REST = "all other operations, and the calls"


def training(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare the steps and the products of each model, on one thread."""
    if bench.device != "cpu":
        bench.leave_out(SECTION, "its floors are those of a CPU")
        return
    chosen = list(standards(sizes))
    with threads(1):
        bandwidth = bandwidth_of_memory(sizes.copied)
        moved = MOVED if sizes.training_scale == 1 else {}
        for standard, narrow in chain(
            ((each, False) for each in chosen), ((each, True) for each in chosen if each.title in IN_BFLOAT16)
        ):
            part = seconds / (len(chosen) + len(IN_BFLOAT16))
            _compare(bench, standard, cells, narrow, Rest(moved, bandwidth), part)


def train_step(contender: Contender) -> Action:
    assert isinstance(contender, (TrainingStep, Products))
    return contender.train_step


class Rest(NamedTuple):
    """The least time that a step takes beside its products."""

    moved: Mapping[tuple[str, str], int]
    """Bytes by model and cell; of others they are counted."""
    bandwidth: float
    """Bytes a second."""

    def milliseconds(self, title: str, cell: str, step: TrainingStep) -> float:
        counted = self.moved.get((title, cell))
        if counted is None:
            counted = bytes_beside_products(cast(nn.Module, step.model), step.train_step)
        return 1000 * counted / self.bandwidth


def _compare(
    bench: Bench, standard: Standard, cells: Sequence[str], narrow: bool, rest: Rest, seconds: float
) -> None:  # fmt: skip
    title = standard.title + (BFLOAT16 if narrow else "")
    steps = {
        cell: first_right(partial(training_step, standard, cell, narrow=narrow))
        for cell in cells if is_scan_cell(cell) or not narrow
    }  # fmt: skip
    both = [each for cell, step in steps.items() for each in (step, products_of_step(step, products_of(cell)))]
    pairs = [(cell, products_of(cell)) for cell in cells]
    bench.compare(SECTION, both, pairs, (Mode(step_of(title), train_step, backward=True),), seconds)
    for cell, step in steps.items():
        products = bench.findings.median(SECTION, step_of(title), products_of(cell))
        taken = bench.findings.median(SECTION, step_of(title), cell)
        if products is None or taken is None:
            continue
        floor = products + rest.milliseconds(title, cell, step)
        bench.findings.counts.append(Count(SECTION, over_floor(title), cell, None, taken / floor, "times"))
        times = {FLOOR: floor, **parts_of(cast(nn.Module, step.model), step.train_step)}
        for part, value in times.items():
            bench.findings.counts.append(
                Count(SECTION, f"{title}, where the time goes", f"{cell}: {part}", standard.shape, value, "ms")
            )


def parts_of(model: nn.Module, step: Action) -> dict[str, float]:
    """Profile a training step: milliseconds by part."""
    step()
    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                _name_in_profile(module, "dropout", hooks)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            with record_function("all steps"):
                for _ in range(PROFILED):
                    step()
    spent, total = defaultdict[str, float](float), 0.0
    for event in profiler.key_averages():
        if event.key == "all steps":
            total = event.cpu_time_total
        else:
            part = next((part for part, names in PARTS.items() if any(name in event.key for name in names)), REST)
            spent[part] += event.self_cpu_time_total
    spent[REST] += total - sum(spent.values())
    return {part: spent[part] / PROFILED / 1000 for part in (*PARTS, REST) if spent[part]}


def _name_in_profile(module: nn.Module, name: str, hooks: ExitStack) -> None:
    """Name a module's work in the profile, beside its torch operations."""
    open_ranges: list[record_function] = []

    def enter(*_: Any) -> None:
        open_ranges.append(record_function(name))
        open_ranges[-1].__enter__()

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    hooks.callback(module.register_forward_pre_hook(enter).remove)
    hooks.callback(module.register_forward_hook(leave).remove)
