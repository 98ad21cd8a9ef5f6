"""The recipe of each task: the settings that a run takes where the user gives none."""

from typing import Any, NamedTuple, TypeVar

from gatedrnn.data import FORECAST, LANGUAGE, SERIES, SERIES_REGRESSION, TAGGING, TEXT, TEXT_REGRESSION, Settings
from gatedrnn.records import Json

S = TypeVar("S", bound=Settings)


class Chosen(NamedTuple):
    """The value of a setting that the data decide."""

    value: Json
    reason: str


def with_recipe(task: str, part: str, given: S) -> S:
    """Settings of a part (contenders, data, model, train): those given, and the task's recipe for all others."""
    return type(given)(**RECIPES[task].get(part, {}) | given.model_dump(include=given.model_fields_set))


def recipe_of(task: str, *, whole: bool) -> dict[str, Json]:
    """The recipe of a task, by the names of its flags.

    Args:
        task: its name.
        whole: as `train` and `forecast` take it, with the parts beside the cells; else as `compare` does.
    """
    parts = [*RECIPES[task].values(), *(WHOLE.get(task, {}).values() if whole else ())]
    return {name: value for part in parts for name, value in part.items()}


def with_options(task: str, cells: str) -> str:
    """Cells, one or one a layer, with the options of the task's recipe where a bare name is given.

    Example:
        >>> with_options("mnist", "mingru,lstm")
        'mingru:activation=identity,lstm'
    """
    return ",".join(OPTIONS.get(task, {}).get(cell, cell) for cell in cells.split(","))


_TEXT_MODEL = {
    "embedding_size": 128, "pooling": "max", "token_dropout": 0.25, "embedding_dropout": 0.5, "head_dropout": 0.4,
}  # fmt: skip
_TEXT_TRAIN = {
    "epochs": 4, "batch_size": 64, "learning_rate": 3e-3, "schedule": "linear", "label_smoothing": 0.05,
}  # fmt: skip

_WORDS: dict[str, dict[str, Any]] = {
    "contenders": {"hidden_size": 64},
    "data": {"tokenizer": "pieces", "min_count": 1, "max_tokens": 2048},
    "model": {
        "embedding_size": 128, "bidirectional": True, "pooling": "last-mean-max", "character_grams": 50_000,
        "word_vectors": True, "token_dropout": 0.2, "embedding_dropout": 0.5, "locked_dropout": True,
        "head_dropout": 0.5,
    },
    "train": {
        "epochs": 8, "batch_size": 64, "learning_rate": 3e-3, "schedule": "cosine", "warmup": 0.1,
        "label_smoothing": 0.1, "weights": "last",
    },
}  # fmt: skip

_CHARACTERS: dict[str, dict[str, Any]] = {
    "contenders": {"hidden_size": 256},
    "data": {
        "tokenizer": "characters", "min_count": 1, "length": 128, "validation_fraction": 0.05, "test_fraction": 0.05,
    },
    "model": {"layers": 3, "embedding_size": 128, "block": True, "dropout": 0.1},
    "train": {"epochs": 8, "batch_size": 16, "learning_rate": 4e-3, "clip": 1.0},
}  # fmt: skip


def _probe(
    width: int, length: int, epochs: int, model: dict[str, Any] | None = None, grows: float = 0.5, **train: Any
) -> dict[str, Any]:
    """Sequences grow over a fraction of the training. Smoothed labels demand the exact state, not the right side."""
    smoothed = {"label_smoothing": 0.1, **train}
    return {
        "contenders": {"hidden_size": width},
        "data": {"length": length, "curriculum": round(grows * epochs)},
        "model": {"embedding_size": 2 * width, **(model or {})},
        "train": {"epochs": epochs, "batch_size": 64, "learning_rate": 1e-2, "weight_decay": 0.0, **smoothed},
    }


def _cycle() -> dict[str, Any]:
    """Rotations by exact angles: a small error at each step shows at long lengths only, and long sequences need small
    learning rates. So sequences grow to the end, while the learning rate falls."""
    return _probe(16, 512, 18, {"block": True}, grows=1.0, batch_size=8, beta2=0.95)


_SERIES: dict[str, dict[str, Any]] = {
    "contenders": {"hidden_size": 64},
    "model": {
        "embedding_size": 64, "layers": 2, "bidirectional": True, "pooling": "mean", "embedding_dropout": 0.1,
        "dropout": 0.1, "head_dropout": 0.1,
    },
    "train": {"total_steps": 1000, "batch_size": 16, "learning_rate": 3e-3, "validate_every": 50},
}  # fmt: skip

_SERIES_WHOLE: dict[str, dict[str, Any]] = {
    "data": {"validation_fraction": 0.0},
    "model": {
        "random_convolutions": 10_000, "convolution_size": 64, "embedding_size": 0, "embedding_dropout": 0.0,
        "layers": 1, "dropout": 0.0, "head_dropout": 0.2,
    },
    "train": {"total_steps": 500, "label_smoothing": 0.1, "validate_every": 0},
}  # fmt: skip

_TEXT_WHOLE: dict[str, dict[str, Any]] = {"data": {"validation_fraction": 0.0}, "model": {"linear_path": True}}

_RECALL = {"layers": 2, "block": True, "embedding_size": 64}

RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "parity": _probe(16, 40, 4),
    "modular-addition": _cycle(),
    "cycle-navigation": _cycle(),
    "s3": _probe(32, 64, 10, grows=0.8, batch_size=32),
    "s5": _probe(64, 64, 8, {"embedding_size": 64, "block": True}),
    "s5-all": _probe(64, 64, 8, {"embedding_size": 64, "block": True}),
    "even-pairs": _probe(16, 64, 6),
    "majority": _probe(16, 64, 6),
    "bucket-sort": _probe(32, 64, 10),
    "missing-duplicate": _probe(32, 40, 10),
    "copying": _probe(32, 64, 10),
    "selective-copying": _probe(48, 64, 20, _RECALL, label_smoothing=0.0, batch_size=16),
    "mqar": _probe(48, 32, 20, _RECALL, grows=0.8, label_smoothing=0.0, batch_size=32, learning_rate=5e-3),
    "adding": _probe(32, 100, 10, label_smoothing=0.0),
    "mnist": {
        "contenders": {"hidden_size": 128},
        "model": {
            "embedding_size": 64,
            "layers": 3,
            "block": True,
            "feed_forward_factor": 1,
            "longest_time_scale": 784.0,
        },
        "train": {"epochs": 7, "batch_size": 16, "learning_rate": 4e-3, "precision": "bfloat16"},
    },
    "digits": {
        "contenders": {"hidden_size": 128},
        "model": {"embedding_size": 64, "embedding_dropout": 0.3},
        "train": {"epochs": 40, "batch_size": 32, "learning_rate": 5e-3},
    },
    "ag_news": {
        "contenders": {"hidden_size": 128},
        "data": {"tokenizer": "words", "min_count": 3, "max_tokens": 128, "validation_fraction": 0.05},
        "model": _TEXT_MODEL,
        "train": _TEXT_TRAIN,
    },
    TEXT: _WORDS,
    TEXT_REGRESSION: {**_WORDS, "train": _WORDS["train"] | {"label_smoothing": 0.0}},
    TAGGING: {
        "contenders": {"hidden_size": 128},
        "data": {"tokenizer": "tokens", "max_tokens": 0},
        "model": {
            "embedding_size": 128,
            "bidirectional": True,
            "token_dropout": 0.1,
            "embedding_dropout": 0.3,
            "head_dropout": 0.3,
        },
        "train": {"epochs": 12, "batch_size": 16, "learning_rate": 3e-3, "schedule": "linear"},
    },
    SERIES: _SERIES,
    SERIES_REGRESSION: _SERIES,
    FORECAST: {
        "contenders": {"hidden_size": 64},
        "model": {"embedding_size": 64, "head_dropout": 0.1},
        "train": {"total_steps": 200, "batch_size": 64, "learning_rate": 2e-3, "warmup": 0.25, "validate_every": 50},
    },
    LANGUAGE: _CHARACTERS,
}
"""The recipes by task and part; chosen on validation splits, those of probes on sequences of other seeds than the
tests', at the tests' lengths too."""
WHOLE: dict[str, dict[str, dict[str, Any]]] = {
    FORECAST: {"train": {"refit": True, "calibrate": True, "weights": "last"}},
    SERIES: _SERIES_WHOLE,
    SERIES_REGRESSION: {
        "model": _SERIES_WHOLE["model"], "train": {"total_steps": 500, "validate_every": 0, "weights": "last"},
    },
    TEXT: _TEXT_WHOLE, TEXT_REGRESSION: _TEXT_WHOLE,
}  # fmt: skip
"""The settings by task and part that `train` and `forecast` take besides, or instead. `compare` is of cells, and leaves
out the parts beside them."""
OPTIONS: dict[str, dict[str, str]] = {
    "mnist": {"minlstm": "minlstm:activation=identity", "mingru": "mingru:activation=identity"},
    **{task: {"block-orthogonal": "block-orthogonal:block_size=4"} for task in ("s5", "s5-all")},
}
"""Options of cells, by task and cell; chosen likewise."""
