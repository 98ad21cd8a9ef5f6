"""A run's model as it was before the first step of its training."""

from pathlib import Path

import torch

from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.training.finished import data_of
from gatedrnn.training.folder import RunFolder


def untrained_model(folder: Path) -> GatedRNNPreTrainedModel:
    """The model that a run began with: drawn from its seed, and with the parts that are fitted before training.

    Raises:
        DataError: it is no run's folder, or its data have changed since.
        Damaged: its settings or its record of the data are not as they were written.
    """
    # The parts of a training, which a page of trained models does without.
    from gatedrnn.training.model import build_model
    from gatedrnn.training.task import task_named

    run = RunFolder(folder)
    data, settings = data_of(run), run.settings()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(settings.seed)
        model = build_model(settings, data)
        task_named(data.name).begin(model, settings, data)
    return model
