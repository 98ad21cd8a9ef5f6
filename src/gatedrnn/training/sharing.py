"""The sharing of a run by processes: each batch by rows; the weights all in each process (DDP), or a part in each
(FSDP2).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import naming
from gatedrnn.training.optimise import Weights

Given = TypeVar("Given")
Found = TypeVar("Found")
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


class Sharing(Protocol):
    """The parts of a run that depend on how its weights are shared."""

    model: nn.Module
    """The module that a step calls."""
    bare: GatedRNNPreTrainedModel
    """The model by itself."""
    optimizer: Any

    def accumulating(self) -> AbstractContextManager[object]:
        """Within, gradients are not exchanged: more of the same step follow."""
        ...

    def clip(self, largest: float) -> float:
        """Clip the gradient to that norm; the norm before."""
        ...

    def save(self, into: Path, copies: dict[str, Weights]) -> None:
        """Weights, optimizer, random numbers and what the accelerator has registered, and copies of weights by name."""
        ...

    def load(self, folder: Path) -> dict[str, Weights]:
        """Load what `save` wrote, whatever the number of processes was, and return the copies."""
        ...

    def whole(self, make: Callable[[], GatedRNNPreTrainedModel]) -> GatedRNNPreTrainedModel:
        """A model that has all weights; `make` makes one that has the right shapes."""
        ...


class Replicas:
    """All weights in each process; one process alone, too."""

    def __init__(self, accelerator: Accelerator, model: GatedRNNPreTrainedModel, optimizer: MakeOptimizer) -> None:
        self.accelerator = accelerator
        self.model, self.optimizer = accelerator.prepare(model, optimizer(model))
        self.bare: GatedRNNPreTrainedModel = accelerator.unwrap_model(self.model)

    def accumulating(self) -> AbstractContextManager[object]:
        """Accumulate gradients within this context, without exchanging them."""
        return self.accelerator.no_sync(self.model)

    def clip(self, largest: float) -> float:
        """Clip the gradient to that norm, and return the norm before."""
        return float(self.accelerator.clip_grad_norm_(self.model.parameters(), largest))

    def save(self, into: Path, copies: dict[str, Weights]) -> None:
        """Save the state of training, and each copy of the weights to a file."""
        self.accelerator.save_state(str(into))
        if self.accelerator.is_main_process:
            for name, weights in copies.items():
                with naming(into / f"{name}.safetensors", SafetensorError):
                    save_file(weights, into / f"{name}.safetensors")

    def load(self, folder: Path) -> dict[str, Weights]:
        """Load what `save` wrote, and return the copies of weights."""
        self.accelerator.load_state(str(folder))
        files = (folder / f"{name}.safetensors" for name in COPIES)
        return {file.stem: load_file(file) for file in files if file.exists()}

    def whole(self, make: Callable[[], GatedRNNPreTrainedModel]) -> GatedRNNPreTrainedModel:
        """The model itself, since each process has all weights."""
        return self.bare


BEST, AVERAGE = COPIES = ("best", "average")
"""Copies of weights in a checkpoint: of the best validation, and the moving average."""


def in_turns(accelerator: Accelerator, do: Callable[[Given], Found], of: Sequence[Given]) -> Iterable[Found]:
    """Apply `do` to each item, every process doing its share; the results come in the order of items.

    All processes do the same number of them, since weights that are shared out are gathered by all.
    """
    processes = accelerator.num_processes
    if processes == 1:
        return map(do, of)
    rounds = -(-len(of) // processes)
    results = [do(of[min(accelerator.process_index + processes * turn, len(of) - 1)]) for turn in range(rounds)]
    everyones: list[list[Found]] = [[] for _ in range(processes)]
    dist.all_gather_object(everyones, results)
    return [everyones[number % processes][number // processes] for number in range(len(of))]
