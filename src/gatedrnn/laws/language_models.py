"""Ways in for language models of transformers: small random ones of every family that recurs, and how they are called.

Families come from the registry of the installed version, and a small configuration from the names of its fields.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatedrnn.errors import UsageError, reason, unknown
from gatedrnn.laws.subject import Call, Module, Note, SourceText, Subject, made, made_call

IMPORTS = "import torch, transformers"
WIDTHS = (32, 128)
"""Model widths: the first with which a family runs."""
VOCABULARY, BLOCK, WINDOW = 64, 16, 16
CACHES = ("past_key_values", "cache_params", "state")
RECURS = re.compile(r"recurrent_state|conv_state|rnn_state|state: list\[")
"""Names in the source of a family that recurs: the tensors of a state whose size does not grow."""

CALL = """def call(layer, x, state=None, mask=None):
    cache, seen = state or ({begin}, x[:, :0])
    seen = torch.cat([seen, torch.ones_like(x) if mask is None else mask.long()], 1)
    result = layer(x, {cache}=cache, attention_mask=seen, use_cache=True)
    return result.logits, ({after}, seen)"""
UNMASKED = """def call(layer, x, state=None):
    result = layer(x, {cache}=state and state[0], use_cache=True)
    return result.logits, (result.{cache}, x[:, :0])"""
TRAINING = """def call(layer, x, state=None, mask=None):
    return layer(x, attention_mask=None if mask is None else mask.long(), use_cache=False).logits, None"""
TRAINING_UNMASKED = """def call(layer, x, state=None):
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


def is_language_model(module: object) -> bool:
    """Whether a module is a causal language model of transformers; imports nothing that its maker has not."""
    return any(cls.__name__ == "GenerationMixin" for cls in type(module).__mro__)


def of_model(model: Module, name: str) -> Subject:
    """Return the subject of a language model: its cache, its mask, and its generation."""
    config = model.config.get_text_config()
    return _subject(model, name, None, int(config.vocab_size))


def _subject(model: Any, name: str, source: SourceText | None, vocabulary: int) -> Subject:
    text = _call_text(model)
    call = made_call(text, IMPORTS)
    module = model if source is None else made(source._replace(call=text))[0]
    parameters = inspect.signature(type(model).forward).parameters
    key = next(key for key in CACHES if key in parameters)
    takes = {"state", "opaque", "generate"} | ({"mask"} if "attention_mask" in parameters else set())
    cannot = {"mask": "its forward has no attention_mask"}
    with torch.no_grad():
        state = call(module, torch.zeros(1, 2, dtype=torch.long))[1][0]
    if hasattr(state, "reorder_cache"):
        takes.add("reorder")
    if key == "past_key_values":
        takes.add("prefill")
    return Subject(
        module, call, vocabulary=vocabulary, name=name, entry=f"{type(model).__name__}({key}=…)",
        takes=frozenset(takes), cannot=cannot, notes=_notes(model, "attention_mask" in parameters), generate=generate,
        source=None if source is None else source._replace(call=text), block=BLOCK,
        others=_others(parameters),
    )  # fmt: skip


def _others(parameters: Any) -> dict[str, tuple[str, Call]]:
    """Return the calls without a cache: of training, and of documents in one row."""
    texts = {"resets": DOCUMENTS} if _flattened(parameters) else {}
    texts |= {"training": TRAINING if "attention_mask" in parameters else TRAINING_UNMASKED}
    return {use: (text, made_call(text, IMPORTS)) for use, text in texts.items()}


def _flattened(parameters: Any) -> bool:
    """Whether a forward takes what the collator hands over."""
    named = {"position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "seq_idx"} <= parameters.keys()
    return named or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _call_text(model: Any) -> str:
    """Return the text of the call: where the cache goes in and comes out, and the mask of all steps so far."""
    parameters = inspect.signature(type(model).forward).parameters
    key = next((key for key in CACHES if key in parameters), None)
    if key is None:
        raise UsageError(f"{type(model).__name__} takes no cache: it is no recurrent model that verify knows")
    if "attention_mask" not in parameters:
        return UNMASKED.format(cache=key)
    with torch.no_grad():
        result = model(torch.zeros(1, 2, dtype=torch.long), use_cache=True)
    if getattr(result, key, None) is None:  # it keeps the cache that it is given
        return CALL.format(cache=key, begin="transformers.DynamicCache(config=layer.config)", after="cache")
    return CALL.format(cache=key, begin="None", after=f"result.{key}")


def generate(model: Module, prompts: Tensor, mask: Tensor | None = None, new: int = 6, **options: int) -> Tensor:
    """Write tokens greedily, and never stop before there are enough."""
    mask = torch.ones_like(prompts) if mask is None else mask.long()
    return model.generate(
        prompts, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=0, eos_token_id=None, **options
    )


def _notes(model: Any, masked: bool) -> dict[str, Note]:
    """Return what the installed version's own text calls unsupported."""
    from transformers.generation import utils

    found = {}
    right = _sentence(utils, "right-padding was detected")
    if right is not None:
        found["on after padding on the right"] = right
    module = inspect.getmodule(type(model))
    unused = None if module is None else _sentence(module, "This is currently not used")
    if masked and unused is not None:
        for law in ("padded on the left", "padded on the right", "rows of unequal length, right",
                    "rows of unequal length, left", "on after padding on the right", "on after padding on the left",
                    "generate, padded on the left"):  # fmt: skip
            found[law] = unused
    from transformers.data import data_collator

    flat = _sentence(data_collator, "will flatten the entire mini batch")
    if flat is not None:
        found |= {"resets": flat, "resets, gradients": flat}
    return found


def _sentence(module: Any, words: str) -> Note | None:
    """Return the lines of a module around some words, as one sentence, and where they stand."""
    try:
        lines = inspect.getsource(module).splitlines()
    except (OSError, TypeError):  # of a notebook, or of a compiled module
        return None
    for number, line in enumerate(lines):
        if words in line:
            text = " ".join(part.strip().strip('"') for part in lines[number : number + 2])
            place = f"{module.__name__.replace('.', '/')}.py, line {number + 1}"
            return Note(" ".join(text.split()).rstrip(" )"), place)
    return None


def _recurs(kind: str) -> bool:
    """Whether the source of a model type names a state whose size does not grow."""
    import transformers
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    folder = Path(transformers.__file__).parent / "models" / model_type_to_module_name(kind)
    return any(RECURS.search(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("modeling_*.py")))


@cache
def families() -> tuple[str, ...]:
    """Return the model types of the installed transformers that recur and have a causal language model."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    by_class: dict[str, str] = {}
    for kind, classes in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        name = classes if isinstance(classes, str) else classes[0]
        # Of two types with one class, the one whose configuration is the text model's own.
        if (name not in by_class or kind.endswith("_text")) and _recurs(kind):
            by_class[name] = kind
    return tuple(sorted(by_class.values()))


def family(kind: str) -> Subject:
    """Return a small random model of one type.

    Raises:
        UsageError: there is no such type, or none that is small can be made of it.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    transformers.logging.set_verbosity_error()
    if "/" in kind:
        raise UsageError(f"{kind} names weights to download, and verify makes small random ones: name a model type")
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise UsageError(unknown("causal language model in transformers", kind, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    if not _recurs(kind):
        raise UsageError(
            f"{kind} does not recur: its cache holds every step; families that do: {', '.join(families())}"
        )
    config_class = CONFIG_MAPPING[kind]
    faults = []
    for fields in _small_configurations(config_class):
        said = ", ".join(f"{key}={value!r}" for key, value in fields.items())
        source = SourceText(
            IMPORTS,
            f"layer = transformers.AutoModelForCausalLM.from_config(transformers.{config_class.__name__}({said}))",
            "",
        )
        try:
            model, _ = made(source._replace(call="call = None"))
            with torch.no_grad():
                model(torch.zeros(2, 9, dtype=torch.long), use_cache=True)
            return replace(_subject(model, f"transformers:{kind}", source, VOCABULARY), width=fields.get("hidden_size"))
        except UsageError:
            raise
        except Exception as error:
            faults.append(f"{type(error).__name__}: {reason(error)}")
    raise UsageError(f"{kind}: no small configuration runs here ({faults[0]})")


def _small_configurations(config_class: Any) -> Iterator[dict[str, Any]]:
    """Yield small values for the fields of a configuration, the likeliest to run first."""
    try:
        full = config_class().to_dict()
    except Exception as error:
        raise UsageError(f"{config_class.__name__} has no defaults: {reason(error)}") from error
    for width, times in product(WIDTHS, (1, 2)):
        yield _small(full, width, times)


def _small(full: dict[str, Any], width: int, times: int = 1) -> dict[str, Any]:
    """Return small values for those fields of a configuration that say how large a model is."""
    inner = width * int(full.get("expand") or full.get("mamba_expand") or 2)
    fields: dict[str, Any] = {}
    for key, value in full.items():
        if isinstance(value, bool):
            continue
        if value is None and key in ABSENT:
            fields[key] = ABSENT[key]
        for pattern, size in SIZES:
            if re.fullmatch(pattern, key) and isinstance(value, int | float):
                fields[key] = size(value, width, inner) if callable(size) else size
                break
        if re.fullmatch(r"(pad|bos|eos)_token_id", key) and value is not None:
            fields[key] = None
    if full.get("attention_hidden_size"):  # of Zamba, twice the model's
        fields["attention_hidden_size"] = width * max(1, full["attention_hidden_size"] // full["hidden_size"])
    for key, name in (
        ("num_key_value_heads", "num_attention_heads"),
        ("linear_num_key_heads", "linear_num_value_heads"),
    ):
        if full.get(key) is not None and full.get(key) == full.get(name):
            fields[key] = fields[name]
    if "mamba_headdim" in full or "mamba_d_head" in full or "mamba_head_dim" in full:
        for key in ("mamba_headdim", "mamba_d_head", "mamba_head_dim"):
            fields |= {key: inner // 8} if key in full else {}
        for key in ("n_mamba_heads", "mamba_n_heads", "mamba_num_heads"):
            fields |= {key: 8} if key in full else {}
    elif "expand" in full and "num_heads" in full:
        fields |= {"num_heads": 8, "head_dim": inner // 8}
    return fields | _layers(full, times)


def _layers(full: dict[str, Any], times: int) -> dict[str, Any]:
    """Return the fewest layers that hold so many times every kind that the configuration names, at least two."""
    lists = {
        key: value for key, value in full.items()
        if re.fullmatch(r"(mlp_)?layer_types|layers_block_type", key) and isinstance(value, list) and value
    }  # fmt: skip
    fields: dict[str, Any] = {}
    if "layer_types" in full and not lists.get("layer_types"):
        lists["layer_types"] = ["conv", "full_attention"]
    count = 2
    if lists:
        length = max(len(value) for value in lists.values())
        chosen: list[int] = []
        seen: set[str] = set()
        for place in range(length):
            kinds = {f"{key} {value[place]}" for key, value in lists.items() if len(value) == length}
            if not kinds <= seen:
                chosen.append(place)
                seen |= kinds
        for key, value in lists.items():
            if len(value) == length:
                kinds_of = [value[place] for place in chosen]
                fields[key] = kinds_of * (2 if len(chosen) == 1 else times)
        if set(fields.get("layer_types", ())) == {"linear_attention"}:
            fields["layer_types"] = ["linear_attention", "full_attention"]
        count = max(2, len(chosen) * times)
    if isinstance(full.get("block_types"), list):
        count = len(full["block_types"])
    if "attn_layer_indices" in full:
        fields["attn_layer_indices"] = [1]
    if full.get("attn_layer_period") is not None:
        fields |= {"attn_layer_period": 2, "attn_layer_offset": 1}
    return fields | {key: count for key in ("num_hidden_layers", "num_blocks") if full.get(key) is not None}


SIZES: tuple[tuple[str, int | float | Callable[[Any, int, int], int]], ...] = (
    (r"(unpadded_)?vocab_size|ngram_vocab_size_base", VOCABULARY),
    (r"hidden_size|embedding_dim|lru_width|\w*lora_rank|ple_embed_dim", lambda value, width, inner: width),
    (r"\w*intermediate_size|router_hidden_size", lambda value, width, inner: 2 * width),
    (r"(swa_)?num_attention_heads|linear_num_(value_)?heads|num_query_groups|num_heads", 4),
    (r"(swa_)?num_key_value_heads|linear_num_key_heads", 2),
    (r"(swa_|linear_(key_|value_)?)?head_dim|qk_(nope|rope)_head_dim|v_head_dim|kv_channels", 8),
    (r"attention_head_dim|qk_head_dim", 16),
    (r"\w*(state_size|d_state)", 8),
    (r"mamba_d_ssm", lambda value, width, inner: inner),
    (r"(mamba_)?chunk_size", BLOCK),
    (r"sliding_window(_size)?|attention_window_size", WINDOW),
    (r"(num|n)_(routed_|local_)?experts", 4),
    (r"num_experts_per_tok(en)?", lambda value, width, inner: min(value, 2)),
    (r"(n|num)_(expert_)?groups?|topk_group|mamba_n_?groups", 1),
    (r"time_step_rank|mamba_dt_rank|adapter_rank", 4),
    (r"initializer_range", 0.2),
)
"""Names of fields, and their sizes, which may depend on the default, the model's width, and an inner one."""

ABSENT = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 64,
    "indexer_compress_ratio": 2,
}
"""Fields that have no default, though a family does not run without them."""
