"""From the settings of a run to its model."""

import shutil
from pathlib import Path
from typing import Any

from transformers.utils.logging import disable_progress_bar

from gatedrnn import manifest
from gatedrnn.data import TaskData
from gatedrnn.data.tokenizers import is_by_line
from gatedrnn.errors import DataError
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
)
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.records import sync
from gatedrnn.registry import CELLS
from gatedrnn.train.checkpoint import written_whole
from gatedrnn.train.settings import RunSettings


def build_config(run: RunSettings, data: TaskData) -> GatedRNNConfig:
    """The configuration of a run's model."""
    if run.model.token_dropout and data.model_inputs["unk_token_id"] is None:
        raise DataError(f"--token-dropout: {data.name} has no unknown token to put in a token's place; leave it at 0")
    model = run.model.model_dump(exclude={"layers", "activation", "reset_before", "keep", "block_size", "tied"})
    return GatedRNNConfig(
        cell=run.cell,
        cell_options=cell_options(run),
        hidden_size=run.hidden_size,
        num_hidden_layers=run.model.layers,
        tie_word_embeddings=run.model.tied,
        id2label=dict(enumerate(data.label_names)),
        label2id={name: i for i, name in enumerate(data.label_names)},
        **data.model_inputs,
        **model,
    )


def cell_options(run: RunSettings) -> dict[str, Any]:
    """What was asked for of what the cell knows; all else is the cell's own default."""
    asked: dict[str, Any] = {}
    if run.model.activation is not None:
        asked["activation"] = run.model.activation
    if run.model.reset_before:
        asked["reset_after"] = False
    if run.model.keep:
        asked["keep"] = True
    if run.model.block_size is not None:
        asked["block_size"] = run.model.block_size
    known = {option for cell in run.cells for option in CELLS[cell].options}
    return {name: value for name, value in asked.items() if name in known}


HEADS = {
    "sequence": GatedRNNForSequenceClassification, "step": GatedRNNForTokenClassification, "next": GatedRNNForCausalLM,
}  # fmt: skip


def build_model(run: RunSettings, data: TaskData) -> GatedRNNPreTrainedModel:
    """A new model, drawn from torch's random numbers."""
    model = HEADS[data.labelled](build_config(run, data))
    if data.labelled == "next" and is_by_line(data.tokenizer):
        model.generation_config.eos_token_id = None  # it ends a line, not the text
    return model


def write_model(model: GatedRNNPreTrainedModel, data: TaskData, folder: Path, card: str) -> None:
    """A Hugging Face folder with its card, and the tokenizer if there is one; whole or not there."""
    temporary = folder.with_name(f"{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    disable_progress_bar()
    temporary.mkdir(parents=True)
    with written_whole(temporary):
        model.save_pretrained(temporary)
        if data.tokenizer is not None:
            data.tokenizer.save_pretrained(temporary)
        names = sorted(path.name for path in temporary.iterdir())
        for name in names:
            sync(temporary / name)
        manifest.add(temporary, *names)
        (temporary / "README.md").write_text(card, encoding="utf-8")  # not summed: it is there to be edited
    temporary.rename(folder)
