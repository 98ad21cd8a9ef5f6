"""The plain baselines of every task, fitted; and a finished run beside them, with advice on what would help it."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch

from gatedrnn import manifest
from gatedrnn.data import Examples, Lanes, RunningText, TaskData, Windows
from gatedrnn.errors import BackendUnavailable, DataError, UsageError, unknown
from gatedrnn.extras import install_line
from gatedrnn.models import GatedRNNForForecasting
from gatedrnn.study.baseline import Fit, Fitted, PlainBaseline, answered, boosted, linear, series_baselines, training_of
from gatedrnn.study.forecast_baselines import forecast_baselines, forecast_methods
from gatedrnn.study.text_baselines import NGramModel, text_baselines
from gatedrnn.tables.table import Table
from gatedrnn.training.finished import data_of, open_finished
from gatedrnn.training.folder import RunFolder, read_metrics
from gatedrnn.training.metrics import judge
from gatedrnn.training.objective import metric_of
from gatedrnn.training.outcomes import Outcomes, difference_of, of_rows, of_text
from gatedrnn.training.predict import Predicted
from gatedrnn.training.result import PLAIN_PART, Metric, Plain, RunResult, Standing, read_record
from gatedrnn.training.score import outcomes_of
from gatedrnn.training.settings import RunSettings

LOG = logging.getLogger("gatedrnn")
BATCHES, ROWS = 100, 64
"""The batches, and the rows of each, of training examples that are drawn without end: enough to count labels."""


def plain_baselines(data: TaskData, threads: int) -> list[PlainBaseline]:
    """Fit the plain baselines of a task to its training split and score all others; where it has none, its most
    frequent class, or its mean.

    Args, raises:
        As `each_baseline`.
    """
    return [baseline for _, make in each_baseline(data, threads) if (baseline := make()) is not None] or [
        constant(data)
    ]


def each_baseline(
    data: TaskData, threads: int, refits: int | None = None
) -> Iterator[tuple[str, Callable[[], PlainBaseline | None]]]:
    """The plain baselines of a task by name, the cheapest first, each of which is fitted when it is called: None where
    the data give it nothing to fit to.

    Texts have a linear model, tagged words the most frequent tag of each, running text an n-gram model, series a linear
    model and gradient-boosted trees on summary features and MiniRocket, numbers in sequences of one length a linear
    model and trees on all of them; forecasts have naive ones, exponential smoothing, a linear map and trees on lags.

    Args:
        threads: of the boosted trees.
        refits: windows to each of which a method is fitted, at most; 1,000 if None.

    Raises:
        BackendUnavailable: LightGBM lacks a library of the system, when it is called.
    """
    if isinstance(data.train, Windows):
        yield from forecast_baselines(data, threads, refits)
        return
    for name, fit in _of_task(data, threads):
        yield name, partial(_fitted, name, fit, data)


def _fitted(name: str, fit: Fit, data: TaskData) -> PlainBaseline | None:
    LOG.info("fitting %s", name)
    started = time.perf_counter()
    fitted = fit()
    seconds = time.perf_counter() - started
    if fitted is None:
        return None
    outcomes = {split: _grouped(fitted.answer(split), part) for split, part in data.evaluation.items()}
    return PlainBaseline(name, fitted.parameters, outcomes, seconds, {})


def _grouped(outcomes: Outcomes, part: Examples | Lanes | Windows) -> Outcomes:
    return replace(outcomes, groups=part.groups) if isinstance(part, Examples) else outcomes


def _of_task(data: TaskData, threads: int) -> Iterator[tuple[str, Fit]]:
    if data.texts:
        yield from text_baselines(data)
    elif isinstance(data.train, RunningText):
        yield "Kneser-Ney 5-gram", lambda: _ngram(data)
    elif "series" in data.model_inputs:
        yield from series_baselines(data, threads)
    elif _is_flat(data):
        yield "logistic regression", lambda: _logistic(data)
        yield "gradient boosting", lambda: boosted(data, _flat, threads)


def _ngram(data: TaskData) -> Fitted:
    vocabulary = data.model_inputs["vocab_size"]
    assert isinstance(data.train, RunningText) and isinstance(vocabulary, int)
    model = NGramModel(np.asarray(data.train.stream.tokens), vocabulary)

    def answer(split: str) -> Outcomes:
        text = data.evaluation[split]
        assert isinstance(text, Lanes)
        return of_text(model.losses(np.asarray(text.stream.tokens)), text.stream.starts)

    return Fitted(model.parameters, answer)


def _is_flat(data: TaskData) -> bool:
    """Whether training examples are rows of numbers of one length with one class each."""
    train = data.train
    if not isinstance(train, Examples) or data.labelled != "sequence" or train.within:
        return False
    return np.issubdtype(train.inputs[0].dtype, np.floating) and len({len(x) for x in train.inputs}) == 1


def _flat(examples: Examples) -> np.ndarray:
    """(rows, time · features)"""
    return np.stack(examples.inputs).reshape(len(examples), -1)


def _logistic(data: TaskData) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return linear(data, _flat, make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))


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
    grouped = {split: _grouped(of_split, data.evaluation[split]) for split, of_split in outcomes.items()}
    return PlainBaseline(name, None, grouped, 0.0, {})


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
    if data.labelled == "step":
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


def forecast_of_baseline(path: Path, file: Path, name: str) -> Predicted:
    """The steps after the last value of each series of a file by a plain method, fitted to the training part of a run
    of forecasts, as `predicted_columns` has them.

    Raises:
        UsageError: there is no such method.
        DataError: the run is not of forecasts, its data have changed, or the file has other series.
    """
    from gatedrnn.training.forecasts import asked_of_file, table_of, types_of

    folder = RunFolder(path)
    model = open_finished(path).model
    if not isinstance(model, GatedRNNForForecasting):
        raise DataError(f"{path}: --baseline {name!r} is for forecasts; of other tasks take plain-part")
    data, threads = data_of(folder), folder.settings().threads
    methods = forecast_methods(data, threads)
    if name not in methods:
        raise UsageError(unknown("baseline", name, [PLAIN_PART, *methods]))
    asked, train = asked_of_file(model, file), cast(Windows, data.train)
    if [series.name for series in asked.table.series] != [series.name for series in train.series]:
        raise DataError(f"{file}: has other series than the run, whose training data {name!r} is fitted to")
    places = np.stack([np.arange(len(asked.origins)), asked.origins], axis=1)
    quantiles = methods[name]().forecast(asked.windows, places)
    columns = table_of(asked, model.bounded(torch.from_numpy(quantiles)).numpy(), model.config.levels)
    notes = [asked.table.said, f"{name}, fitted to the training part of {path.name}"]
    return Predicted(Table(columns), {}, notes, types_of(asked))


def _beside(
    data: TaskData, metric: Metric, outcomes: Outcomes, threads: int, trained: float
) -> tuple[list[Plain], list[str]]:
    """Each baseline that begins in time, beside the run; and the names of all others."""
    until = time.perf_counter() + max(_MIN_SECONDS, SHARE * trained)
    refits = int((until - time.perf_counter()) / _SECONDS_A_REFIT)
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
