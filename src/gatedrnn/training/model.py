"""The model of a run: its configuration from settings and data, its folder, and the card in that folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from jinja2 import Environment, PackageLoader
from transformers.utils.logging import disable_progress_bar

from gatedrnn import manifest
from gatedrnn.data import Examples, RunningText, TaskData, Windows
from gatedrnn.data.settings import OF_TEXTS
from gatedrnn.data.tokenizers import is_by_line
from gatedrnn.data.windows import deviation_of
from gatedrnn.errors import DataError, UsageError, reason
from gatedrnn.models import (
    GatedRNNConfig,
)
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecast_units import LOGGED, Scale
from gatedrnn.models.known_regression import KnownRegression, effects_of, fit_known_regression
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import HEADS
from gatedrnn.models.smoothing import MIN_CHANGE, SMOOTHERS, SmoothingPast, smooth
from gatedrnn.models.structure import Parameters, Structure
from gatedrnn.records import environment, naming, remove_folder, sync
from gatedrnn.training.checkpoint import written_whole
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import RunSettings, in_flags
from gatedrnn.training.text_parts import fill_tables, text_fields

MAX_WINDOWS, TOGETHER = 512, 32
"""Windows of training, spread over series and time; and those of a batch."""
FARTHEST = 50.0
"""Errors count as no larger, in units of the series' own change."""
PRIOR = 10.0
"""Forecasts in the place of which all smoothers are as good as in the mean: few tell little."""
LEAST = 0.1
"""The least error, in units of the mean over smoothers."""


@lru_cache(maxsize=2)
def known_regression(data: TaskData) -> KnownRegression | None:
    """The regression on the known covariates of a task of forecasts, fitted to its training part; None where they have
    no effect on values that were left out, or there are none."""
    train, inputs = cast(Windows, data.train), cast(dict[str, Any], data.model_inputs)
    size: int = inputs["known_size"]
    if not size:
        return None
    parts = [(series.values[:stop], series.known[:stop]) for series, stop in zip(train.series, train.stop, strict=True)]
    values, known = zip(*(part for part in parts if not np.isnan(part[0]).all()), strict=True)
    deviations = np.array([deviation_of(series) for series in values])
    means, scales = (np.array(inputs[f"covariate_{name}"][:size]) for name in ("means", "deviations"))
    return fit_known_regression(values, known, deviations, inputs["seasons"][0], means, scales, LOGGED)


@lru_cache(maxsize=2)
@torch.no_grad()
def typical_errors(data: TaskData) -> list[list[float]]:
    """Logarithms of mean absolute errors, in units of their mean over all smoothers and seasons, (horizon, smoothers
    and seasons): `typical_errors` of a configuration.

    Args:
        data: a task of forecasts.
    """
    train = cast(Windows, data.train)
    config = GatedRNNForecastConfig(horizon=train.horizon, seasons=cast(list[int], data.model_inputs["seasons"]))
    every = train.training_places
    places = every[np.unique(np.linspace(0, len(every) - 1, min(MAX_WINDOWS, len(every))).astype(int))]
    kinds = SMOOTHERS + len(config.periods)
    with torch.device("cpu"):  # a model may be built without memory
        sums, counts = (torch.zeros(config.horizon, kinds, dtype=torch.float64) for _ in range(2))
        for first in range(0, len(places), TOGETHER):
            errors = _errors(train, places[first : first + TOGETHER], config, known_regression(data))
            there = ~errors.isnan()
            sums += torch.where(there, errors, 0.0).clamp(max=FARTHEST).sum((0, 1))
            counts += there.sum((0, 1))
    usual = (sums / counts.clamp(min=1)).mean(1, keepdim=True)
    usual = torch.where(usual > 0, usual, 1.0)
    typical = (sums + PRIOR * usual) / (counts + PRIOR) / usual
    return cast(list[list[float]], np.round(typical.clamp(min=LEAST).log().numpy(), 4).tolist())


def _errors(
    train: Windows, places: np.ndarray, config: GatedRNNForecastConfig, regression: KnownRegression | None
) -> torch.Tensor:
    """(windows, origins, horizon, smoothers and seasons), in units of the change at the origin; NaN where there is no
    value, or no change before it."""
    batch = train.collate(places)
    effects, origins = effects_of(regression, batch.get("known_covariates"), batch["deviation"]), train.origins
    values = effects.of(slice(train.context)).removed(batch["past_values"])
    scale = Scale.of(values, batch["deviation"], logs=True)
    units, labels = map(scale.normalise, (values, effects.of(slice(train.context, None)).removed(batch["labels"])))
    smoothed, _ = smooth(units, config.periods, config.horizon, SmoothingPast.empty(units, config.periods, 0), origins)
    future = torch.cat([units[:, units.shape[1] - origins + 1 :], labels], dim=1).unfold(1, config.horizon, 1)
    change = smoothed.change[:, -origins:, None, None]
    errors = (smoothed.ahead() - future.unsqueeze(3)).abs() / change
    return errors.masked_fill(~(change > MIN_CHANGE), torch.nan).double()


def build_config(run: RunSettings, data: TaskData) -> GatedRNNConfig:
    """The configuration of a run's model."""
    if run.model.token_dropout and data.model_inputs["unk_token_id"] is None:
        raise DataError(f"--token-dropout: {data.name} has no unknown token; leave it at 0")
    forecasts = isinstance(data.train, Windows)
    options = run.model.model_dump(
        exclude={"layers", "tied", *OF_TEXTS, *(() if forecasts else ("linear_size",))}
    ) | text_fields(run, data)
    if forecasts:
        options["typical_errors"] = typical_errors(data)
        curves = known_regression(data)
        options["known_regression"] = None if curves is None else curves._asdict()
    if run.model.random_convolutions:
        options["longest_steps"] = int(cast(Examples, data.train).lengths.max())
    if run.backbone is not None:
        # It has blocks of its own; --block is for the cells that it is compared with.
        options |= {"block": False, "window": data.train.length if isinstance(data.train, RunningText) else None}
    with _refusing():
        config = HEADS[data.labelled].config_class(
            cell=run.backbone or run.cell,
            hidden_size=run.hidden_size,
            num_hidden_layers=run.model.layers,
            tie_word_embeddings=run.model.tied,
            id2label=dict(enumerate(data.label_names)),
            label2id={name: i for i, name in enumerate(data.label_names)},
            **data.model_inputs,
            **options,
        )
    return config


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn a model's refusal of its settings into an error of the command's flags."""
    try:
        yield
    except StrictDataclassClassValidationError as error:  # a configuration's, whose cause has the sentence
        raise UsageError(in_flags(str(error.__cause__ or error))) from error
    except ValueError as error:
        raise UsageError(in_flags(reason(error))) from error


def build_model(run: RunSettings, data: TaskData) -> GatedRNNPreTrainedModel:
    """A new model, drawn from torch's random numbers."""
    config = build_config(run, data)
    with _refusing():
        model = HEADS[data.labelled](config)
    fill_tables(model, run, data)
    if data.labelled == "next" and is_by_line(data.tokenizer):
        model.generation_config.eos_token_id = None  # it ends a line, not the text
    return model


def write_model(model: GatedRNNPreTrainedModel, data: TaskData, folder: Path, card: str) -> None:
    """A Hugging Face folder with its card, and the tokenizer if there is one; whole or not there."""
    temporary = folder.with_name(f"{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    disable_progress_bar()
    temporary.mkdir(parents=True)
    with written_whole(temporary, folder):
        model.save_pretrained(temporary)
        if data.tokenizer is not None:
            with naming(folder / "tokenizer.json", Exception):  # the library raises no class of its own
                data.tokenizer.save_pretrained(temporary)
        names = sorted(path.name for path in temporary.iterdir())
        for name in names:
            sync(temporary / name)
        manifest.add(temporary, *names)
        (temporary / "README.md").write_text(card, encoding="utf-8")  # not summed: it is there to be edited
        remove_folder(folder)
        temporary.rename(folder)


_PIPELINES = {"sequence": "text-classification", "step": "token-classification", "next": "text-generation"}
"""The pipelines of models with a tokenizer, by the unit of their labels."""
CLASSES = {
    "sequence": "AutoModelForSequenceClassification", "step": "AutoModelForTokenClassification",
    "next": "AutoModelForCausalLM", "future": "AutoModelForTimeSeriesPrediction",
}  # fmt: skip


def model_card(
    settings: RunSettings, data: TaskData, structure: Structure, parameters: Parameters, result: RunResult
) -> str:
    """Markdown for the model's folder. Names data by set and sha256, never by path, and holds none of its text."""
    card = Environment(loader=PackageLoader("gatedrnn.training"), trim_blocks=True, lstrip_blocks=True)
    return card.get_template("card.md").render(
        settings=settings.shown(), data=data, structure=structure, parameters=parameters,
        scores=scores_in_words(result), result=result, environment=environment(), labelled=data.labelled,
        pipeline=_PIPELINES[data.labelled] if data.tokenizer is not None else None, auto=CLASSES[data.labelled],
    )  # fmt: skip


def scores_of(result: RunResult) -> dict[str, dict[str, float]]:
    """The scores of a result, by split and name; first the one that the best weights were chosen by."""
    by_split = {}
    for split, scores in result.scores.items():
        named = scores.model_dump(exclude_none=True)
        first = dict.fromkeys(("mae", "scaled_mae") if result.metric == "scaled_mae" else (result.metric,))
        by_split[split] = {name: named[name] for name in (*first, *named) if name in named}
    return by_split


def scores_in_words(result: RunResult) -> dict[str, dict[str, float]]:
    """Scores by split and name in words: "scaled mae", "test at length 512"."""
    return {
        split.replace("test_", "test at length "): {name.replace("_", " "): value for name, value in scores.items()}
        for split, scores in scores_of(result).items()
    }
