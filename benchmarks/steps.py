"""Training steps of standard models, their matrix products alone, and the bytes that they move beside these.

Of the package only models and layers are imported, of which workers load older versions.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.contenders import Contender, Expected, Leaves, Setting
from benchmarks.standards import BASELINE, Batch, Loss, Standard, in_float64
from gatedrnn import RecurrentLayer
from gatedrnn.models import GatedRNNForCausalLM, GatedRNNForForecasting

CLIP = 1.0
"""The largest norm of a gradient, as the training loop clips it by default."""


@dataclass(frozen=True)
class TrainingStep(Contender):
    """A model with its optimizer; its output is the loss without dropout."""

    model: nn.Module | None = None
    batch: Batch | None = None
    loss: Loss | None = None
    optimizer: torch.optim.Optimizer | None = None

    def train_step(self) -> None:
        """Make one update, as the training loop does: with numbers below 1e-38 taken for zero."""
        assert self.model is not None and self.optimizer is not None
        self.model.train()
        torch.set_flush_denormal(True)
        try:
            with torch.autocast(self.setting.device, torch.bfloat16, enabled=self.autocast):
                loss = self.loss_of_batch()
            loss.backward()
            clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
            self.optimizer.zero_grad()
        finally:
            torch.set_flush_denormal(False)

    def loss_of_batch(self) -> Tensor:
        """Compute the loss with a graph."""
        assert self.model is not None and self.batch is not None and self.loss is not None
        return self.loss(self.model, self.batch)


@dataclass(frozen=True)
class Products(Contender):
    """Matrix products alone, forward and backward; its outputs are the forward ones."""

    multiply: Callable[[], None] | None = None

    def train_step(self) -> None:
        """All products of a step."""
        assert self.multiply is not None
        self.multiply()


def training_step(
    standard: Standard, cell: str, draw: int, *, device: str = "cpu", narrow: bool = False,
    compiled_as: str | None = None,
) -> TrainingStep:  # fmt: skip
    """Make a contender of a model's training step.

    Args:
        draw: seeds the weights and the batch.
        narrow: run under autocast to bfloat16.
        compiled_as: run under torch.compile, by this name.
    """
    setting = Setting(standard.shape, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw)
        model = standard.build(cell, standard.widths.get(cell, standard.widths[BASELINE])).to(device)
        batch = {name: x.to(device) for name, x in standard.batch(setting).items()}
    leaves: dict[str, Tensor] = dict(model.named_parameters())
    exact = in_float64(model).eval()
    wide = {name: x.double() if x.is_floating_point() else x for name, x in batch.items()}
    called = cast(nn.Module, torch.compile(model, fullgraph=True)) if compiled_as else model

    def formula(weights: Leaves) -> list[Tensor]:
        return [standard.loss(lambda **inputs: functional_call(exact, dict(weights), (), inputs), wide)]

    def evaluated() -> Tensor:
        return standard.loss(called.eval(), batch)

    precision: torch.dtype | str = torch.bfloat16 if narrow else torch.float32
    return TrainingStep(
        compiled_as or cell, setting, evaluated, leaves, Expected(formula, leaves, torch.ones((), device=device)),
        precision, autocast=narrow, work=(standard.shape[0] * standard.shape[1], "tokens/s"), model=called,
        batch=batch, loss=standard.loss, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-9, fused=True),
    )  # fmt: skip


class Product(NamedTuple):
    """y = x W^T of `rows` rows, `times` times, and its gradients."""

    rows: int
    weight: Tensor
    times: int
    of_input: bool
    """Whether x needs a gradient."""


def products_in(step: TrainingStep) -> list[Product]:
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
        step.loss_of_batch()
    if isinstance(step.model, GatedRNNForCausalLM):  # the loss computes its scores
        products = [product for product in products if product.weight is not step.model.lm_head.weight]
        batch, steps, _ = step.setting.shape
        products.append(Product(batch * steps, step.model.lm_head.weight, 1, True))
    if isinstance(step.model, GatedRNNForForecasting):  # whose head lays these weights out anew before it multiplies
        rows = next(product.rows for product in products if product.weight is step.model.head.hidden.weight)
        products.append(Product(rows, step.model.head.mixture.weight, 1, True))
    return products


def products_of_step(step: TrainingStep, name: str) -> Products:
    """Make a contender of a step's products, written to allocated memory in the fastest layout."""
    dtype, products = torch.bfloat16 if step.autocast else torch.float32, products_in(step)
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
    return Products(name, step.setting, multiplied, {}, expected, precision, multiply=multiply)


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


def bytes_beside_products(model: nn.Module, step: Callable[[], None]) -> int:
    """Count the bytes that a step must move beside its products: everything it writes, once out and once in; and in the
    optimizer weight, gradient and two moments read, weight and moments written."""
    with _Written() as written:
        step()
    return 2 * written.bytes + 7 * sum(4 * weight.numel() for weight in model.parameters())


def bandwidth_of_memory(numbers: int) -> float:
    """Measure the bytes a second of `torch.add`, the best of several runs."""
    x, y, out = (torch.ones(numbers) for _ in range(3))
    best = min(seconds_of(lambda: torch.add(x, y, out=out)) for _ in range(5))
    return 3 * 4 * numbers / best


def seconds_of(action: Callable[[], object], calls: int = 1) -> float:
    """Measure the seconds of a call, as a mean over so many."""
    begun = time.perf_counter()
    for _ in range(calls):
        action()
    return (time.perf_counter() - begun) / calls
