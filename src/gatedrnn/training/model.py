"""The model of a run: its configuration from settings and data, its folder, and the card in that folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub.errors import StrictDataclassClassValidationError
from jinja2 import Environment, PackageLoader
from transformers.utils.logging import disable_progress_bar

from gatedrnn import manifest
from gatedrnn.data import TaskData
from gatedrnn.errors import DataError, UsageError, reason
from gatedrnn.models import GatedRNNConfig
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import AUTO_CLASSES, PIPELINES
from gatedrnn.models.structure import Parameters, Structure
from gatedrnn.records import environment, naming, remove_folder, sync
from gatedrnn.training.checkpoint import written_whole
from gatedrnn.training.result import RunResult
from gatedrnn.training.settings import OF_SOME_TASKS, RunSettings, in_flags
from gatedrnn.training.task import task_named


def build_config(run: RunSettings, data: TaskData) -> GatedRNNConfig:
    """The configuration of a run's model."""
    if run.model.token_dropout and data.model_inputs["unk_token_id"] is None:
        raise DataError(f"--token-dropout: {data.name} has no unknown token; leave it at 0")
    task = task_named(data.name)
    options = run.model.model_dump(exclude={"layers", *OF_SOME_TASKS}) | task.configuration(run, data)
    if run.backbone is not None:
        options["block"] = False  # it has blocks of its own; --block is for the cells that it is compared with
    with _refusing():
        config = task.model_class(data).config_class(
            task=data.name,
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
        model = task_named(data.name).model_class(data)(config)
    task_named(data.name).fill(model, run, data)
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


def model_card(
    settings: RunSettings, data: TaskData, structure: Structure, parameters: Parameters, result: RunResult
) -> str:
    """Markdown for the model's folder. Names data by set and sha256, never by path, and holds none of its text."""
    model = task_named(data.name).model_class(data)
    card = Environment(loader=PackageLoader("gatedrnn.training"), trim_blocks=True, lstrip_blocks=True)
    return card.get_template("card.md").render(
        settings=settings.shown(), data=data, structure=structure, parameters=parameters,
        scores=scores_in_words(result), result=result, environment=environment(),
        pipeline=PIPELINES.get(model) if data.tokenizer is not None else None, auto=AUTO_CLASSES[model],
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
