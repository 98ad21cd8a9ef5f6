"""Loss, accuracy and confusion on a fixed set of examples."""

from typing import TypedDict

import torch
from accelerate import Accelerator

from gatedrnn.data import Examples
from gatedrnn.models.modeling import GatedRNNClassifier


class Scores(TypedDict):
    """`confusion[true][predicted]` counts labels; a step labelled -100 does not count anywhere."""

    loss: float
    accuracy: float
    confusion: list[list[int]]


@torch.no_grad()
def evaluate(model: GatedRNNClassifier, examples: Examples, accelerator: Accelerator) -> Scores:
    """Scores of `model` on every example once."""
    was_training = model.training
    model.eval()
    classes = model.num_labels
    confusion = torch.zeros(classes * classes, dtype=torch.int64)
    loss = 0.0
    for batch in examples.evaluation_batches():
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        labels = batch["labels"]
        predicted = output.logits.argmax(-1).cpu()
        counted = labels != -100
        loss += output.loss.item() * int(counted.sum())
        confusion += torch.bincount(labels[counted] * classes + predicted[counted], minlength=classes * classes)
    model.train(was_training)
    total = int(confusion.sum())
    table = confusion.view(classes, classes)
    return {"loss": loss / total, "accuracy": int(table.trace()) / total, "confusion": table.tolist()}
