"""The plain baselines of every task, fitted; and a finished run beside them, with advice on what would help it."""

import logging
import math
import time
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData
from gatedrnn.errors import BackendUnavailable
from gatedrnn.extras import install_line
from gatedrnn.training.baseline import PlainBaseline, answered, grouped, training_of
from gatedrnn.training.finished import data_of
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.metrics import judge
from gatedrnn.training.objective import metric_of
from gatedrnn.training.outcomes import Outcomes, difference_of, of_rows
from gatedrnn.training.result import Metric, Plain, RunResult, Standing, read_record
from gatedrnn.training.score import outcomes_of
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.task import task_named

LOG = logging.getLogger("gatedrnn")
BATCHES, ROWS = 100, 64
"""The batches, and the rows of each, of training examples that are drawn without end: enough to count labels."""


def plain_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the plain baselines of a task to its training split and score all others; where it has none, its most
    frequent class, or its mean.

    Args, raises:
        As `gatedrnn.training.task.Task.baselines`.
    """
    return [
        baseline for _, make in task_named(data.name).baselines(data, threads) if (baseline := make()) is not None
    ] or [constant(data)]


def constant(data: TaskData) -> PlainBaseline:
    """The most frequent class of training, the labels that most rows have, or the mean of its numbers."""
    train = data.train
    first = [train.batch(0, 0, n, ROWS)["labels"] for n in islice(range(train.steps_per_epoch(ROWS)), BATCHES)]
    labels = np.concatenate([batch.numpy().ravel() for batch in first])
    outcomes = {}
    numbers = np.issubdtype(labels.dtype, np.floating)
    several = isinstance(train, Examples) and train.several
    always = labels.mean() if numbers else np.bincount(labels[labels >= 0]).argmax()
    for split, examples in data.evaluation.items():
        assert isinstance(examples, Examples)
        if examples.metric is not None:
            outcomes[split] = judge(examples, _constant_outputs(data, examples)).outcomes
            continue
        if numbers:
            outcomes[split] = answered(np.full(len(examples), always), examples)
            continue
        label_rows = examples.labels.reshape(len(examples), -1)
        counted = label_rows != -100
        outcomes[split] = of_rows(((label_rows == always) & counted).sum(1), counted.sum(1))
    name = "most frequent labels" if several else "mean answer" if numbers else "majority class"
    by_split = {split: grouped(of_split, data.evaluation[split]) for split, of_split in outcomes.items()}
    return PlainBaseline(name, None, by_split, 0.0, {})


def _constant_outputs(data: TaskData, examples: Examples) -> list[np.ndarray]:
    """A constant output for each row, or each of its steps: the mean of training, or how frequent classes and labels
    are there, as scores with one row more of each.
    """
    train = training_of(data)
    if train.are_numbers:
        output = np.array([train.labels.mean()])
    elif train.several:
        shares = (train.labels.sum(0) + 1) / (len(train) + 2)
        output = np.log(shares / (1 - shares))
    else:
        labels = train.labels[train.labels >= 0]
        output = np.log(np.bincount(labels, minlength=len(data.label_names)) + 1.0)
    if train.of_steps:
        return [np.tile(output, (steps, 1)) for steps in examples.lengths.tolist()]
    return [output] * len(examples)


SHARE = 0.2
"""The share of the run's training time for all baselines together."""
_MIN_SECONDS = 3.0
"""The least seconds for all baselines, however short the run."""
_SECONDS_A_REFIT = 0.1
"""The seconds that a method of statsforecast takes for a window, about."""
LONG = ("DLinear", "gradient boosting")
"""Left to `gatedrnn compare`: they are trained themselves, for longer than a short run."""
WHOLE = 0.9
"""The least share of texts that are read whole; or the share of a run's steps after which is its end."""
_EARLY = 0.34
"""The share of a run's steps before which a best validation is early."""


def write_standing(path: Path) -> Standing | None:
    """Fit the plain baselines of a finished run's task to its own data, score them on its test split, and write
    standing.json into its folder. They begin within a fifth of the time that it trained, or three seconds; what does
    not is left out. None for a run without a test.

    Raises:
        DataError: the data have changed since the run.
        Damaged: a file of the folder is not as it was written.
    """
    folder = RunFolder(path)
    data, result, settings = data_of(folder), read_record(folder.result, RunResult), folder.settings()
    if "test" not in data.evaluation:
        return None
    metric, outcomes = metric_of(data), outcomes_of(path, data)["test"]
    plain, left_out = _beside(data, metric, outcomes, settings.threads, result.measured.training_seconds)
    standing = Standing(
        metric=metric.name, higher_is_better=metric.higher_is_better, score=result.score("test", metric.name),
        plain=plain, left_out=left_out, advice=_advice(folder, data, result, settings),
    )  # fmt: skip
    standing.write(folder.standing)
    manifest.add(path, folder.standing.name)
    return standing


def _beside(
    data: TaskData, metric: Metric, outcomes: Outcomes, threads: int, trained: float
) -> tuple[list[Plain], list[str]]:
    """Each baseline that begins in time, beside the run; and the names of all others."""
    until = time.perf_counter() + max(_MIN_SECONDS, SHARE * trained)
    refits = int((until - time.perf_counter()) / _SECONDS_A_REFIT)
    fitted_methods, left_out = list[PlainBaseline](), list[str]()
    if isinstance(data.evaluation["test"], Examples):
        fitted_methods.append(constant(data))
    for name, fit in task_named(data.name).baselines(data, threads, refits):
        if name.startswith(LONG):
            continue
        if time.perf_counter() > until:
            left_out.append(f"{name} (takes long beside this run)")
            continue
        try:
            fitted = fit()
        except BackendUnavailable:
            left_out.append(f"{name} (cannot run here)")
            continue
        except ImportError:
            left_out.append(f"{name} ({install_line('series')} brings it)")
            continue
        fitted_methods += [fitted] if fitted is not None else []
    rows = [
        Plain(
            name=method.name, score=_score(method.outcomes["test"], metric), seconds=method.seconds,
            against=_against(method.outcomes["test"], outcomes, metric),
        )
        for method in fitted_methods
    ]  # fmt: skip
    return rows, left_out


def _score(outcomes: Outcomes, metric: Metric) -> float:
    return math.exp(min(outcomes.rate, 700.0)) if metric.name == "perplexity" else outcomes.rate


def _against(plain: Outcomes, outcomes: Outcomes, metric: Metric) -> Literal["better", "worse", "open"]:
    """A baseline beside the run, over the examples of the test."""
    low, high = difference_of(plain, outcomes)
    if not (low > 0 or high < 0):  # of NaN neither
        return "open"
    return "better" if (low > 0) == metric.higher_is_better else "worse"


def _advice(folder: RunFolder, data: TaskData, result: RunResult, settings: RunSettings) -> list[str]:
    """Sentences on what would help, by what was measured."""
    advice = [_of_length(folder, result, settings), _of_classes(data, result, settings), _of_cut_texts(data)]
    return [sentence for sentence in advice if sentence is not None]


def _of_length(folder: RunFolder, result: RunResult, settings: RunSettings) -> str | None:
    validated = [line["step"] for line in read_metrics(folder.metrics) if "validation_loss" in line]
    if len(validated) < 2 or result.weights == "last":  # which are none that validation chose
        return None
    flag, whole = ("total-steps", result.steps) if settings.train.total_steps else ("epochs", settings.train.epochs)
    if result.best_step == validated[-1]:
        return f"Validation was still improving at the last step: --{flag} {2 * whole}."
    if result.best_step < _EARLY * result.steps:
        enough = max(1, math.ceil(1.5 * whole * result.best_step / result.steps))
        said = f"Validation was best at step {result.best_step:,} of {result.steps:,}, and worse since"
        return f"{said}: --{flag} {enough}."
    return None


def _of_classes(data: TaskData, result: RunResult, settings: RunSettings) -> str | None:
    """Classes that the run never predicts on the test."""
    if result.confusion is None or "test" not in result.confusion or settings.train.class_weight is not None:
        return None
    table = np.array(result.confusion["test"])
    never = [data.label_names[place] for place in np.flatnonzero((table.sum(0) == 0) & (table.sum(1) > 0))]
    if not never:
        return None
    named = ", ".join(map(repr, never[:5])) + (f" and {len(never) - 5} more" if len(never) > 5 else "")
    of = f"class {named} was" if len(never) == 1 else f"classes {named} were"
    return f"{of.capitalize()} never predicted on the test: --class-weight balanced."


def _of_cut_texts(data: TaskData) -> str | None:
    if not data.texts or data.tokenizer is None:
        return None
    longest = data.tokenizer.model_max_length
    texts = data.texts["train"].texts
    lengths = np.array([len(row) for row in data.tokenizer.backend_tokenizer.encode_batch(list(texts))])
    cut = int((lengths > longest).sum())
    if cut <= (1 - WHOLE) * len(lengths):
        return None
    enough = 1 << math.ceil(math.log2(float(np.quantile(lengths, WHOLE))))
    return f"{cut:,} of {len(lengths):,} texts were cut at {longest} tokens: --max-tokens {enough}."
