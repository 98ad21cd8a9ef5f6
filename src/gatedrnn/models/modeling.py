"""Hugging Face models around the recurrent layers: embedding, blocks, classifiers. Equations are in `cells/`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, SequenceClassifierOutput
from transformers.utils import can_return_tuple

from gatedrnn.kernels.matmul import linear
from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.layers.arguments import takes
from gatedrnn.models.backbones import BACKBONES, is_of_file, named_if_it_fails
from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.configuration import POOLINGS, GatedRNNConfig
from gatedrnn.models.conventions import DOCUMENTS, check_known, hidden_states_list, resets_of
from gatedrnn.models.convolution import Convolution, StepNorm
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.inputs import ChannelScale, DecayedInputs, Times, UnevenInputs
from gatedrnn.models.linear_path import LinearPath
from gatedrnn.models.random_convolutions import ConvolutionPath, RandomConvolutions, log_mean_probability
from gatedrnn.models.weights import check_counts
from gatedrnn.names import OF_LAYERS
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.shapes import Flags, Gaps, Hidden, Series, Step

EMBEDDING_STD = 0.1
"""Spread of a new embedding: torch's 1 saturates gates, transformers' 0.02 leaves a small model little to work on."""

_INITIALISED = (
    RecurrentLayer, ChannelScale, DecayedInputs, RandomConvolutions, ConvolutionPath, LinearPath, StepNorm, nn.Conv1d,
    nn.Linear, nn.LayerNorm,
)  # fmt: skip
"""Modules that initialise themselves."""


class GatedRNNPreTrainedModel(PreTrainedModel):
    """The base of all gatedrnn models: configuration class and initialisation."""

    config: GatedRNNConfig
    config_class = GatedRNNConfig
    base_model_prefix = "model"
    accepts_loss_kwargs = False  # Trainer then divides the loss over accumulated batches itself
    _no_split_modules = ["GatedRNNBlock"]
    supports_gradient_checkpointing = True
    # The name since transformers 5.23, which warns of the old one; before, only the old one exists.
    activation_checkpointing_enable = getattr(
        PreTrainedModel, "activation_checkpointing_enable", PreTrainedModel.gradient_checkpointing_enable
    )

    def __init__(self, config: GatedRNNConfig) -> None:
        config.validate_structure()  # once more: a field set after the configuration was made is not checked there
        super().__init__(config)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | None, *given: object, **named: object
    ) -> Self:
        """transformers' own, once the folder asks for no more than its weights can be (see `gatedrnn.models.weights`).

        Raises:
            DataError: it asks for more.
        """
        if pretrained_model_name_or_path is not None and Path(pretrained_model_name_or_path).is_dir():
            check_counts(Path(pretrained_model_name_or_path))
        opened: Self = cast(Any, super()).from_pretrained(pretrained_model_name_or_path, *given, **named)
        return opened

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """torch's own initialisation for linear maps and norms, ours for recurrent layers, small normal embeddings."""
        if isinstance(module, _INITIALISED):
            module.reset_parameters()
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=EMBEDDING_STD)
            # transformers marks weights that came from a file, and calls this for them too.
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                nn.init.zeros_(module.weight[module.padding_idx])


def build_layer(config: GatedRNNConfig, cell: CellChoice, input_size: int, num_layers: int = 1) -> RecurrentLayer:
    """Recurrent layers of one cell, as configured; in a model of uneven series one that learns what times do reads a
    time for each feature."""
    record, options = CELLS[cell.name], dict(cell.options)
    gaps = kind_of(record.equations).facts(record.equations).gaps
    if config.gap_unit is not None and gaps is not None and gaps.features:
        options.setdefault("gap_features", config.input_size or 1)
    taken = [name for name in OF_LAYERS if takes(record.equations, name, config.bias_init)]
    named = {name: getattr(config, name) for name in taken}  # what is not is meant for other cells of the model
    layer: Callable[..., RecurrentLayer] = record.layer  # options of a cell are its own
    return layer(
        input_size, config.hidden_size, num_layers=num_layers, batch_first=True, bidirectional=config.bidirectional,
        dropout=config.dropout if num_layers > 1 else 0.0, **named, **options,
    )  # fmt: skip


def advance(
    layer: RecurrentLayer[Hidden], x: Series, hx: Hidden | None, mask: Flags | None, resets: Flags | None,
    times: Times | None,
) -> tuple[Series, Hidden]:  # fmt: skip
    """A layer over a sequence; a single step of a stream by `step`."""
    gaps = None if times is None else times.read_by(layer.cell, layer.bidirectional)
    # `step` takes one kernel call, without the preparation of a sequence.
    if x.shape[1] == 1 and mask is None and not layer.bidirectional and not layer.training:
        resets, gaps = (None if tensor is None else tensor[:, 0] for tensor in (resets, gaps))
        output, state = layer.step(x[:, 0], hx, resets=resets, gaps=gaps, wide_state=True)
        return output.unsqueeze(1), state
    return layer(x, hx, mask=mask, resets=resets, gaps=gaps, wide_state=True)


class KernelLinear(nn.Linear):
    """`torch.nn.Linear`, multiplied by `gatedrnn.kernels.matmul`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class LockedDropout(nn.Dropout):
    """Dropout that zeroes the same features at all steps of a sequence (Gal and Ghahramani 2016, arXiv:1512.05287)."""

    def forward(self, input: Tensor) -> Tensor:
        # A mask of one step, which broadcasts over all of them.
        return input * super().forward(torch.ones_like(input[:, :1])) if self.training else input


class GatedRNNEmbeddings(nn.Module):
    """Tokens through a table, or numbers through a linear map or as they are, to (batch, time, output_size)."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        self.token_dropout, self.unknown = config.token_dropout, config.unk_token_id
        if self.token_dropout and self.unknown is None:
            raise ValueError("token_dropout replaces tokens by unk_token_id, which is None")
        if config.vocab_size is not None:
            # A language model may pad with the token between texts, which has a meaning to learn.
            padding = None if config.is_boundary(config.pad_token_id) else config.pad_token_id
            size = config.vocab_size, config.embedding_size, padding
            grams = config.character_grams, config.grams_per_token
            self.map: nn.Module = CharacterEmbedding(*size, *grams) if config.character_grams else nn.Embedding(*size)
        elif config.input_size is not None:
            width = config.embedding_size
            self.map = KernelLinear(config.input_features, width) if width else nn.Identity()
        else:
            raise ValueError("a configuration needs vocab_size (tokens) or input_size (numbers); both are None")
        scales = config.gap_unit is None and (config.channel_means is not None or config.flagged_channels)
        self.scale = ChannelScale(config) if scales else None
        self.activation = nn.SiLU() if config.embedding_activation else nn.Identity()
        self.dropout = (LockedDropout if config.locked_dropout else nn.Dropout)(config.embedding_dropout)
        self.output_size = config.embedding_size or config.input_features

    def forward(self, inputs: Tensor) -> Series:
        if self.scale is not None:
            inputs = self.scale(inputs)
        if self.training and self.token_dropout and self.unknown is not None and not inputs.is_floating_point():
            dropped = torch.rand(inputs.shape, device=inputs.device) < self.token_dropout
            inputs = torch.where(dropped, self.unknown, inputs)
        return self.dropout(self.activation(self.map(inputs)))


class GatedRNNBlock(GradientCheckpointingLayer):
    """x + project(cell(norm(x))), then x + feed_forward(norm(x))."""

    def __init__(self, config: GatedRNNConfig, cell: CellChoice) -> None:
        super().__init__()
        width, inner = config.embedding_size, config.embedding_size * config.feed_forward_factor
        self.cell_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layer = build_layer(config, cell, width)
        self.layers = 1
        self.projection = KernelLinear(self.layer.output_size, width, bias=False)
        self.feed_forward = nn.Sequential(KernelLinear(width, inner), nn.GELU(), KernelLinear(inner, width))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Series, hx: Hidden | None, mask: Flags | None, resets: Flags | None, last_only: bool = False,
        times: Times | None = None,
    ) -> tuple[Series, Hidden]:  # fmt: skip
        """The sequence (batch, time, features), or its last step alone, and the state after it."""
        output, state = advance(self.layer, self.cell_norm(x), hx, mask, resets, times)
        if last_only:  # what follows looks at one step at a time
            x, output = x[:, -1:], output[:, -1:]
        x = x + self.dropout(self.projection(output))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), state


class GatedRNNPart(GradientCheckpointingLayer):
    """Stacked layers of one cell, without normalisation or feed-forward."""

    def __init__(self, config: GatedRNNConfig, cell: CellChoice, input_size: int, num_layers: int) -> None:
        super().__init__()
        self.layer = build_layer(config, cell, input_size, num_layers)
        self.layers = num_layers

    def forward(
        self, x: Series, hx: Hidden | None, mask: Flags | None, resets: Flags | None, last_only: bool = False,
        times: Times | None = None,
    ) -> tuple[Series, Hidden]:  # fmt: skip
        """The sequence (batch, time, features), or its last step alone, and the state after it."""
        output, state = advance(self.layer, x, hx, mask, resets, times)
        return output[:, -1:] if last_only else output, state


class BackbonePart(GradientCheckpointingLayer):
    """A backbone in the place of recurrent layers. Its state are the steps that it read last.

    In training a call sees its own steps alone. In `eval()`, where there is a window, it goes through them in halves of
    the window, each with the half before it: every step has at least so much to look back on, and none more than in
    training.
    """

    layers = 1

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        assert config.backbone is not None
        self.name, self.window = config.backbone, config.window
        with named_if_it_fails(self.name, "making"):
            self.backbone = BACKBONES[self.name](
                config.embedding_size, config.hidden_size, config.num_hidden_layers,
                bidirectional=config.bidirectional, dropout=config.dropout,
            )  # fmt: skip

    def call(self, x: Series, mask: Flags | None) -> Series:
        """The backbone on a sequence (batch, time, features), as it is; what a user's own raises is named.

        Raises:
            ContenderFails: it is of a user's file, and raised something or returned another shape.
        """
        if not is_of_file(self.name):
            return cast(Series, self.backbone(x, mask))
        with named_if_it_fails(self.name, "calling"):
            output: Series = self.backbone(x, mask)
            if output.shape != x.shape:
                raise TypeError(f"it must map {tuple(x.shape)} to the same shape, and returned {tuple(output.shape)}")
        return output

    def forward(
        self, x: Series, hx: Hidden | None, mask: Flags | None, resets: Flags | None, last_only: bool = False,
        times: Times | None = None,
    ) -> tuple[Series, Hidden]:  # fmt: skip
        """The sequence (batch, time, features), or its last step alone, and the steps to look back on, (1, batch, time,
        features). It looks back over the ends of documents too: `resets` are of states."""
        if self.window is None:
            output, before = self.call(x, mask), x[:, :0]
        else:
            back = self.window // 2
            past = x[:, :0] if hx is None or self.training else cast(Tensor, hx)[0]
            whole = torch.cat([past, x], dim=1)
            if mask is not None and not mask.all():
                raise ValueError(
                    f"{type(self.backbone).__name__} reads a text in windows, without padding; leave out the mask"
                )
            output = self.call(x, None) if self.training else self._in_windows(whole, past.shape[1], back)
            before = whole[:, max(0, whole.shape[1] - back) :]
        return output[:, -1:] if last_only else output, before[None]

    def _in_windows(self, x: Series, first: int, back: int) -> Series:
        """The output from step `first` on."""
        assert self.window is not None
        outputs = []
        for start in range(first, x.shape[1], self.window - back):
            begin, stop = max(0, start - back), min(x.shape[1], start + self.window - back)
            outputs.append(self.call(x[:, begin:stop], None)[:, start - begin :])
        return torch.cat(outputs, dim=1)


class GatedRNNModel(GatedRNNPreTrainedModel):
    """Embedding and recurrent layers, or a backbone in their place, without a head."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__(config)
        self.embeddings = GatedRNNEmbeddings(config)
        self.uneven = None if config.gap_unit is None else UnevenInputs(config)
        size, parts = self.embeddings.output_size, list[GatedRNNBlock | GatedRNNPart | BackbonePart]()
        self.convolution = Convolution(size, config) if config.convolution_size else None
        size = config.convolution_size or size
        if config.backbone is not None:
            parts.append(BackbonePart(config))
        elif config.block:
            parts += [GatedRNNBlock(config, cell) for cell in config.cells]
            self.norm = nn.LayerNorm(size)
        else:
            # Neighbours of one cell are one stack, which a kernel runs in one call.
            for cell, same in groupby(config.cells):
                part = GatedRNNPart(config, cell, size, len(list(same)))
                parts.append(part)
                size = part.layer.output_size
            self.between = nn.Dropout(config.dropout)
        self.parts, self.in_blocks = nn.ModuleList(parts), config.block and config.backbone is None
        self.output_size = size + config.convolution_size
        """Features of `last_hidden_state`."""
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.map

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings.map = value

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        input_values: Tensor | None = None, past_key_values: GatedRNNCache | None = None,
        use_cache: bool | None = None, resets: Flags | None = None, last_only: bool = False,
        gaps: Gaps | None = None, inputs_embeds: Tensor | None = None, **kwargs: Any,
    ) -> BaseModelOutputWithPast:  # fmt: skip
        """The top layer's output at every step.

        Args:
            input_ids: tokens, (batch, time), for a model with `vocab_size`.
            attention_mask: (batch, time), 1 = real step, 0 = padding, left or right; None without padding. It may begin
                with the tokens that went into `past_key_values`.
            input_values: numbers, (batch, time, input_size), for a model with `input_size`.
            past_key_values: the state to continue from, updated in place; None for the initial state.
            use_cache: whether to return the state where none was given.
            resets: bool, (batch, time); where True, the state before the step is the initial state.
            last_only: return the last step alone, (batch, 1, features); what follows the top cell skips all others.
            gaps: (batch, time), the time since the step before, 0 or more, for a model with `gap_unit`, which reads NaN
                in `input_values` as a value that was not seen.
            inputs_embeds: (batch, time, embedding_size), in the place of tokens: what their embeddings would be.
            kwargs: `position_ids` or `seq_idx`, (batch, time), of rows that hold several documents, whose first steps
                are resets; `output_hidden_states`, for the embeddings and the output of each block or stack of a cell.

        Raises:
            TypeError: another keyword argument.
            ValueError: neither or both kinds of input, a state for a bidirectional model or one of uneven series, or
                gaps for another model.
        """
        check_known(kwargs, (*DOCUMENTS, "output_hidden_states"))
        hidden_states = hidden_states_list(kwargs, self.config)
        states, cache = self.read(
            input_ids, attention_mask, input_values, past_key_values, use_cache,
            resets_of(kwargs, resets, attention_mask), last_only, gaps, inputs_embeds, hidden_states,
        )  # fmt: skip
        every = None if hidden_states is None else tuple(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=states, past_key_values=cache, hidden_states=every)

    def read(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        input_values: Tensor | None = None, past_key_values: GatedRNNCache | None = None,
        use_cache: bool | None = None, resets: Flags | None = None, last_only: bool = False,
        gaps: Gaps | None = None, inputs_embeds: Tensor | None = None, hidden_states: list[Tensor] | None = None,
    ) -> tuple[Series, GatedRNNCache | None]:  # fmt: skip
        """`forward` without transformers' wrapping, which costs a stream as much as a layer."""
        if sum(input_form is not None for input_form in (input_ids, input_values, inputs_embeds)) != 1:
            raise ValueError("pass input_ids (tokens), inputs_embeds or input_values (numbers): one of them")
        wanted = "input_ids" if self.config.vocab_size is not None else "input_values"
        inputs = input_ids if wanted == "input_ids" else input_values
        if inputs is None and self.uneven is None:
            inputs = inputs_embeds
        if inputs is None:
            raise ValueError(f"this model reads {wanted}, which is missing")
        if (past_key_values is not None or use_cache) and self.config.bidirectional:
            raise ValueError(
                "a bidirectional model has no state to continue from: its backward direction starts at the end"
            )
        if (past_key_values is not None or use_cache) and self.convolution is not None:
            raise ValueError("a model with convolutions has no state to continue from: they read steps to come")
        cache = GatedRNNCache(self.config) if past_key_values is None and use_cache else past_key_values
        mask = None if attention_mask is None else attention_mask.bool()
        # generate passes the mask of all tokens so far, with those of earlier calls.
        if mask is not None and cache is not None and cache.seen_tokens:
            mask = mask[:, -inputs.shape[1] :]
        inputs, times = self._with_times(inputs, mask, gaps, cache)
        x = self.embeddings(inputs) if inputs_embeds is None else inputs_embeds
        return self.read_embedded(x, cache, mask, resets, last_only, times, hidden_states), cache

    def read_embedded(
        self, x: Series, cache: GatedRNNCache | None, mask: Flags | None = None, resets: Flags | None = None,
        last_only: bool = False, times: Times | None = None, hidden_states: list[Tensor] | None = None,
    ) -> Series:  # fmt: skip
        """The rest of `read`, from the embedded sequence (batch, time, embedding_size) on, which `hidden_states` takes,
        as it takes the output of each part."""
        steps = x.shape[1]
        if hidden_states is not None:
            hidden_states.append(x)
        x = convolved = x if self.convolution is None else self.convolution(x, mask)
        for part, (first, count) in zip(self.parts, self._layers_of_parts(), strict=True):
            if first and not self.in_blocks:
                x = self.between(x)
            before = None if cache is None else cache.read(first, count)
            last = last_only and part is self.parts[-1]
            # The state is an argument: running a part again in backward, under checkpointing, must not update it twice.
            x, state = part(x, before, mask, resets, last, times)
            if cache is not None:
                cache.write(first, state)
            if hidden_states is not None:
                hidden_states.append(x)
        if cache is not None:
            cache.seen_tokens += steps
        if self.convolution is not None:
            return torch.cat([x, convolved], dim=2)
        return self.norm(x) if self.in_blocks else x

    def step_embedded(self, x: Step, states: list[Hidden | None]) -> Step:
        """`read_embedded` of one embedded step (batch, embedding_size), in `eval()`.

        Args:
            states: of the parts, from `states_of`; changed in place.
        """
        for number, part in enumerate(self.parts):
            if self.in_blocks:
                output, states[number] = part(x.unsqueeze(1), states[number], None, None)
                x = output[:, 0]
            else:
                x, states[number] = cast(GatedRNNPart, part).layer.step(x, states[number], wide_state=True)
        return self.norm(x) if self.in_blocks else x

    def states_of(self, cache: GatedRNNCache) -> list[Hidden | None]:
        """The state of each part, as it takes it."""
        return [cache.read(first, count) for first, count in self._layers_of_parts()]

    def write(self, cache: GatedRNNCache, states: list[Hidden | None], steps: int) -> None:
        """Put the states of all parts, so many steps later, into a cache."""
        for (first, _), state in zip(self._layers_of_parts(), states, strict=True):
            assert state is not None  # after a step
            cache.write(first, state)
        cache.seen_tokens += steps

    def _layers_of_parts(self) -> Iterator[tuple[int, int]]:
        """The first layer of each part, and how many it has."""
        first = 0
        for part in self.parts:
            count = cast(GatedRNNPart | GatedRNNBlock | BackbonePart, part).layers
            yield first, count
            first += count

    def _with_times(
        self, inputs: Tensor, mask: Flags | None, gaps: Gaps | None, cache: GatedRNNCache | None
    ) -> tuple[Tensor, Times | None]:
        """The inputs of the embedding, and of uneven series the times."""
        if self.uneven is None:
            if gaps is not None:
                raise ValueError("this model reads steps equally far apart; leave out gaps")
            return inputs, None
        if gaps is None:
            raise ValueError("this model reads uneven series: pass gaps, the time since the step before")
        if cache is not None:
            raise ValueError("a model of uneven series has no state to continue from: it reads whole series")
        inputs_and_times: tuple[Tensor, Times] = self.uneven(inputs, mask, gaps)
        return inputs_and_times


@dataclass
class VotesOutput(SequenceClassifierOutput):
    """A classifier's output, with what each of several networks says of its own, in training alone."""

    votes: Tensor | None = None
    """(members, batch, …, labels): logits, or numbers."""


class Network(Protocol):
    """One of the networks of a classifier, with its head."""

    model: GatedRNNModel
    head_dropout: nn.Dropout
    classifier: nn.Linear


class Member(nn.Module):
    """A further network of a classifier, with its head."""

    def __init__(self, config: GatedRNNConfig, features: int) -> None:
        super().__init__()
        self.model = GatedRNNModel(config)
        self.head_dropout = nn.Dropout(config.head_dropout)
        self.classifier = KernelLinear(features, config.num_labels)


class GatedRNNClassifier(GatedRNNPreTrainedModel):
    """A model, or several, with a linear head over `num_labels` labels; what the head reads is the subclass's."""

    pools: ClassVar[bool] = False
    """Whether a head reads one vector a sequence, as `pooling` says."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = GatedRNNModel(config)
        self.head_dropout = nn.Dropout(config.head_dropout)
        features = self.model.output_size * (POOLINGS[config.pooling] if self.pools else 1)
        self.classifier = KernelLinear(features, config.num_labels)
        self.others = nn.ModuleList(Member(config, features) for _ in range(config.members - 1))
        self.linear_path = _make_linear_path(config) if self.pools else None
        self.post_init()

    @property
    def networks(self) -> list[Network]:
        """All members; the first is this model itself."""
        return [self, *(cast(Network, other) for other in self.others)]

    def scores(self, features: Tensor, network: Network | None = None) -> Tensor:
        """Logits (…, num_labels) of the core's output (…, features); of a regression numbers, in its labels' units,
        float64.

        Args:
            network: the member whose head it is; the first if None.
        """
        head: Network = self if network is None else network
        logits: Tensor = head.classifier(head.head_dropout(features))
        if self.config.label_deviation is not None:
            logits = logits.double() * self.config.label_deviation + (self.config.label_mean or 0.0)
        return logits

    def joined(self, votes: list[Tensor]) -> Tensor:
        """The answer of all members together: the mean of what is `comparable`."""
        if len(votes) == 1:
            return votes[0]
        return torch.stack([self.comparable(vote) for vote in votes]).mean(0)

    def comparable(self, logits: Tensor) -> Tensor:
        """The form in which answers are averaged: log-probabilities of classes; log-odds of several labels, and
        numbers, as they are.
        """
        one_class = self.config.problem_type in (None, "single_label_classification")
        return log_softmax(logits, dim=-1) if one_class else logits


class GatedRNNForSequenceClassification(GatedRNNClassifier):
    """One label for a sequence (or `num_labels` numbers, with `problem_type="regression"`).

    Where there is a linear path beside the network (`linear_path`, `random_convolutions`), the network learns alone,
    since the path has been fitted to the very labels that it learns; in `eval()` their answers are averaged with the
    weights that `path_share` gives.
    """

    pools = True

    def path_alone(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, input_values: Tensor | None = None
    ) -> Tensor:
        """The answer of the linear path without the network, (batch, num_labels): log-probabilities, log-odds of
        several labels, or numbers. Inputs as in `forward`.

        Raises:
            ValueError: the model has no linear path, or what it reads is missing.
        """
        if self.linear_path is None:
            raise ValueError("this model has no linear path")
        if input_ids is not None and self.config.unk_token_id is not None:
            input_ids, attention_mask = _with_unknown_token(input_ids, attention_mask, self.config.unk_token_id)
        mask = None if attention_mask is None else attention_mask.bool()
        return self.comparable(self._path(input_ids, input_values, mask))

    def _path(self, input_ids: Tensor | None, input_values: Tensor | None, mask: Flags | None) -> Tensor:
        """The logits of the linear path, or numbers in their own units."""
        read = input_ids if isinstance(self.linear_path, LinearPath) else input_values
        if read is None:
            raise ValueError("a linear path reads input_ids of texts and input_values of series, which are missing")
        assert self.linear_path is not None
        answer: Tensor = self.linear_path(read, mask)
        return answer

    def with_path(self, logits: Tensor, path: Tensor) -> Tensor:
        """The answer of network and path together, (batch, num_labels), from the answer of each by itself."""
        share = self.config.path_share
        if share == 1:
            return self.comparable(path)
        if self.config.random_convolutions and self.config.problem_type != "regression":
            return log_mean_probability(logits, path)
        return (1 - share) * self.comparable(logits) + share * self.comparable(path)

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        input_values: Tensor | None = None, labels: Tensor | None = None, gaps: Gaps | None = None, **kwargs: Any,
    ) -> VotesOutput:  # fmt: skip
        """Logits (batch, num_labels); with `labels` (batch,) the loss too. Inputs as in `GatedRNNModel.forward`; a text
        without tokens is read as one unknown token.

        In training the loss is the mean over the members, each for itself, and a linear path has no part in it.
        """
        check_known(kwargs, ("output_hidden_states", "inputs_embeds"))
        if input_ids is not None and self.config.unk_token_id is not None:
            input_ids, attention_mask = _with_unknown_token(input_ids, attention_mask, self.config.unk_token_id)
        # A backbone has no direction of its own half of the features.
        how, bidirectional = self.config.pooling, self.config.bidirectional and self.config.backbone is None
        last_only = how == "last" and attention_mask is None and not bidirectional
        mask = None if attention_mask is None else attention_mask.bool()
        votes: list[Tensor] = []  # a call of list[Tensor] would end a compiled graph
        hidden_states = None
        for network in self.networks:
            core = network.model(input_ids, attention_mask, input_values, last_only=last_only, gaps=gaps, **kwargs)
            votes.append(self.scores(pool(core.last_hidden_state, mask, how, bidirectional), network))
            hidden_states = hidden_states or core.hidden_states
        logits = self.joined(votes)
        if self.linear_path is not None and not self.training:
            logits = self.with_path(logits, self._path(input_ids, input_values, mask))
        loss = None
        if labels is not None:
            labels = labels.to(logits.dtype) if labels.is_floating_point() else labels
            each = votes if self.training else [logits]
            losses = [self.loss_function(labels=labels, pooled_logits=vote, config=self.config) for vote in each]
            loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        several = torch.stack(votes) if self.training and len(votes) > 1 else None
        return VotesOutput(loss=loss, logits=logits, hidden_states=hidden_states, votes=several)


class GatedRNNForTokenClassification(GatedRNNClassifier):
    """One label for every step; steps labelled -100 do not count."""

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        input_values: Tensor | None = None, labels: Tensor | None = None, gaps: Gaps | None = None, **kwargs: Any,
    ) -> VotesOutput:  # fmt: skip
        """Logits (batch, time, num_labels); with `labels` (batch, time) the loss too, in training the mean over the
        members, each for itself. Inputs as in `GatedRNNModel.forward`."""
        votes: list[Tensor] = []
        hidden_states = None
        for network in self.networks:
            core = network.model(input_ids, attention_mask, input_values, gaps=gaps, **kwargs)
            votes.append(self.scores(core.last_hidden_state, network))
            hidden_states = hidden_states or core.hidden_states
        logits, loss = self.joined(votes), None
        if labels is not None:
            each = votes if self.training else [logits]
            losses = [self.loss_function(vote, labels, self.config) for vote in each]
            loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        several = torch.stack(votes) if self.training and len(votes) > 1 else None
        return VotesOutput(loss=loss, logits=logits, hidden_states=hidden_states, votes=several)


def _make_linear_path(config: GatedRNNConfig) -> LinearPath | ConvolutionPath | None:
    """The linear path beside the networks of a sequence classifier."""
    if config.linear_path is not None:
        return LinearPath(config)
    return ConvolutionPath(config) if config.random_convolutions else None


def _with_unknown_token(input_ids: Tensor, mask: Tensor | None, unknown: int) -> tuple[Tensor, Tensor | None]:
    """Tokens and mask in which a row without any has one, the unknown one."""
    if not input_ids.shape[1]:
        return torch.full((len(input_ids), 1), unknown, device=input_ids.device), None
    if mask is None or mask.shape != input_ids.shape:  # which the layers refuse
        return input_ids, mask
    first = torch.arange(mask.shape[1], device=mask.device) == 0
    empty = ~mask.bool().any(1, keepdim=True) & first
    return torch.where(empty, unknown, input_ids), torch.where(empty, 1, mask)


def pool(states: Series, mask: Flags | None, how: str, bidirectional: bool = False) -> Step:
    """One vector a sequence, (batch, features), from its valid steps; zeros for a sequence without any.

    Args:
        states: (batch, time, features).
        mask: (batch, time), True = valid; None if all are.
        how: "last", "mean" or "max"; or "last-mean-max", (batch, 3 · features).
        bidirectional: the features' second half ran in reverse: its last step is the first valid one.
    """
    if how == "last-mean-max":
        return torch.cat([pool(states, mask, pooling, bidirectional) for pooling in how.split("-")], dim=1)
    if how == "last" and bidirectional:
        forward, backward = states.chunk(2, dim=2)
        flipped = None if mask is None else mask.flip(1)
        return torch.cat([pool(forward, mask, how), pool(backward.flip(1), flipped, how)], dim=1)
    if how == "max":
        if mask is None:
            return states.amax(1)
        # A step of each channel is looked for aside: only it has a gradient, and no other is written or read.
        argmax = states.detach().masked_fill(~mask.unsqueeze(2), float("-inf")).max(1, keepdim=True).indices
        return states.gather(1, argmax).squeeze(1).masked_fill(~mask.any(1, keepdim=True), 0)
    if mask is None:
        return states[:, -1] if how == "last" else states.mean(1)
    if how == "mean":
        return torch.where(mask.unsqueeze(2), states, 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
    steps = torch.arange(states.shape[1], device=states.device)
    last = torch.where(mask, steps, 0).amax(1)
    rows = torch.arange(states.shape[0], device=states.device)
    return torch.where(mask.any(1, keepdim=True), states[rows, last], 0)
