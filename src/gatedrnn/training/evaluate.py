"""Scores of a model while its run is under way, and at its end."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from gatedrnn.data import Examples, TaskData
from gatedrnn.training.metrics import Evaluation, judge
from gatedrnn.training.outcomes import of_rows
from gatedrnn.training.result import Scores
from gatedrnn.training.sharing import in_turns
from gatedrnn.training.task import task_named


class _OfRows(NamedTuple):
    """The results on a batch of labels."""

    loss: float
    confusion: Tensor
    right: np.ndarray
    labelled: np.ndarray


@torch.no_grad()
def evaluate(model: nn.Module, data: TaskData, split: str, accelerator: Accelerator) -> Evaluation:
    """Scores of `model` on every example of a split, or every token, once, as its task has them."""
    was_training = model.training
    model.eval()
    evaluation = task_named(data.name).evaluate(model, data.evaluation[split], accelerator)
    model.train(was_training)
    return evaluation


def evaluate_examples(model: nn.Module, examples: Examples, accelerator: Accelerator) -> Evaluation:
    """Scores of labels, classes or numbers; the examples are shared by all processes."""
    of_labels = _by_metric if examples.metric is not None else _numbers if examples.are_numbers else _classes
    evaluation = of_labels(model, examples, accelerator)
    return evaluation._replace(outcomes=replace(evaluation.outcomes, groups=examples.groups))


def _classes(model: Any, examples: Examples, accelerator: Accelerator) -> Evaluation:
    """`confusion[true][predicted]` counts labels; a step labelled -100 does not count anywhere."""
    classes = model.num_labels
    confusion = torch.zeros(classes * classes, dtype=torch.int64)
    loss = 0.0
    right, labelled = (np.zeros(len(examples)) for _ in range(2))

    def score(rows: np.ndarray) -> _OfRows:
        batch = examples.collate(rows)
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        labels = batch["labels"]
        predicted = output.logits.argmax(-1).cpu()
        counted = labels != -100
        return _OfRows(
            loss=output.loss.item() * int(counted.sum()),
            confusion=torch.bincount(labels[counted] * classes + predicted[counted], minlength=classes * classes),
            right=(counted & (predicted == labels)).view(len(rows), -1).sum(1).numpy(),
            labelled=counted.view(len(rows), -1).sum(1).numpy(),
        )

    batches = list(examples.evaluation_rows())
    for rows, scored in zip(batches, in_turns(accelerator, score, batches), strict=True):
        loss, confusion = loss + scored.loss, confusion + scored.confusion
        right[rows], labelled[rows] = scored.right, scored.labelled
    total = int(confusion.sum())
    table = confusion.view(classes, classes)
    scores = Scores(loss=loss / total, accuracy=int(table.trace()) / total)
    return Evaluation(scores, of_rows(right, labelled), table.tolist())


def _by_metric(model: Any, examples: Examples, accelerator: Accelerator) -> Evaluation:
    """Evaluate by a metric of the examples' own, from the outputs for all of them."""

    def answer(rows: np.ndarray) -> np.ndarray:
        batch = examples.collate(rows)
        del batch["labels"]
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        answers: np.ndarray = output.logits.double().cpu().numpy()
        return answers

    batches, outputs = list(examples.evaluation_rows()), [np.empty(0)] * len(examples)
    for rows, answers in zip(batches, in_turns(accelerator, answer, batches), strict=True):
        for row, answer_row in zip(rows.tolist(), answers, strict=True):
            outputs[row] = answer_row if answer_row.ndim == 1 else answer_row[: examples.lengths[row]]
    return judge(examples, outputs)


def _numbers(model: Any, examples: Examples, accelerator: Accelerator) -> Evaluation:
    """The mean squared error, and the share of answers that are near enough, or their mean absolute error."""
    loss, right, error = 0.0, np.zeros(len(examples)), np.zeros(len(examples))

    def miss(rows: np.ndarray) -> Tensor:
        batch = examples.collate(rows)
        with accelerator.autocast():
            output = model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        off: Tensor = output.logits[:, 0].cpu() - batch["labels"]
        return off

    batches = list(examples.evaluation_rows())
    for rows, off in zip(batches, in_turns(accelerator, miss, batches), strict=True):
        loss += float((off / examples.unit).square().sum())
        right[rows], error[rows] = (off.abs() < examples.within).numpy(), off.abs().numpy() / examples.unit
    if not examples.within:
        scaled = float(error.mean())
        scores = Scores(loss=loss / len(examples), scaled_mae=scaled, mae=scaled * examples.unit)
        return Evaluation(scores, of_rows(error, np.ones(len(examples))))
    scores = Scores(loss=loss / len(examples), accuracy=int(right.sum()) / len(examples))
    return Evaluation(scores, of_rows(right, np.ones(len(examples))))
