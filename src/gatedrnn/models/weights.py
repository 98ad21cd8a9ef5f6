"""The weights of a folder beside its configuration, compared before a module is made: a configuration is a few bytes
that anybody may have written, and may ask for more than memory holds."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import PreTrainedModel

from gatedrnn.errors import DataError

COUNTS = ("num_hidden_layers", "members")
"""Fields of a configuration that each module's tensors are multiplied by."""
SIZES = (
    "vocab_size", "input_size", "embedding_size", "hidden_size", "feed_forward_factor", "character_grams",
    "grams_per_token", "convolution_size", "random_convolutions", "num_labels", "horizon", "known_size", "past_size",
    "static_size", "linear_size", "future_size",
)  # fmt: skip
"""Fields that are a size of some tensor."""
ALWAYS_ALLOWED = 1 << 16
"""A size that is allowed whatever the weights are: a field may have no part in a model."""
_ALWAYS_ALLOWED_LAYERS = 64
"""Layers that are allowed whatever the weights are: transformers loads files that hold only some of them."""


def shapes_of(place: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a folder's weights by name, from the headers of its safetensors files."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(place.glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}
    return shapes


def check_counts(place: Path) -> None:
    """Check that a folder's configuration asks for no more layers and members than it has tensors, and for no size that
    its weights cannot have; a folder without weights or configuration passes.

    Raises:
        DataError: it does; the field is named.
    """
    shapes, file = shapes_of(place), place / "config.json"
    if not shapes or not file.is_file():
        return
    config = json.loads(file.read_text(encoding="utf-8"))
    elements = sum(torch.Size(shape).numel() for shape in shapes.values())
    sizes = {name: config.get(name) for name in SIZES}
    sizes |= {f"linear_path: {name}": size for name, size in (config.get("linear_path") or {}).items()}
    max_layers = max(_ALWAYS_ALLOWED_LAYERS, len(shapes))
    limits = [(name, config.get(name), max_layers) for name in COUNTS]
    limits += [(name, size, max(ALWAYS_ALLOWED, elements)) for name, size in sizes.items()]
    for name, size, limit in limits:
        if isinstance(size, int) and size > limit:
            raise _mismatch(place, f"{name} is {size:,}, and there are {len(shapes):,} tensors of {elements:,} numbers")
    layers, members = (config.get(name, 1) for name in COUNTS)
    if isinstance(layers, int) and isinstance(members, int) and layers * members > max_layers:
        raise _mismatch(place, f"{layers:,} layers of {members:,} members, and there are {len(shapes):,} tensors")


def check_weights(kind: type[PreTrainedModel], place: Path) -> None:
    """Check that a folder's weights are those that its configuration asks for, by name and shape.

    Raises:
        DataError: they are not; one that differs is named.
        Exception: of many kinds, where the configuration is none.
    """
    shapes = shapes_of(place)
    if not shapes:
        raise DataError(f"{place}: cannot be loaded: it has no weights in .safetensors files, and pickles are not read")
    check_counts(place)
    config_class: Any = kind.config_class
    # No memory is taken, whatever sizes the configuration asks for.
    with torch.device("meta"):
        model = kind(config_class.from_pretrained(place, local_files_only=True))
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = set(getattr(model, "all_tied_weights_keys", {}))
    for name in sorted(shapes.keys() | wanted.keys()):
        if shapes.get(name) != wanted.get(name) and not (name in tied and name not in shapes):
            raise _mismatch(place, f"{name} is {_shown(shapes.get(name))}, and {_shown(wanted.get(name))} is asked for")


def _mismatch(place: Path, what: str) -> DataError:
    return DataError(f"{place}: its weights are not those of its config.json: {what}")


def _shown(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else " x ".join(map(str, shape)) or "a number"
