"""Settings of a run: its model and its training, beside those of its data."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, field_validator, model_validator

from gatedrnn.data import DataSettings, Settings
from gatedrnn.data.registry import all_settings, belongs, registered_task, settings_of
from gatedrnn.data.settings import OF_TEXTS, Seed
from gatedrnn.errors import unknown
from gatedrnn.names import BACKBONES as SHIPPED_BACKBONES
from gatedrnn.names import OF_LAYERS, cell_names, refuse_unknown
from gatedrnn.processes import threads_for
from gatedrnn.records import Setting
from gatedrnn.trust import canonical_name, is_in_file

if TYPE_CHECKING:
    from gatedrnn.registry import CellChoice


def _checked(cell: str) -> str:
    if cell in (*cell_names(), *SHIPPED_BACKBONES):
        return cell
    if not is_in_file(cell):
        refuse_unknown(cell, SHIPPED_BACKBONES)
    from gatedrnn.models.backbones import BACKBONES, enter
    from gatedrnn.registry import CELLS, CellChoice

    name = enter(cell)
    if name not in BACKBONES:
        if (first := name.partition(":")[0]) not in CELLS:
            raise ValueError(unknown("cell", first, [*CELLS, *BACKBONES]))
        CellChoice.parse(name)
    return cell


def word_of_cell(cell: object) -> object:
    """The word of cells that are given as a class, such as `gatedrnn.MinGRU`, or by the names of classes; any other
    value as it is.

    Example:
        >>> word_of_cell("MinGRU,GRU:reset_after=false")
        'mingru,gru:reset_after=false'
    """
    if isinstance(cell, type):
        return getattr(getattr(cell, "cell_class", cell), "name", None) or cell.__name__
    if not isinstance(cell, str) or cell.islower():  # no name of a class: the registry need not be imported, or torch
        return cell
    from gatedrnn.registry import CELLS

    by_class = {record.layer.__name__: name for name, record in CELLS.items()}
    words = [word.strip().partition(":") for word in cell.split(",")]
    return ",".join("".join((by_class.get(name, name), *options)) for name, *options in words)


def with_words_of_cells(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings whose `cell` or `cells` may be classes, with the words that settings hold."""
    words: dict[str, Any] = {n: word_of_cell(value) if n == "cell" else value for n, value in settings.items()}
    if isinstance(cells := words.get("cells"), list | tuple):
        words["cells"] = [word_of_cell(cell) for cell in cells]
    return words


def canonical(cell: str) -> str:
    """The one way to write a cell or a backbone among those that name the same."""
    if ":" not in cell:
        return cell
    from gatedrnn.registry import CellChoice

    return name if (name := backbone_of(cell)) is not None else str(CellChoice.parse(cell))


def _checked_each(cells: str) -> str:
    words = [_checked(cell.strip()) for cell in cells.split(",")]
    if len(words) > 1 and (whole := next((word for word in words if backbone_of(word) is not None), None)):
        raise ValueError(f"{whole} replaces all layers; name it alone")
    return ",".join(words)


CellWord = Annotated[str, AfterValidator(_checked)]
"""A cell with its options in one word: `gru`, `gru:reset_after=false`. An option at its default stays in it if given:
a recipe may have another for the bare name. Or a backbone: `transformer`, `models/own.py:Own`."""
StackWord = Annotated[str, AfterValidator(_checked_each)]
"""One such word for all layers, or one a layer, joined by commas."""
REMOVED = {"shard": "was removed: every process has all weights; leave it out"}
"""Settings that files of earlier versions have, off or on, with what to do where one is on."""


def backbone_of(cell: str) -> str | None:
    """The name of what a word puts in the place of recurrent layers; None where it names cells."""
    from gatedrnn.models.backbones import BACKBONES

    name = canonical_name(cell)
    return name if name in BACKBONES else None


def cells_of(cell: str) -> "list[CellChoice]":
    """The choices that a word names, one for all layers or one each; none for a backbone."""
    from gatedrnn.registry import CellChoice

    return [] if backbone_of(cell) is not None else [CellChoice.parse(word) for word in cell.split(",")]


def refused_by(cell: str, given: Mapping[str, object]) -> str | None:
    """The reason why what a word names does not take one of these settings of layers; None if it takes each that is
    set.
    """
    from gatedrnn.layers.arguments import why_refused
    from gatedrnn.registry import CELLS

    return why_refused(
        given, {choice.name: CELLS[choice.name].equations for choice in cells_of(cell)}, backbone_of(cell)
    )


OF_SOME_TASKS = (
    "refit", "calibrate", "tied", "linear_size", *OF_TEXTS, "convolution_size", "random_convolutions",
)  # fmt: skip
"""Settings of the model and the training that only those tasks have which name them in their `uses`."""


class ModelSettings(Settings):
    """The structure of a contender, but for the cell and the width of its state."""

    expert = (
        "weight_init", "bias_init", "longest_time_scale", "zoneout", "input_dropout", "state_dropout",
        "weight_dropout", "layer_norm", "feed_forward_factor", "tied", "linear_size", "locked_dropout",
        "convolution_size", "random_convolutions",
    )  # fmt: skip

    layers: int = Field(1, ge=1)
    """Recurrent layers."""
    embedding_size: int = Field(64, ge=0)
    """Width of the embedding of tokens, or of the linear map of numbers; 0: numbers go into the first layer as they
    are."""
    bidirectional: bool = False
    """Each layer runs in both directions."""
    weight_init: Literal["torch", "fan-in", "xavier", "orthogonal", "authors"] | None = None
    """Initialisation of the weights; each cell's own if not given. authors: as the code of the cell's authors, where
    that is another."""
    bias_init: Literal["torch", "zeros", "forget-one", "time-scales", "authors"] | None = None
    """Initialisation of the biases; each cell's own if not given. authors: as for the weights."""
    longest_time_scale: float | None = Field(None, ge=2)
    """Slowest time-scale, in steps, where biases are initialised to time-scales; 64 if not given."""
    zoneout: float = Field(0.0, ge=0, lt=1)
    """Probability with which an element of the state is not updated at a step, in training."""
    input_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on each recurrent layer's input, one dropout mask for all steps."""
    state_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the state as gates read it (scan cells: on what enters it), one dropout mask for all steps."""
    weight_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of recurrent weights; scan cells have none."""
    layer_norm: bool = False
    """Normalise each gate's input projection."""
    block: bool = False
    """A residual block (normalisation, cell, projection, feed-forward) around each layer; --block=false for none."""
    feed_forward_factor: int = Field(2, ge=1)
    """block: inner width of the feed-forward network in units of the embedding."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which a whole token is read as unknown, in training."""
    embedding_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the embedding."""
    locked_dropout: bool = False
    """Dropout on the embedding is of the same features at all steps of a sequence."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout between layers."""
    head_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before the head."""
    tied: bool = True
    """language-model: the embedding's weights are the head's too; the core's output is projected to their width."""
    linear_size: int = Field(0, ge=0)
    """forecast: last values of the context that a linear map reads beside the network, its result added; 0 for none."""
    pooling: Literal["last", "mean", "max", "last-mean-max"] = "last"
    """Steps that a sequence classifier reads: the last valid step, the mean or maximum over the valid steps, or all
    three."""
    character_grams: int = Field(0, ge=0)
    """Texts: n-grams of 1 to 4 characters, at most, whose vectors are a part of the vectors of the tokens that hold
    them; 0 for none."""
    word_vectors: bool = False
    """Texts: vectors of tokens begin as the training texts have them: by the company that tokens keep (PPMI, truncated
    by SVD), and by how often each class has them (naive Bayes)."""
    linear_path: bool = False
    """Texts: a linear model of TF-IDF n-grams, fitted by scikit-learn, answers beside the network: their
    log-probabilities, log-odds of several labels, or numbers are averaged."""
    members: int = Field(1, ge=1)
    """Networks, trained on the same batches from different random numbers, whose answers are averaged:
    log-probabilities, numbers, or the quantiles of a forecast."""
    convolution_size: int = Field(0, ge=0)
    """Series with a class or a number each: channels of convolutions over time before the cells; 0 for none."""
    random_convolutions: int = Field(0, ge=0)
    """Series with a class or a number each: about how many features of fixed random convolutions a linear path reads,
    fitted once to the training series; its class probabilities, or numbers, are averaged with the network's. 0 for
    none."""


class TrainSettings(Settings):
    """The training loop."""

    expert = (
        "total_steps", "refit", "calibrate", "accumulate", "schedule", "warmup", "patience", "beta2", "clip", "average",
        "gradient_checkpointing", "validate_every", "log_every", "checkpoint_every",
    )  # fmt: skip

    epochs: int = Field(10, ge=1)
    """Passes over the training data (probes: 100 steps each)."""
    total_steps: int = Field(0, ge=0)
    """Optimizer steps in all, in the place of --epochs; 0 for as many as those have. Of texts and series with classes,
    train chooses them by how many there are, if neither is given."""
    refit: bool = False
    """forecast: train again on all before the test, which is scored then, and on everything, which is the model that
    is handed out; as many steps as were best on validation."""
    calibrate: bool = False
    """forecast: by the validation part, decide how far forecasts follow the training instead of smoothers, and how wide
    their intervals are."""
    batch_size: int = Field(64, ge=1)
    """Sequences in a step; language-model: rows that are read in parallel."""
    accumulate: int = Field(1, ge=1)
    """Gradient accumulation: batches in one step."""
    learning_rate: float = Field(1e-3, gt=0)
    """Highest learning rate."""
    schedule: Literal["cosine", "linear", "constant", "plateau"] = "cosine"
    """Learning rate after the warm-up: decay to zero along a cosine or a line, stay, or halve when validation stops
    improving."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Fraction of all steps in which the learning rate rises from zero."""
    patience: int = Field(1, ge=0)
    """plateau: validations without improvement before the rate is halved."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's weight decay."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """AdamW's decay of the mean of squared gradients."""
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is evaluated and saved; 0 for none."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Probability mass of each label that is spread over all labels; not in a language-model."""
    class_weight: Literal["balanced"] | None = None
    """balanced: classes weigh in the loss in inverse proportion to their labels, so that a rare one is not passed
    over."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """bfloat16: matrix products in bfloat16, states and weights in float32; auto: the one whose steps are faster here,
    by a measurement of two seconds."""
    compile: bool = False
    """Compile the whole model by torch.compile, which needs a C++ compiler and takes some seconds of it."""
    gradient_checkpointing: bool = False
    """Activation checkpointing: save each layer's input alone and run the layer again in backward: less memory, more
    time."""
    validate_every: int = Field(0, ge=0)
    """Steps between validations, the last step's beside them; 0 for one at the end of each epoch."""
    weights: Literal["best", "last"] = "best"
    """Weights that are kept: the best on validation, or the last, as a fixed schedule leaves them."""
    early_stop: int = Field(0, ge=0)
    """Validations without improvement before training ends; 0 to train to the last epoch."""
    log_every: int = Field(50, ge=1)
    """Steps between lines of metrics.jsonl."""
    checkpoint_every: int = Field(500, ge=1)
    """Steps between checkpoints; there is one after each validation too."""


class CellSettings(Settings):
    """The cell of a single run."""

    cell: StackWord = "mingru"
    """Name of the cell, as `gatedrnn describe` lists it, with options as in gru:reset_after=false; or one a layer,
    joined by commas."""
    hidden_size: int = Field(64, ge=1)
    """Channels of its state."""
    seed: Seed = 0
    """Initialisation, data order and dropout follow from it."""
    threads: int = Field(default_factory=threads_for, ge=1)
    """Threads of torch; all cores, or OMP_NUM_THREADS, if not given. Part of the run, since another number may sum in
    another order."""


class RunSettings(Settings):
    """One training run, complete: what config.yaml in its folder holds, and what reruns it."""

    cell: StackWord
    hidden_size: int = Field(ge=1)
    seed: Seed = 0
    threads: int = Field(1, ge=1)
    """Threads of torch. Another number may sum in another order, so it belongs to the run."""
    trial: bool = False
    """A trial of a search: it reads the validation split alone, and keeps no weights."""
    data: DataSettings
    model: ModelSettings
    train: TrainSettings

    @property
    def cells(self) -> "list[CellChoice]":
        """One choice for all layers, or one each; none where a backbone replaces them."""
        return cells_of(self.cell)

    @property
    def backbone(self) -> str | None:
        """The name of what replaces recurrent layers; None where there are some."""
        return backbone_of(self.cell)

    @field_validator("model")
    @classmethod
    def _without_what_the_recipe_has_for_other_cells(cls, model: ModelSettings, info: ValidationInfo) -> ModelSettings:
        cell, data = info.data.get("cell"), info.data.get("data")
        if cell is None or data is None:  # which are refused
            return model
        parts, chosen = registered_task(data.task).recipe, model.model_dump()
        recipe: Mapping[str, Any] = parts.cells.get("model", {})
        scheme = {"bias_init": model.bias_init}
        idle = [
            name for name in OF_LAYERS if name in recipe and chosen[name] == recipe[name]
            and refused_by(cell, scheme | {name: chosen[name]}) is not None
        ]  # fmt: skip
        update = {name: ModelSettings.model_fields[name].default for name in idle}
        refuses = model.block or model.pooling == "last" or backbone_of(cell) is not None
        if refuses and model.convolution_size == parts.beside.get("model", {}).get("convolution_size"):
            update |= {"convolution_size": 0, "embedding_size": model.embedding_size or recipe["embedding_size"]}
        return model.model_copy(update=update)

    @model_validator(mode="after")
    def _consistent(self) -> "RunSettings":
        task = self.data.task
        if self.backbone is None and len(self.cells) not in (1, self.model.layers):
            raise ValueError(f"--cell names {len(self.cells)} layers, --layers is {self.model.layers}")
        if (refused := refused_by(self.cell, {name: getattr(self.model, name) for name in OF_LAYERS})) is not None:
            raise ValueError(in_flags(refused))
        # The settings of the task say what it uses and refuses: no task is asked for by its name here.
        for name in OF_SOME_TASKS:
            if name not in self.data.uses and self._is_changed(name):
                owners = [owner for owner, kind in all_settings().items() if name in kind.uses]
                raise ValueError(belongs(name, owners, task))
        for name, why in self.data.refuses.items():
            if self._is_changed(name):
                raise ValueError(f"--{name.replace('_', '-')}{why.format(task=task)}")
        self.data.check(self.train)
        return self

    def _is_changed(self, name: str) -> bool:
        """Whether a setting of the model or the training is not at its default."""
        part: Settings = self.model if name in ModelSettings.model_fields else self.train
        return bool(getattr(part, name) != type(part).model_fields[name].default)

    def flat(self) -> dict[str, JsonValue]:
        """All settings under one level of names, as the command line has them; what is None is left out."""
        nested = self.model_dump(mode="json")
        sections = [nested.pop(name) for name in ("data", "model", "train")]
        if not self.trial:  # which no flag asks for
            nested.pop("trial")
        return {k: v for section in (nested, *sections) for k, v in section.items() if v is not None}

    def shown(self) -> dict[str, JsonValue]:
        """The settings for others to read: files by name alone, nothing about this machine's folders."""
        flat = self.flat() | {"cell": self.backbone or self.cell}
        return {k: Path(str(v)).name if k.endswith(("_file", "_root")) else v for k, v in flat.items()}

    @classmethod
    def from_flat(cls, flat: Mapping[str, JsonValue]) -> "RunSettings":
        """The settings that `flat` returned.

        Raises:
            ValidationError: they are no settings of a run.
        """
        rest = dict(flat)
        model, train = (
            {name: rest.pop(name) for name in list(rest) if name in part.model_fields}
            for part in (ModelSettings, TrainSettings)
        )
        kinds = [settings_of(str(flat.get("task", ""))), *all_settings().values()]
        of_data = {name for kind in kinds for name in kind.model_fields}
        data = {name: rest.pop(name) for name in list(rest) if name in of_data}
        return cls.model_validate({**rest, "data": data, "model": model, "train": train})


def setting_names() -> list[str]:
    """The names of all settings of a run."""
    kinds: list[type[Settings]] = [*all_settings().values(), CellSettings, ModelSettings, TrainSettings]
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def in_flags(sentence: str) -> str:
    """A sentence on a model's fields, with those that are flags as they are typed.

    Example:
        >>> in_flags("embedding_size 0 is for numbers")
        '--embedding-size 0 is for numbers'
    """
    flags = {name: name.replace("_", "-") for name in (*ModelSettings.model_fields, "hidden_size")}
    for name, flag in (flags | {"num_hidden_layers": "layers"}).items():
        place = rf"\b{name}\b" if "_" in name else rf"^{name}\b"  # a word alone may be just that
        sentence = re.sub(place, f"--{flag}", sentence)
    return sentence
