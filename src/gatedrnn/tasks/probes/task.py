"""Probes as tasks."""

from typing import TYPE_CHECKING, Any

from gatedrnn.data.registry import Parts, Recipe
from gatedrnn.tasks.labelled import LabelledTask
from gatedrnn.tasks.probes.settings import ProbeTaskSettings

if TYPE_CHECKING:
    from gatedrnn.data.task import TaskData
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel


def _probe(
    width: int, length: int, epochs: int, model: dict[str, Any] | None = None, grows: float = 0.5, **train: Any
) -> Parts:
    """Sequences grow over a fraction of the training. Smoothed labels demand the exact state, not the right side."""
    smoothed = {"label_smoothing": 0.1, **train}
    return {
        "contenders": {"hidden_size": width},
        "data": {"length": length, "curriculum": round(grows * epochs)},
        "model": {"embedding_size": 2 * width, **(model or {})},
        "train": {"epochs": epochs, "batch_size": 64, "learning_rate": 1e-2, "weight_decay": 0.0, **smoothed},
    }


def _cycle() -> Parts:
    """Rotations by exact angles: a small error at each step shows at long lengths only, and long sequences need small
    learning rates. So sequences grow to the end, while the learning rate falls."""
    return _probe(16, 512, 18, {"block": True}, grows=1.0, batch_size=8, beta2=0.95)


_RECALL = {"layers": 2, "block": True, "embedding_size": 64}
_RECIPES = {
    "parity": _probe(16, 40, 4),
    "modular-addition": _cycle(),
    "cycle-navigation": _cycle(),
    "s3": _probe(32, 64, 10, grows=0.8, batch_size=32),
    "s5": _probe(64, 64, 8, {"embedding_size": 64, "block": True}),
    "s5-all": _probe(64, 64, 8, {"embedding_size": 64, "block": True}),
    "even-pairs": _probe(16, 64, 6),
    "majority": _probe(16, 64, 6),
    "bucket-sort": _probe(32, 64, 10),
    "missing-duplicate": _probe(32, 40, 10),
    "copying": _probe(32, 64, 10),
    "selective-copying": _probe(48, 64, 20, _RECALL, label_smoothing=0.0, batch_size=16),
    "mqar": _probe(48, 32, 20, _RECALL, grows=0.8, label_smoothing=0.0, batch_size=32, learning_rate=5e-3),
    "adding": _probe(32, 100, 10, label_smoothing=0.0),
}
_OPTIONS = {name: {"block-orthogonal": "block-orthogonal:block_size=4"} for name in ("s5", "s5-all")}


class ProbeTask(LabelledTask[ProbeTaskSettings]):
    """Sequences that are drawn at random."""

    settings = ProbeTaskSettings

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # One class for all probes, whose recipes have nothing in common.
        self.recipe = Recipe(_RECIPES[name], options=_OPTIONS.get(name, {}))

    def read(self, settings: ProbeTaskSettings) -> "TaskData":
        from gatedrnn.tasks.probes.read import load_probe

        return load_probe(settings)

    def model_class(self, data: "TaskData") -> "type[GatedRNNPreTrainedModel]":
        from gatedrnn.models import GatedRNNForTokenClassification

        # A number is asked for at the end of a row, a class at some steps or every one.
        return (
            GatedRNNForTokenClassification
            if data.model_inputs.get("problem_type") != "regression"
            else super().model_class(data)
        )
