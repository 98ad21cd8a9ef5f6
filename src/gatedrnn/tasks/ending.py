"""The end of a run on labelled sequences, after its training."""

from collections.abc import Mapping
from pathlib import Path

from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.training.plain_part import end_beside_path
from gatedrnn.training.report import write_hardest
from gatedrnn.training.task import Ended, Ending


class LabelEnding(Ending):
    """The weight of a linear path beside the network is chosen, and the path alone is scored; the hardest examples of
    the test are shown."""

    def finish(self, models: Mapping[str, GatedRNNPreTrainedModel]) -> Ended:
        return Ended(self.trained.model, self.trained.model, end_beside_path(self.trained))

    @staticmethod
    def write(path: Path) -> None:
        write_hardest(path)
