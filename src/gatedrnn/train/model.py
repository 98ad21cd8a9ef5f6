"""From the settings of a run to its model."""

from typing import Any

from gatedrnn.data import DataError, TaskData
from gatedrnn.layers import LAYERS
from gatedrnn.models import GatedRNNConfig, GatedRNNForSequenceClassification, GatedRNNForTokenClassification
from gatedrnn.models.modeling import GatedRNNClassifier
from gatedrnn.train.settings import RunSettings


def build_config(run: RunSettings, data: TaskData) -> GatedRNNConfig:
    """The configuration of a run's model."""
    if run.model.token_dropout and data.model_inputs["unk_token_id"] is None:
        raise DataError(f"--token-dropout: {data.name} has no unknown token to put in a token's place; leave it at 0")
    model = run.model.model_dump(exclude={"layers", "activation", "reset_before", "keep"})
    return GatedRNNConfig(
        cell=run.cell,
        cell_options=_cell_options(run),
        hidden_size=run.hidden_size,
        num_hidden_layers=run.model.layers,
        id2label=dict(enumerate(data.label_names)),
        label2id={name: i for i, name in enumerate(data.label_names)},
        **data.model_inputs,
        **model,
    )


def _cell_options(run: RunSettings) -> dict[str, Any]:
    """What was asked for of what the cell knows; all else is the cell's own default."""
    asked: dict[str, Any] = {}
    if run.model.activation is not None:
        asked["activation"] = run.model.activation
    if run.model.reset_before:
        asked["reset_after"] = False
    if run.model.keep:
        asked["keep"] = True
    return {name: value for name, value in asked.items() if name in LAYERS[run.cell].options}


def build_model(run: RunSettings, data: TaskData) -> GatedRNNClassifier:
    """A new model, drawn from torch's random numbers."""
    head = GatedRNNForTokenClassification if data.label_at_every_step else GatedRNNForSequenceClassification
    return head(build_config(run, data))
