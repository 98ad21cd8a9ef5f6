"""From the settings of a run to its model."""

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
    options = {
        "activation": run.model.activation, "reset_after": not run.model.reset_before, "keep": run.model.keep,
    }  # fmt: skip
    return GatedRNNConfig(
        cell=run.cell,
        cell_options={name: value for name, value in options.items() if name in LAYERS[run.cell].options},
        hidden_size=run.hidden_size,
        num_hidden_layers=run.model.layers,
        id2label=dict(enumerate(data.label_names)),
        label2id={name: i for i, name in enumerate(data.label_names)},
        **data.model_inputs,
        **model,
    )


def build_model(run: RunSettings, data: TaskData) -> GatedRNNClassifier:
    """A new model, drawn from torch's random numbers."""
    head = GatedRNNForTokenClassification if data.label_at_every_step else GatedRNNForSequenceClassification
    return head(build_config(run, data))
