"""Models and tokenizers out of folders. Nothing in a folder is run: our own classes read safetensors and JSON."""

from pathlib import Path
from typing import NamedTuple, TypeVar

from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from gatedrnn.errors import DataError, is_panic, reason
from gatedrnn.models.causal_lm import GatedRNNForCausalLM
from gatedrnn.models.forecasting import GatedRNNForForecasting
from gatedrnn.models.modeling import (
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNPreTrainedModel,
)
from gatedrnn.models.weights import check_weights

AUTO_CLASSES = {
    GatedRNNForSequenceClassification: "AutoModelForSequenceClassification",
    GatedRNNForTokenClassification: "AutoModelForTokenClassification",
    GatedRNNForCausalLM: "AutoModelForCausalLM",
    GatedRNNForForecasting: "AutoModelForTimeSeriesPrediction",
}
"""The class of transformers that opens a folder, by the class of its model, of which there are these."""
PIPELINES = {
    GatedRNNForSequenceClassification: "text-classification",
    GatedRNNForTokenClassification: "token-classification",
    GatedRNNForCausalLM: "text-generation",
}
"""The pipelines of models with a tokenizer."""


class Finished(NamedTuple):
    """A model that was trained, in `eval()`."""

    model: GatedRNNPreTrainedModel
    tokenizer: PreTrainedTokenizerFast | None
    """The tokenizer; None where the model reads numbers, or tokens that are numbers already."""
    task: str
    """The name of the task that it was trained on."""


Model = TypeVar("Model", bound=GatedRNNPreTrainedModel)


def open_model(kind: type[Model], place: Path) -> Model:
    """A folder's model as a `kind` of ours, in `eval()`.

    Python files, pickled weights and other repositories that the folder names (`auto_map`, `custom_generate`, adapters)
    are never read or asked for.

    Raises:
        DataError: its weights are not those of its configuration.
        Exception: of many kinds, as transformers raises them for a torn or foreign folder.
    """
    disable_progress_bar()
    check_weights(kind, place)
    # `local_files_only`: a folder may name a repository, whose files would be fetched.
    model = kind.from_pretrained(place, trust_remote_code=False, local_files_only=True, use_safetensors=True)
    return model.eval()


def open_both(kind: type[Model], place: Path) -> tuple[Model, PreTrainedTokenizerFast | None]:
    """A folder's model as a `kind` of ours, and its tokenizer if it has one.

    Raises:
        DataError: it cannot be loaded, or its model, its tokenizer and its configuration do not go together.
    """
    try:
        tokenizer = open_tokenizer(place) if (place / "tokenizer.json").exists() else None
        model = open_model(kind, place)
        if tokenizer is not None:
            check_ids(tokenizer, model, place)
    except DataError:
        raise
    except BaseException as error:  # the libraries raise many kinds for a torn or foreign folder
        # A panic in the Rust code of tokenizers derives from BaseException.
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise DataError(f"{place}: cannot be loaded: {reason(error)}") from error
    return model, tokenizer


def check_ids(tokenizer: PreTrainedTokenizerFast, model: GatedRNNPreTrainedModel, place: Path) -> None:
    """Check that every token number that a tokenizer gives has a row in its model's embedding.

    Raises:
        DataError: one has none.
    """
    config = model.config
    if config.vocab_size is None:
        raise DataError(f"{place}: has a tokenizer, and its model reads numbers; remove its tokenizer.json")
    added = tokenizer.backend_tokenizer.encode("").ids
    largest = max([*tokenizer.get_vocab().values(), *added], default=0)
    if largest >= config.vocab_size:
        raise DataError(f"{place}: its tokenizer has ids to {largest:,}, its model {config.vocab_size:,}")
    for name in ("pad_token_id", "unk_token_id", "bos_token_id", "eos_token_id"):
        number = getattr(config, name)
        if isinstance(number, int) and not 0 <= number < config.vocab_size:
            raise DataError(
                f"{place}: {name} of its config.json is {number:,}, and its model has {config.vocab_size:,}"
            )


def open_tokenizer(place: Path) -> PreTrainedTokenizerFast:
    """A folder's tokenizer; raises as `open_model` does.

    Not by AutoTokenizer, which asks whether to run the folder's own class, and would read the answer from a pipe.
    """
    return PreTrainedTokenizerFast.from_pretrained(place, trust_remote_code=False, local_files_only=True)
