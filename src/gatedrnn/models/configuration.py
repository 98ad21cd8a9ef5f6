"""The configuration of all gatedrnn models."""

from difflib import get_close_matches
from typing import TypeAlias

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from gatedrnn.errors import unknown
from gatedrnn.kinds import kind_of
from gatedrnn.layers.arguments import check_time_scale, why_refused
from gatedrnn.layers.parameters import AUTHORS, BIAS_INITS, WEIGHT_INITS
from gatedrnn.models.backbones import BACKBONES
from gatedrnn.names import OF_LAYERS, REGULARISERS
from gatedrnn.registry import CELLS, CellChoice

POOLINGS = {"last": 1, "mean": 1, "max": 1, "last-mean-max": 3}
"""The number of vectors of a layer's width that a classifier reads, by the name of the pooling."""
OptionValue: TypeAlias = bool | int | float | str
OF_TRANSFORMERS = frozenset(vars(PreTrainedConfig()))
"""Attributes that every configuration of transformers has."""
_MIN_SIMILARITY = 0.7
"""How like a field another name is that must be a slip of it; others are kept, as transformers keeps them."""
RATES = ("token_dropout", "embedding_dropout", "dropout", "head_dropout", *REGULARISERS)


@strict
class GatedRNNConfig(PreTrainedConfig):
    """Structure of a gated recurrent model.

    Args:
        task: name of the task that a model was trained on; None where it was not by gatedrnn.
        cell: the cell with its options in one word, as on the command line: "mingru", "gru:reset_after=false"; or one
            word a layer, joined by commas. Or a name in `gatedrnn.models.backbones`, such as "transformer", which
            replaces all recurrent layers.
        cell_options: further options, as keyword arguments of the cells' equations; each goes to the cells that have
            it. None for none.
        vocab_size: size of the vocabulary; None for a model that reads numbers instead of tokens.
        input_size: features per step, where `vocab_size` is None.
        channel_means, channel_deviations: of each feature; a value less its mean, over its deviation, is what the model
            reads. None for values as they are.
        flagged_channels: features that may be missing: NaN is read as the mean, and a flag says whether it was there.
        gap_unit: of a model of uneven series: the usual gap between two steps, in units of the `gaps` that it is given.
            NaN is then a value that was not seen, see `gatedrnn.models.inputs`. None for steps equally far apart.
        label_mean, label_deviation: of a regression; its output, a number with mean 0 and deviation 1, is given back in
            these units. None for the number as it is.
        label_type: type of the labels that `id2label` names, which predictions have too, as pyarrow calls it: "int64",
            "bool". None for text.
        series: how files of series are read: columns, channels, frames. None for a model of anything else.
        embedding_size: width of the embedding of tokens, or of the linear map of numbers; 0 for numbers that go into
            the first layer as they are. With `block` it is the width of the model.
        embedding_activation: "silu" for x · sigmoid(x) of the embedding; None for the map alone.
        hidden_size: channels of each layer's state.
        num_hidden_layers: recurrent layers.
        bidirectional: each layer runs in both directions; their outputs are concatenated.
        weight_init, bias_init: initialisation by name, see `gatedrnn.layers.parameters.initialise`; the layer's own if
            None.
        longest_time_scale: slowest time scale, in steps, of biases initialised to "time-scales"; 64 if None.
        zoneout, input_dropout, state_dropout, weight_dropout, layer_norm: regularisers of the layer, see
            `gatedrnn.layers.module`.
        block: each layer becomes a residual block: normalisation, cell, projection back to `embedding_size`, then
            normalisation and a feed-forward network.
        feed_forward_factor: inner width of that network in units of `embedding_size`.
        token_dropout: probability with which a whole token becomes `unk_token_id`, in training.
        embedding_dropout, dropout, head_dropout: on the embedding, between layers, before the head; in training.
        locked_dropout: whether `embedding_dropout` drops the same features at all steps of a sequence.
        pooling: what a sequence classifier reads: the output at the "last" valid step (of each direction its own last),
            the "mean" or "max" over the valid steps, or all three, "last-mean-max".
        character_grams, grams_per_token: n-grams of characters that tokens are composed of, and the most that a token
            has, see `gatedrnn.models.grams`; 0 for tokens with a vector each alone.
        linear_path: of a sequence classifier of tokens: numbers of pairs, grams and grams_per_token (and, where tokens
            are letters of scripts without blanks between words, of triples) of the linear classifier whose
            log-probabilities are averaged with the network's, see `gatedrnn.models.linear_path`. None for none.
        path_share: from 0 to 1: the weight of the linear path's numbers and log-probabilities in that average; at 1
            the answer is the path's alone.
        members: networks of a classifier or a forecaster, alike but for their random numbers, whose log-probabilities
            (of a regression numbers, of a forecast quantiles) are averaged.
        convolution_size: channels of the convolutions over time that a classifier of numbers has before its cells, see
            `gatedrnn.models.convolution`; it pools their output beside the cells'. 0 for none.
        random_convolutions: about how many features of fixed random convolutions a sequence classifier of numbers reads
            beside the network, by a linear path that is fitted and not trained, see
            `gatedrnn.models.random_convolutions`; 0 for none.
        longest_steps: length of the longest training series, which those convolutions span; None where it is not known.
        window: steps that a backbone, which has no state, reads at a time in `eval()` as a language model, up to half
            of them steps that it read before; None for all that it is given, and no more.
        use_cache: whether a language model in `eval()` returns its state.
        tie_word_embeddings: whether the embedding's weights are the head's too, in a language model.
    """

    model_type = "gatedrnn"

    task: str | None = None
    cell: str = "mingru"
    cell_options: dict[str, OptionValue] | None = None
    vocab_size: int | None = None
    input_size: int | None = None
    channel_means: list[float] | None = None
    channel_deviations: list[float] | None = None
    flagged_channels: list[int] | None = None
    gap_unit: float | None = None
    label_mean: float | None = None
    label_deviation: float | None = None
    label_type: str | None = None
    series: dict[str, str | bool | int | list[str] | None] | None = None
    embedding_size: int = 64
    embedding_activation: str | None = None
    hidden_size: int = 128
    num_hidden_layers: int = 1
    bidirectional: bool = False
    weight_init: str | None = None
    bias_init: str | None = None
    longest_time_scale: float | int | None = None
    zoneout: float = 0.0
    input_dropout: float = 0.0
    state_dropout: float = 0.0
    weight_dropout: float = 0.0
    layer_norm: bool = False
    block: bool = False
    feed_forward_factor: int = 2
    token_dropout: float = 0.0
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    head_dropout: float = 0.0
    locked_dropout: bool = False
    pooling: str = "last"
    character_grams: int = 0
    grams_per_token: int = 0
    linear_path: dict[str, int] | None = None
    path_share: float = 0.5
    members: int = 1
    convolution_size: int = 0
    random_convolutions: int = 0
    longest_steps: int | None = None
    window: int | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    @property
    def backbone(self) -> str | None:
        """The name of what replaces recurrent layers; None where there are some."""
        return self.cell if self.cell in BACKBONES else None

    @property
    def cells(self) -> list[CellChoice]:
        """The cell of each layer, with its options; empty where there is a backbone.

        Raises:
            ValueError: there is no such cell, or it has no such option.
        """
        if self.backbone is not None:
            return []
        further, choices = self.cell_options or {}, []
        for word in self.cell.split(","):
            choice = CellChoice.parse(word.strip())
            options = CELLS[choice.name].options
            changed = {
                option: value for option, value in further.items() if option in options and value != options[option]
            }
            choices.append(CellChoice(choice.name, {**choice.options, **changed}))
        return choices * self.num_hidden_layers if len(choices) == 1 else choices

    @property
    def input_features(self) -> int:
        """The inputs of the linear map of numbers at each step: features, and flags of those that may be missing; or of
        uneven series decayed features, whether each was seen, and the time since, unless the cells learn it.
        """
        if self.gap_unit is not None:
            return (self.input_size or 0) * (3 if self.times_as_inputs else 2)
        return (self.input_size or 0) + len(self.flagged_channels or ())

    @property
    def times_as_inputs(self) -> bool:
        """Whether a model of uneven series has times as inputs, for cells that do not learn what they do to the
        state.
        """
        gaps = [kind_of(cell).facts(cell).gaps for cell in (CELLS[choice.name].equations for choice in self.cells)]
        return not gaps or not all(taken is not None and taken.features for taken in gaps)

    def is_boundary(self, token: int | None) -> bool:
        """Whether a token begins or ends texts; as padding it has a meaning of its own."""
        return token in (self.bos_token_id, self.eos_token_id)

    def validate_names(self) -> None:
        """Refuse an argument whose name is close to a field's; called when a configuration is made. Attributes that are
        set later are the caller's own.

        Raises:
            ValueError: such an argument.
        """
        fields = self.__dataclass_fields__
        # transformers keeps arguments that it does not know as attributes, a slip among them.
        for name in sorted(vars(self).keys() - fields - OF_TRANSFORMERS):
            if get_close_matches(name, fields, 1, _MIN_SIMILARITY):
                raise ValueError(unknown("field", name, fields))

    def validate_structure(self) -> None:
        """The rules beyond types; called when a configuration, and when a model is made.

        Raises:
            ValueError: a name that does not exist, a size below 1, a probability outside [0, 1), or both kinds of
                input.
        """
        records = [CELLS[choice.name] for choice in self.cells]
        if self.backbone is None and len(self.cells) != self.num_hidden_layers:
            raise ValueError(
                f"cell names {len(self.cells)} layers, num_hidden_layers is {self.num_hidden_layers}; "
                "name one cell, or one a layer"
            )
        options = dict.fromkeys(option for record in records for option in record.options)
        for name in self.cell_options or {}:
            if name not in options:
                raise ValueError(
                    f"cell_options: {self.cell} has no option {name!r}; it has: {', '.join(options) or 'none'}"
                )
        if self.backbone is not None and self.block:
            raise ValueError(f"{self.cell} has blocks of its own; leave out block")
        for name, schemes in (("weight_init", (*WEIGHT_INITS, AUTHORS)), ("bias_init", (*BIAS_INITS, AUTHORS))):
            if getattr(self, name) not in (None, *schemes):
                raise ValueError(f"{name} must be one of {', '.join(schemes)}, got {getattr(self, name)!r}")
        if self.longest_time_scale is not None:
            check_time_scale("longest_time_scale", self.longest_time_scale)
        of_layers = {name: getattr(self, name) for name in OF_LAYERS}
        refused = why_refused(of_layers, {record.name: record.equations for record in records}, self.backbone)
        if refused is not None:
            raise ValueError(refused)
        if self.embedding_activation not in (None, "silu"):
            raise ValueError(f"embedding_activation must be silu or None, got {self.embedding_activation!r}")
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {self.pooling!r}")
        if self.bidirectional and self.block and "last" in self.pooling:
            raise ValueError(
                f"pooling {self.pooling!r} needs the directions apart, which a block mixes; take 'mean' or 'max'"
            )
        for name in RATES:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        if not self.embedding_size and (self.input_size is None or self.block or self.backbone is not None):
            raise ValueError("embedding_size 0 is for numbers that go into recurrent layers without blocks as they are")
        if self.embedding_size < 0:
            raise ValueError(f"embedding_size must be at least 0, got {self.embedding_size}")
        for name in ("hidden_size", "num_hidden_layers", "feed_forward_factor", "members"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.vocab_size is None and (self.character_grams or self.linear_path is not None):
            raise ValueError("character_grams and linear_path are of tokens: they need vocab_size")
        if not 0 <= self.path_share <= 1:
            raise ValueError(f"path_share must lie between 0 and 1, got {self.path_share}")
        for name in ("channel_means", "channel_deviations"):
            values = getattr(self, name)
            if values is not None and len(values) != self.input_size:
                raise ValueError(f"{name} must have a number for each of {self.input_size} features, got {len(values)}")
        if not all(deviation > 0 for deviation in self.channel_deviations or ()):
            raise ValueError("channel_deviations must be above 0")
        if not all(0 <= channel < (self.input_size or 0) for channel in self.flagged_channels or ()):
            raise ValueError(f"flagged_channels must be numbers of features, below {self.input_size}")
        if self.convolution_size and (self.input_size is None or self.block or self.backbone or self.pooling == "last"):
            raise ValueError(
                "convolution_size is for cells without blocks that read numbers, pooled by mean or max; leave it at 0"
            )
        if self.random_convolutions and (self.input_size is None or self.longest_steps is None):
            raise ValueError(
                "random_convolutions are of series of numbers: they need input_size and longest_steps; leave them at 0"
            )
        if self.gap_unit is not None and (self.gap_unit <= 0 or self.input_size is None or self.flagged_channels):
            raise ValueError("gap_unit must be above 0, of a model that reads numbers, without flagged_channels")
        if self.vocab_size is not None and self.input_size is not None:
            raise ValueError("give vocab_size (a model that reads tokens) or input_size (numbers), not both")
