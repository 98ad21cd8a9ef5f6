"""The comparison of a finished run with the plain baselines of its task, and advice on what would help it."""

import math
import time
from pathlib import Path
from typing import Literal

import numpy as np

from gatedrnn import manifest
from gatedrnn.data import Examples, TaskData
from gatedrnn.errors import BackendUnavailable
from gatedrnn.study.baseline import PlainBaseline
from gatedrnn.study.plain import constant, each_baseline
from gatedrnn.training.finished import outcomes_of
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.objective import Metric, metric_of
from gatedrnn.training.outcomes import Outcomes, difference_of
from gatedrnn.training.result import RunResult, read_record
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.so_far import data_of
from gatedrnn.training.standing import Plain, Standing

SHARE = 0.2
"""The share of the run's training time for all baselines together."""
LEAST_SECONDS = 3.0
"""The least seconds for all baselines, however short the run."""
SECONDS_A_REFIT = 0.1
"""The seconds that a method of statsforecast takes for a window, about."""
LONG = ("DLinear", "gradient boosting")
"""Left to `gatedrnn compare`: they are trained themselves, for longer than a short run."""
WHOLE = 0.9
"""The least share of texts that are read whole; or the share of a run's steps after which is its end."""
EARLY = 0.34
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
    until = time.perf_counter() + max(LEAST_SECONDS, SHARE * trained)
    refits = int((until - time.perf_counter()) / SECONDS_A_REFIT)
    fitted_methods, left_out = list[PlainBaseline](), list[str]()
    if isinstance(data.evaluation["test"], Examples):
        fitted_methods.append(constant(data))
    for name, fit in each_baseline(data, threads, refits):
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
            left_out.append(f"{name} (pip install 'gatedrnn[series]' brings it)")
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
    if len(validated) < 2 or settings.train.weights == "last":  # which are none that validation chose
        return None
    flag, whole = ("total-steps", result.steps) if settings.train.total_steps else ("epochs", settings.train.epochs)
    if result.best_step == validated[-1]:
        return f"Validation was still improving at the last step: --{flag} {2 * whole}."
    if result.best_step < EARLY * result.steps:
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
