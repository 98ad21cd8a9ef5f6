"""What a run has left, and whether two runs left the same."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from gatedrnn.train.folder import read_metrics
from gatedrnn.train.loop import Progress


class Killed(BaseException):
    """Stands for the end of the process inside one test process."""


def killed_at(step: int) -> Callable[[Progress], None]:
    def on_step(progress: Progress) -> None:
        if progress.step == step:
            raise Killed

    return on_step


def outcome(folder: Path) -> tuple[dict[str, torch.Tensor], list, dict]:
    """Weights, metrics and result, without what is measured."""
    lines = [{k: v for k, v in line.items() if k != "measured"} for line in read_metrics(folder / "metrics.jsonl")]
    result = json.loads((folder / "result.json").read_text())
    return load_file(folder / "model" / "model.safetensors"), lines, {**result, "measured": None}


def assert_same_outcome(one: Path, other: Path) -> None:
    (weights, lines, result), (weights2, lines2, result2) = outcome(one), outcome(other)
    assert weights.keys() == weights2.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, weights2[name]), f"{name} differs"
    assert lines == lines2
    assert result == result2


def checkpoint_step(folder: Path) -> int:
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("checkpoint/step-*")), default=0)
