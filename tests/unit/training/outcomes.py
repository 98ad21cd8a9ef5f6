"""The files that a run has left, and whether two runs left the same."""

import json

import torch
from safetensors.torch import load_file

from gatedrnn.training.folder import read_metrics


class Killed(BaseException):
    """Stands for the end of the process inside one test process."""


def killed_at(step):
    def on_step(progress):
        if progress.step == step:
            raise Killed

    return on_step


def outcome(folder):
    """Weights, metrics and result, without what is measured."""
    lines = [{k: v for k, v in line.items() if k != "measured"} for line in read_metrics(folder / "metrics.jsonl")]
    result = json.loads((folder / "result.json").read_text())
    return load_file(folder / "model" / "model.safetensors"), lines, {**result, "measured": None}


def assert_same_outcome(one, other):
    (weights, lines, result), (weights2, lines2, result2) = outcome(one), outcome(other)
    assert weights.keys() == weights2.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, weights2[name]), f"{name} differs"
    assert lines == lines2
    assert result == result2


def checkpoint_step(folder):
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("checkpoint/step-*")), default=0)
