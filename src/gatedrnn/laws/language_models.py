"""Adapters of language models of transformers: how a model is called, and a small random one of each family."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gatedrnn.laws.errors import InvalidSubject, summary, unknown
from gatedrnn.laws.subject import Module, Note, SourceText, Subject, TextCall

_IMPORTS = "import torch, transformers"
_CACHES = ("past_key_values", "cache_params", "state")

_CALL = """def call(layer, x, state=None, mask=None):
    cache, seen = state or ({begin}, x[:, :0])
    seen = torch.cat([seen, torch.ones_like(x) if mask is None else mask.long()], 1)
    result = layer(x, {cache}=cache, attention_mask=seen, use_cache=True)
    return result.logits, ({after}, seen)"""
_UNMASKED = """def call(layer, x, state=None):
    result = layer(x, {cache}=state and state[0], use_cache=True)
    return result.logits, (result.{cache}, x[:, :0])"""
TRAINING = """def call(layer, x, state=None, mask=None):
    return layer(x, attention_mask=None if mask is None else mask.long(), use_cache=False).logits, None"""
_TRAINING_UNMASKED = """def call(layer, x, state=None):
    return layer(x, use_cache=False).logits, None"""
DOCUMENTS = """def call(layer, x, state=None, resets=None):
    if resets is None:
        return layer(x).logits, None
    cuts = [0, *resets[0].nonzero()[:, 0].tolist(), x.shape[1]]
    lengths, ends = torch.tensor(cuts).diff(), torch.tensor(cuts, dtype=torch.int32)
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    numbers = torch.arange(len(lengths)).repeat_interleave(lengths)[None].int()
    return layer(x, position_ids=positions, cu_seq_lens_q=ends, cu_seq_lens_k=ends, seq_idx=numbers).logits, None"""
"""The call with documents in one row, as transformers' DataCollatorWithFlattening hands them over."""


TESTED = "5.23.0"
"""The version of transformers of which `_UNSUPPORTED` and `_FAMILIES` are declared, and held by the tests."""

_RIGHT_PADDING = Note("generation warns of padding on the right, and asks for the left", f"transformers {TESTED}")
_FLATTENED = Note("documents in one row are left to the attention's code to keep apart", f"transformers {TESTED}")
_UNSUPPORTED: Mapping[str, Note] = {
    "on after padding on the right": _RIGHT_PADDING, "resets": _FLATTENED, "resets, gradients": _FLATTENED,
}  # fmt: skip
"""Uses that the library does not support for any family, by the name of the law."""

VOCABULARY, CHUNK = 64, 16
_BASE: dict[str, Any] = dict(
    vocab_size=VOCABULARY, hidden_size=32, initializer_range=0.2, pad_token_id=None, bos_token_id=None,
    eos_token_id=None,
)  # fmt: skip
_ATTENTION = _BASE | dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
_DENSE = _ATTENTION | dict(intermediate_size=64)
_ALL_KEYS = _DENSE | dict(num_key_value_heads=4)
_EXPERTS = dict(moe_intermediate_size=64, num_experts=4, num_experts_per_tok=2)
_MAMBA = _BASE | dict(num_hidden_layers=2, intermediate_size=64, state_size=8, time_step_rank=4)
_MAMBA2 = dict(mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=CHUNK, mamba_d_head=8, mamba_n_heads=8)
_DELTA = dict(
    head_dim=8, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
    layer_types=["linear_attention", "full_attention"],
)  # fmt: skip
_LATENT = _ALL_KEYS | dict(
    moe_intermediate_size=64, num_experts=4, num_experts_per_token=2, kv_lora_rank=32, qk_rope_head_dim=8,
    qk_nope_head_dim=8, qk_head_dim=16, v_head_dim=8, num_expert_group=1, topk_group=1, head_dim=8, linear_head_dim=8,
    linear_num_heads=4, layer_types=["linear_attention", "linear_attention", "full_attention"],
    mlp_layer_types=["dense", "sparse", "sparse"], num_hidden_layers=3,
)  # fmt: skip
_INKLING = _ATTENTION | dict(
    head_dim=8, swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=8, sliding_window_size=16,
    moe_intermediate_size=64, n_routed_experts=4, num_experts_per_tok=2, layer_types=["hybrid_sliding", "hybrid"],
)  # fmt: skip

_FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "bailing_hybrid": _LATENT,
    "bamba": _DENSE | _MAMBA2 | dict(attn_layer_indices=[1]),
    "falcon_h1": _DENSE | _MAMBA2 | dict(mamba_d_ssm=64),
    "falcon_mamba": _MAMBA,
    "granitemoehybrid": _ALL_KEYS | _MAMBA2 | dict(
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=64,
        layer_types=["linear_attention", "full_attention"],
    ),
    "inkling2_text": _INKLING | dict(unpadded_vocab_size=VOCABULARY),
    "inkling_text": _INKLING | dict(intermediate_size=64, mlp_layer_types=["sparse", "sparse"]),
    "jamba": _DENSE | dict(
        num_experts=4, num_experts_per_tok=2, mamba_d_state=8, mamba_dt_rank=4, attn_layer_period=2,
        attn_layer_offset=1,
    ),
    "kimi_linear": _LATENT,
    "lfm2": _DENSE | dict(layer_types=["conv", "full_attention"]),
    "lfm2_moe": _DENSE | _EXPERTS | dict(layer_types=["conv", "full_attention"]),
    "lfm3": _DENSE | dict(
        head_dim=8, sliding_window=16, layer_types=["conv", "full_attention", "sliding_attention"],
        num_hidden_layers=3,
    ),
    "mamba": _MAMBA,
    "mamba2": _BASE | dict(
        num_hidden_layers=2, num_heads=8, head_dim=8, state_size=8, n_groups=1, time_step_rank=4, chunk_size=CHUNK,
    ),
    "nemotron_h": _BASE | dict(
        intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=8, ssm_state_size=8, n_groups=1,
        chunk_size=CHUNK, n_routed_experts=4, moe_intermediate_size=64, moe_shared_expert_intermediate_size=64,
        num_experts_per_tok=2, n_group=1, topk_group=1, mamba_head_dim=8, mamba_num_heads=8,
        layers_block_type=["linear_attention", "moe", "full_attention", "mlp"],
    ),
    "olmo_hybrid": _ALL_KEYS | dict(
        linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
    "qwen3_5_moe_text": _ATTENTION | _DELTA | _EXPERTS | dict(shared_expert_intermediate_size=64),
    "qwen3_5_text": _DENSE | _DELTA,
    "qwen3_next": _DENSE | _DELTA | _EXPERTS | dict(shared_expert_intermediate_size=64),
    "qwen4_exp_text": _ATTENTION | _DELTA | _EXPERTS | dict(
        shared_expert_intermediate_size=64, ple_embed_dim=32, ngram_vocab_size_base=VOCABULARY, indexer_n_heads=2,
        indexer_kv_heads=1, indexer_head_dim=8, indexer_budget=64, indexer_compress_ratio=2,
        layer_types=["linear_attention", "indexed_attention"],
    ),
    "recurrent_gemma": _ALL_KEYS | dict(num_hidden_layers=3, lru_width=32, attention_window_size=16, head_dim=8),
    "rwkv": _BASE | dict(num_hidden_layers=2, intermediate_size=64, attention_hidden_size=32),
    "xlstm": _BASE | dict(
        num_hidden_layers=2, hidden_size=128, embedding_dim=128, num_heads=4, chunk_size=CHUNK, num_blocks=2,
    ),
    "zamba": _ALL_KEYS | dict(
        attention_head_dim=16, attention_hidden_size=64, mamba_d_state=8, mamba_dt_rank=4, attn_layer_period=2,
        attn_layer_offset=1, layers_block_type=["linear_attention", "hybrid", "linear_attention", "hybrid"],
        num_hidden_layers=4,
    ),
    "zamba2": _ALL_KEYS | dict(
        attention_head_dim=16, attention_hidden_size=64, kv_channels=8, num_query_groups=4, adapter_rank=4,
        mamba_d_state=8, mamba_ngroups=1, mamba_headdim=8, n_mamba_heads=8, chunk_size=CHUNK,
        layers_block_type=["linear_attention", "hybrid"],
    ),
    "zaya": _ATTENTION | dict(
        moe_intermediate_size=64, num_experts=4, num_experts_per_tok=1, head_dim=8, router_hidden_size=64,
        layer_types=["hybrid", "hybrid"],
    ),
}  # fmt: skip
"""The fields of a configuration that make a small model, by model type."""


def is_language_model(module: object) -> bool:
    """Whether a module is a causal language model of transformers; imports nothing that its maker has not."""
    return any(cls.__name__ == "GenerationMixin" for cls in type(module).__mro__)


def of_model(model: Module, name: str) -> Subject:
    """Return the subject of a language model: its cache, its mask, and its generation."""
    parameters = inspect.signature(type(model).forward).parameters
    key, masked = next((key for key in _CACHES if key in parameters), None), "attention_mask" in parameters
    if key is None:
        raise InvalidSubject(f"{type(model).__name__} takes no cache: it is no recurrent model that verify knows")
    with torch.no_grad():
        # A trial call: only its result tells whether a model returns its cache.
        result = model(torch.zeros(1, 2, dtype=torch.long), use_cache=True)
    if not masked:
        text = _UNMASKED.format(cache=key)
    elif getattr(result, key, None) is None:  # it keeps the cache that it is given
        text = _CALL.format(cache=key, begin="transformers.DynamicCache(config=layer.config)", after="cache")
    else:
        text = _CALL.format(cache=key, begin="None", after=f"result.{key}")
    # What the collator of documents hands over is passed by name, or as keywords.
    flattened = {"position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "seq_idx"} <= parameters.keys()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    others = {"resets": DOCUMENTS} if flattened or takes_any else {}
    others |= {"training": TRAINING if masked else _TRAINING_UNMASKED}
    has = {
        "mask": masked, "prefill": key == "past_key_values",
        "reorder": key == "past_key_values" or hasattr(getattr(result, key, None), "reorder_cache"),
    }  # fmt: skip
    return Subject(
        model, TextCall(text, _IMPORTS), vocabulary=int(model.config.get_text_config().vocab_size), name=name,
        entry=f"{type(model).__name__}({key}=…)", generate=generate, notes=_UNSUPPORTED, block=CHUNK,
        takes=frozenset({"state", "opaque", "generate", *(ability for ability, holds in has.items() if holds)}),
        others={use: TextCall(other, _IMPORTS) for use, other in others.items()},
    )  # fmt: skip


def generate(model: Module, prompts: Tensor, mask: Tensor | None = None, new: int = 6, **options: int) -> Tensor:
    """Write tokens greedily, and never stop before there are enough."""
    mask = torch.ones_like(prompts) if mask is None else mask.long()
    return model.generate(
        prompts, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=0, eos_token_id=None, **options
    )


def families() -> tuple[str, ...]:
    """Return the declared model types that the installed transformers has."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(kind for kind in _FAMILIES if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def family(kind: str) -> Subject:
    """Return a small random model of one type.

    Raises:
        InvalidSubject: there is no such type, it is not declared to recur, or the installed version makes none of it.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    transformers.logging.set_verbosity_error()
    if "/" in kind:
        raise InvalidSubject(f"{kind} names weights to download, and verify makes small random ones: name a model type")
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise unknown("causal language model in transformers", kind, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    if kind not in _FAMILIES:
        raise InvalidSubject(
            f"{kind} is not among the families that recur in transformers {TESTED}: {', '.join(_FAMILIES)}; "
            "name a function that makes another: FILE.py:FUNCTION"
        )
    fields = ", ".join(f"{key}={value!r}" for key, value in _FAMILIES[kind].items())
    configuration = f"transformers.{CONFIG_MAPPING[kind].__name__}({fields})"
    source = SourceText(_IMPORTS, f"layer = transformers.AutoModelForCausalLM.from_config({configuration})")
    try:
        subject = of_model(source.make(), f"transformers:{kind}")
    except InvalidSubject:
        raise
    except Exception as error:  # of any kind: the library is not ours
        has = transformers.__version__
        raise InvalidSubject(
            f"{kind} is declared for transformers {TESTED}, and {has} does not make it: {summary(error)}"
        ) from error
    return replace(subject, source=source, width=_FAMILIES[kind]["hidden_size"])
