"""What the page is given of a model; `view/src/models.ts` has the same fields."""

from typing import Literal, NamedTuple

from gatedrnn.records import Json


class ViewLayer(NamedTuple):
    """One recurrent layer."""

    name: str
    cell: str
    channels: int
    gates: list[str]
    decay: bool
    """Whether the graph has the factor of each channel's state."""
    written: bool
    """Whether it has what a step adds to the state."""
    scan: bool
    """Whether gates read the input alone, so that a product of decays is the gradient of the state."""
    memory: int
    """Which of the model's states keeps what was read."""
    equations: str


class ViewState(NamedTuple):
    """One tensor that goes from step to step."""

    name: str
    size: int


class ViewTokenizer(NamedTuple):
    """A tokenizer as tokenizers.js takes it."""

    json: dict[str, Json]
    config: dict[str, Json]
    by_line: bool
    """Whether a line break is the token between texts."""


class ViewModel(NamedTuple):
    """A model in the page."""

    title: str
    cells: list[str]
    reads: Literal["text", "symbols"]
    """Text by a tokenizer, or numbers of tokens."""
    answers: Literal["next", "classes", "nothing"]
    """The next token, a class of what was read so far, or nothing that one step could say."""
    answer_size: int
    parameters: int
    step: str
    """The ONNX graph of one step, gzip and base64."""
    states: list[ViewState]
    initial: str
    """The states before the first step, one after another: float32, base64."""
    layers: list[ViewLayer]
    tokenizer: ViewTokenizer | None
    begin: int | None
    """The token before a text."""
    unknown: int | None
    symbols: int
    """Tokens that there are."""
    labels: list[str]
    example: str
    """A text to begin with."""
