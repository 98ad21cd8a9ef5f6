"""A run whose labels are numbers: its scores by hand, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from gatedrnn.data import data_settings, load_task
from gatedrnn.models import GatedRNNForSequenceClassification
from gatedrnn.train.loop import run
from gatedrnn.train.settings import ModelSettings, RunSettings, TrainSettings


def adding(**train):
    return RunSettings(
        cell="mingru", hidden_size=16, threads=1, data=data_settings(task="adding", length=10, test_lengths=(15,)),
        model=ModelSettings(embedding_size=8), train=TrainSettings(total_steps=40, learning_rate=3e-2, **train),
    )  # fmt: skip


def test_the_scores_are_squared_error_and_the_share_of_near_answers(tmp_path: Path) -> None:
    settings = adding()
    result = run(settings, tmp_path / "run")
    model = GatedRNNForSequenceClassification.from_pretrained(tmp_path / "run" / "model").eval()
    assert model.config.problem_type == "regression" and model.config.num_labels == 1
    for split, examples in load_task(settings.data).evaluation.items():
        with torch.no_grad():
            answers = model(input_values=torch.from_numpy(np.stack(examples.inputs))).logits[:, 0].numpy()
        off = np.abs(answers - examples.labels)
        assert result.scores[split].loss == pytest.approx(float((off**2).mean()), rel=1e-4)
        assert result.scores[split].accuracy == pytest.approx(float((off < 0.04).mean()), abs=2e-3)
    assert result.scores["test"].loss < 1 / 6, "better than the best constant, whose error is the variance of the sum"
    assert "test at length 15" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_labels_that_are_numbers_cannot_be_smoothed() -> None:
    with pytest.raises(ValidationError, match="the loss of adding has none"):
        adding(label_smoothing=0.1)
