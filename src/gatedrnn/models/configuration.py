"""The configuration of all gatedrnn models."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from gatedrnn.layers import LAYERS

POOLINGS = ("last", "mean", "max")


@strict
class GatedRNNConfig(PreTrainedConfig):
    """Structure of a gated recurrent model.

    Args:
        cell: the cell's name, as on the command line.
        activation: candidate activation of `minlstm` and `mingru`: "g" or "identity"; others have none.
        vocab_size: tokens that the embedding knows; None for a model that reads numbers instead of tokens.
        input_size: numbers per step, where `vocab_size` is None.
        embedding_size: width of the embedding, or of the linear map that takes its place for numbers. With `block`
            it is the width of the model.
        hidden_size: channels of each layer's state.
        num_hidden_layers: recurrent layers.
        block: each layer becomes a residual block: normalisation, cell, projection back to `embedding_size`, then
            normalisation and a feed-forward network.
        feed_forward_factor: inner width of that network in units of `embedding_size`.
        token_dropout: probability with which a whole token becomes `unk_token_id`, in training.
        embedding_dropout, dropout, head_dropout: on the embedding, between layers, before the head; in training.
        pooling: what a sequence classifier reads: the output at the "last" valid step, or the "mean" or "max" over
            the valid steps.
    """

    model_type = "gatedrnn"

    cell: str = "mingru"
    activation: str = "g"
    vocab_size: int | None = None
    input_size: int | None = None
    embedding_size: int = 64
    hidden_size: int = 128
    num_hidden_layers: int = 1
    block: bool = False
    feed_forward_factor: int = 2
    token_dropout: float = 0.0
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    head_dropout: float = 0.0
    pooling: str = "last"
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)

    def validate_structure(self) -> None:
        """The rules beyond types; called when a configuration, and when a model is made.

        Raises:
            ValueError: a name that does not exist, a size below 1, a probability outside [0, 1), or inputs unclear.
        """
        if self.cell not in LAYERS:
            raise ValueError(f"cell must be one of {', '.join(LAYERS)}, got {self.cell!r}")
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {self.pooling!r}")
        for name in ("token_dropout", "embedding_dropout", "dropout", "head_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        for name in ("embedding_size", "hidden_size", "num_hidden_layers", "feed_forward_factor"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.vocab_size is not None and self.input_size is not None:
            raise ValueError("give vocab_size (a model that reads tokens) or input_size (numbers), not both")
