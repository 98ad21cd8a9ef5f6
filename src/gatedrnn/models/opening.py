"""Models and tokenizers out of folders. Nothing in a folder is run: our own classes read safetensors and JSON."""

from pathlib import Path
from typing import TypeVar

from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from gatedrnn.models.causal_lm import GatedRNNForCausalLM
from gatedrnn.models.forecasting import GatedRNNForForecasting
from gatedrnn.models.modeling import (
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNPreTrainedModel,
)

HEADS = {
    "sequence": GatedRNNForSequenceClassification, "step": GatedRNNForTokenClassification, "next": GatedRNNForCausalLM,
    "future": GatedRNNForForecasting,
}  # fmt: skip
"""The classes of models by the unit of their labels."""
Model = TypeVar("Model", bound=GatedRNNPreTrainedModel)


def open_model(kind: type[Model], place: Path) -> Model:
    """A folder's model as a `kind` of ours, in `eval()`.

    Python files, pickled weights and other repositories that the folder names (`auto_map`, `custom_generate`, adapters)
    are never read or asked for.

    Raises:
        Exception: of many kinds, as transformers raises them for a torn or foreign folder.
    """
    disable_progress_bar()
    # `local_files_only`: a folder may name a repository, whose files would be fetched.
    model = kind.from_pretrained(place, trust_remote_code=False, local_files_only=True, use_safetensors=True)
    return model.eval()


def open_tokenizer(place: Path) -> PreTrainedTokenizerFast:
    """A folder's tokenizer; raises as `open_model` does.

    Not by AutoTokenizer, which asks whether to run the folder's own class, and would read the answer from a pipe.
    """
    return PreTrainedTokenizerFast.from_pretrained(place, trust_remote_code=False, local_files_only=True)
