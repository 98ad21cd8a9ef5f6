"""Training runs: settings, loop, checkpoints."""

from gatedrnn.train.checkpoint import CheckpointDamaged
from gatedrnn.train.folder import FolderTaken, RunFolder
from gatedrnn.train.loop import Interrupted, NonFiniteLoss, run
from gatedrnn.train.settings import RECIPES, ModelSettings, RunSettings, TrainSettings

__all__ = [
    "RECIPES", "CheckpointDamaged", "FolderTaken", "Interrupted", "ModelSettings", "NonFiniteLoss", "RunFolder",
    "RunSettings", "TrainSettings", "run",
]  # fmt: skip
