"""A language model: the next token from those before it, in parallel over a text or one by one from a state."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.conventions import DOCUMENTS, OF_GENERATE, check_known, hidden_states_list, resets_of
from gatedrnn.models.modeling import GatedRNNModel, GatedRNNPreTrainedModel, KernelLinear
from gatedrnn.models.next_token import next_token_loss, token_losses
from gatedrnn.shapes import Flags


class GatedRNNForCausalLM(GatedRNNPreTrainedModel, GenerationMixin):
    """Scores of the next token at every step. `generate` carries a state whose size does not depend on the length."""

    _tied_weights_keys = {"lm_head.weight": "model.embeddings.map.weight"}
    _is_stateful = True  # decoding that would have to take tokens back is refused by transformers

    def __init__(self, config: GatedRNNConfig) -> None:
        if config.vocab_size is None:
            raise ValueError("a language model needs vocab_size")
        if config.bidirectional:
            raise ValueError("a language model reads forwards alone: set bidirectional=False")
        super().__init__(config)
        self.model = GatedRNNModel(config)
        core, width = self.model.output_size, config.embedding_size
        self.projection = nn.Identity() if core == width else KernelLinear(core, width, bias=False)
        self.head_dropout = nn.Dropout(config.head_dropout)
        self.lm_head: nn.Linear = KernelLinear(width, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.lm_head = value

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        past_key_values: GatedRNNCache | None = None, labels: Tensor | None = None, use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0, resets: Flags | None = None, inputs_embeds: Tensor | None = None,
        skip_logits: bool = False, **kwargs: Any,
    ) -> CausalLMOutputWithPast:  # fmt: skip
        """Logits (batch, time, vocab_size), and the state after the last token.

        Args:
            input_ids, attention_mask, past_key_values, resets, inputs_embeds: as in `GatedRNNModel.forward`.
            labels: (batch, time), the tokens themselves: each step predicts the token after it; -100 is ignored. The
                loss is the mean over labels.
            use_cache: whether to return the state where none was given; by default in `eval()`, as configured.
            logits_to_keep: for the last so many steps alone, or for those named; 0 for all.
            skip_logits: leave them out where there are labels: the loss takes one chunk of them at a time.
            kwargs: `shift_labels`, labels that are already shifted: that of a step is the token after it;
                `num_items_in_batch`, what the sum over labels is divided by, for the number of labels; `position_ids`
                or `seq_idx` of rows that hold several documents; `output_hidden_states`.

        Raises:
            TypeError: another keyword argument.
        """
        check_known(kwargs, (*DOCUMENTS, "shift_labels", "num_items_in_batch", "output_hidden_states"))
        if input_ids is not None and not input_ids.shape[1]:
            raise ValueError("input_ids holds no token: pass at least one, such as bos_token_id, which begins a text")
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        resets = resets_of(kwargs, resets, attention_mask)
        hidden_states = hidden_states_list(kwargs, self.config)
        shift_labels: Tensor | None = kwargs.get("shift_labels")
        self._set_form_of_gradient(input_ids, labels is not None or shift_labels is not None)
        states, cache = self.model.read(
            input_ids, attention_mask, None, past_key_values, use_cache, resets, inputs_embeds=inputs_embeds,
            hidden_states=hidden_states,
        )  # fmt: skip
        # 0 keeps all steps, since -0 is the first index.
        steps = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        hidden = self.head_dropout(self.projection(states[:, steps]))
        loss = logits = None
        if labels is not None and shift_labels is None:
            # The last step has no token after it.
            shift_labels = nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
        if shift_labels is None or not skip_logits:
            logits = self.lm_head(hidden)
        if shift_labels is not None:
            items = kwargs.get("num_items_in_batch")
            loss = next_token_loss(hidden, self.lm_head.weight, shift_labels, items, logits)
        return CausalLMOutputWithPast(
            loss=loss, logits=logits, past_key_values=cache,
            hidden_states=None if hidden_states is None else tuple(hidden_states),
        )  # fmt: skip

    def _set_form_of_gradient(self, input_ids: Tensor | None, has_loss: bool) -> None:
        """Let the gradient of a table that embedding and head share be of the read rows alone on the embedding's side,
        where the loss adds one of all rows: the sum is dense, and no pass over a large vocabulary is needed for it."""
        table = self.model.embeddings.map
        if isinstance(table, nn.Embedding) and not torch.compiler.is_compiling():
            shared = has_loss and table.weight is self.lm_head.weight
            table.sparse = shared and input_ids is not None and input_ids.numel() < table.num_embeddings

    def token_losses(
        self, input_ids: Tensor, shift_labels: Tensor, past_key_values: GatedRNNCache | None = None,
        resets: Flags | None = None,
    ) -> tuple[Tensor, GatedRNNCache]:  # fmt: skip
        """The cross-entropy of each label, (batch, time), and the state after them. Without gradients."""
        states, cache = self.model.read(input_ids, None, None, past_key_values, True, resets)
        assert cache is not None
        hidden = self.head_dropout(self.projection(states))
        return token_losses(hidden, self.lm_head.weight, shift_labels), cache

    def _prepare_attention_mask_for_generation(
        self, inputs_tensor: Tensor, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
    ) -> Tensor:
        """The mask of tokens that came without one. Where texts are padded with the token that begins them, that token
        says nothing about padding: transformers would hide it, and with it each line's end, from the state."""
        if self.config.is_boundary(generation_config.pad_token_id):
            return torch.ones_like(inputs_tensor)
        return super()._prepare_attention_mask_for_generation(inputs_tensor, generation_config, model_kwargs)

    def prepare_inputs_for_generation(self, input_ids: Tensor, **kwargs: Any) -> dict[str, object]:
        """The arguments of `forward` for the next token, without the tokenizers that `generate` reads itself and
        passes to it: `forward` refuses what it does not know.

        Args:
            input_ids, kwargs: as in transformers.
        """
        known = {name: value for name, value in kwargs.items() if name not in OF_GENERATE}
        return super().prepare_inputs_for_generation(input_ids, **known)

    def _prepare_cache_for_generation(
        self, generation_config: GenerationConfig, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        if generation_config.cache_implementation not in (None, "dynamic"):
            raise ValueError(
                f"cache_implementation {generation_config.cache_implementation!r} holds keys and values, and this "
                "model has a state of constant size; leave it out"
            )
        cache = model_kwargs.get("past_key_values")
        if cache is not None:
            if not isinstance(cache, GatedRNNCache):
                raise TypeError(f"past_key_values must be a GatedRNNCache, got {type(cache).__name__}")
            cache._is_user_defined = True
        elif generation_config.use_cache is not False:
            model_kwargs["past_key_values"] = GatedRNNCache(self.config)
