"""Training steps of standard models: ratios to their matrix products, and the parts of their time."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import clip_grad_norm_
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

from gatedrnn.benchmarking.layers import is_scan_cell, over_floor, products_of, step_of
from gatedrnn.benchmarking.measure import Bench, Contender, Expected, Leaves, Mode, Setting, threads
from gatedrnn.benchmarking.record import Count, Sizes
from gatedrnn.benchmarking.standards import (
    BASELINE,
    BFLOAT16,
    IN_BFLOAT16,
    MOVED,
    Batch,
    Loss,
    Standard,
    first_right,
    in_float64,
    standards,
)
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNForCausalLM, GatedRNNForForecasting
from gatedrnn.models.modeling import KernelDropout
from gatedrnn.timing import Action
from gatedrnn.training.optimise import denormals_as_zero
from gatedrnn.training.settings import TrainSettings

SECTION = "training"
FLOOR = "floor: products, and one pass over the rest"
PROFILED = 5
"""The number of profiled steps."""
PARTS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise"),
    "torch's LSTM or GRU, products and gates": ("mkldnn_rnn", "aten::lstm", "aten::gru"),
    "gates and scan, or loop": ("scan", "loop_cell"),
    "dropout": ("dropout", "bernoulli"),
    "pooling": ("masked_max",),
    "norms": ("layer_norm",),
    "activations": ("gelu",),
    "embedding": ("embedding", "index_select", "Embedding"),
    "loss": ("CrossEntropy", "softmax", "nll_loss", "pinball_loss"),
    "decoding of quantiles": ("decode_quantiles",),
    "optimizer": ("adamw", "Optimizer."),
    "clipping": ("norm", "clamp"),
    "copies and fills": ("copy_", "fill_", "zero_", "clone", "aten::cat"),
}
"""Parts by substrings of operations' names; the first match counts."""
REST = "all other operations, and the calls"


def training(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Compare the steps and the products of each model, on one thread."""
    chosen = list(standards(sizes))
    with threads(1):
        bandwidth = bandwidth_of_memory(sizes.copied)
        moved = MOVED if sizes.training_scale == 1 else {}
        for standard, narrow in chain(
            ((each, False) for each in chosen), ((each, True) for each in chosen if each.title in IN_BFLOAT16)
        ):
            part = seconds / (len(chosen) + len(IN_BFLOAT16))
            _compare(bench, standard, cells, narrow, Rest(moved, bandwidth), part)


def _train_step(contender: Contender) -> Action:
    assert isinstance(contender, (TrainingStep, Products))
    return contender.train_step


class Rest(NamedTuple):
    """The least time that a step takes beside its products."""

    moved: Mapping[tuple[str, str], int]
    """Bytes by model and cell; of others they are counted."""
    bandwidth: float
    """Bytes a second."""

    def milliseconds(self, title: str, cell: str, step: "TrainingStep") -> float:
        counted = self.moved.get((title, cell))
        if counted is None:
            counted = bytes_beside_products(cast(nn.Module, step.model), step.train_step)
        return 1000 * counted / self.bandwidth


def _compare(
    bench: Bench, standard: Standard, cells: Sequence[str], narrow: bool, rest: Rest, seconds: float
) -> None:  # fmt: skip
    title = standard.title + (BFLOAT16 if narrow else "")
    steps = {cell: _step(standard, cell, narrow) for cell in cells if is_scan_cell(cell) or not narrow}
    both = [contender for cell, step in steps.items() for contender in (step, _products(step, cell))]
    pairs = [(cell, products_of(cell)) for cell in cells]
    bench.compare(SECTION, both, pairs, (Mode(step_of(title), _train_step, backward=True),), seconds)
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


@dataclass(frozen=True)
class TrainingStep(Contender):
    """A model with its optimizer; its output is the loss without dropout."""

    model: nn.Module | None = None
    batch: Batch | None = None
    loss: Loss | None = None
    optimizer: torch.optim.Optimizer | None = None

    def train_step(self) -> None:
        """Make one update, as the training loop does."""
        assert self.model is not None and self.optimizer is not None
        self.model.train()
        with denormals_as_zero():
            with torch.autocast(self.setting.device, torch.bfloat16, enabled=self.autocast):
                loss = self._loss()
            loss.backward()
            clip_grad_norm_(self.model.parameters(), TrainSettings().clip)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def _loss(self) -> Tensor:
        assert self.model is not None and self.batch is not None and self.loss is not None
        return self.loss(self.model, self.batch)


@dataclass(frozen=True)
class Products(Contender):
    """Matrix products alone, forward and backward; its outputs are the forward ones."""

    multiply: Action | None = None

    def forward_backward(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The outputs; of gradients none."""
        return self.outputs(), ()

    def train_step(self) -> None:
        """All products of a step."""
        assert self.multiply is not None
        self.multiply()


def _step(standard: Standard, cell: str, narrow: bool) -> TrainingStep:
    return first_right(lambda number: _drawn(standard, cell, narrow, number))


def _drawn(standard: Standard, cell: str, narrow: bool, number: int) -> TrainingStep:
    setting = Setting(standard.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        model = standard.build(cell, standard.widths.get(cell, standard.widths[BASELINE]))
        batch = standard.batch(setting)
    leaves: dict[str, Tensor] = dict(model.named_parameters())
    exact = in_float64(model).eval()
    wide = {name: x.double() if x.is_floating_point() else x for name, x in batch.items()}

    def formula(weights: Leaves) -> list[Tensor]:
        return [standard.loss(lambda **inputs: functional_call(exact, dict(weights), (), inputs), wide)]

    def evaluated() -> Tensor:
        return standard.loss(model.eval(), batch)

    precision: torch.dtype | str = torch.bfloat16 if narrow else torch.float32
    return TrainingStep(
        cell, setting, evaluated, leaves, Expected(formula, leaves, torch.ones(())), precision, autocast=narrow,
        work=(standard.shape[0] * standard.shape[1], "tokens/s"), model=model, batch=batch, loss=standard.loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-9, fused=True),
    )  # fmt: skip


class Product(NamedTuple):
    """y = x W^T of `rows` rows, `times` times, and its gradients."""

    rows: int
    weight: Tensor
    times: int
    of_input: bool
    """Whether x needs a gradient."""


def _products_in(step: TrainingStep) -> list[Product]:
    """Find the products of one step from the inputs of its modules."""
    assert step.model is not None
    products: list[Product] = []

    def linear(module: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        x, weight = inputs[0], cast(nn.Linear, module).weight
        products.append(Product(x.numel() // x.shape[-1], weight, 1, x.requires_grad))

    def recurrent(module: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        x = inputs[0]
        batch, steps = x.shape[0], x.shape[1]
        for name, weight in module.named_parameters():
            if name.startswith("weight_hh"):
                products.append(Product(batch, weight, steps, True))
            elif weight.dim() == 2:
                first = name.startswith("weight_ih_l0")
                products.append(Product(batch * steps, weight, 1, x.requires_grad or not first))

    with ExitStack() as hooks:
        for module in step.model.modules():
            if isinstance(module, (nn.Linear, RecurrentLayer)):
                hook = linear if isinstance(module, nn.Linear) else recurrent
                hooks.callback(module.register_forward_hook(hook).remove)
        step._loss()
    if isinstance(step.model, GatedRNNForCausalLM):  # the loss computes its scores
        products = [product for product in products if product.weight is not step.model.lm_head.weight]
        batch, steps, _ = step.setting.shape
        products.append(Product(batch * steps, step.model.lm_head.weight, 1, True))
    if isinstance(step.model, GatedRNNForForecasting):  # whose head lays these weights out anew before it multiplies
        rows = next(product.rows for product in products if product.weight is step.model.head.hidden.weight)
        products.append(Product(rows, step.model.head.mixture.weight, 1, True))
    return products


def _products(step: TrainingStep, cell: str) -> Products:
    """Make a contender of a step's products, written to allocated memory in the fastest layout."""
    dtype, products = torch.bfloat16 if step.autocast else torch.float32, _products_in(step)
    read, forward, backward = dict[str, Tensor](), list[Callable[[], Tensor]](), list[Callable[[], Tensor]]()
    for number, product in enumerate(products):
        weight = product.weight.detach().to(dtype)
        x = step.setting.normal(product.rows * product.times, weight.shape[1]).to(dtype)
        grad = step.setting.normal(product.rows * product.times, len(weight)).to(dtype)
        read |= {f"x{number}": x, f"w{number}": weight}
        y, of_x = (torch.empty_like(each) for each in (grad, x))
        cuts = [slice(t * product.rows, (t + 1) * product.rows) for t in range(product.times)]
        forward += [partial(torch.mm, x[cut], weight.t(), out=y[cut]) for cut in cuts]
        if product.of_input:
            backward += [partial(torch.mm, grad[cut], weight, out=of_x[cut]) for cut in cuts]
        backward.append(partial(torch.mm, grad.t(), x, out=torch.empty_like(weight)))

    def multiply() -> None:
        for compute in (*forward, *backward):
            compute()

    def multiplied() -> tuple[Tensor, ...]:
        return tuple(read[f"x{n}"] @ read[f"w{n}"].t() for n in range(len(products)))

    expected = Expected(lambda w: [w[f"x{n}"] @ w[f"w{n}"].t() for n in range(len(products))], read, None)
    precision: torch.dtype | str = torch.bfloat16 if step.autocast else torch.float32
    return Products(products_of(cell), step.setting, multiplied, {}, expected, precision, multiply=multiply)


def parts_of(model: nn.Module, step: Action) -> dict[str, float]:
    """Profile a training step: milliseconds by part."""
    step()
    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, KernelDropout):
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


class _Written(TorchDispatchMode):
    """Adds up the bytes that operations write to new memory, without products."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(name in str(func) for name in ("aten.mm", "aten.addmm", "aten.bmm")):
            read = {x.untyped_storage().data_ptr() for x in args if _is_dense(x)}
            for x in result if isinstance(result, (tuple, list)) else (result,):
                if _is_dense(x) and x.untyped_storage().data_ptr() not in read:
                    self.bytes += x.numel() * x.element_size()
        return result


def _is_dense(x: object) -> TypeGuard[Tensor]:
    """Whether x is a tensor with a storage of its own; rows of a sparse gradient are counted where they are made."""
    return isinstance(x, Tensor) and x.layout == torch.strided


def bytes_beside_products(model: nn.Module, step: Action) -> int:
    """Count the bytes that a step must move beside its products: everything it writes, once out and once in; and in the
    optimizer weight, gradient and two moments read, weight and moments written."""
    with _Written() as written:
        step()
    return 2 * written.bytes + 7 * sum(4 * weight.numel() for weight in model.parameters())


def bandwidth_of_memory(numbers: int) -> float:
    """Measure the bytes a second of `torch.add`, the best of several runs."""
    x, y, out = (torch.ones(numbers) for _ in range(3))
    best = min(_seconds_of(lambda: torch.add(x, y, out=out)) for _ in range(5))
    return 3 * 4 * numbers / best


def _seconds_of(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
