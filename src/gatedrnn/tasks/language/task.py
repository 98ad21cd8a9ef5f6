"""Language modelling as a task."""

from typing import TYPE_CHECKING, Any, cast

from gatedrnn.data.registry import Recipe
from gatedrnn.records import Json
from gatedrnn.tasks.language.settings import LanguageSettings
from gatedrnn.training.task import Chosen, Task

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.nn import Module

    from gatedrnn.data import Lanes
    from gatedrnn.data.task import Split, TaskData
    from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM
    from gatedrnn.models.modeling import GatedRNNPreTrainedModel
    from gatedrnn.tasks.language.answering import TextAnswering
    from gatedrnn.tasks.language.ending import TextEnding
    from gatedrnn.training.baseline import Baselines
    from gatedrnn.training.metrics import Evaluation
    from gatedrnn.training.objective import Objective
    from gatedrnn.training.settings import RunSettings, TrainSettings


# Methods import what they need, see LabelledTask.
class LanguageTask(Task[LanguageSettings]):
    """Running text, each token predicted from those before it."""

    settings = LanguageSettings
    recipe = Recipe(
        {
            "contenders": {"hidden_size": 256},
            "data": {
                "tokenizer": "characters", "min_count": 1, "length": 128, "validation_fraction": 0.05,
                "test_fraction": 0.05,
            },
            "model": {"layers": 3, "embedding_size": 128, "block": True, "dropout": 0.1},
            "train": {"epochs": 8, "batch_size": 16, "learning_rate": 4e-3, "clip": 1.0},
        }
    )  # fmt: skip

    def read(self, settings: LanguageSettings) -> "TaskData":
        from gatedrnn.tasks.language.read import load_language_model

        return load_language_model(settings)

    def chosen(self, data: "TaskData", *, explain: bool = False) -> dict[str, Chosen]:
        return {}

    def model_class(self, data: "TaskData") -> "type[GatedRNNForCausalLM]":
        from gatedrnn.models import GatedRNNForCausalLM

        return GatedRNNForCausalLM

    def configuration(self, run: "RunSettings", data: "TaskData") -> dict[str, Json]:
        # What replaces cells has no state that goes on: it reads as far back as training did.
        return {} if run.backbone is None else {"window": cast(Any, data.train).length}

    def fill(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        from gatedrnn.data.tokenizers import is_by_line

        if is_by_line(data.tokenizer):
            model.generation_config.eos_token_id = None  # it ends a line, not the text

    def begin(self, model: "GatedRNNPreTrainedModel", run: "RunSettings", data: "TaskData") -> None:
        """Leave the model as it is."""

    def objective(self, data: "TaskData", config: "GatedRNNConfig", train: "TrainSettings") -> "Objective":
        from gatedrnn.tasks.language.objective import language_objective

        return language_objective(data, config)

    def evaluate(self, model: "Module", split: "Split", accelerator: "Accelerator") -> "Evaluation":
        from gatedrnn.tasks.language.scores import evaluate_text

        return evaluate_text(cast("GatedRNNForCausalLM", model), cast("Lanes", split))

    def answering(self) -> "type[TextAnswering]":
        from gatedrnn.tasks.language.answering import TextAnswering

        return TextAnswering

    def baselines(self, data: "TaskData", threads: int, refits: int | None = None) -> "Baselines":
        from gatedrnn.tasks.language.baselines import language_baselines
        from gatedrnn.training.baseline import baselines_of

        return baselines_of(language_baselines(data), data)

    def ending(self) -> "type[TextEnding]":
        from gatedrnn.tasks.language.ending import TextEnding

        return TextEnding
