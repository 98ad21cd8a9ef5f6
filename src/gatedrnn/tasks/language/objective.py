"""The loss of a language model's training."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gatedrnn.data import Batch, Lanes, TaskData
from gatedrnn.models import GatedRNNCache, GatedRNNConfig
from gatedrnn.records import naming
from gatedrnn.training.objective import metric_of, share_of
from gatedrnn.training.result import Metric


class NextToken:
    """Cross-entropy of the next token.

    Args:
        config: of the model.
        metric: by which the best weights are chosen.
        carries: whether each row goes on where it ended in the batch before: its state is carried, without its history.
    """

    takes_last = False

    def __init__(self, config: GatedRNNConfig, metric: Metric, carries: bool) -> None:
        self.config, self.metric, self.carries = config, metric, carries
        self.carry: GatedRNNCache | None = None

    def count(self, batch: Batch) -> int:
        return batch["shift_labels"].numel()

    def loss(self, model: nn.Module, batch: Batch, items: int) -> Tensor:
        output = model(**batch, past_key_values=self.carry, use_cache=self.carries, num_items_in_batch=items,
                       skip_logits=True)  # fmt: skip
        if self.carries:
            self.carry = output.past_key_values.detached()
        return output.loss

    def begin(self) -> None:
        self.carry = None

    def save(self, into: Path, rank: int) -> None:
        if self.carry is not None:
            with naming(into / self._file(rank), SafetensorError):
                save_file(self.carry.tensors(), into / self._file(rank))

    def load(self, folder: Path, rank: int, ranks: int) -> None:
        count = len(list(folder.glob(self._file("*"))))
        pieces = [load_file(folder / self._file(number)) for number in range(count)]
        self.carry = None if not pieces else GatedRNNCache.of_tensors(self.config, _shared_anew(pieces, rank, ranks))

    @staticmethod
    def _file(rank: int | str) -> str:
        return f"carry-{rank}.safetensors"


def language_objective(data: TaskData, config: GatedRNNConfig) -> NextToken:
    """The loss of a text; where its rows are lanes, the state is carried from batch to batch."""
    return NextToken(config, metric_of(data), carries=isinstance(data.train, Lanes))


def _shared_anew(pieces: list[dict[str, Tensor]], rank: int, ranks: int) -> dict[str, Tensor]:
    """Tensors of rows that some processes have kept, each its share, as this process's share among `ranks`."""
    if len(pieces) == ranks:
        return pieces[rank]
    rows = {name: torch.cat([piece[name] for piece in pieces]) for name, tensor in pieces[0].items() if tensor.dim()}
    return pieces[0] | {name: whole[share_of(len(whole), rank, ranks)] for name, whole in rows.items()}
