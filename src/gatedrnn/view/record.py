"""The record of a model that the page reads; `view/src/models.ts` has the same fields."""

from typing import Literal, NamedTuple

from gatedrnn.records import Json

Answers = Literal[
    "next", "label of the step", "label so far", "numbers so far", "label", "labels", "numbers", "forecast"
]
"""The next token; a label of this step; a label, or numbers, of what was read so far; one label, several, or numbers,
of all that was typed; quantiles of the steps ahead."""


class ViewLayer(NamedTuple):
    """One recurrent layer."""

    name: str
    reverse: bool
    """Whether it reads a sequence from its end."""
    cell: str
    channels: int
    gates: list[str]
    decay: bool
    """Whether the graph has the factor of each channel's state."""
    decay_gate: str
    """The gate that is that factor, or 1 minus it; "" for none."""
    decay_inverted: bool
    """Whether the factor is 1 minus that gate."""
    written: bool
    """Whether it has what a step adds to the state."""
    scan: bool
    """Whether gates read the input alone, so that a product of decays is the gradient of the state."""
    memory: int
    """The index of the state that keeps what was read."""
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
    trained: bool
    """Whether its weights are the trained ones, and not those that the run began with."""
    reads: Literal["text", "symbols", "numbers"]
    """Text by a tokenizer, numbers of tokens, or so many numbers a step."""
    columns: int
    """Numbers of a step."""
    missing: bool
    """Whether one of them may be missing."""
    read_type: Literal["int64", "float32", "float64"]
    """The type of the graph's input `read`."""
    context: str | None
    """A graph of all that is read together, gzip and base64: numbers (time, columns) to what each step reads."""
    answers: Answers
    whole: bool
    """Whether `context` has read all that was typed and answers, so that a state that is held changes no answer."""
    pooling: list[str]
    """The outputs that a classifier of sequences reads: "last", "mean", "max"; none where each step has an answer."""
    parts: list[str]
    """The names of the parts that answer, one after another in an answer; none where the model alone does."""
    answer_size: int
    levels: list[float]
    """The quantiles of a forecast for each step ahead."""
    parameters: int
    """The number of parameters in the page, which has a vector for each token that a model composes of its
    characters."""
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
    example_of: Literal["run", "waves", ""]
    """The source of numbers: the end of the series that the run was trained on, or waves that are made up."""
